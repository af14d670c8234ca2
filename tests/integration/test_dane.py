"""DANE (RFC 7672) against a zone that is really signed and a resolver that really validates: each
row of the truth table has a domain, a server and a certificate of its own."""
import pytest

from support import dnssec
from support.address import fresh_address, free_port
from support.certificates import Authority
from support.client import message, submit
from support.peer import Peer

pytestmark = pytest.mark.skipif(not dnssec.is_usable(), reason='needs unbound and ldnsutils')

ZONE = 'signed.test'
OFFERS = 'send 220 peer.test ESMTP\nexpect EHLO\nsend 250-peer.test\nsend 250 STARTTLS\n'
SECURE = (OFFERS + 'expect STARTTLS\nsend 220 go\nstarttls\nexpect EHLO\nsend 250 peer.test\n'
          'envelope\ndata\nsend 250 2.0.0 kept\nwait')
PLAIN = 'plain\nenvelope\ndata\nsend 250 2.0.0 kept\nwait'

CASES = {}


class Case:
    """What a domain publishes and what becomes of its mail."""

    def __init__(self, name, outcome, *, verdict=None, tlsa=(), cert=None, script=SECURE,
                 zone=ZONE, records=(), plain=(), mx=None, host=None, says=None):
        self.name, self.outcome, self.verdict, self.says = name, outcome, verdict, says
        self.tlsa, self.cert, self.script, self.zone = tlsa, cert, script, zone
        self.records, self.plain = records, plain
        self.host, self.mx = host or f'mx.{name}', [f'mx.{name}'] if mx is None else mx
        self.domain = f'{name}.{zone}'
        CASES[name] = self


def leaf(*names, **settings):
    return lambda authority, case: authority.leaf(
        *(name.format(domain=case.domain) for name in names), **settings)


def own(*numbers):
    """A TLSA record for the server's own certificate."""
    return lambda authority, certificate: certificate.tlsa(*numbers)


def of_root(*numbers):
    return lambda authority, certificate: authority.tlsa(*numbers)


def text(rdata):
    return lambda authority, certificate: rdata


STRANGER = text('3 1 1 ' + 'ab' * 32)
NAMED = leaf('mx.{domain}')

for match in ((3, 1, 1), (3, 0, 1), (3, 1, 2), (3, 0, 0), (3, 1, 0)):
    Case('ee' + ''.join(map(str, match)), 'Delivery', verdict='DANE', tlsa=[own(*match)],
         cert=leaf('elsewhere.test', self_signed=True))
Case('expired-ee', 'Delivery', verdict='DANE', tlsa=[own(3, 1, 1)], cert=leaf(days=-1))
Case('rollover', 'Delivery', verdict='DANE', tlsa=[STRANGER, own(3, 1, 1), STRANGER], cert=NAMED)
Case('mixed', 'Delivery', verdict='DANE', tlsa=[text('0 0 1 ' + '00' * 32), own(3, 1, 1)],
     cert=NAMED)
Case('ta', 'Delivery', verdict='DANE', tlsa=[of_root(2, 0, 1)], cert=NAMED)
Case('ta-full', 'Delivery', verdict='DANE', tlsa=[of_root(2, 0, 0)], cert=NAMED)
Case('ta-nexthop', 'Delivery', verdict='DANE', tlsa=[of_root(2, 1, 1)], cert=leaf('{domain}'))
Case('ta-name', 'TransientFailure', tlsa=[of_root(2, 0, 1)], cert=leaf('elsewhere.test'),
     says='hostname mismatch')
Case('ta-expired', 'TransientFailure', tlsa=[of_root(2, 0, 1)],
     cert=leaf('mx.{domain}', days=-1), says='certificate')
Case('mismatch', 'TransientFailure', tlsa=[STRANGER], cert=NAMED, says='TLSA')
Case('no-starttls', 'TransientFailure', tlsa=[own(3, 1, 1)], cert=NAMED, script=PLAIN,
     says='TLS is required')
Case('unusable', 'Delivery', verdict='Untrusted', tlsa=[text('1 1 1 ' + 'ab' * 32)],
     cert=leaf(self_signed=True))
Case('unusable-length', 'Delivery', verdict='Untrusted', tlsa=[text('3 1 1 abcd')],
     cert=leaf(self_signed=True))
Case('unusable-plain', 'TransientFailure', tlsa=[text('9 1 1 abcd')], cert=NAMED, script=PLAIN,
     says='TLS is required')
Case('missing', 'Delivery', verdict='Verified', cert=NAMED)
Case('missing-plain', 'Delivery', cert=NAMED, script=PLAIN)
Case('bogus', 'TransientFailure', tlsa=[text('3 1 1 ' + 'ee' * 32)], cert=NAMED,
     says='TLSA lookup error')
