"""Where mail goes: MX records, their absence and their faults, and routes."""
import pathlib
import socket
import subprocess

import pytest

from support.address import free_port_of_both, fresh_address
from support.client import Client, message, submit
from support.daemon import status_of
from support.dns_server import DnsServer
from support.net import Net
from support.wait import until

HOST = [('A', '127.0.0.1')]


@pytest.fixture(scope='module')
def net(module_place):
    return Net(module_place).start(dns={'timeout': '10s', 'tries': 1})


@pytest.fixture(scope='module')
def hasty(module_place):
    """One whose relay soon has enough of a name server that says nothing."""
    return Net(module_place).start(dns={'timeout': '1s', 'tries': 1})


def test_best_preference_wins(net):
    first, second = net.host('mx1.pref.test'), net.host('mx2.pref.test')
    net.dns.zone['pref.test'] = [('MX', (20, 'mx2.pref.test')), ('MX', (10, 'mx1.pref.test'))]
    event = net.deliver('pref.test')
    assert len(first.messages) == 1 and second.connections == 0
    assert event['site'] == f'mx1.pref.test[{first.address}]:{net.port}'


def test_a_server_that_decides_nobody_is_left(net):
    """Even when it ends each connection before all recipients had their transaction."""
    def answers(verb, argument, session):
        if verb != 'MAIL':
            return None
        session.mails = getattr(session, 'mails', 0) + 1
        return '450 4.3.0 later' if session.mails == 1 else '421 4.3.0 enough'
    first = net.host('mx1.vain.test', answers=answers, extensions=('LIMITS RCPTMAX=1',))
    second = net.host('mx2.vain.test')
    net.dns.zone['vain.test'] = [('MX', (20, 'mx2.vain.test')), ('MX', (10, 'mx1.vain.test'))]
    submit(net.daemon, 'a@a.test', ['one@vain.test', 'two@vain.test'], message())
    until(lambda: second.messages, 'mail at the second')
    assert second.messages[0].recipients == ['one@vain.test', 'two@vain.test']
    assert first.connections == 1


def test_equals_share_the_load(place):
    """Whatever destination a connection is opened for: it goes to the one that had none the longest."""
    net = Net(place)
    hosts = [net.host(f'mx{n}.equal.test') for n in range(2)]
    records = [('MX', (10, f'mx{n}.equal.test')) for n in range(2)]
    domains = [f'd{n}.equal.test' for n in range(30)]
    net.start({'smtp': {'smtp_connection_reuse_count_limit': 1}})
    for domain in domains:
        net.dns.zone[domain] = records
        net.send(domain)
    for domain in domains:
        assert net.result(domain)['type'] == 'Delivery'
    assert all(len(host.messages) >= 10 for host in hosts)


def test_domain_without_mx_uses_its_address(net):
    host = net.host('nomx.test')
    net.deliver('nomx.test')
    assert len(host.messages) == 1


def test_ipv6_only(net):
    if not socket.has_ipv6:
        pytest.skip('no IPv6 here')
    try:
        host = net.place.receiver(address='::1', port=net.port, family=socket.AF_INET6)
    except OSError:
        pytest.skip('no IPv6 loopback')
    net.dns.zone['mx.six.test'] = [('AAAA', '::1')]
    net.dns.zone['six.test'] = [('MX', (10, 'mx.six.test'))]
    net.deliver('six.test')
    assert len(host.messages) == 1


def test_null_mx_bounces(net):
    net.dns.zone['null.test'] = [('MX', (0, '.')), ('A', '127.0.0.1')]
    net.send('null.test')
    event = net.result('null.test')
    assert event['type'] == 'Bounce' and status_of(event) in ('5.1.10', '5.1.0')
    assert net.dns.asked('null.test', 'A') == 0


def test_null_mx_among_others_is_ignored(net):
    host = net.host('mx.half.test')
    net.dns.zone['half.test'] = [('MX', (0, '.')), ('MX', (10, 'mx.half.test'))]
    net.deliver('half.test')
    assert len(host.messages) == 1


def test_unknown_domain_bounces(net):
    net.send('nowhere.test')
    event = net.result('nowhere.test')
    assert event['type'] == 'Bounce' and status_of(event) in ('5.1.2', '5.4.4')


def test_domain_without_any_record_bounces(net):
    net.dns.zone['empty.test'] = [('CNAME', 'nothing.empty.test')]
    net.dns.zone['nothing.empty.test'] = []
    net.send('empty.test')
    event = net.result('empty.test')
    assert event['type'] == 'Bounce' and status_of(event) == '5.4.4'


