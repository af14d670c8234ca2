"""What `sluice hosts` and `sluice destinations` say of servers: one daemon with a server in each
state."""
import time

import pytest

from support.address import free_port
from support.client import message, submit
from support.net import Net
from support.peer import Peer
from support.wait import settled, until

OFFERS = 'send 220 peer.test ESMTP\nexpect EHLO\nsend 250-peer.test\nsend 250 STARTTLS\n'
BROKEN = OFFERS + 'expect STARTTLS\nsend 220 go\nhear\nclose'
CLEAR = OFFERS + 'envelope\ndata\nsend 250 2.0.0 kept\nwait'
# A host is waited for after a window's worth of failures.
TRANSPORTS = {'parting': 'parting', 'absent': 'fearful'}
STUCK = 'chunks\nexpect MAIL\nsend 250 2.1.0 ok\nexpect RCPT\nsend 250 2.1.5 ok\nhold 1\nsilence'


@pytest.fixture(scope='module')
def stage(module_place):
    peers = {'good': Peer('good'), 'stuck': Peer(STUCK), 'parting': Peer('good'),
             'broken': Peer(BROKEN, CLEAR)}
    nexthops = {name: module_place.keep(peer).nexthop for name, peer in peers.items()}
    nexthops['absent'] = f'[127.0.0.1]:{free_port()}'
    routes = {f'{name}.test': (TRANSPORTS.get(name, 'usual'), nexthop)
              for name, nexthop in nexthops.items()}
    daemon = module_place.sluice(
        routes=routes, options={'minimal_backoff_time': '300s', 'maximal_backoff_time': '300s'},
        transports={'usual': {'smtp_connection_cache_time_limit': '600s'},
                    'parting': {'smtp_connection_cache_time_limit': '0s'},
                    'fearful': {'initial_destination_concurrency': 1}})
    assert daemon.query('hosts') == []
    assert b'no host is known' in daemon.command('hosts').stdout
    for domain in routes:
        submit(daemon, 'a@back.test', [f'user@{domain}'], message())
    for name in ('good', 'parting', 'broken'):
        daemon.wait_event('Delivery', f'user@{name}.test')
    daemon.wait_event('TransientFailure', 'user@absent.test')
    until(lambda: peers['stuck'].held, 'a message on its way')
    return daemon, nexthops


def host(stage, name):
    daemon, nexthops = stage
    found = daemon.query('hosts', nexthops[name])
    return found[0] if len(found) == 1 else None


# state, connections, in_flight, failures, notes
STATES = {'good': ('idle', 1, 0, 0, []), 'stuck': ('active', 1, 1, 0, []),
          'parting': ('closed', 0, 0, 0, []), 'broken': ('idle', 1, 0, 0, ['TLS is broken']),
          'absent': ('retry', 0, 0, 1, [])}


@pytest.mark.parametrize('name', STATES)
def test_state(stage, name):
    """The event log is written before the scheduler has heard."""
    def seen():
        h = host(stage, name)
        return h and (h['state'], h['connections'], h['in_flight'], h['failures'], h['notes'])
    until(lambda: seen() == STATES[name], lambda: f'{STATES[name]}: {seen()}')
    h = host(stage, name)
    assert f'[{h["address"]}]:{h["port"]}' == stage[1][name]
    assert h['transport'] == TRANSPORTS.get(name, 'usual')
    assert ('until' in h) == (name == 'absent')
    if name == 'absent':
        assert 0 < h['until'] - time.time() <= 600


def test_filter_and_table(stage):
    daemon, nexthops = stage
    until(lambda: len(daemon.query('hosts')) == len(STATES), 'all hosts')
    assert [h['transport'] for h in daemon.query('hosts', 'parting [')] == ['parting']
    assert daemon.query('hosts', '192.0.2.') == []
    assert b'no such host is known' in daemon.command('hosts', '192.0.2.').stdout

    def check():
        head, *lines = daemon.command('hosts').stdout.decode().splitlines()
        assert head.split() == ['TRANSPORT', 'HOST', 'STATE', 'CONNS', 'FLIGHT', 'FAILURES', 'NOTES']
        rows = {line.split()[1]: line for line in lines}
        assert set(rows) == set(nexthops.values())
        assert rows[nexthops['broken']].endswith('TLS is broken')
        assert 'again in' in rows[nexthops['absent']]
    settled(check)


def test_counts(stage):
    """Deliveries on their way stand beside the connections that carry them."""
    daemon, nexthops = stage

    def check():
        [one] = [d for d in daemon.query('destinations') if d.get('destination') == nexthops['stuck']]
        assert (one['busy'], one['in_flight'], one['todo']) == (1, 1, 0)
    settled(check)
    head = daemon.command('destinations').stdout.decode().splitlines()[0].split()
    assert head[4:7] == ['BUSY', 'FLIGHT', 'WAITING']


def test_counts_name_the_limit_of_a_host(place):
    """Two destinations with one server that takes one connection."""
    net = Net(place)
    peer = net.peer('mx.test', 'plain\nexpect MAIL\nsilence')
    net.mx('a.test', 'mx.test')
    net.mx('b.test', 'mx.test')
    net.start({'smtp': {'host_concurrency_limit': 1}})
    net.send('a.test')
    until(lambda: peer.connections == 1, 'the connection')
    net.send('b.test')

    def why():
        return {d['destination']: d['why'] for d in net.daemon.query('destinations') if 'why' in d}
    until(lambda: why().get('b.test') == 'its hosts have as many connections as they may have',
          lambda: f'the reason: {why()}')
    until(lambda: [h['connections'] for h in net.daemon.query('hosts')] == [1], lambda: net.daemon.query('hosts'))
