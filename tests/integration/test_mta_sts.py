"""MTA-STS (RFC 8461): each case is a domain with its record, its policy host and its servers."""
import pytest

from support import policy_host
from support.address import fresh_address, free_port
from support.certificates import Authority
from support.client import message, submit
from support.dns_server import DnsServer
from support.peer import Peer
from support.policy_host import PolicyHost, policy

pytestmark = pytest.mark.skipif(not policy_host.is_usable(), reason='may not bind port 443')

OFFERS = 'send 220 peer.test ESMTP\nexpect EHLO\nsend 250-peer.test\nsend 250 STARTTLS\n'
SECURE = (OFFERS + 'expect STARTTLS\nsend 220 go\nstarttls\nexpect EHLO\nsend 250 peer.test\n'
          'envelope\ndata\nsend 250 2.0.0 kept\nwait')
PLAIN = 'plain\nenvelope\ndata\nsend 250 2.0.0 kept\nwait'
QUICK = {'allow_loopback': True, 'workers': 1, 'minimal_backoff_time': '300s',
         'maximal_backoff_time': '300s'}

CASES = {}


class Case:
    def __init__(self, name, outcome, *, verdict=None, says=None, mode='enforce', mx=None,
                 names=None, trusted=True, days=5, common_name='leaf', script=SECURE, body=None,
                 records=('v=STSv1; id=1;',), status=200, headers=None, host_names=None,
                 host_trusted=True, host_address=None, fetched=True):
        self.domain = f'{name}.test'
        self.mx = f'mx.{self.domain}'
        self.outcome, self.verdict, self.says, self.script = outcome, verdict, says, script
        self.names = [self.mx] if names is None else [one.format(mx=self.mx) for one in names]
        self.trusted, self.days, self.common_name = trusted, days, common_name.format(mx=self.mx)
        self.body = policy(mode, *(mx or [self.mx])) if body is None else body
        self.records, self.status, self.headers = records, status, headers or {}
        self.host_names = host_names or [f'mta-sts.{self.domain}']
        self.host_trusted, self.host_address, self.fetched = host_trusted, host_address, fetched
        CASES[name] = self


FAILED = {'verdict': 'Untrusted', 'trusted': False}  # no policy holds: any certificate will do

Case('enforce', 'Delivery', verdict='STS')
Case('wildcard', 'Delivery', verdict='STS', mx=['*.wildcard.test'])
Case('certificate-wildcard', 'Delivery', verdict='STS', names=['*.certificate-wildcard.test'])
Case('other-mx', 'TransientFailure', mx=['mx.elsewhere.test'], says='No MX host')
Case('wildcard-level', 'TransientFailure', mx=['*.test'], says='No MX host')
Case('untrusted', 'TransientFailure', trusted=False, says='failed')
Case('expired', 'TransientFailure', days=-1, says='certificate')
Case('name', 'TransientFailure', names=['mx.elsewhere.test'], says='hostname mismatch')
Case('common-name', 'TransientFailure', names=[], common_name='{mx}', says='hostname mismatch')
Case('certificate-level', 'TransientFailure', names=['*.test'], says='hostname mismatch')
Case('no-starttls', 'TransientFailure', script=PLAIN, says='TLS is required')
Case('testing', 'Delivery', mode='testing', mx=['mx.elsewhere.test'], **FAILED)
Case('testing-plain', 'Delivery', mode='testing', script=PLAIN)
Case('none', 'Delivery', mode='none', **FAILED)
Case('no-record', 'Delivery', records=(), fetched=False, **FAILED)
Case('two-records', 'Delivery', records=('v=STSv1; id=1;', 'v=STSv1; id=2;'), fetched=False,
     **FAILED)
Case('other-record', 'Delivery', verdict='STS', records=('v=spf1 -all', 'v=STSv1; id=2'))
Case('bad-id', 'Delivery', records=('v=STSv1; id=a-b;',), fetched=False, **FAILED)
Case('not-found', 'Delivery', status=404, **FAILED)
Case('redirect', 'Delivery', status=301,
     headers={'Location': 'https://mta-sts.enforce.test/.well-known/mta-sts.txt'}, **FAILED)