@pytest.mark.parametrize('fault', ['SERVFAIL', 'REFUSED', 'DROP', 'GARBAGE'])
def test_fault_of_the_name_server_defers(hasty, fault):
    domain = f'{fault.lower()}.fault.test'
    hasty.dns.zone[domain] = fault
    hasty.send(domain)
    event = hasty.result(domain)
    assert event['type'] == 'TransientFailure' and status_of(event) == '4.4.3'
    assert hasty.dns.asked(domain, 'A') == 0


@pytest.mark.parametrize('fault', ['SERVFAIL', 'DROP'])
def test_fault_at_the_address_of_the_only_mx_defers(hasty, fault):
    domain = f'{fault.lower()}.address.test'
    hasty.dns.zone[domain] = [('MX', (10, f'mx.{domain}'))]
    hasty.dns.zone[f'mx.{domain}'] = fault
    hasty.send(domain)
    event = hasty.result(domain)
    assert event['type'] == 'TransientFailure' and status_of(event) == '4.4.3'


def test_mx_that_does_not_exist_is_passed_over(net):
    host = net.host('mx2.gap.test')
    net.dns.zone['gap.test'] = [('MX', (10, 'mx1.gap.test')), ('MX', (20, 'mx2.gap.test'))]
    net.deliver('gap.test')
    assert len(host.messages) == 1


def test_mx_with_a_soft_fault_is_passed_over(net):
    host = net.host('mx2.soft.test')
    net.dns.zone['mx1.soft.test'] = 'SERVFAIL'
    net.dns.zone['soft.test'] = [('MX', (10, 'mx1.soft.test')), ('MX', (20, 'mx2.soft.test'))]
    net.deliver('soft.test')
    assert len(host.messages) == 1


def test_no_mx_exists(net):
    net.dns.zone['gone.test'] = [('MX', (10, 'mx1.gone.test')), ('MX', (20, 'mx2.gone.test'))]
    net.send('gone.test')
    event = net.result('gone.test')
    assert event['type'] == 'Bounce' and status_of(event) == '5.4.4'


def test_domain_is_an_alias(net):
    host = net.host('mx.real.test')
    net.dns.zone['real.test'] = [('MX', (10, 'mx.real.test'))]
    net.dns.zone['alias.test'] = [('CNAME', 'real.test')]
    net.deliver('alias.test')
    assert len(host.messages) == 1


def test_mx_is_an_alias(net):
    host = net.host('box.alias2.test')
    net.dns.zone['mx.alias2.test'] = [('CNAME', 'box.alias2.test')]
    net.dns.zone['alias2.test'] = [('MX', (10, 'mx.alias2.test'))]
    net.deliver('alias2.test')
    assert len(host.messages) == 1


def test_alias_loop_ends(net):
    net.dns.zone['one.loop.test'] = [('CNAME', 'two.loop.test')]
    net.dns.zone['two.loop.test'] = [('CNAME', 'one.loop.test')]
    net.send('one.loop.test')
    assert net.result('one.loop.test')['type'] in ('TransientFailure', 'Bounce')


def test_mx_is_this_host_by_name(net):
    net.dns.zone['relay.test'] = [('A', net.daemon.address)]
    net.dns.zone['self.test'] = [('MX', (10, 'relay.test'))]
    net.send('self.test')
    event = net.result('self.test')
    # Its port is another one here, so that the loop shows when it answers with our name, or not.
    assert event['type'] != 'Delivery'


def test_mx_is_this_host_by_address(place):
    """A relay on the port it delivers to; its own address and all worse hosts are never called."""
    dns = place.keep(DnsServer())
    address = fresh_address()
    daemon = place.sluice(start=False, address=address, dns={'servers': [dns.name]},
                          options={'allow_loopback': True})
    daemon.transports = {'smtp': {'smtp_tcp_port': daemon.port}}
    daemon.write_config()
    daemon.start()
    better = place.receiver(address=fresh_address(), port=daemon.port)
    worse = place.receiver(address=fresh_address(), port=daemon.port)
    dns.zone.update({'me.test': [('A', address)], 'better.test': [('A', better.address)],
                     'worse.test': [('A', worse.address)]})
    dns.zone['best.test'] = [('MX', (10, 'me.test')), ('MX', (20, 'worse.test'))]
    dns.zone['backup.test'] = [('MX', (5, 'better.test')), ('MX', (10, 'me.test')),
                               ('MX', (20, 'worse.test'))]
    submit(daemon, 'a@sender.test', ['user@best.test', 'user@backup.test'], message())
    event = daemon.wait_event('Bounce', 'user@best.test')
    assert status_of(event) == '5.4.6'
    daemon.wait_event('Delivery', 'user@backup.test')
    assert len(better.messages) == 1 and worse.connections == 0


