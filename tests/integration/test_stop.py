"""Orderly ends and new beginnings."""
import signal
import threading

import pytest

from support.client import Client, message, submit
from support.peer import Peer
from support.tools import Account, Sink, Source
from support.wait import holds, until


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_idle_daemon_ends(relay, number):
    daemon, _ = relay
    daemon.signal(number)
    assert daemon.wait_exit() == 0
    assert 'stopped' in daemon.log()


def test_stop_under_load(place):
    """Several times; in the end everything accepted was delivered once."""
    folder = place.subfolder('tools')
    sink = place.keep(Sink(folder))
    daemon = place.sluice(routes={'*': ('smtp', sink.nexthop)})
    target = f'127.0.0.1:{daemon.port}'
    sources = [place.keep(Source(folder, f'source{n}', target, '--messages', '0', '--seconds',
                                 '3600', '--retry', '--rate', '300', '--connections', '3'))
               for n in range(2)]
    for n in range(6):
        daemon.wait_events('Delivery', count=200 * (n + 1))
        assert daemon.stop() == 0
        assert 'stopped:' in daemon.log()
        daemon.start()
    for source in sources:
        source.end()
    daemon.wait_empty()
    assert daemon.stop() == 0
    account = Account(sources, sink)
    assert len(account.acked) >= 1000
    assert not account.lost() and not account.unexpected() and not account.duplicates()
    assert {e['recipient'] for e in daemon.of('Delivery')} == {r for _, r in account.copies}


def test_the_log_says_listening_when_mail_is_taken(place):
    """A port is bound before the daemon becomes its user; with a spool that cannot be opened nobody ever answers
    there."""
    daemon = place.sluice(http={})
    said = daemon.log()
    assert 0 <= said.index(f'spool {daemon.spool}: it is new') < said.index(f'listening on 127.0.0.1:{daemon.port}')
    assert said.index('spool ') < said.index('listening on http://')
    other = place.sluice(start=False)
    other.spool = daemon.spool
    other.write_config()
    other.start(wait=False)
    assert other.wait_exit() == 75
    assert 'listening' not in other.log()


def test_queue_is_taken_up_again(place):
    receiver = place.receiver()
    daemon = place.sluice(transports={'smtp': {'hold': True}},
                          routes={'*': ('smtp', receiver.nexthop)})
    for n in range(50):
        submit(daemon, 'a@a.test', [f'r{n}@x.test'], message(f'm{n}'))
    assert daemon.stop() == 0
    daemon.transports = {'smtp': {}}
    daemon.write_config()
    daemon.start()
    daemon.wait_events('Delivery', count=50)
    assert sorted(m.recipients[0] for m in receiver.messages) == \
        sorted(f'r{n}@x.test' for n in range(50))
    daemon.wait_empty()


def test_hold_delivers_nothing(place):
    receiver, other = place.receiver(), place.receiver()
    daemon = place.sluice(transports={'kept': {'hold': True}, 'smtp': {}},
                          routes={'kept.test': ('kept', receiver.nexthop),
                                  '*': ('smtp', other.nexthop)})
    submit(daemon, 'a@a.test', ['x@kept.test', 'x@free.test'], message())
    daemon.wait_event('Delivery', 'x@free.test')
    holds(lambda: receiver.connections == 0 and not daemon.of(recipient='x@kept.test',
                                                              kind='Delivery'),
          'a held transport delivers', 2.5)
    until(lambda: [one['pending'] for one in daemon.query('messages')] == [1], lambda: daemon.query('messages'))


def test_delivery_in_flight_is_waited_for(place):
    """The final reply comes after SIGTERM and counts."""
    peer = place.keep(Peer('hello\nenvelope\ndata\npause 1\nsend 250 2.0.0 kept\nwait', 'accept'))
    daemon = place.sluice(routes={'*': ('smtp', peer.nexthop)})
    submit(daemon, 'a@a.test', ['x@x.test'], message())
    until(lambda: peer.bodies, 'the body')
    assert daemon.stop() == 0
    assert len(daemon.of('Delivery')) == 1
    daemon.start()
    daemon.wait_empty()
    assert len(peer.bodies) == 1


