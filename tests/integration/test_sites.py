"""Destinations of one receiver: one window, connections that they share, and what keeps them apart."""
import os
import time

import pytest

from support.address import fresh_address
from support.api import Connection
from support.certificates import Authority
from support.client import message, submit
from support.net import Net
from support.reloading import reload
from support.wait import settled, until

HELD = 'plain\nexpect MAIL\ngate\nsend 250 2.1.0 ok\nserve'
DOMAINS = [f'd{n}.test' for n in range(1, 9)]
# A connection is there for whatever comes next, however long that takes.
KEPT = {'smtp_connection_cache_time_limit': '600s'}


@pytest.mark.parametrize('rollup, windows', [('yes', 1), ('no', len(DOMAINS))])
def test_the_window_is_the_receivers(place, rollup, windows):
    net = Net(place)
    peer = net.peer('mx.test', HELD)
    for domain in DOMAINS:
        net.mx(domain, 'mx.test')
    net.start({'smtp': {'site_rollup': rollup == 'yes', 'initial_destination_concurrency': 1,
                        'destination_concurrency_limit': 1, **KEPT}})
    for domain in DOMAINS:
        net.send(domain)
    until(lambda: peer.connections == windows and
          len([d for d in net.daemon.query('destinations') if 'destination' in d]) == len(DOMAINS),
          lambda: f'{windows} connections: {peer.connections}')
    peer.gate.set()
    for domain in DOMAINS:
        assert net.result(domain)['type'] == 'Delivery'
    assert peer.connections == windows


def wait_idle(net):
    """The connections of all that was delivered are free again: the event comes before that."""
    until(lambda: all(host['in_flight'] == 0 for host in net.daemon.query('hosts')), lambda: net.daemon.query('hosts'))


def sites(net, *arguments):
    return {one['site']: one for one in net.daemon.query('sites', *arguments)}


def metrics(daemon):
    control = Connection(daemon)
    control.request('GET', '/metrics')
    text = control.getresponse().read().decode()
    control.close()
    return text.splitlines()


def test_sites_are_seen(place):
    """A site with its lanes and destinations, in every answer that is about windows; and one that is
    dead, when no mail is in a scheduler any more."""
    net = Net(place)
    peer = net.peer('mx.test', HELD)
    net.mx('one.test', 'mx.test')
    net.mx('two.test', 'mx.test')
    net.mx('away.test', 'absent.test')
    net.absent('absent.test')
    net.start({'smtp': {'initial_destination_concurrency': 1, 'destination_concurrency_limit': 1,
                        'concurrency_feedback_rule': 'postfix3'}},
              options={'minimal_backoff_time': '300s', 'maximal_backoff_time': '300s'})
    assert net.daemon.query('sites') == net.daemon.query('lanes') == []
    assert b'no site is known' in net.daemon.command('sites').stdout
    for domain in ('one.test', 'two.test', 'away.test'):
        net.send(domain)
    assert net.result('away.test')['type'] == 'TransientFailure'
    until(lambda: sites(net).get('mx.test', {}).get('destinations') == 2 and
          sites(net).get('absent.test', {}).get('state') == 'dead',
          lambda: f'both sites: {net.daemon.query("sites")}')
    settled(lambda: check_sites(net))
    peer.gate.set()
    for domain in ('one.test', 'two.test'):
        net.result(domain)


