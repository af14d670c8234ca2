"""Sources of outbound connections: which one an entry gets, from which address and by which name, through
which proxy, and what is said when one cannot be used."""
import json
import os
import socket

import pytest

from support.address import fresh_address, free_port
from support.client import message, submit
from support.dns_server import DnsServer
from support.proxy import HeaderReceiver, SocksProxy

# Each delivery on a connection of its own, and one worker's turn.
ONE_EACH = {'smtp_connection_reuse_count_limit': 1}
ONE_WORKER = {'workers': 1}


def family_of(address):
    return socket.AF_INET6 if ':' in address else socket.AF_INET


class Calls:
    """answers of a Receiver: who greeted, and by what name"""

    def __init__(self):
        self.list = []

    def __call__(self, verb, argument, session):
        if verb == 'EHLO':
            self.list.append((session.peer[0], argument))


def relay(place, nexthop, sources, pools=None, transport=None, **settings):
    """A relay that sends everything to nexthop from the pool `out`."""
    return place.sluice(
        sources=sources, pools=pools or {'out': {'sources': list(sources)}},
        transports={'smtp': {'source_pool': 'out', **ONE_EACH, **(transport or {})}},
        routes={'*': ('smtp', nexthop)}, options={**ONE_WORKER, **settings.pop('options', {})},
        **settings)


def deliver(daemon, number):
    """Message by message, each after the last has arrived; returns the events."""
    events = []
    for n in range(number):
        recipient = f'r{n}@x.test'
        submit(daemon, 'a@a.test', [recipient], message())
        events.append(daemon.wait_event('Delivery', recipient))
    return events


def status_of(event):
    code = event['response']['enhanced_code']
    return f'{code["class"]}.{code["subject"]}.{code["detail"]}'


# --- addresses and names ---------------------------------------------------------------------------


def test_weights_addresses_and_names(place):
    calls = Calls()
    receiver = place.receiver(answers=calls)
    a, b = fresh_address(), fresh_address()
    daemon = relay(place, receiver.nexthop,
                   {'a': {'address': a, 'helo_name': 'mta1.test'},
                    'b': {'address': b, 'helo_name': 'mta2.test'}},
                   {'out': {'sources': ['a', 'b'], 'weights': [3, 1]}})
    events = deliver(daemon, 8)
    order = ['a', 'a', 'b', 'a'] * 2
    assert [event['egress_source'] for event in events] == order
    assert calls.list == [{'a': (a, 'mta1.test'), 'b': (b, 'mta2.test')}[name] for name in order]
    assert daemon.stop() == 0


def test_both_families(place):
    try:
        six = place.receiver(address='::1', family=socket.AF_INET6)
    except OSError:
        pytest.skip('no IPv6 loopback')
    four = place.receiver()
    address = fresh_address()
    daemon = place.sluice(
        options={'source_pool': 'out', **ONE_WORKER},
        sources={'both': {'address': address, 'address6': '::1'}, 'four': {'address': address}},
        pools={'out': {'sources': ['both', 'four']}}, transports={'smtp': ONE_EACH},
        routes={'six.test': ('smtp', six.nexthop), '*': ('smtp', four.nexthop)})
    for n in range(4):
        submit(daemon, 'a@a.test', [f'r{n}@six.test'], message())
        assert daemon.wait_event('Delivery', f'r{n}@six.test')['egress_source'] == 'both'
    assert [e['egress_source'] for e in deliver(daemon, 4)] == ['both', 'four'] * 2
    assert {m.peer for m in six.messages} == {'::1'}
    assert {m.peer for m in four.messages} == {address}


def test_source_without_anything(place):
    """It only has a name: the system's address, the transport's greeting."""
    calls = Calls()
    receiver = place.receiver(answers=calls)
    daemon = relay(place, receiver.nexthop, {'plain': {}},
                   transport={'smtp_helo_name': 'helo.test'})
    assert deliver(daemon, 1)[0]['egress_source'] == 'plain'
    assert calls.list == [('127.0.0.1', 'helo.test')]


def test_no_pool_no_source(place):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)})
    assert 'egress_source' not in deliver(daemon, 1)[0]


def test_reused_connection_keeps_its_source(place):
    receiver = place.receiver()
    daemon = relay(place, receiver.nexthop,
                   {'a': {'address': fresh_address()}, 'b': {'address': fresh_address()}},
                   transport={'smtp_connection_reuse_count_limit': 2,
                              'smtp_connection_cache_time_limit': '60s'})
    assert [e['egress_source'] for e in deliver(daemon, 4)] == ['a', 'b', 'a', 'b']
    assert receiver.connections == 2