def test_shutdown_timeout(place):
    """A server that never answers does not hold the daemon up; the mail stays queued."""
    peer = place.keep(Peer('hello\nenvelope\ndata\nsilence', 'accept'))
    daemon = place.sluice(options={'shutdown_timeout': '1s'}, routes={'*': ('smtp', peer.nexthop)})
    submit(daemon, 'a@a.test', ['x@x.test'], message())
    until(lambda: peer.bodies, 'the body')
    assert daemon.stop() == 0
    daemon.start()
    daemon.wait_event('Delivery', 'x@x.test')
    assert len(peer.bodies) == 2


def test_silent_clients_do_not_hold_it_up(relay):
    daemon, _ = relay
    clients = [Client(daemon) for _ in range(20)]
    clients[0].ehlo()
    clients[0].say('MAIL FROM:<a@a.test>', 250)
    clients[1].ehlo()
    clients[1].mail('a@a.test', ['x@x.test'])
    clients[1].say('DATA', 354)
    clients[1].send(b'Subject: half\r\n')
    assert daemon.stop() == 0
    for client in clients:
        closed, rest = client.is_closed()
        assert closed and (not rest or rest.startswith(b'421'))
    assert not daemon.of('Reception')


def test_message_in_the_middle_when_told_to_stop(relay):
    """Whatever the client is told is true."""
    daemon, receiver = relay
    with Client(daemon) as client:
        client.ehlo()
        client.mail('a@a.test', ['x@x.test'])
        client.say('DATA', 354)
        client.send(b'Subject: half\r\n')
        ender = threading.Thread(target=daemon.stop)
        ender.start()
        code = 421
        try:
            client.send(b'\r\nrest\r\n.\r\n')
            code = client.reply().code
        except (EOFError, OSError):
            pass
        ender.join()
    daemon.process = None
    daemon.start()
    if code == 250:
        daemon.wait_event('Delivery', 'x@x.test')
        assert len(receiver.messages) == 1
    daemon.wait_empty()
    assert len(receiver.messages) == (1 if code == 250 else len(daemon.of('Reception')))


def test_nothing_grows_over_restarts(relay):
    daemon, receiver = relay
    for n in range(10):
        submit(daemon, 'a@a.test', [f'r{n}@x.test'], message())
        daemon.wait_event('Delivery', f'r{n}@x.test')
        daemon.wait_empty()
        assert daemon.stop() == 0
        daemon.start()
    assert len(receiver.messages) == 10
    ids = [e['id'] for e in daemon.of('Reception')]
    assert len(set(ids)) == 10 and ids == sorted(ids)


def last_stop(daemon):
    """What the newest start said of the stop before it."""
    lines = [line for line in daemon.log().splitlines() if 'spool ' in line and (
        'is new' in line or 'the last stop' in line)]
    return lines[-1].split(': ', 1)[1] if lines else ''


def test_start_tells_how_the_last_run_ended(place):
    """The bound is for crashes, and for a stop that left a delivery without its result."""
    peer = place.keep(Peer('hello\nenvelope\ndata\nsilence', 'accept'))
    daemon = place.sluice(options={'shutdown_timeout': '1s'}, routes={'*': ('smtp', peer.nexthop)})
    assert 'it is new' in last_stop(daemon)
    assert daemon.stop() == 0
    daemon.start()
    assert 'the last stop was clean' in last_stop(daemon)
    submit(daemon, 'a@a.test', ['x@x.test'], message())
    until(lambda: peer.bodies, 'the body')
    assert daemon.stop() == 0
    daemon.start()
    assert 'not clean: at most 1 deliver' in last_stop(daemon)
    daemon.wait_event('Delivery', 'x@x.test')
    daemon.wait_empty()
    assert daemon.stop() == 0
    daemon.start()
    assert 'the last stop was clean' in last_stop(daemon)
    daemon.kill()
    daemon.start()
    assert 'not clean: at most ' in last_stop(daemon)
