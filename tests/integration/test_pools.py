"""Which source mail goes out from: its pool, by weight, and what changes that: tenants, a reload, an
order, a receiver that greylists."""
import socket
import threading
from collections import Counter

import pytest

from support.address import fresh_address, free_port
from support.client import message, submit
from support.dns_server import DnsServer
from support.reloading import reload
from support.wait import PATIENCE, settled, until

SENDER = 'a@a.test'


def sources(*names):
    return {name: {'address': fresh_address()} for name in names}


def relay(place, nexthop, addresses, pools, **settings):
    listener = {'tenant_header': 'X-Tenant'}
    return place.sluice(sources=addresses, pools=pools, listener=listener,
                        **{'transports': {'smtp': {'source_pool': 'out'}},
                           'routes': {'*': ('smtp', nexthop)}, **settings})


def of_tenant(name):
    return b'X-Tenant: ' + name.encode() + b'\r\n' + message()


def close(daemon, source):
    return daemon.query('suspend', '--source', source, '--reason', 'a test')


def left_from(daemon, recipient, content=None):
    submit(daemon, SENDER, [recipient], content or message())
    return daemon.wait_event('Delivery', recipient).get('egress_source')


# A connection is there for whatever comes next, however long that takes.
KEPT = {'smtp_connection_cache_time_limit': '600s'}


def wait_idle(daemon):
    """The connections of all that was delivered are free again: the event comes before that."""
    until(lambda: all(host['in_flight'] == 0 for host in daemon.query('hosts')), lambda: daemon.query('hosts'))


# --- shares -----------------------------------------------------------------------------------------


def test_shares_at_each_site(place):
    """Each receiver sees the weights, however mail for several of them alternates."""
    receivers = [place.receiver() for _ in range(3)]
    addresses = sources('a', 'b', 'c')
    daemon = relay(place, None, addresses, {'out': {'sources': ['a', 'b', 'c'], 'weights': [3, 2, 0]}},
                   routes={f'x{n}.test': ('smtp', r.nexthop) for n, r in enumerate(receivers)},
                   transports={'smtp': {'source_pool': 'out', **KEPT}})
    for i in range(10):
        for n in range(3):
            assert left_from(daemon, f'r{i}@x{n}.test') == 'ababa'[i % 5]
        wait_idle(daemon)
    for receiver in receivers:
        peers = Counter(m.peer for m in receiver.messages)
        assert peers == {addresses['a']['address']: 6, addresses['b']['address']: 4}
        assert receiver.connections == 2
    assert daemon.stop() == 0


def test_each_pool_has_its_own_weights(place):
    """Of sources that several pools share; by reload too."""
    receiver = place.receiver()
    daemon = relay(place, receiver.nexthop, sources('a', 'b'),
                   {'out': {'sources': ['a', 'b'], 'weights': [3, 1]},
                    'vip': {'sources': ['b', 'a'], 'weights': [3, 1]}}, tenants={'acme': {'pool': 'vip'}})

    def shares(first):
        left = {'acme': Counter(), 'other': Counter()}
        for n in range(first, first + 16):
            tenant = ('acme', 'other', 'other', 'acme', 'acme')[n % 5]
            left[tenant][left_from(daemon, f'{tenant}{n}@x.test', of_tenant(tenant))] += 1
        return [round(4 * left[tenant]['a'] / left[tenant].total()) for tenant in ('acme', 'other')]
    assert shares(0) == [1, 3]
    daemon.pools['vip']['weights'], daemon.pools['out']['weights'] = [1, 3], [1, 3]
    reload(daemon)
    assert shares(20) == [3, 1]
    assert daemon.stop() == 0