Case('servfail', 'TransientFailure', cert=NAMED, says='TLSA lookup error',
     records=['_tcp.mx.servfail NS ns.lame.test.'])
Case('bogus-mx', 'TransientFailure', cert=NAMED, says='Name service error',
     records=['bogus-mx MX 20 spoilt'])
# An unsigned zone: what it publishes is no promise.
Case('unsigned', 'Delivery', verdict='Untrusted', tlsa=[STRANGER], cert=leaf(self_signed=True),
     zone='plain.test')
# A signed domain with a host elsewhere: nothing is asked about it.
Case('insecure-host', 'Delivery', verdict='Untrusted', cert=leaf(self_signed=True),
     mx=['mx.insecure-host.plain.test.'],
     plain=['mx.insecure-host A {address}',
            '_{port}._tcp.mx.insecure-host TLSA 3 1 1 ' + 'ab' * 32])
# No MX: the domain is its own host.
Case('no-mx', 'Delivery', verdict='DANE', tlsa=[own(3, 1, 1)], cert=leaf(self_signed=True), mx=[],
     host='no-mx')
Case('no-mx-mismatch', 'TransientFailure', tlsa=[STRANGER], cert=leaf('{domain}'), mx=[],
     host='no-mx-mismatch', says='TLSA')
# Two hosts: the one nobody can vouch for is left out, the other one is good.
Case('skips', 'Delivery', verdict='DANE', tlsa=[own(3, 1, 1)], cert=NAMED,
     mx=['mx.bogus', 'mx.skips'])
# The host is an alias: the records stand at its end, or at the alias itself.
Case('alias-end', 'Delivery', verdict='DANE', cert=leaf('host.ee311.{domain}', self_signed=True),
     mx=['www.alias-end'], tlsa=[own(3, 1, 1)], records=['www.alias-end CNAME mx.alias-end'])
Case('alias-out', 'TransientFailure', cert=leaf(self_signed=True), mx=['www.alias-out'],
     says='TLSA', records=['www.alias-out CNAME mx.unsigned.plain.test.',
                           '_{port}._tcp.www.alias-out TLSA 3 1 1 ' + 'ab' * 32])


def records_of(case, port, address, certificate, authority):
    lines = [f'{case.name} MX {10 * (i + 1)} {mx}' for i, mx in enumerate(case.mx)]
    lines.append(f'{case.host} A {address}')
    lines += [f'_{port}._tcp.{case.host} TLSA {make(authority, certificate)}'
              for make in case.tlsa]
    return lines + [line.format(port=port) for line in case.records]


def spoil(line):
    """After signing: the record whose data is all ee, and one MX record."""
    return line.replace('ee' * 32, 'ef' * 32).replace('\tMX\t20 spoilt', '\tMX\t30 spoilt')


@pytest.fixture(scope='module')
def stage(module_place):
    authority = Authority(module_place.subfolder('certificates'))
    port = free_port()
    zones = {ZONE: [], 'plain.test': []}
    peers = {}
    for case in CASES.values():
        certificate = case.cert(authority, case)
        address = fresh_address()
        peers[case.name] = module_place.keep(Peer(case.script, address=address, port=port,
                                                  tls=certificate.server()))
        zones[case.zone] += records_of(case, port, address, certificate, authority)
        zones['plain.test'] += [line.format(port=port, address=address) for line in case.plain]
    signed = zones.pop(ZONE)
    zone = module_place.keep(dnssec.SignedZone(module_place.subfolder('dns'), ZONE, signed, spoil,
                                               zones))
    daemon = module_place.sluice(
        options={'allow_loopback': True, 'minimal_backoff_time': '300s',
                 'maximal_backoff_time': '300s'},
        transports={'smtp': {'smtp_tls_security_level': 'dane', 'smtp_tcp_port': port,
                             'smtp_tls_CAfile': authority.cert}},
        dns={'servers': [zone.resolver], 'timeout': '20s'})
    for case in CASES.values():
        submit(daemon, 'a@bounce.test', [f'user@{case.domain}'], message(case.name))
    return daemon, peers


@pytest.mark.parametrize('name', CASES)
def test_case(stage, name):
    daemon, peers = stage
    case = CASES[name]
    event = daemon.wait_event(case.outcome, f'user@{case.domain}')
    assert event.get('tls_verdict') == case.verdict, event
    if case.says:
        assert case.says in event['response']['content'], event
    if case.outcome == 'Delivery':
        assert len(peers[name].bodies) == 1
    else:
        assert peers[name].bodies == []
        assert event['response']['enhanced_code']['class'] == 4