def test_retry_in_clear_is_from_the_same_source(place):
    calls = Calls()

    def answers(verb, argument, session):
        calls(verb, argument, session)
        if verb == 'STARTTLS':
            session.sock.sendall(b'220 go\r\n')
            raise EOFError
    receiver = place.receiver(answers=answers, extensions=('STARTTLS',))
    a, b = fresh_address(), fresh_address()
    daemon = relay(place, receiver.nexthop, {'a': {'address': a}, 'b': {'address': b}})
    assert [e['egress_source'] for e in deliver(daemon, 2)] == ['a', 'b']
    # What the first learnt about the server's TLS, the second knows.
    assert [peer for peer, _ in calls.list] == [a, a, b]


def test_missing_address_is_warned_of_and_passed_over(place):
    receiver = place.receiver()
    here = fresh_address()
    daemon = relay(place, receiver.nexthop,
                   {'gone': {'address': '192.0.2.77'}, 'here': {'address': here}})
    assert 'warning: this machine has no address 192.0.2.77' in daemon.log()
    for n in range(6):
        submit(daemon, 'a@a.test', [f'{n}@x.test'], message())
        assert daemon.wait_event('Delivery', f'{n}@x.test')['egress_source'] == 'here'
    assert {got.peer for got in receiver.messages} == {here}
    assert not daemon.of('TransientFailure')  # nobody waits for the retry schedule
    closed = [lane for lane in lanes(daemon) if 'closed' in lane]
    assert [lane['source'] for lane in closed] == ['gone'], closed
    assert 'from source "gone": Cannot assign requested address' in str(closed[0])


def lanes(daemon):
    return [json.loads(line) for line in daemon.command('lanes', '--json').stdout.splitlines()
            if b'"source"' in line]


def test_the_last_source_defers(place):
    """Where no source is left the mail waits, and says why."""
    receiver = place.receiver()
    daemon = relay(place, receiver.nexthop, {'a': {'address': '192.0.2.77'}, 'b': {'address': '192.0.2.78'}},
                   options=PATIENT)
    submit(daemon, 'a@a.test', ['x@x.test'], message())
    [failure] = daemon.wait_events('TransientFailure', 'x@x.test')
    assert status_of(failure) == '4.4.1'
    assert failure['response']['content'].endswith(
        f':{receiver.port} from source "{failure["egress_source"]}": Cannot assign requested address'), failure


# --- whose fault it is ------------------------------------------------------------------------------

# One failure blamed on the destination makes it dead, for as long as a test lasts.
STRICT = {'concurrency_feedback_rule': 'postfix3', 'initial_destination_concurrency': 1,
          'destination_concurrency_limit': 1}
HASTY = {**STRICT, 'smtp_connect_timeout': '1s'}
PATIENT = {'minimal_backoff_time': '300s', 'maximal_backoff_time': '300s'}


def failures(daemon):
    """What two messages for one destination hear."""
    texts = []
    for name in ('one', 'two'):
        submit(daemon, 'a@a.test', [f'{name}@x.test'], message())
        event = daemon.wait_event('TransientFailure', f'{name}@x.test')
        assert status_of(event) == '4.4.1', event
        texts.append(event['response']['content'])
    return texts


def is_blamed(texts):
    return texts[1] == f'delivery temporarily suspended: {texts[0]}'


def test_blame_of_a_destination(place):
    """The control for the tests that follow."""
    nexthop = f'[127.0.0.1]:{free_port()}'
    daemon = relay(place, nexthop, {'a': {'address': fresh_address()}}, transport=STRICT,
                   options=PATIENT)
    texts = failures(daemon)
    assert texts[0].endswith('from source "a": Connection refused') and is_blamed(texts)


def test_no_source_of_the_family(place):
    daemon = relay(place, '[::1]:25', {'four': {'address': fresh_address()}}, transport=STRICT,
                   options=PATIENT)
    texts = failures(daemon)
    assert texts[0] == texts[1] == \
        'delivery temporarily suspended: no source of the pool reaches an address of any of its hosts'
    assert all('egress_source' not in event for event in daemon.of('TransientFailure'))