def test_mx_on_loopback_is_a_loop_by_default(place):
    dns = place.keep(DnsServer({'inside.test': [('MX', (10, 'mx.inside.test'))]}))
    host = place.receiver()
    dns.zone['mx.inside.test'] = [('A', '127.0.0.1')]
    daemon = place.sluice(dns={'servers': [dns.name]},
                          transports={'smtp': {'smtp_tcp_port': host.port}})
    submit(daemon, 'a@sender.test', ['user@inside.test'], message())
    assert status_of(daemon.wait_event('Bounce', 'user@inside.test')) == '5.4.6'
    assert host.connections == 0


def test_next_mx_when_the_first_refuses(net):
    net.absent('mx1.refuse.test')
    host = net.host('mx2.refuse.test')
    net.dns.zone['refuse.test'] = [('MX', (10, 'mx1.refuse.test')),
                                   ('MX', (20, 'mx2.refuse.test'))]
    assert net.deliver('refuse.test')['num_attempts'] == 1
    assert len(host.messages) == 1


BUSY = {'greeting 421': 'send 421 busy\nclose', 'greeting 554': 'send 554 no\nclose',
        'mail 451': 'plain\nexpect MAIL\nsend 451 later\nexpect RSET\nclose',
        'rcpt 450': 'plain\nexpect MAIL\nsend 250 ok\nexpect RCPT\nsend 450 grey\nexpect RSET\n'
                    'close',
        'lost at data': 'plain\nexpect MAIL\nsend 250 ok\nexpect RCPT\nsend 250 ok\nexpect DATA\n'
                        'close'}


@pytest.mark.parametrize('name', BUSY)
def test_next_mx_when_the_first_is_busy(net, name):
    domain = name.replace(' ', '-') + '.busy.test'
    peer = net.peer(f'mx1.{domain}', BUSY[name])
    host = net.host(f'mx2.{domain}')
    net.dns.zone[domain] = [('MX', (10, f'mx1.{domain}')), ('MX', (20, f'mx2.{domain}'))]
    assert net.deliver(domain)['num_attempts'] == 1
    assert len(host.messages) == 1 and peer.connections == 1 and not peer.errors


def test_no_next_mx_after_5yz_to_rcpt(net):
    peer = net.peer('mx1.hard.test', 'plain\nexpect MAIL\nsend 250 ok\nexpect RCPT\n'
                    'send 550 5.1.1 nobody\nexpect RSET\nclose')
    host = net.host('mx2.hard.test')
    net.dns.zone['hard.test'] = [('MX', (10, 'mx1.hard.test')), ('MX', (20, 'mx2.hard.test'))]
    net.send('hard.test')
    assert net.result('hard.test')['type'] == 'Bounce'
    assert host.connections == 0 and not peer.errors


def test_no_next_mx_after_a_lost_final_reply(net):
    """The first may have taken it."""
    net.peer('mx1.dot.test', 'hello\nenvelope\ndata\nclose')
    host = net.host('mx2.dot.test')
    net.dns.zone['dot.test'] = [('MX', (10, 'mx1.dot.test')), ('MX', (20, 'mx2.dot.test'))]
    net.send('dot.test')
    event = net.result('dot.test')
    assert event['type'] == 'TransientFailure' and event['is_ambiguous']
    assert host.connections == 0


def test_address_limit(net):
    """Five addresses are tried, not all."""
    peers = [net.peer(f'h{n}.many.test', 'send 421 busy\nclose') for n in range(8)]
    net.dns.zone['many.test'] = [('MX', (n, f'h{n}.many.test')) for n in range(8)]
    net.send('many.test')
    assert net.result('many.test')['type'] == 'TransientFailure'
    assert 1 <= sum(p.connections > 0 for p in peers) <= 5


def test_large_answer_comes_over_tcp(net):
    host = net.host('mx0.large.test')
    net.dns.zone['large.test'] = [('MX', (n + 1, f'mx{n}.large.test')) for n in range(100)]
    for n in range(1, 100):
        net.dns.zone[f'mx{n}.large.test'] = [('A', host.address)]
    net.deliver('large.test')
    assert len(host.messages) == 1


