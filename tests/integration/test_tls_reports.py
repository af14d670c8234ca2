"""Reports about TLS (RFC 8460): what sessions were, by mail and by HTTPS, after a day that had a kill
in it."""
import json
import os
import socket
import time

import dkim
import pytest

from support import dnssec, policy_host, tls_report
from support.address import fresh_address, free_port
from support.api import Connection
from support.certificates import Authority
from support.client import message, submit
from support.dns_server import DnsServer
from support.peer import Peer
from support.policy_host import PolicyHost, policy
from support.receiver import Receiver
from support.signing_key import make_signing_key
from support.wait import until

pytestmark = [
    pytest.mark.skipif(not policy_host.is_usable(), reason='may not bind port 443'),
    pytest.mark.skipif(time.time() % 86400 > 86100, reason='a day ends while the test runs')]

OFFERS = 'send 220 peer.test ESMTP\nexpect EHLO\nsend 250-peer.test\nsend 250 STARTTLS\n'
GO = OFFERS + 'expect STARTTLS\nsend 220 go\nstarttls\n'
SECURE = GO + 'expect EHLO\nsend 250 peer.test\nenvelope\ndata\nsend 250 2.0.0 kept\nwait'
PLAIN = 'plain\nenvelope\ndata\nsend 250 2.0.0 kept\nwait'
QUICK = {'allow_loopback': True, 'workers': 2, 'minimal_backoff_time': '300s',
         'maximal_backoff_time': '300s'}
MAIL, POST = 'mailto:tls@reports.test', 'https://collector.test/tls?a=b'


class Lab:
    def __init__(self, place):
        self.place, self.port = place, free_port()
        self.authority = Authority(place.subfolder('certificates'))
        self.dns = place.keep(DnsServer())
        self.collector = self.web('collector.test')
        self.receiver = place.keep(Receiver(address=fresh_address(), port=self.port))
        self.domain('reports.test', rua=MAIL, address=self.receiver.address)

    def web(self, name, body='', names=None):
        host = self.place.keep(PolicyHost(self.authority.leaf(*(names or [name])).server(), body))
        self.dns.zone[name] = [('A', host.address)]
        return host

    def domain(self, name, *, rua=None, address=None, script=SECURE, body=None, status=200, web_names=None, **leaf):
        """A domain with a mail host, with a policy where there is a body, and with the wish for reports.
        status, web_names: what the policy's host answers, and the names in its certificate."""
        if address is None:
            shown = self.authority.leaf(*leaf.pop('names', [f'mx.{name}']), **leaf)
            address = self.place.keep(Peer(script, address=fresh_address(), port=self.port,
                                           tls=shown.server())).address
        self.dns.zone.update({name: [('MX', (10, f'mx.{name}'))], f'mx.{name}': [('A', address)]})
        if rua:
            self.dns.zone[f'_smtp._tls.{name}'] = [('TXT', 'v=TLSRPTv1; rua=' + rua)]
        if body is not None:
            self.dns.zone[f'_mta-sts.{name}'] = [('TXT', 'v=STSv1; id=7;')]
            self.web(f'mta-sts.{name}', body, web_names).status = status

    def daemon(self, **settings):
        """Its environment names a proxy, where nobody listens: reports and policies do not go by one."""
        return self.place.sluice(
            options=QUICK, env={'https_proxy': 'http://127.0.0.1:9', 'all_proxy': 'http://127.0.0.1:9'}, dns={'servers': [self.dns.name]},
            transports={'smtp': {'smtp_tls_security_level': 'mta-sts', 'smtp_tcp_port': self.port,
                                 'smtp_tls_CAfile': self.authority.cert}},
            tls_report={'from': 'noc@relay.test', 'contact': 'mailto:noc@relay.test', 'spread': '0s',
                        'organization': 'Relay & Sons', 'ca_file': self.authority.cert}, **settings)