def test_host_of_two_families(place):
    """Its IPv6 address is left out: it uses up no limit and no attempt."""
    dns = place.keep(DnsServer())
    receiver = place.receiver(address=fresh_address(), port=free_port())
    daemon = place.sluice(
        options={'allow_loopback': True, **PATIENT}, dns={'servers': [dns.name]},
        sources={'four': {'address': fresh_address()}}, pools={'out': {'sources': ['four']}},
        transports={'smtp': {'source_pool': 'out', 'smtp_tcp_port': receiver.port,
                             'smtp_mx_address_limit': 1, **STRICT}})
    names = [f'd{n}.test' for n in range(8)]
    for name in names:
        dns.zone[name] = [('AAAA', '::1'), ('A', receiver.address)]
        submit(daemon, 'a@a.test', [f'x@{name}'], message())
    for name in names:
        event = daemon.wait_event('Delivery', f'x@{name}')
        assert event['num_attempts'] == 1 and event['egress_source'] == 'four'
    assert not daemon.of('TransientFailure')


# --- PROXY protocol ---------------------------------------------------------------------------------


@pytest.mark.parametrize('source, target', [('192.0.2.1', '198.51.100.9'),
                                            ('2001:db8::1', '2001:db8::9')])
def test_proxy_header(place, source, target):
    """The proxy is the receiver as well; nothing of what the header names is on this machine."""
    calls = Calls()
    receiver = place.keep(HeaderReceiver(answers=calls))
    key = 'address6' if ':' in source else 'address'
    daemon = relay(place, f'[{target}]:2525',
                   {'front': {key: source, 'haproxy': f'127.0.0.1:{receiver.port}',
                              'helo_name': 'front.test'}})
    assert 'no address' not in daemon.log()
    assert [e['egress_source'] for e in deliver(daemon, 2)] == ['front'] * 2
    assert receiver.headers == [((source, 0), (target, 2525))] * 2
    assert [name for _, name in calls.list] == ['front.test'] * 2 and not receiver.errors


def test_header_proxy_is_down(place):
    port = free_port()
    daemon = relay(place, '[198.51.100.9]:25',
                   {'front': {'address': '192.0.2.1', 'haproxy': f'127.0.0.1:{port}'}},
                   transport=STRICT, options=PATIENT)
    texts = failures(daemon)
    assert texts[0] == texts[1] == ('connect to 198.51.100.9[198.51.100.9]:25 from source "front" '
                                    f'through 127.0.0.1:{port}: Connection refused')


# --- SOCKS ------------------------------------------------------------------------------------------


@pytest.mark.parametrize('address', ['127.0.0.1', '::1'])
@pytest.mark.parametrize('is_dribbling', [False, True])
def test_socks(place, address, is_dribbling):
    calls = Calls()
    try:
        receiver = place.receiver(address=address, family=family_of(address), answers=calls)
    except OSError:
        pytest.skip('no IPv6 loopback')
    proxy = place.keep(SocksProxy(is_dribbling=is_dribbling))
    daemon = relay(place, receiver.nexthop,
                   {'socks': {'socks5': proxy.name, 'helo_name': 'socks.test'}})
    assert [e['egress_source'] for e in deliver(daemon, 3)] == ['socks'] * 3
    assert proxy.requests == [(address, receiver.port)] * 3
    assert [name for _, name in calls.list] == ['socks.test'] * 3
    assert not proxy.logins and not proxy.errors


def password_file(place, text):
    path = os.path.join(place.subfolder('login'), 'password')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    return path


@pytest.mark.parametrize('is_dribbling', [False, True])
def test_socks_login(place, is_dribbling):
    receiver = place.receiver()
    proxy = place.keep(SocksProxy(login=('user', 'secret word'), is_dribbling=is_dribbling))
    daemon = relay(place, receiver.nexthop, {
        'socks': {'socks5': proxy.name, 'socks5_user': 'user',
                  'socks5_password_file': password_file(place, 'secret word\n')}})
    deliver(daemon, 2)
    assert proxy.logins == [('user', 'secret word')] * 2
    assert daemon.stop() == 0
    assert 'secret' not in daemon.log() and not proxy.errors