def test_each_source_has_its_families(place):
    try:
        socket.create_server(('::1', 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip('no IPv6 loopback')
    dns = place.keep(DnsServer())
    port = free_port()
    four = place.receiver(port=port)
    six = place.receiver(address='::1', family=socket.AF_INET6, port=port)
    dns.zone['x.test'] = [('AAAA', '::1'), ('A', '127.0.0.1')]
    address = fresh_address()
    daemon = relay(place, None, {'four': {'address': address}, 'six': {'address6': '::1'}},
                   {'out': {'sources': ['four', 'six']}}, routes={'*': ('smtp', None)},
                   transports={'smtp': {'source_pool': 'out', 'smtp_tcp_port': port}},
                   options={'allow_loopback': True}, dns={'servers': [dns.name]})
    assert [left_from(daemon, f'r{n}@x.test') for n in range(6)] == ['four', 'six'] * 3
    assert [m.peer for m in four.messages] == [address] * 3
    assert [m.peer for m in six.messages] == ['::1'] * 3
    assert daemon.stop() == 0


# --- tenants ----------------------------------------------------------------------------------------


def test_pools_of_tenants(place):
    """A tenant's pool, that of all others, and that of the transport; one destination."""
    receiver = place.receiver()
    daemon = relay(place, receiver.nexthop, sources('a', 'b', 'c', 'd'),
                   {'out': {'sources': ['a', 'b']}, 'own': {'sources': ['c', 'b']},
                    'rest': {'sources': ['d']}},
                   tenants={'acme': {'pool': 'own'}, 'plain': {}, '*': {'pool': 'rest'}})
    for n in range(4):
        assert left_from(daemon, f'p{n}@x.test', of_tenant('plain')) in ('a', 'b')
        assert left_from(daemon, f'c{n}@x.test', of_tenant('Acme')) in ('c', 'b')
        assert left_from(daemon, f'o{n}@x.test', of_tenant('other')) == 'd'
        assert left_from(daemon, f'n{n}@x.test') == 'd'
    by_tenant = {tenant: Counter(e['egress_source'] for e in daemon.of('Delivery', tenant=tenant))
                 for tenant in ('plain', 'Acme')}
    assert set(by_tenant['plain']) == {'a', 'b'} and set(by_tenant['Acme']) == {'c', 'b'}
    assert daemon.stop() == 0


def test_a_tenants_pool_where_the_transport_has_none(place):
    receiver = place.receiver()
    addresses = sources('a')
    daemon = relay(place, receiver.nexthop, addresses, {'own': {'sources': ['a']}},
                   transports={'smtp': KEPT}, tenants={'acme': {'pool': 'own'}})
    assert left_from(daemon, 'x@x.test', of_tenant('acme')) == 'a'
    assert left_from(daemon, 'y@x.test', of_tenant('other')) is None
    assert [m.peer for m in receiver.messages] == [addresses['a']['address'], '127.0.0.1']
    assert receiver.connections == 2
    assert daemon.stop() == 0


def test_a_tenant_whose_sources_are_closed(place):
    """Its mail waits; that of others does not, although an order names no tenant."""
    receiver = place.receiver()
    daemon = relay(place, receiver.nexthop, sources('a', 'b'),
                   {'out': {'sources': ['a']}, 'own': {'sources': ['b']}},
                   tenants={'acme': {'pool': 'own'}})
    close(daemon, 'b')
    submit(daemon, SENDER, ['held@x.test'], of_tenant('acme'))
    until(lambda: [m['state'] for m in daemon.query('messages')] == ['suspended'],
          'it is suspended')
    assert left_from(daemon, 'x@x.test', of_tenant('other')) == 'a'
    [order] = daemon.query('orders')
    daemon.query('resume', str(order['id']))
    assert daemon.wait_event('Delivery', 'held@x.test')['egress_source'] == 'b'
    assert daemon.stop() == 0


# --- a reload ---------------------------------------------------------------------------------------


class Gate:
    """answers of a Receiver that keeps the ends of data waiting while it is closed, and notes who
    begins a message"""

    def __init__(self):
        self.is_open = threading.Event()
        self.waiting, self.begun = 0, []

    def __call__(self, verb, argument, session):
        if verb == 'MAIL':
            self.begun.append(session.peer[0])
        if verb == '.':
            self.waiting += 1
            self.is_open.wait(3 * PATIENCE)


# One message at a time on a connection, so that what is in flight is what the receiver has seen.
NARROW = {'destination_concurrency_limit': 4, 'initial_destination_concurrency': 4,
          'pipeline_depth': 1, 'smtp_connection_cache_time_limit': '60s'}


def test_reload_under_way(place):
    """Sources come and go while mail waits and connections are busy."""
    gate = Gate()
    receiver = place.receiver(answers=gate)
    addresses = sources('a', 'b', 'c')
    daemon = relay(place, receiver.nexthop, addresses,
                   {'out': {'sources': ['a', 'b']}, 'own': {'sources': ['a', 'b', 'c']}},
                   tenants={'acme': {'pool': 'own'}},
                   transports={'smtp': {'source_pool': 'out', **NARROW}})
    for n in range(40):
        submit(daemon, SENDER, [f'r{n}@x.test'], of_tenant('acme') if n % 2 else message())
    until(lambda: gate.waiting == 12, lambda: f'{gate.waiting} wait')
    assert Counter(gate.begun) == {a['address']: 4 for a in addresses.values()}
    daemon.pools['out'] = {'sources': ['b', 'c']}
    daemon.pools['own'] = {'sources': ['c']}
    reload(daemon)
    gate.is_open.set()
    receiver.wait(40)
    daemon.wait_empty()
    assert sorted(r for m in receiver.messages for r in m.recipients) == \
        sorted(f'r{n}@x.test' for n in range(40))
    # What was on its way from a arrived; nothing more began there.
    assert Counter(gate.begun)[addresses['a']['address']] == 4
    for n in range(4):
        assert left_from(daemon, f's{n}@x.test') in ('b', 'c')
        assert left_from(daemon, f't{n}@x.test', of_tenant('acme')) == 'c'
    assert not daemon.of('TransientFailure')
    assert daemon.stop() == 0


def test_a_pool_that_goes_while_its_mail_waits(place):
    """What has not begun is routed anew, without an attempt."""
    gate = Gate()
    receiver = place.receiver(answers=gate)
    addresses = sources('a', 'b')
    daemon = relay(place, receiver.nexthop, addresses, {'old': {'sources': ['a']}},
                   tenants={'acme': {'pool': 'old'}}, transports={'smtp': NARROW})
    for n in range(12):
        submit(daemon, SENDER, [f'r{n}@x.test'], of_tenant('acme'))
    until(lambda: gate.waiting == 4, lambda: f'{gate.waiting} wait')
    daemon.pools = {'new': {'sources': ['b']}}
    daemon.tenants['acme'] = {'pool': 'new'}
    reload(daemon)
    gate.is_open.set()
    for n in range(12):
        event = daemon.wait_event('Delivery', f'r{n}@x.test')
        assert event['num_attempts'] == 1
    assert Counter(gate.begun) == {addresses['a']['address']: 4, addresses['b']['address']: 8}
    daemon.wait_empty()
    assert daemon.stop() == 0


# --- greylisting ------------------------------------------------------------------------------------


class Greylister:
    """answers: an address and a recipient are let in when they come again"""

    def __init__(self):
        self.known = set()

    def __call__(self, verb, argument, session):
        if verb != 'RCPT' or (session.peer[0], argument) in self.known:
            return None
        self.known.add((session.peer[0], argument))
        return '451 4.7.1 Greylisted, please try again later'


def first_try(daemon, count):
    for n in range(count):
        submit(daemon, SENDER, [f'r{n}@x.test'], message())
    return {n: daemon.wait_event('TransientFailure', f'r{n}@x.test')['egress_source']
            for n in range(count)}


def test_greylisted_mail_keeps_its_source(place):
    receiver = place.receiver(answers=Greylister())
    names = list('abcde')
    daemon = relay(place, receiver.nexthop, sources(*names), {'out': {'sources': names}})
    chosen = first_try(daemon, 10)
    assert set(chosen.values()) == set(names)
    for n, source in chosen.items():
        event = daemon.wait_event('Delivery', f'r{n}@x.test')
        assert (event['egress_source'], event['num_attempts']) == (source, 2)
    assert daemon.stop() == 0


def test_why_names_the_source(place):
    receiver = place.receiver(answers=Greylister())
    daemon = relay(place, receiver.nexthop, sources('a', 'b'), {'out': {'sources': ['a', 'b']}},
                   options={'minimal_backoff_time': '300s', 'maximal_backoff_time': '300s'})
    [source] = first_try(daemon, 1).values()
    until(lambda: [m['state'] for m in daemon.query('messages')] == ['deferred'], 'it is deferred')
    [one] = daemon.query('messages')

    def check():
        said = daemon.command('why', one['id']).stdout.decode()
        assert f'it was greylisted, and goes from source "{source}" again' in said, said
    settled(check)
    assert daemon.stop() == 0


def test_unless_its_receiver_refuses_that_source(place):
    """Then it is for the others, which are greylisted in their turn."""
    greylister = Greylister()
    refused = []

    def answers(verb, argument, session):
        if verb == 'RCPT' and session.peer[0] in refused:
            return '554 5.7.1 Service unavailable; Client host blocked using zen.spamhaus.org'
        return greylister(verb, argument, session)

    receiver = place.receiver(answers=answers)
    addresses = sources('a', 'b')
    daemon = relay(place, receiver.nexthop, addresses, {'out': {'sources': ['a', 'b']}})
    chosen = first_try(daemon, 4)
    assert set(chosen.values()) == {'a', 'b'}
    refused.append(addresses['a']['address'])
    for n in chosen:
        assert daemon.wait_event('Delivery', f'r{n}@x.test')['egress_source'] == 'b'
    assert not daemon.of('Bounce')
    assert daemon.stop() == 0


def test_it_is_kept_over_a_restart(place):
    receiver = place.receiver(answers=Greylister())
    names = list('abcde')
    daemon = relay(place, receiver.nexthop, sources(*names), {'out': {'sources': names}})
    chosen = first_try(daemon, 5)
    assert daemon.stop() == 0
    daemon.start()
    for n, source in chosen.items():
        event = daemon.wait_event('Delivery', f'r{n}@x.test')
        assert (event['egress_source'], event['num_attempts']) == (source, 2)
    assert daemon.stop() == 0


@pytest.mark.parametrize('how', ['suspended', 'gone'])
def test_unless_that_source_cannot_be_used(place, how):
    receiver = place.receiver(answers=Greylister())
    daemon = relay(place, receiver.nexthop, sources('a', 'b'), {'out': {'sources': ['a', 'b']}},
                   options={'minimal_backoff_time': '3s', 'maximal_backoff_time': '3s'})
    chosen = first_try(daemon, 4)
    assert set(chosen.values()) == {'a', 'b'}
    if how == 'suspended':
        close(daemon, 'a')
    else:
        daemon.pools['out'] = {'sources': ['b']}
        reload(daemon)
    for n, source in chosen.items():
        assert daemon.wait_event('Delivery', f'r{n}@x.test')['egress_source'] == 'b'
        assert daemon.results(f'r{n}@x.test')[-1]['num_attempts'] == (2 if source == 'b' else 3)
    assert daemon.stop() == 0