def kept(daemon):
    """{domain: its line in the file of some day}"""
    folder = os.path.join(daemon.spool, 'tls-report')
    lines = []
    for name in os.listdir(folder) if os.path.exists(folder) else []:
        try:
            with open(os.path.join(folder, name if name.isdigit() else ''), encoding='utf-8') as file:
                lines += [json.loads(line) for line in file]
        except OSError:
            pass  # a draft, or it was removed meanwhile
    return {line['domain']: line for line in lines if 'domain' in line}


def end_the_day(daemon, days=1):
    """While no daemon runs: what was counted today was counted yesterday, or so many days ago.
    returns  that day"""
    folder = os.path.join(daemon.spool, 'tls-report')
    [name] = [name for name in os.listdir(folder) if name.isdigit()]
    with open(os.path.join(folder, name), encoding='utf-8') as file:
        head, rest = file.read().split('\n', 1)
    before = int(name) - days
    with open(os.path.join(folder, str(before)), 'w', encoding='utf-8') as file:
        file.write(json.dumps({**json.loads(head), 'day': before}) + '\n' + rest)
    os.unlink(os.path.join(folder, name))
    return before


def test_the_reader_takes_the_example_of_the_standard():
    tls_report.check(tls_report.EXAMPLE, tls_report.REPORT)
    with pytest.raises(AssertionError):
        tls_report.check({**tls_report.EXAMPLE, 'policies': [{'policy': {}}]}, tls_report.REPORT)


def test_a_day_with_a_kill_in_it(place):
    lab = Lab(place)
    cases = {  # what each domain's report has to say
        'good.test': ('Delivery', ('sts', 'ok'), {'body': policy('enforce', 'mx.good.test'), 'rua': f'{MAIL},{POST}'}),
        'clear.test': ('Delivery', ('no-policy-found', 'starttls-not-supported'), {'script': PLAIN, 'rua': MAIL}),
        'any.test': ('Delivery', ('no-policy-found', 'ok'), {'self_signed': True, 'rua': POST}),
        'testing.test': ('Delivery', ('sts', 'certificate-not-trusted'),
                         {'body': policy('testing', 'mx.testing.test'), 'self_signed': True, 'rua': MAIL}),
        'aside.test': ('Delivery', ('sts', 'validation-failure'),
                       {'body': policy('testing', 'mx.elsewhere.test'), 'rua': MAIL}),
        'name.test': ('TransientFailure', ('sts', 'certificate-host-mismatch'),
                      {'body': policy('enforce', 'mx.name.test'), 'names': ['mx.elsewhere.test'], 'rua': MAIL}),
        'expired.test': ('TransientFailure', ('sts', 'certificate-expired'),
                         {'body': policy('enforce', 'mx.expired.test'), 'days': -1, 'rua': MAIL}),
        'outside.test': ('TransientFailure', ('sts', 'validation-failure'),
                         {'body': policy('enforce', 'mx.elsewhere.test'), 'rua': MAIL}),
        'broken.test': ('Delivery', ('sts', 'sts-policy-invalid'), {'body': 'hello', 'rua': MAIL}),
        'gone.test': ('Delivery', ('sts', 'sts-policy-fetch-error'),
                      {'body': policy('enforce', 'mx.gone.test'), 'status': 404, 'rua': MAIL}),
        'strange.test': ('Delivery', ('sts', 'sts-webpki-invalid'),
                         {'body': policy('enforce', 'mx.strange.test'), 'web_names': ['mta-sts.elsewhere.test'], 'rua': MAIL}),
        'silent.test': ('Delivery', ('no-policy-found', 'ok'), {})}
    for name, (_, _, settings) in cases.items():
        lab.domain(name, **settings)
    key = os.path.join(place.subfolder('keys'), 'key')
    record = make_signing_key(key, 1024).encode()
    daemon = lab.daemon(dkims={'r._domainkey.relay.test': {'key': key}})
    for name, (outcome, _, _) in cases.items():
        submit(daemon, 'a@bounce.test', [f'user@{name}'], message(name))
    for name, (outcome, _, _) in cases.items():
        daemon.wait_event(outcome, f'user@{name}')
    until(lambda: set(kept(daemon)) == set(cases), lambda: f'all domains in the file: {kept(daemon)}')
    daemon.kill()
    day = end_the_day(daemon)
    daemon.start()
    mails = {}

    def all_came():
        for one in lab.receiver.to('tls@reports.test'):
            mail, report = tls_report.read_mail(one.content)
            assert one.sender == 'noc@relay.test'
            assert dkim.verify(one.body, dnsfunc=lambda name, timeout=0: record), one.body
            mails[mail['TLS-Report-Domain']] = report
        return len(mails) == 10 and len(lab.collector.posted) == 2
    until(all_came, lambda: f'reports: {sorted(mails)}, {lab.collector.posted}\n{daemon.log()}')
    posted = {}
    for path, headers, body in lab.collector.posted:
        assert path == '/tls?a=b' and headers['Content-Type'] == 'application/tlsrpt+gzip'
        report = tls_report.read(body)
        posted[report['policies'][0]['policy']['policy-domain']] = report
    assert posted['good.test'] == mails['good.test']
    for name, (_, (kind, result), settings) in cases.items():
        report = mails.get(name, posted.get(name))
        if 'rua' not in settings:
            assert report is None
            continue
        assert tls_report.counts(report) == {(kind, result): 1}, report
        assert report['organization-name'] == 'Relay & Sons'
        begin = time.strftime('%Y-%m-%dT00:00:00Z', time.gmtime(day * 86400))
        assert report['date-range'] == {'start-datetime': begin, 'end-datetime': begin.replace('00:00:00', '23:59:59')}
        detail = report['policies'][0].get('failure-details', [{}])[0]
        if result not in ('ok', 'validation-failure'):
            assert detail['receiving-mx-hostname'] == f'mx.{name}' and detail['sending-mta-ip'].startswith('127.')
    applied = posted['good.test']['policies'][0]['policy']
    assert applied['policy-string'] == policy('enforce', 'mx.good.test').split('\r\n')[:-1]
    assert applied['mx-host'] == ['mx.good.test']
    # The day is over once all were sent, and sessions for reports are counted nowhere.
    until(lambda: not kept(daemon), lambda: f'nothing is left: {kept(daemon)}')
    assert daemon.stop() == 0
    assert 'reports.test' not in kept(daemon)


