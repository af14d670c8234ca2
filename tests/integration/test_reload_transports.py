"""Transports that come, go and come back while mail waits for them, is deferred, or is on its way:
none is lost, none comes twice, and nobody speaks of one that is gone."""
import threading

from support.api import ask, get
from support.client import message, submit
from support.reloading import config_of, options_of, reload
from support.wait import PATIENCE, until

SENDER = 'sender@sender.test'
DEAD = '[127.0.0.1]:9'


def names(daemon):
    return [t['transport'] for t in daemon.query('transports')]


def look_everywhere(daemon, *asked):
    """Everything that speaks of transports, with the names of some and with ids of mail."""
    for path in ('/v1/status', '/v1/transports', '/v1/destinations', '/v1/hosts', '/v1/tenants', '/v1/config',
                 '/v1/counts?by=transport,state', '/metrics', '/v1/orders', '/v1/sources'):
        get(daemon, path)
    for found in daemon.query('messages'):
        assert ask(daemon, '/v1/why', message=found['id'])[0] == 200
        assert daemon.command('why', found['id']).returncode == 0
    for name in asked:
        assert ask(daemon, '/v1/why', destination=name)[0] == 200
        assert ask(daemon, '/v1/windows', destination=name)[0] in (200, 404)
        assert ask(daemon, '/v1/trace', destination=name)[0] == 200
    assert daemon.command('top', '--once').returncode == 0


def received(receiver):
    return sorted(r for m in receiver.messages for r in m.recipients)


def test_a_new_one_takes_mail_at_once(place):
    first, second = place.receiver(), place.receiver()
    daemon = place.sluice(routes={'a.test': ('smtp', first.nexthop)})
    for n in range(5):
        daemon.transports[f'new{n}'] = {'destination_recipient_limit': 3, 'process_limit': 2}
        daemon.routes[f'{n}.test'] = (f'new{n}', second.nexthop)
        assert options_of(reload(daemon)) == []
        submit(daemon, SENDER, [f'{m}@{n}.test' for m in range(7)] + [f'{n}@a.test'], message())
        daemon.wait_empty()
    assert names(daemon) == ['smtp', *(f'new{n}' for n in range(5))]
    assert received(second) == sorted(f'{m}@{n}.test' for n in range(5) for m in range(7))
    assert max(len(m.recipients) for m in second.messages) == 3
    until(lambda: 'sluice_transport_attempts_total{transport="new3",result="delivered"} 7\n'
          in get(daemon, '/metrics').body.decode(), 'what the fourth has delivered')
    look_everywhere(daemon, second.nexthop)
    assert daemon.stop() == 0


def test_mail_that_waits_is_routed_anew(place):
    """Behind a receiver that stalls, on hold, deferred, suspended, and in the spool."""
    gate, stalls = threading.Event(), threading.Event()

    def stall(verb, *_):
        if verb == '.':
            stalls.set()
            gate.wait(3 * PATIENCE)
        return None
    slow = place.receiver(answers=stall)
    takes = place.receiver()
    limits = {'process_limit': 1, 'destination_concurrency_limit': 1, 'pipeline_depth': 1,
              'destination_recipient_limit': 2, 'recipient_limit': 10}
    daemon = place.sluice(
        routes={'a.test': ('slow', slow.nexthop), 'b.test': ('held', takes.nexthop), 'c.test': ('slow', DEAD),
                '*': ('smtp', takes.nexthop)},
        transports={'smtp': {}, 'slow': limits, 'held': {'hold': True}},
        options={'message_recipient_limit': 40, 'message_active_limit': 40,
                 'minimal_backoff_time': '300s', 'maximal_backoff_time': '300s', 'message_recipient_minimum': 2})
    sent = [f'{n}@a.test' for n in range(60)]
    submit(daemon, SENDER, sent, message())
    others = []
    for n in range(15):
        others += [f'x{n}@a.test', f'y{n}@b.test', f'z{n}@d.test']
        submit(daemon, SENDER, others[-3:], message())
    sent += others
    submit(daemon, SENDER, ['late@c.test'], message())
    assert stalls.wait(PATIENCE)
    before = daemon.query('messages')
    look_everywhere(daemon, slow.nexthop, DEAD)
    daemon.transports = {'smtp': {}}
    daemon.routes = {'*': ('smtp', takes.nexthop)}
    assert options_of(reload(daemon)) == []
    assert names(daemon) == ['smtp'] and before
    look_everywhere(daemon, slow.nexthop, DEAD)
    assert not any(title in ('slow', 'held') for section, title, _ in config_of(daemon) if section == 'transport')
    gauges = get(daemon, '/metrics').body.decode()
    assert 'sluice_connections{transport="slow"' not in gauges and 'sluice_connections{transport="smtp"' in gauges
    # Every message but the one that is on its way has come by the other one while that stalls, without having
    # been charged an attempt. A message has one activation at a time: its own recipients wait for its end.
    until(lambda: set(others) <= set(received(takes)), lambda: f'{len(received(takes))} of {len(others)}')
    assert set(received(takes)) <= {*others, 'late@c.test'} and not gate.is_set()
    gate.set()
    # What was deferred waits for its time, or for somebody who asks.
    assert daemon.command('flush').returncode == 0
    daemon.wait_empty()
    assert sorted(received(takes) + received(slow)) == sorted(sent + ['late@c.test'])
    assert len(received(slow)) <= 2
    assert {e['recipient'] for e in daemon.of('TransientFailure')} <= {'late@c.test'}
    look_everywhere(daemon, slow.nexthop, DEAD)
    assert daemon.stop() == 0