def check_sites(net):
    busy, dead = sites(net)['mx.test'], sites(net, 'absent')['absent.test']
    assert (busy['state'], busy['window'], busy['busy'], busy['in_flight'], busy['todo']) == \
        ('ready', 1, 1, 1, 1)
    assert 'Connection refused' in dead['last_error']['text'] and dead['until'] > time.time() + 200
    assert set(sites(net, '--state', 'dead')) == {'absent.test'}
    assert [(lane['site'], lane['source'], lane['busy'])
            for lane in net.daemon.query('lanes', 'mx.')] == [('mx.test', '', 1)]
    table = net.daemon.command('sites', '--sort', 'load').stdout.decode().splitlines()
    assert table[0].split()[:3] == ['TRANSPORT', 'SITE', 'STATE'] and 'mx.test' in table[1]
    assert b'mx.test' in net.daemon.command('lanes').stdout
    seen = {one['destination']: one for one in net.daemon.query('destinations')
            if 'destination' in one}
    assert {name: one['site'] for name, one in seen.items()} == \
        {'one.test': 'mx.test', 'two.test': 'mx.test', 'away.test': 'absent.test'}
    assert seen['away.test']['state'] == 'dead'
    assert 'sluice_sites{transport="smtp",state="dead"} 1' in metrics(net.daemon)
    assert net.daemon.query('transports')[0]['dead'] == 1
    assert 'Connection refused' in seen['away.test']['last_error']['text']
    why = net.daemon.command('why', '-d', 'two.test').stdout.decode() + \
        net.daemon.command('why', '-d', 'one.test').stdout.decode()
    assert 'it shares the window of the site mx.test' in why
    assert 'is dead' in net.daemon.command('why', '-d', 'away.test').stdout.decode()


def test_a_limit_of_the_site(place):
    net = Net(place)
    peer = net.peer('mx.test', HELD)
    for domain in DOMAINS:
        net.mx(domain, 'mx.test')
    net.start({'smtp': {'site_concurrency_limit': 3, **KEPT}})
    for domain in DOMAINS:
        net.send(domain)
    until(lambda: peer.connections == 3, 'connections up to the limit')
    peer.gate.set()
    for domain in DOMAINS:
        net.result(domain)
    assert peer.connections == 3


def test_a_provider_has_a_window_of_its_own(place):
    """Wider than the transport's, and another one by a reload."""
    net = Net(place)
    big, small = net.peer('mx.big.test', HELD), net.peer('mx.test', HELD)
    for domain in DOMAINS:
        net.mx(domain, 'mx.big.test')
    net.mx('other.test', 'mx.test')
    one = {'initial_destination_concurrency': 1, 'destination_concurrency_limit': 1, **KEPT}
    three = {'initial_destination_concurrency': 3, 'destination_concurrency_limit': 3}
    net.start({'smtp': one}, providers={'big': {'mx': ['*.big.test'], **three}})
    for domain in (*DOMAINS, *['other.test'] * 3):
        net.send(domain)
    until(lambda: (big.connections, small.connections) == (3, 1),
          lambda: f'both windows: {big.connections}, {small.connections}')

    def check():
        assert sites(net)['provider:big']['provider'] == 'big'
        said = net.daemon.command('explain', '--mx', 'mx.big.test', 'd1.test').stdout
        assert b'\nsite provider:big\n' in said
        gauges = dict(line.rsplit(' ', 1) for line in metrics(net.daemon) if line[:1] not in '#')
        assert gauges['sluice_provider_connections{transport="smtp",provider="big"}'] == '3'
        assert gauges['sluice_provider_waiting{transport="smtp",provider="big"}'] == '5'
        assert gauges['sluice_sites{transport="smtp",state="ready"}'] == '2'
        assert gauges['sluice_windows{transport="smtp"}'] == '4'  # not one for each domain
    settled(check)
    net.daemon.providers['big'].update(initial_destination_concurrency=5,
                                       destination_concurrency_limit=5)
    reload(net.daemon)
    until(lambda: big.connections == 5, lambda: f'the wider window: {big.connections}')
    big.gate.set()
    small.gate.set()
    for domain in DOMAINS:
        assert net.result(domain)['type'] == 'Delivery'
    assert (big.connections, small.connections) == (5, 1)


def test_a_connection_carries_mail_of_others(place):
    """The events name what each delivery was for, and where it went."""
    net = Net(place)
    peer = net.peer('mx.test', 'good')
    for domain in DOMAINS:
        net.mx(domain, 'mx.test')
    net.start({'smtp': KEPT})
    for domain in DOMAINS:
        event = net.deliver(domain)
        wait_idle(net)
        assert (event['queue'], event['peer_address']['name']) == (domain, 'mx.test'), str(event)
    assert peer.connections == 1
    for domain in DOMAINS:  # each finds the session that carried its mail
        [session] = net.daemon.query('trace', domain)[:1]
        assert any(f'RCPT TO:<user@{domain}>' in line['text'] for line in session['lines'])