def test_a_report_that_is_not_taken_is_tried_again(place):
    """The collector answers with a redirect, which is not followed; another one has an address that no
    mail host may have."""
    lab = Lab(place)
    lab.domain('any.test', rua=POST.replace('collector.test', 'Collector.test.'))  # a final dot is of no account
    lab.domain('local.test', rua='https://metadata.test/')
    lab.domain('odd.test', rua='https://127.0.0.1/,https://collector.test:8443/,https://0x7f.1/')
    lab.dns.zone['metadata.test'] = [('A', '169.254.169.254')]
    lab.collector.post_status = 307
    lab.collector.headers['Location'] = 'https://collector.test/elsewhere'
    daemon = lab.daemon()
    for name in ('any.test', 'local.test', 'odd.test'):
        submit(daemon, 'a@bounce.test', [f'user@{name}'], message(name))
        daemon.wait_event('Delivery', f'user@{name}')
    assert daemon.stop() == 0
    assert set(kept(daemon)) == {'any.test', 'local.test', 'odd.test'}
    end_the_day(daemon)
    daemon.start()
    daemon.wait_log('tls-report: the report for any.test to collector.test: the answer is 307')
    daemon.wait_log('tls-report: the report for local.test to metadata.test: its host has no address that may be')
    daemon.wait_log('tls-report: odd.test asks for reports to a URI that is not posted to: its host is not a name')
    daemon.wait_log('tls-report: odd.test asks for reports to a URI that is not posted to: it has another port')
    assert daemon.stop() == 0
    assert set(kept(daemon)) == {'any.test', 'local.test'}
    lab.collector.post_status = 201
    daemon.start()
    until(lambda: len(lab.collector.posted) == 2, 'a second try')
    assert [path for path, _, _ in lab.collector.posted] == ['/tls?a=b'] * 2
    until(lambda: set(kept(daemon)) == {'local.test'}, lambda: f'one is left: {kept(daemon)}')