Case('html', 'Delivery', headers={'Content-Type': 'text/html'}, **FAILED)
Case('charset', 'Delivery', verdict='STS', headers={'Content-Type': 'text/plain; charset=utf-8'})
Case('nonsense', 'Delivery', body='hello\r\n', **FAILED)
Case('large', 'Delivery', body=policy('enforce', 'mx.elsewhere.test') + 'x: y\r\n' * 20000,
     **FAILED)
Case('endless', 'Delivery', headers={'Transfer-Encoding': 'identity', 'Connection': 'close'},
     body=policy('enforce', 'mx.elsewhere.test') + 'x: y\r\n' * 20000, **FAILED)
Case('host-untrusted', 'Delivery', host_trusted=False, fetched=False, **FAILED)
Case('host-name', 'Delivery', host_names=['mta-sts.elsewhere.test'], fetched=False, **FAILED)
Case('host-local', 'Delivery', host_address='169.254.169.254', fetched=False, **FAILED)


class Lab:
    """Servers and name server for some cases."""

    def __init__(self, place, cases):
        folder = place.subfolder('certificates')
        self.place, self.port = place, free_port()
        self.authority = Authority(folder)
        self.dns = place.keep(DnsServer())
        self.peers, self.hosts = {}, {}
        for case in cases:
            self.add(case)

    def add(self, case):
        leaf = self.authority.leaf(*case.names, days=case.days, common_name=case.common_name,
                                   self_signed=not case.trusted)
        peer = Peer(case.script, address=fresh_address(), port=self.port, tls=leaf.server())
        self.peers[case.domain] = self.place.keep(peer)
        leaf = self.authority.leaf(*case.host_names, self_signed=not case.host_trusted)
        host = self.hosts[case.domain] = self.place.keep(PolicyHost(leaf.server(), case.body))
        host.status = case.status
        host.headers.update(case.headers)
        self.dns.zone.update({
            case.domain: [('MX', (10, case.mx))],
            case.mx: [('A', peer.address)],
            f'_mta-sts.{case.domain}': [('TXT', text) for text in case.records],
            f'mta-sts.{case.domain}': [('A', case.host_address or host.address)]})

    def daemon(self, **options):
        return self.place.sluice(
            options={**QUICK, **options}, dns={'servers': [self.dns.name]},
            transports={'smtp': {'smtp_tls_security_level': 'mta-sts', 'smtp_tcp_port': self.port,
                                 'smtp_tls_CAfile': self.authority.cert}})


def send(daemon, domain, user='user'):
    submit(daemon, 'a@bounce.test', [f'{user}@{domain}'], message(domain))


@pytest.fixture(scope='module')
def stage(module_place):
    lab = Lab(module_place, CASES.values())
    daemon = lab.daemon()
    for case in CASES.values():
        send(daemon, case.domain)
    return daemon, lab


@pytest.mark.parametrize('name', CASES)
def test_case(stage, name):
    daemon, lab = stage
    case = CASES[name]
    event = daemon.wait_event(case.outcome, f'user@{case.domain}')
    assert event.get('tls_verdict') == case.verdict, (event, daemon.log())
    if case.says:
        assert case.says in event['response']['content'], event
        assert event['response']['enhanced_code']['class'] == 4
    assert len(lab.peers[case.domain].bodies) == (case.outcome == 'Delivery')
    wanted = [(f'mta-sts.{case.domain}', '/.well-known/mta-sts.txt')] if case.fetched else []
    assert lab.hosts[case.domain].requests == wanted


def test_notes(stage):
    daemon, _ = stage
    daemon.wait_log('mta-sts: testing.test: host mx.testing.test is not in the policy')
    daemon.wait_log('mta-sts: policy of host-local.test: its host has no address that may be asked')
    daemon.wait_log('mta-sts: policy of html.test: the answer is not text/plain')


def test_only_hosts_of_the_policy_are_tried(place):
    lab = Lab(place, [CASES['enforce']])
    other = place.keep(Peer(PLAIN, address=fresh_address(), port=lab.port))
    lab.dns.zone['enforce.test'].append(('MX', (5, 'other.enforce.test')))
    lab.dns.zone['other.enforce.test'] = [('A', other.address)]
    daemon = lab.daemon()
    send(daemon, 'enforce.test')
    event = daemon.wait_event('Delivery', 'user@enforce.test')
    assert event['peer_address']['name'] == 'mx.enforce.test'
    assert other.connections == 0


