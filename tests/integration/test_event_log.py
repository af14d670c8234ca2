"""One line for each thing that happens to a message."""
import itertools
import json
import os
import signal

from support.client import message, submit
from support.peer import Peer
from support.wait import best_of, until


def test_reception_and_delivery(relay):
    daemon, receiver = relay
    body = message('logged')
    reply = submit(daemon, 'me@a.test', ['x@x.test', 'y@x.test'], body)
    daemon.wait_events('Delivery', count=2)
    [reception] = daemon.of('Reception')
    assert reception['id'] in reply.text
    assert reception['sender'] == 'me@a.test' and reception['recipient_count'] == 2
    assert reception['size'] >= len(body)
    assert reception['reception_protocol'] == 'ESMTP'
    assert reception['peer_address'] == {'name': 'client.test', 'addr': '127.0.0.1'}
    assert {e['recipient'] for e in daemon.of('Delivery')} == {'x@x.test', 'y@x.test'}
    for event in daemon.of('Delivery'):
        assert event['id'] == reception['id'] and event['num_attempts'] == 1
        assert event['response']['code'] == 250 and 'kept' in event['response']['content']
        assert event['site'] == f'127.0.0.1[127.0.0.1]:{receiver.port}'
        assert event['queue'] == receiver.nexthop
        assert len(event['delays']) == 4 and event['delay'] >= 0
        assert event['created_time'] <= event['event_time']
    assert daemon.events()[0]['type'] == 'Reception'


def test_delays(place):
    """a: before it was active; b: to a connection; c: connection setup; d: the transaction."""
    peer = place.keep(Peer('hello\nenvelope\ndata\npause 0.6\nsend 250 2.0.0 kept\nclose'))
    slow = place.keep(Peer('pause 0.6\nhello\nenvelope\ndata\nsend 250 2.0.0 kept\nclose'))
    daemon = place.sluice(routes={'d.test': ('smtp', peer.nexthop),
                                  'c.test': ('smtp', slow.nexthop)})
    numbers = itertools.count()

    def delays():
        people = [f'x{next(numbers)}@{domain}.test' for domain in 'dc']
        submit(daemon, 'me@a.test', people, message())
        return [daemon.wait_event('Delivery', to)['delays'] for to in people]

    def is_right(delays):
        (a, b, c, d), (e, f, g, h) = delays
        return d >= 0.55 and a + b + c < d and g >= 0.55 and e + f + h < g
    found = best_of(5, delays, is_right)  # a busy machine makes any of the other parts long now and then
    assert is_right(found), found


def test_delay_of_a_retry_is_counted_from_the_reception(place):
    peer = place.keep(Peer('send 421 later\nclose', 'accept'))
    daemon = place.sluice(routes={'*': ('smtp', peer.nexthop)})
    submit(daemon, 'me@a.test', ['x@x.test'], message())
    event = daemon.wait_event('Delivery', 'x@x.test')
    assert event['delay'] >= 0.9 and event['delays'][0] >= 0.9


def test_rotation(relay):
    daemon, _ = relay
    submit(daemon, 'me@a.test', ['one@x.test'], message())
    daemon.wait_event('Delivery', 'one@x.test')
    moved = daemon.events_path + '.1'
    os.rename(daemon.events_path, moved)
    daemon.signal(signal.SIGHUP)
    until(lambda: os.path.exists(daemon.events_path), 'a new event log')
    daemon.forget_events()
    submit(daemon, 'me@a.test', ['two@x.test'], message())
    daemon.wait_event('Delivery', 'two@x.test')
    assert not daemon.of(recipient='one@x.test')
    with open(moved, encoding='utf-8') as old:
        lines = [json.loads(line) for line in old]
    assert [e['type'] for e in lines] == ['Segment', 'Reception', 'Delivery']
    assert daemon.stop() == 0


def test_rotation_under_load_loses_no_line(relay):
    daemon, receiver = relay
    for n in range(60):
        submit(daemon, 'me@a.test', [f'r{n}@x.test'], message())
        if n % 10 == 5:
            moved = f'{daemon.events_path}.{n}'
            os.rename(daemon.events_path, moved)
            daemon.signal(signal.SIGHUP)
            until(lambda: os.path.exists(daemon.events_path), 'a new event log')
    receiver.wait(60)
    daemon.wait_empty()
    assert daemon.stop() == 0
    seen = []
    for name in os.listdir(daemon.folder):
        if name.startswith('events.jsonl'):
            with open(os.path.join(daemon.folder, name), encoding='utf-8') as file:
                seen += [json.loads(line) for line in file]
    for kind in ('Reception', 'Delivery'):
        assert sorted(e['recipient'] for e in seen if e['type'] == kind) == \
            sorted(f'r{n}@x.test' for n in range(60))


def test_log_may_be_absent(place):
    receiver = place.receiver()
    daemon = place.sluice(start=False, routes={'*': ('smtp', receiver.nexthop)})
    daemon.events_path = 'none'
    daemon.write_config()
    daemon.start()
    submit(daemon, 'me@a.test', ['x@x.test'], message())
    receiver.wait()
    assert not os.path.exists(os.path.join(daemon.folder, 'none'))


def test_strangers_words_stay_on_one_line(place):
    peer = place.keep(Peer('plain\nexpect MAIL\nsend 250 x\nexpect RCPT\n'
                           'raw 550 5.1.1 a\\x1b[31m"quoted\\"\\\\ \\xff\\x85 b\\r\\n\nclose'))
    daemon = place.sluice(routes={'*': ('smtp', peer.nexthop)})
    submit(daemon, '', ['"a\\"b c"@x.test'], message())
    event = until(lambda: daemon.of('Bounce'), 'the bounce')[0]
    assert event['recipient'] == '"a\\"b c"@x.test'
    assert '\x1b' not in event['response']['content']