def test_one_comes_back(place):
    """Under its name it goes on where it was, with the options that it has now."""
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('one', receiver.nexthop)}, transports={'one': {}, 'two': {}})
    submit(daemon, SENDER, ['a@x.test'], message())
    receiver.wait(1)
    for n in range(3):
        daemon.transports, daemon.routes = {'two': {}}, {'*': ('two', receiver.nexthop)}
        reload(daemon)
        assert names(daemon) == ['two']
        submit(daemon, SENDER, [f'b{n}@x.test'], message())
        receiver.wait(2 + 2 * n)
        daemon.transports = {'one': {'process_limit': 3 + n, 'smtp_helo_name': f'{n}.test'}, 'two': {}}
        daemon.routes = {'*': ('one', receiver.nexthop)}
        reload(daemon)
        assert config_of(daemon)['transport', 'one', 'process_limit']['value'] == str(3 + n)
        submit(daemon, SENDER, [f'c{n}@x.test'], message())
        receiver.wait(3 + 2 * n)
        look_everywhere(daemon, receiver.nexthop)
    assert daemon.stop() == 0


def test_there_is_room_for_so_many_names(place):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)})
    daemon.transports = {'smtp': {}, **{f'a{n}': {} for n in range(40)}}
    reload(daemon)
    daemon.transports = {'smtp': {}, **{f'b{n}': {} for n in range(40)}}
    [text] = reload(daemon, 422)['complaints']
    assert 'there is room for 65' in text
    daemon.transports = {'smtp': {}, **{f'b{n}': {} for n in range(24)}}
    reload(daemon)
    daemon.transports = {'smtp': {}, **{f'a{n}': {} for n in range(40)}}
    daemon.routes = {'*': ('a39', receiver.nexthop)}
    reload(daemon)
    submit(daemon, SENDER, ['x@x.test'], message())
    receiver.wait(1)
    look_everywhere(daemon, receiver.nexthop)
    assert daemon.stop() == 0


def test_mail_that_comes_back_from_a_connection(place):
    """What a server gave back goes on by the way in which it began, also when that is gone."""
    takes = place.receiver()
    gate, asked = threading.Event(), threading.Event()

    def answers(verb, *_):
        if verb == 'MAIL':
            asked.set()
            gate.wait(3 * PATIENCE)
            return '421 4.3.2 closing'
        return None
    closing = place.receiver(answers=answers)
    daemon = place.sluice(routes={'*': ('old', closing.nexthop)}, transports={'old': {}, 'new': {}},
                          options={'minimal_backoff_time': '1s', 'maximal_backoff_time': '1s'})
    sent = [f'{n}@x.test' for n in range(12)]
    for name in sent:
        submit(daemon, SENDER, [name], message())
    assert asked.wait(PATIENCE)
    daemon.transports, daemon.routes = {'new': {}}, {'*': ('new', takes.nexthop)}
    reload(daemon)
    gate.set()
    until(lambda: received(takes) == sorted(sent), lambda: f'{received(takes)}')
    daemon.wait_empty()
    look_everywhere(daemon, closing.nexthop)
    assert daemon.stop() == 0


def test_taking_turns_keeps_no_old_configuration(place):
    """Each reload brings one and takes another away: what was kept for the one that is gone goes when
    it comes back."""
    daemon = place.sluice(transports={'smtp': {}, 'blue': {}})

    def take_turns(times):
        for n in range(times):
            daemon.transports = {'smtp': {}, ('green', 'blue')[n % 2]: {}}
            reload(daemon)
    take_turns(10)
    before = daemon.memory()
    take_turns(40)
    growth = daemon.memory() - before
    assert growth < 20 << 20, f'{growth >> 10} KB for 40 reloads'
    assert daemon.stop() == 0
