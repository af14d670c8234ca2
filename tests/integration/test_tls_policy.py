"""What TLS that goes wrong does at each level, what is remembered of it, and when a session is
used again. Each case has a server of its own, reached by a route that says the level."""
import ssl

import pytest

from support.certificates import Authority
from support.client import message, submit
from support.peer import Peer

HELLO = 'send 220 peer.test ESMTP\nexpect EHLO\nsend 250-peer.test\n'
OFFERS = HELLO + 'send 250 STARTTLS\n'
GO = OFFERS + 'expect STARTTLS\nsend 220 go\n'
INSIDE = 'starttls\nexpect EHLO\nsend 250 peer.test\n'
MAIL = 'envelope\ndata\nsend 250 2.0.0 kept\nwait'
SECURE = GO + INSIDE + MAIL
# TLS is on offer, but mail comes without it.
CLEAR = OFFERS + MAIL

LEVELS = ('may', 'encrypt', 'verify')

# name: (what happens instead of a handshake, part of the reason)
BROKEN = {
    'alert-40': (r'hear\nraw \x15\x03\x03\x00\x02\x02\x28\nwait', 'handshake failure'),
    'alert-70': (r'hear\nraw \x15\x03\x03\x00\x02\x02\x46\nwait', 'alert protocol version'),
    'alert-112': (r'hear\nraw \x15\x03\x03\x00\x02\x02\x70\nwait', 'unrecognized name'),
    'close-notify': (r'hear\nraw \x15\x03\x03\x00\x02\x01\x00\nwait', 'failed'),
    'plaintext': ('hear\nsend 220 still here\nwait', 'wrong version number'),
    'fin': ('hear\nclose', 'failed'),
    'reset': ('hear\nreset', 'failed'),
    'huge-record': (r'hear\nraw \x16\x03\x03\xff\xff\nwait', 'failed'),
}

# name: (names, other settings, what the log says at may, part of the reason at verify)
CERTIFICATES = {
    'good': (['{address}'], {}, 'Verified', None),
    'self-signed': (['{address}'], {'self_signed': True}, 'Untrusted', 'self-signed'),
    'other-name': (['peer.elsewhere'], {}, 'Trusted', 'address mismatch'),
    'expired': (['{address}'], {'days': -1}, 'Untrusted', 'certificate'),
    'common-name': ([], {'common_name': '{address}'}, 'Trusted', 'address mismatch'),
}


def body(script):
    return script.replace(r'\n', '\n')


@pytest.fixture(scope='module')
def authority(module_place):
    return Authority(module_place.subfolder('certificates'))


@pytest.fixture(scope='module')
def stage(module_place, authority):
    peers, routes = {}, {}

    def add(name, level, peer):
        peers[name, level] = module_place.keep(peer)
        routes[f'{name}.{level}.test'] = ('smtp', peer.nexthop,
                                          {'smtp_tls_security_level': level})

    for level in LEVELS:
        for name, (script, _) in BROKEN.items():
            add(name, level, Peer(GO + body(script), CLEAR))
        add('no-starttls', level, Peer(HELLO + 'send 250 8BITMIME\n' + MAIL))
        for name, (names, settings, _, _) in CERTIFICATES.items():
            leaf = authority.leaf(*(one.format(address='127.0.0.1') for one in names),
                                  **{key: value.format(address='127.0.0.1')
                                     if isinstance(value, str) else value
                                     for key, value in settings.items()})
            add(name, level, Peer(SECURE, CLEAR, tls=leaf.server()))
    daemon = module_place.sluice(
        routes=routes, options={'workers': 1, 'minimal_backoff_time': '300s',
                                'maximal_backoff_time': '300s'},
        transports={'smtp': {'smtp_tls_CAfile': authority.cert,
                             'smtp_connection_reuse_count_limit': 1}})
    for name, level in peers:
        send(daemon, name, level)
    return daemon, peers


def send(daemon, name, level, user='user'):
    submit(daemon, 'a@bounce.test', [f'{user}@{name}.{level}.test'], message(name))


@pytest.mark.parametrize('level', LEVELS)
@pytest.mark.parametrize('name', BROKEN)
def test_broken_handshake(stage, name, level):
    daemon, peers = stage
    peer = peers[name, level]
    recipient = f'user@{name}.{level}.test'
    if level == 'may':
        # At once in clear, on the same address.
        event = daemon.wait_event('Delivery', recipient)
        assert 'tls_verdict' not in event and len(peer.bodies) == 1 and peer.connections == 2
        # And the next time there is no try of TLS.
        send(daemon, name, level, 'again')
        daemon.wait_event('Delivery', f'again@{name}.{level}.test')
        assert len(peer.bodies) == 2 and not peer.errors
        return
    event = daemon.wait_event('TransientFailure', recipient)
    assert BROKEN[name][1] in event['response']['content'], event
    code = event['response']['enhanced_code']
    assert (code['class'], code['subject'], code['detail']) == (4, 7, 5)
    assert peer.bodies == [] and peer.connections == 1