REFUSALS = {
    # name: (how the proxy behaves, text, whether the destination is blamed)
    'refused': ({'answer': b'\x05\x05\x00\x01' + bytes(6)}, 'Connection refused', True),
    'unreachable, cut short': ({'answer': b'\x05\x04'}, 'Host unreachable', True),
    'ruleset': ({'answer': b'\x05\x02\x00\x01' + bytes(6)}, 'connection not allowed by ruleset',
                False),
    'general': ({'answer': b'\x05\x01\x00\x01' + bytes(6), 'is_dribbling': True},
                'general SOCKS server failure', False),
    'unknown': ({'answer': b'\x05\x63\x00\x01' + bytes(6)}, 'it gave an unknown reply', False),
    'odd address': ({'answer': b'\x05\x00\x00\x09' + bytes(300)},
                    'its reply has an address of unknown kind', False),
    'reply ends': ({'answer': b'\x05\x00\x00\x03\xff'}, 'the proxy closed the connection', False),
    'method garbage': ({'greeting': b'HTTP/1.0 400 Bad Request\r\n' * 1000},
                       'it does not speak SOCKS version 5', False),
    'smtp greeting': ({'greeting': b'220 hello ESMTP\r\n'}, 'it does not speak SOCKS version 5',
                      False),
    'method closed': ({'greeting': b''}, 'the proxy closed the connection', False),
    'login wanted': ({'login': ('u', 'p')}, 'it accepts none of the offered ways to authenticate',
                     False),
    'method silent': ({'silent_at': 'method'}, 'Connection timed out', False),
    'reply silent': ({'silent_at': 'reply'}, 'Connection timed out', False),
}


@pytest.mark.parametrize('name', REFUSALS)
def test_socks_refusal(place, name):
    behaviour, text, blamed = REFUSALS[name]
    proxy = place.keep(SocksProxy(**behaviour))
    daemon = relay(place, '[198.51.100.9]:25', {'socks': {'socks5': proxy.name}},
                   transport=HASTY if 'silent_at' in behaviour else STRICT, options=PATIENT)
    texts = failures(daemon)
    assert texts[0] == ('connect to 198.51.100.9[198.51.100.9]:25 from source "socks" through '
                        f'{proxy.name}: {text}')
    assert is_blamed(texts) if blamed else texts[1] == texts[0]
    assert proxy.connections == (1 if blamed else 2) and not proxy.errors


def test_socks_wrong_password(place):
    proxy = place.keep(SocksProxy(login=('user', 'right')))
    daemon = relay(place, '[198.51.100.9]:25', {
        'socks': {'socks5': proxy.name, 'socks5_user': 'user',
                  'socks5_password_file': password_file(place, 'wrong')}},
        transport=STRICT, options=PATIENT)
    texts = failures(daemon)
    assert texts[0] == texts[1] and texts[0].endswith(': it refused user and password')
    assert proxy.logins == [('user', 'wrong')] * 2


def test_another_source_after_a_broken_proxy(place):
    receiver = place.receiver()
    proxy = place.keep(SocksProxy(answer=b'\x05\x01'))
    daemon = relay(place, receiver.nexthop,
                   {'socks': {'socks5': proxy.name}, 'direct': {'address': fresh_address()}})
    submit(daemon, 'a@a.test', ['x@x.test'], message())
    assert daemon.wait_event('Delivery', 'x@x.test')['egress_source'] == 'direct'
    assert not daemon.of('TransientFailure') and len(proxy.logins) <= 1


# --- configuration ----------------------------------------------------------------------------------


def test_check_names_the_line(place):
    daemon = place.sluice(start=False, sources={'a': {}}, pools={'out': {'sources': ['a', 'b']}},
                          transports={'smtp': {'source_pool': 'in'}})
    done = daemon.command('check')
    assert done.returncode == 78
    lines = daemon.config_text().splitlines()
    for number, line in enumerate(lines, 1):
        if 'sources =' in line:
            assert f':{number}: sources: there is no source "b"; name' in done.stderr.decode()
        if 'source_pool =' in line:
            assert f':{number}: source_pool: there is no pool "in"; name' in done.stderr.decode()


def test_password_file_must_be_there(place):
    missing = os.path.join(place.subfolder('login'), 'nothing')
    daemon = place.sluice(start=False, sources={
        'socks': {'socks5': '127.0.0.1:1', 'socks5_user': 'u', 'socks5_password_file': missing}})
    assert 'socks5_password_file' in daemon.command('check').stderr.decode()
    daemon.start(wait=False)
    assert daemon.wait_exit() == 78
    assert f'socks5_password_file {missing}: No such file' in daemon.log()