def test_silent_collectors_keep_nobody_waiting(place):
    """Eight URIs of one domain that are answered by nothing: what is counted meanwhile is kept, and after one of
    them has had its time the other domains have their reports."""
    lab = Lab(place)
    silent = place.keep(socket.create_server((fresh_address(), 443)))
    lab.dns.zone['silent.test'] = [('A', silent.getsockname()[0])]
    lab.domain('first.test', rua=','.join(f'https://silent.test/{i}' for i in range(8)))
    lab.domain('second.test', rua=MAIL)
    lab.domain('today.test', rua=MAIL)
    daemon = lab.daemon()
    for name in ('first.test', 'second.test'):
        submit(daemon, 'a@bounce.test', [f'user@{name}'], message(name))
        until(lambda: name in kept(daemon), name)
    daemon.kill()
    end_the_day(daemon)
    daemon.start()
    began = time.monotonic()
    submit(daemon, 'a@bounce.test', ['user@today.test'], message('today'))
    until(lambda: 'today.test' in kept(daemon), 'what is counted today')
    assert time.monotonic() - began < 25 and not lab.receiver.to('tls@reports.test')
    until(lambda: lab.receiver.to('tls@reports.test'), 'the report of the second', 120)  # 30 s, and not eight times that
    until(lambda: 'second.test' not in kept(daemon), 'its day is done')
    assert set(kept(daemon)) == {'first.test', 'today.test'}
    assert daemon.stop() == 0


@pytest.mark.skipif(not dnssec.is_usable(), reason='needs unbound and ldnsutils')
def test_what_dane_finds(place):
    """A certificate that no TLSA record is about, records that are of no use, and records that nobody can
    vouch for, as the resolver found their signature wrong."""
    authority, port = Authority(place.subfolder('certificates')), free_port()
    receiver = place.keep(Receiver(address=fresh_address(), port=port))
    cases = {'mismatch': ('TransientFailure', 'tlsa-invalid', '3 1 1 ' + 'ab' * 32),
             'unusable': ('Delivery', 'tlsa-invalid', '1 1 1 ' + 'ab' * 32),
             'bogus': ('TransientFailure', 'dnssec-invalid', '3 1 1 ' + 'ee' * 32)}
    lines = []
    for name, (_, _, tlsa) in cases.items():
        shown = authority.leaf(f'mx.{name}.signed.test').server()
        address = place.keep(Peer(SECURE, address=fresh_address(), port=port, tls=shown)).address
        lines += [f'{name} MX 10 mx.{name}', f'mx.{name} A {address}', f'_{port}._tcp.mx.{name} TLSA {tlsa}',
                  f'_smtp._tls.{name} TXT "v=TLSRPTv1; rua={MAIL}"']
    zone = place.keep(dnssec.SignedZone(
        place.subfolder('dns'), 'signed.test', lines, lambda line: line.replace('ee' * 32, 'ef' * 32),
        {'reports.test': ['@ MX 10 mx', f'mx A {receiver.address}']}))
    daemon = place.sluice(
        options=QUICK, dns={'servers': [zone.resolver]},
        transports={'smtp': {'smtp_tls_security_level': 'dane', 'smtp_tcp_port': port,
                             'smtp_tls_CAfile': authority.cert}},
        tls_report={'from': 'noc@relay.test', 'spread': '0s'})
    for name, (outcome, _, _) in cases.items():
        submit(daemon, 'a@bounce.test', [f'user@{name}.signed.test'], message(name))
        daemon.wait_event(outcome, f'user@{name}.signed.test')
    assert daemon.stop() == 0
    end_the_day(daemon)
    daemon.start()
    until(lambda: len(receiver.to('tls@reports.test')) == 3, lambda: f'three reports\n{daemon.log()}')
    reports = {}
    for one in receiver.to('tls@reports.test'):
        mail, report = tls_report.read_mail(one.content)
        reports[mail['TLS-Report-Domain'].split('.')[0]] = report
    assert {name: list(tls_report.counts(report)) for name, report in reports.items()} == {
        name: [('tlsa', result)] for name, (_, result, _) in cases.items()}