def test_another_level_of_tls_is_another_connection(place):
    """Mail that must be encrypted never goes over a connection that is not, and the other way round."""
    net = Net(place)
    peer = net.peer('mx.test', 'secure\nexpect EHLO\nsend 250 peer.test\nserve', 'good',
                    tls=Authority(place.subfolder('ca')).leaf('x').server())
    for domain in ('safe.test', 'safe2.test', 'open.test', 'open2.test'):
        net.mx(domain, 'mx.test')
    level = {'smtp_tls_security_level': 'encrypt'}
    net.start({'smtp': {'smtp_tls_security_level': 'none', **KEPT}},
              routes={'safe.test': ('smtp', '', level), 'safe2.test': ('smtp', '', level),
                      '*': ('smtp', '')})
    for domain in ('safe', 'open', 'safe2', 'open2'):
        assert ('tls_protocol_version' in net.deliver(f'{domain}.test')) == domain.startswith('safe')
        wait_idle(net)
    assert peer.connections == 2


def test_another_mx_moves_what_waits(place):
    """A look-up that fails moves nothing, and concerns that domain alone; another answer moves what
    waits to the hosts that it names, although a connection to the old ones is there all the time."""
    net = Net(place)
    net.dns.ttl = 0
    old, new = net.peer('old.test', 'good'), net.peer('new.test', 'good')
    for domain in ('stays.test', 'moves.test', 'fails.test'):
        net.mx(domain, 'old.test')
    net.start({'smtp': {'destination_concurrency_limit': 1, **KEPT}})
    for domain in ('stays.test', 'moves.test', 'fails.test'):
        net.deliver(domain)
    assert old.connections == 1
    net.mx('moves.test', 'new.test')
    net.dns.zone['fails.test'] = 'SERVFAIL'

    def moved():
        for domain in ('stays.test', 'moves.test', 'fails.test'):
            submit(net.daemon, 'a@sender.test', [f'more@{domain}'], message())
        time.sleep(0.2)  # an answer is kept for 5 seconds at least, and only what is sent is looked up
        return {'old.test', 'new.test'} <= {event['peer_address']['name']
                                            for event in net.daemon.of('Delivery', 'more@moves.test')} and \
            net.daemon.of('TransientFailure', 'more@fails.test')
    until(moved, 'mail for the new host, and a look-up that failed')
    assert old.connections == 1
    hosts = {event['peer_address']['name'] for event in net.daemon.of('Delivery', 'more@moves.test')}
    assert hosts == {'old.test', 'new.test'}
    last = [event['peer_address']['name'] for event in net.daemon.of('Delivery', 'more@moves.test')]
    assert last == sorted(last, reverse=True)  # never back
    assert {event['peer_address']['name']
            for event in net.daemon.of('Delivery', 'more@stays.test')} == {'old.test'}


RULES = """rule over-tenant {
 text = 'tenant over' class = policy
 action = 'suspend-tenant 1h'
 example = '450 4.7.0 tenant over' }
"""


