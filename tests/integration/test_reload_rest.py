"""What else of the configuration a reload takes over: name servers, the event log's rotation, the
memory of traces, and where mail may go."""
import glob

import pytest

from support.api import ask
from support.client import message, submit
from support.dns_server import DnsServer
from support.reloading import options_of, reload
from support.wait import until


@pytest.fixture
def servers(place):
    return [place.keep(DnsServer()) for _ in range(2)]


def test_name_servers(place, servers):
    """One that answers nothing is replaced; its questions that are out hold nobody up."""
    receiver = place.receiver(address='127.0.0.2')
    silent, good = servers
    zone = {name: [('MX', (10, f'mx.{name}'))] for name in ('a.test', 'b.test', 'c.test')}
    zone.update({f'mx.{name}': [('A', '127.0.0.2')] for name in list(zone)})
    silent.zone.update({name: 'DROP' for name in zone})
    good.zone.update(zone)
    daemon = place.sluice(routes={'*': ('smtp', None)}, dns={'servers': [silent.name], 'timeout': '20s'},
                          transports={'smtp': {'smtp_tcp_port': receiver.port}})
    submit(daemon, 'me@a.test', ['x@a.test'], message())
    until(lambda: silent.asked('a.test'), 'a question')
    daemon.dns.update(servers=[good.name], timeout='10s', cache_size=1000)
    # MX hosts on loopback would be a loop; that is one of the things that change.
    daemon.options['allow_loopback'] = True
    assert options_of(reload(daemon)) == []
    submit(daemon, 'me@a.test', ['x@b.test'], message())
    receiver.wait(1)
    assert good.asked('b.test') == 1 and silent.asked('b.test') == 0
    # Same servers, another cache: what it knew is forgotten.
    daemon.dns['cache_size'] = 2000
    reload(daemon)
    submit(daemon, 'me@a.test', ['x@c.test'], message())
    receiver.wait(2)
    daemon.options['allow_loopback'] = False
    daemon.transports['smtp']['inet_protocols'] = 'ipv4'  # and its hosts are looked up again
    assert options_of(reload(daemon)) == []
    submit(daemon, 'me@a.test', ['y@c.test'], message())
    [event] = daemon.wait_events('Bounce', count=1)
    assert event['recipient'] == 'y@c.test'
    assert sum(1 for name, kind in good.questions if kind == 'AAAA' and name == 'mx.c.test') == 1
    assert daemon.stop() == 0


def test_rotation(place):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)}, event_log={'rotate_size': 0})
    for n in range(3):
        submit(daemon, 'me@a.test', [f'{m}-{n}@x.test' for m in range(100)], message())
    receiver.wait(6)
    assert glob.glob(daemon.events_path + '.*') == []
    daemon.event_log = {'rotate_size': '64K', 'rotate_keep': 2}
    assert options_of(reload(daemon)) == []

    def is_rotated():
        submit(daemon, 'me@a.test', [f'{m}@x.test' for m in range(100)], message())
        return {daemon.events_path + f'.{n}' for n in (2, 3)} == set(glob.glob(daemon.events_path + '.*'))
    until(is_rotated, 'two files that are kept')
    assert daemon.stop() == 0


def test_memory_of_traces(place):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)}, options={'trace_memory': 0})
    daemon.transports['smtp']['smtp_connection_reuse_count_limit'] = 1

    def trace(status):
        answer = ask(daemon, '/v1/trace', destination=receiver.nexthop)
        assert answer[0] == status, answer
        return [line for line in answer[1] if 'session' in line]
    submit(daemon, 'me@a.test', ['x@x.test'], message())
    receiver.wait(1)
    trace(503)
    daemon.options['trace_memory'] = '1M'
    assert options_of(reload(daemon)) == []
    submit(daemon, 'me@a.test', ['y@x.test'], message())
    receiver.wait(2)
    until(lambda: trace(200), 'a session')
    daemon.options['trace_memory'] = 0
    assert options_of(reload(daemon)) == []
    trace(503)
    submit(daemon, 'me@a.test', ['z@x.test'], message())
    receiver.wait(3)
    daemon.options['trace_memory'] = '1M'
    reload(daemon)
    assert trace(200) == []
    assert daemon.stop() == 0