def test_a_kill_before_the_day_was_saved(place):
    """The file of the day still has the domain whose report was stored: it is sent again, as the same one."""
    lab = Lab(place)
    lab.domain('any.test', rua=MAIL)
    daemon = lab.daemon()
    submit(daemon, 'a@bounce.test', ['user@any.test'], message('any'))
    daemon.wait_event('Delivery', 'user@any.test')
    assert daemon.stop() == 0
    day = os.path.join(daemon.spool, 'tls-report', str(end_the_day(daemon)))
    with open(day, 'rb') as file:
        before = file.read()
    for n in (1, 2):
        with open(day, 'wb') as file:
            file.write(before)
        daemon.start()
        until(lambda n=n: len(lab.receiver.to('tls@reports.test')) == n, f'report {n}')
        until(lambda: not os.path.exists(day), 'the end of the day')
        assert daemon.stop() == 0
    (first, one), (again, two) = [tls_report.read_mail(mail.content) for mail in lab.receiver.to('tls@reports.test')]
    assert one == two and first['Message-ID'] == again['Message-ID'] and first['Subject'] == again['Subject']


def metric(daemon, name):
    connection = Connection(daemon)
    connection.request('GET', '/metrics')
    [line] = [line for line in connection.getresponse().read().decode().splitlines() if line.startswith(name + ' ')]
    connection.close()
    return float(line.split()[1])


def test_what_is_in_no_report_is_counted(place):
    """Sessions of more domains than a day has room for, and reports that could not be sent in time."""
    lab = Lab(place)
    lab.domain('any.test', rua=POST)
    lab.domain('more.test', rua=POST)
    lab.collector.post_status = 500
    daemon = lab.daemon()
    submit(daemon, 'a@bounce.test', ['user@any.test'], message('any'))
    daemon.wait_event('Delivery', 'user@any.test')
    assert daemon.stop() == 0
    folder = os.path.join(daemon.spool, 'tls-report')
    [name] = os.listdir(folder)
    with open(os.path.join(folder, name), encoding='utf-8') as file:
        head, line = file.read().splitlines()
    late = end_the_day(daemon, 3)
    with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
        file.write(head + '\n' + ''.join(line.replace('any.test', f'd{n}.test') + '\n' for n in range(20000)))
    daemon.start()
    submit(daemon, 'a@bounce.test', ['user@more.test'], message('more'))
    daemon.wait_event('Delivery', 'user@more.test')
    until(lambda: metric(daemon, 'sluice_tls_report_sessions_left_out_total') == 1, 'the session')
    until(lambda: metric(daemon, 'sluice_tls_reports_unsent_total') == 1, 'the report')
    assert not os.path.exists(os.path.join(folder, str(late)))
    assert daemon.stop() == 0
    daemon.start()  # the counters go on
    assert metric(daemon, 'sluice_tls_report_sessions_left_out_total') == 1
    assert metric(daemon, 'sluice_tls_reports_unsent_total') == 1


def test_without_the_section_nothing_is_kept(place):
    lab = Lab(place)
    lab.domain('any.test', rua=MAIL)
    daemon = lab.daemon()
    submit(daemon, 'a@bounce.test', ['one@any.test'], message('one'))
    daemon.wait_event('Delivery', 'one@any.test')
    until(lambda: set(kept(daemon)) == {'any.test'}, 'the domain in the file')
    daemon.tls_report = {}
    daemon.write_config()
    assert daemon.command('reload').returncode == 0
    until(lambda: not kept(daemon), lambda: f'nothing is left: {kept(daemon)}')
    submit(daemon, 'a@bounce.test', ['two@any.test'], message('two'))
    daemon.wait_event('Delivery', 'two@any.test')
    assert daemon.stop() == 0
    assert not kept(daemon)