@pytest.mark.parametrize('level', LEVELS)
def test_no_starttls(stage, level):
    daemon, peers = stage
    recipient = f'user@no-starttls.{level}.test'
    if level == 'may':
        assert 'tls_verdict' not in daemon.wait_event('Delivery', recipient)
    else:
        event = daemon.wait_event('TransientFailure', recipient)
        assert 'TLS is required' in event['response']['content']
        assert peers['no-starttls', level].bodies == []


@pytest.mark.parametrize('level', LEVELS)
@pytest.mark.parametrize('name', CERTIFICATES)
def test_certificate(stage, name, level):
    daemon, peers = stage
    _, _, verdict, reason = CERTIFICATES[name]
    recipient = f'user@{name}.{level}.test'
    if level != 'verify' or reason is None:
        assert daemon.wait_event('Delivery', recipient)['tls_verdict'] == verdict
        return
    event = daemon.wait_event('TransientFailure', recipient)
    assert reason in event['response']['content'], event
    assert event['response']['enhanced_code']['subject'] == 7
    assert peers[name, level].bodies == []


def test_the_level_of_a_route_holds_where_each_recipient_is_a_destination(place, authority):
    leaf = authority.leaf('127.0.0.1', self_signed=True)
    peer = place.keep(Peer(SECURE, CLEAR, tls=leaf.server()))
    daemon = place.sluice(
        routes={'x.test': ('smtp', peer.nexthop, {'smtp_tls_security_level': 'verify'})},
        transports={'smtp': {'smtp_tls_CAfile': authority.cert,
                             'destination_recipient_limit': 1}})
    submit(daemon, 'a@bounce.test', ['user@x.test'], message())
    event = daemon.wait_event('TransientFailure', 'user@x.test')
    assert 'self-signed' in event['response']['content'] and peer.bodies == []


def test_a_handshake_that_takes_too_long(place, authority):
    """The next host, or later; and at level may, then in clear."""
    peer = place.keep(Peer(GO + 'hear\nsilence', CLEAR))
    daemon = place.sluice(routes={'*': ('smtp', peer.nexthop)}, options={'workers': 1},
                          transports={'smtp': {'smtp_starttls_timeout': '1s'}})
    submit(daemon, 'a@bounce.test', ['user@x.test'], message())
    event = daemon.wait_event('TransientFailure', 'user@x.test')
    assert 'timed out' in event['response']['content']
    assert 'tls_verdict' not in daemon.wait_event('Delivery', 'user@x.test')
    assert not peer.errors


def two_deliveries(place, peer, transport):
    """Mail on two connections, one after the other; the events."""
    daemon = place.sluice(routes={'*': ('smtp', peer.nexthop)}, options={'workers': 1},
                          transports={'smtp': {'smtp_connection_reuse_count_limit': 1,
                                               **transport}})
    events = []
    for user in ('one', 'two'):
        submit(daemon, 'a@bounce.test', [f'{user}@x.test'], message())
        events.append(daemon.wait_event('Delivery', f'{user}@x.test'))
    return events


def test_sessions_are_resumed(place, authority):
    peer = place.keep(Peer(SECURE, tls=authority.leaf('x', '127.0.0.1').server()))
    first, second = two_deliveries(place, peer, {})
    assert 'is_tls_resumed' not in first and second['is_tls_resumed'] is True
    assert peer.connections == 2


def test_a_server_that_asks_gets_the_certificate(place, authority):
    context = authority.leaf('peer.test').server()
    context.load_verify_locations(authority.cert)
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2

    peer = place.keep(Peer(SECURE, tls=context))
    mine = authority.leaf('relay.test', common_name='relay.test')
    daemon = place.sluice(routes={'with.test': ('known', peer.nexthop),
                                  'without.test': ('unknown', peer.nexthop)},
                          transports={'known': {'smtp_tls_cert_file': mine.cert,
                                                'smtp_tls_key_file': mine.key,
                                                'smtp_tls_security_level': 'encrypt'},
                                      'unknown': {'smtp_tls_security_level': 'encrypt'}})
    for domain in ('with.test', 'without.test'):
        submit(daemon, 'a@bounce.test', [f'user@{domain}'], message())
    daemon.wait_event('Delivery', 'user@with.test')
    daemon.wait_event('TransientFailure', 'user@without.test')
    assert len(peer.bodies) == 1