def test_domains_that_share_a_host_share_no_trust(place):
    """Sessions are resumed under the same policy only, and a policy is nobody else's."""
    lab = Lab(place, [CASES['enforce']])
    leaf = lab.authority.leaf('mta-sts.second.test')
    host = place.keep(PolicyHost(leaf.server(), policy('enforce', 'mx.enforce.test')))
    lab.dns.zone.update({
        'second.test': [('MX', (10, 'mx.enforce.test'))],
        '_mta-sts.second.test': [('TXT', 'v=STSv1; id=other;')],
        'mta-sts.second.test': [('A', host.address)],
        'third.test': [('MX', (10, 'mx.enforce.test'))]})
    daemon = lab.daemon(smtp_connection_reuse_count_limit=1)

    def deliver(domain, user):
        send(daemon, domain, user)
        event = daemon.wait_event('Delivery', f'{user}@{domain}')
        return event['tls_verdict'], event.get('is_tls_resumed', False)
    assert deliver('enforce.test', 'one') == ('STS', False)
    assert deliver('enforce.test', 'two') == ('STS', True)
    assert deliver('second.test', 'one') == ('STS', False)
    assert deliver('second.test', 'two') == ('STS', True)
    assert deliver('third.test', 'one') == ('Verified', False)
    assert deliver('third.test', 'two') == ('Verified', True)
    assert len(host.requests) == 1


def test_a_policy_outlives_restart_record_and_host(place):
    lab = Lab(place, [CASES['enforce'], CASES['no-starttls']])
    daemon = lab.daemon()
    for domain in lab.peers:
        send(daemon, domain)
    daemon.wait_event('Delivery', 'user@enforce.test')
    daemon.wait_event('TransientFailure', 'user@no-starttls.test')
    assert daemon.stop() == 0
    # Everything that says so is gone, but it was said for a day.
    for host in lab.hosts.values():
        host.close()
    lab.dns.zone['_mta-sts.enforce.test'] = 'SERVFAIL'
    lab.dns.zone['_mta-sts.no-starttls.test'] = 'NXDOMAIN'
    daemon.start()
    for domain in lab.peers:
        send(daemon, domain, 'again')
    assert daemon.wait_event('Delivery', 'again@enforce.test')['tls_verdict'] == 'STS'
    event = daemon.wait_event('TransientFailure', 'again@no-starttls.test')
    assert 'TLS is required' in event['response']['content']
    assert daemon.stop() == 0
    # A new id that cannot be fetched changes nothing either.
    lab.dns.zone['_mta-sts.no-starttls.test'] = [('TXT', 'v=STSv1; id=2;')]
    daemon.start()
    send(daemon, 'no-starttls.test', 'third')
    daemon.wait_event('TransientFailure', 'third@no-starttls.test')
    daemon.wait_log('mta-sts: policy of no-starttls.test: ')


def test_a_new_id_fetches_anew(place):
    lab = Lab(place, [CASES['no-starttls']])
    host = lab.hosts['no-starttls.test']
    daemon = lab.daemon()
    send(daemon, 'no-starttls.test')
    daemon.wait_event('TransientFailure', 'user@no-starttls.test')
    assert daemon.stop() == 0
    host.body = policy('none')
    daemon.start()
    send(daemon, 'no-starttls.test', 'same')
    daemon.wait_event('TransientFailure', 'same@no-starttls.test')
    assert daemon.stop() == 0
    assert len(host.requests) == 1
    lab.dns.zone['_mta-sts.no-starttls.test'] = [('TXT', 'v=STSv1; id=2;')]
    daemon.start()
    send(daemon, 'no-starttls.test', 'new')
    daemon.wait_event('Delivery', 'new@no-starttls.test')
    assert len(host.requests) == 2


def test_a_policy_that_ends_is_forgotten(place):
    lab = Lab(place, [CASES['no-starttls']])
    lab.hosts['no-starttls.test'].body = policy('enforce', 'mx.no-starttls.test', max_age=0)
    daemon = lab.daemon()
    send(daemon, 'no-starttls.test')
    daemon.wait_event('Delivery', 'user@no-starttls.test')