def test_answers_are_cached(net):
    net.host('cached.test')
    for n in range(5):
        submit(net.daemon, 'a@sender.test', [f'u{n}@cached.test'], message())
        net.daemon.wait_event('Delivery', f'u{n}@cached.test')
    assert net.dns.asked('cached.test') <= net.daemon.options['workers']


def test_routes(place):
    names = ('exact', 'sub', 'rest')
    hosts = {name: place.receiver() for name in names}
    daemon = place.sluice(routes={'a.test': ('smtp', hosts['exact'].nexthop),
                                  '.a.test': ('smtp', hosts['sub'].nexthop),
                                  '*': ('smtp', hosts['rest'].nexthop)})
    recipients = {'x@a.test': 'exact', 'x@b.a.test': 'sub', 'x@c.b.a.test': 'sub',
                  'x@aa.test': 'rest'}
    # The case of a domain means nothing.
    submit(daemon, 'a@sender.test', [r.replace('.test', '.TEst') for r in recipients], message())
    for recipient, name in recipients.items():
        daemon.wait_event('Delivery', recipient)
        assert len(hosts[name].to(recipient)) == 1


def test_recipient_without_a_route_is_refused(place):
    host = place.receiver()
    daemon = place.sluice(routes={'a.test': ('smtp', host.nexthop)})
    with Client(daemon) as client:
        client.ehlo()
        client.say('MAIL FROM:<a@a.test>', 250)
        assert '5.1.2' in client.say('RCPT TO:<x@b.test>', 550).text
        client.say('RCPT TO:<x@a.test>', 250)


def test_unbound(place):
    """A real resolver between the relay and the zones."""
    dns = place.keep(DnsServer(ttl=1))
    port = free_port_of_both()
    folder = pathlib.Path(place.subfolder('unbound'))
    (folder / 'conf').write_text(f'''
server:
    interface: 127.0.0.1@{port}
    do-daemonize: no
    username: ""
    chroot: ""
    directory: "{folder}"
    pidfile: "{folder}/pid"
    logfile: "{folder}/log"
    use-syslog: no
    module-config: "iterator"
    do-not-query-localhost: no
    infra-host-ttl: 1
    serve-expired: no
    local-zone: "test." nodefault
remote-control:
    control-enable: no
forward-zone:
    name: "test."
    forward-addr: 127.0.0.1@{dns.port}
''')
    unbound = subprocess.Popen(['/usr/sbin/unbound', '-c', str(folder / 'conf')],
                               stderr=subprocess.DEVNULL)
    place.closers.append(lambda: (unbound.kill(), unbound.wait()))
    until(lambda: 'start of service' in ((folder / 'log').read_text()
                                         if (folder / 'log').exists() else ''), 'unbound')
    host = place.receiver()
    dns.zone.update({'mx.u.test': HOST, 'u.test': [('MX', (10, 'mx.u.test'))],
                     'alias.test': [('CNAME', 'u.test')], 'null.test': [('MX', (0, '.'))],
                     'bad.test': 'SERVFAIL'})
    daemon = place.sluice(dns={'servers': [f'127.0.0.1:{port}']},
                          options={'allow_loopback': True},
                          transports={'smtp': {'smtp_tcp_port': host.port}})
    submit(daemon, 'a@sender.test', ['x@u.test', 'x@alias.test', 'x@null.test', 'x@none.test',
                                     'x@bad.test'], message())
    daemon.wait_event('Delivery', 'x@u.test')
    daemon.wait_event('Delivery', 'x@alias.test')
    assert status_of(daemon.wait_event('Bounce', 'x@null.test')) in ('5.1.10', '5.1.0')
    assert status_of(daemon.wait_event('Bounce', 'x@none.test')) in ('5.1.2', '5.4.4')
    assert status_of(daemon.wait_event('TransientFailure', 'x@bad.test')) == '4.4.3'


def test_every_name_server_counts(place):
    """The one that answers stands behind twenty that do not."""
    receiver = place.receiver()
    dns = place.keep(DnsServer({'a.test': [('MX', (10, 'mx.a.test'))],
                                'mx.a.test': [('A', receiver.address)]}))
    daemon = place.sluice(options={'allow_loopback': True},
                          transports={'smtp': {'smtp_tcp_port': receiver.port}},
                          dns={'servers': [*(f'127.0.0.1:{port}' for port in range(1, 21)), dns.name]})
    submit(daemon, 'sender@sender.test', ['x@a.test'], message())
    receiver.wait(1)