def test_a_reply_suspends_at_the_site(place):
    """What a reply has suspended waits for all destinations of the site and by all lanes, also for those
    that join it later; mail for others goes, also for a destination that has left. A restart keeps it, and
    views name it."""
    seen, over = [], ['tenant over']

    def answers(verb, argument, session):
        if verb != 'RCPT':
            return None
        seen.append(argument.split('<')[1].split('>')[0])
        return f'450 4.7.0 {over[0]}' if over else None
    net = Net(place)
    net.dns.ttl = 0
    receiver, other = net.host('mx.test', answers=answers), net.host('other.test')
    for domain, host in {'first': 'mx', 'second': 'mx', 'leaves': 'mx', 'joins': 'other', 'free': 'other'}.items():
        net.mx(f'{domain}.test', f'{host}.test')
    rules = os.path.join(place.subfolder('rules'), 'mine.conf')
    with open(rules, 'w', encoding='ascii') as file:
        file.write(RULES)
    addresses = [fresh_address(), fresh_address()]
    net.start({'smtp': {'source_pool': 'both'}}, listener={'tenant_header': 'X-Tenant'}, replies={'files': [rules]},
              sources={f's{n}': {'address': address} for n, address in enumerate(addresses)},
              pools={'both': {'sources': ['s0', 's1']}},
              options={'minimal_backoff_time': '1s', 'maximal_backoff_time': '1s'})
    daemon = net.daemon

    def send(name, domain, tenant='acme'):
        submit(daemon, 'a@sender.test', [f'{name}@{domain}.test'], message(X_Tenant=tenant))

    def arrived(host):
        return {recipient for one in host.messages for recipient in one.recipients}
    send('bad', 'first')
    until(lambda: daemon.query('orders'), lambda: f'the order: {daemon.log()}')
    over.clear()
    [order] = daemon.query('orders')
    assert (order['order'], order['tenant'], order['site']) == ('suspend', 'acme', 'mx.test')
    assert 'destination' not in order and order['by'] == 'reply rule over-tenant'
    del seen[:]
    for n in range(3):  # by either lane
        send(f'waits{n}', 'second')
        send(f'goes{n}', 'second', 'globex')
    send('goes', 'leaves', 'globex')
    send('goes', 'joins')
    send('goes', 'free')
    want = {*(f'goes{n}@second.test' for n in range(3)), 'goes@leaves.test'}
    until(lambda: want <= arrived(receiver) and {'goes@joins.test', 'goes@free.test'} <= arrived(other),
          lambda: f'{arrived(receiver)} {arrived(other)}')
    net.mx('joins.test', 'mx.test')
    net.mx('leaves.test', 'other.test')
    net.mx('new.test', 'mx.test')
    send('waits', 'new')

    def moved():  # an answer is kept for 5 seconds at least
        send('probe', 'joins', 'globex')
        send('probe', 'leaves', 'globex')
        time.sleep(0.2)
        return 'probe@joins.test' in arrived(receiver) and 'probe@leaves.test' in arrived(other)
    until(moved, 'the destinations have moved')
    send('waits', 'joins')
    send('late', 'leaves')
    until(lambda: 'late@leaves.test' in arrived(other), lambda: f'{arrived(other)}')
    held = {'bad@first.test', 'waits@new.test', 'waits@joins.test', *(f'waits{n}@second.test' for n in range(3))}
    until(lambda: len(daemon.query('messages', '--state', 'suspended')) == len(held),
          lambda: f'{daemon.query("messages")}')
    assert not held & set(seen)

    def check():
        [site] = [one for one in daemon.query('sites') if one['site'] == 'mx.test']
        [what] = site['suspensions']
        assert (what['order'], what['tenant'], what['reason']) == (order['id'], 'acme', order['reason'])
        lanes = daemon.query('lanes', 'mx.test')
        assert {lane['source'] for lane in lanes} == {'s0', 's1'} and all(lane['suspensions'] for lane in lanes)
        for command in (['sites'], ['lanes'], ['orders']):
            assert b'acme' in daemon.command(*command).stdout
        waiting = daemon.query('messages', '--state', 'suspended')[-1]['id']
        for command in (['why', waiting], ['why', 'new.test'], ['why', '--tenant', 'acme']):
            text = daemon.command(*command).stdout.decode()
            assert f'order {order["id"]}: suspend tenant acme, site mx.test' in text, text
        assert 'order' not in daemon.command('why', 'free.test').stdout.decode()
    settled(check)
    daemon.stop()
    daemon.start()
    send('waits', 'second')
    send('after', 'second', 'globex')
    until(lambda: 'after@second.test' in arrived(receiver), 'that of others')
    assert not held & set(seen) and 'waits@second.test' not in seen
    assert daemon.command('resume', order['id']).returncode == 0
    until(lambda: held | {'waits@second.test'} <= arrived(receiver), lambda: f'{arrived(receiver)}')
    daemon.wait_empty()
    assert daemon.stop() == 0
