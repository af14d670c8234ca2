"""Real programs on both sides: Postfix, its load tools, swaks, Python's clients and servers, npm's
nodemailer where it is installed."""
import email.message
import email.policy
import glob
import os
import pathlib
import shutil
import smtplib
import ssl
import subprocess

import pytest

from support.address import free_port
from support.certificate import make_certificate
from support.client import Client, message, submit
from support.mailbox_postfix import MailboxPostfix
from support.smtp_sink import SmtpSink, tool
from support.wait import PATIENCE, until

pytestmark = pytest.mark.skipif(not os.path.exists(tool('postfix')), reason='no Postfix')


# --- smtp-source, smtp-sink --------------------------------------------------------------------------

def source(daemon, *options):
    return subprocess.run([tool('smtp-source'), '-f', 'a@a.test', *options,
                           f'inet:127.0.0.1:{daemon.port}'], capture_output=True, timeout=60,
                          check=False)


def test_source_to_sink(place):
    sink = place.keep(SmtpSink())
    daemon = place.sluice(routes={'*': ('smtp', sink.nexthop)})
    done = source(daemon, '-t', 'x@x.test', '-m', '2000', '-s', '20', '-l', '4096')
    assert done.returncode == 0 and not done.stderr, done.stderr
    daemon.wait_events('Delivery', count=2000)
    daemon.wait_empty()
    assert not daemon.of('TransientFailure')
    # With -c it counts on one line.
    until(lambda: sink.text.replace(b'\r', b' ').split()[-1:] == [b'mesg=2000'],
          lambda: f'2000 in {sink.text[-60:]}')


def test_source_with_many_recipients(place):
    sink = place.keep(SmtpSink())
    daemon = place.sluice(routes={'*': ('smtp', sink.nexthop)})
    done = source(daemon, '-t', 'x@x.test', '-m', '20', '-s', '5', '-r', '100', '-d')
    assert done.returncode == 0 and not done.stderr, done.stderr
    daemon.wait_events('Delivery', count=2000)


# --- Postfix -----------------------------------------------------------------------------------------

@pytest.fixture(scope='module')
def postfix(module_place):
    if os.getuid() != 0:
        pytest.skip('Postfix must be started by root')
    server = module_place.keep(MailboxPostfix(module_place.subfolder('postfix')))
    daemon = module_place.sluice(routes={'*': ('smtp', server.nexthop)})
    return daemon, server


HEADER = b'Subject: kept\r\n\r\n'
POSTFIX_BODIES = {
    'empty': HEADER, '1kb': HEADER + b'abcdefghijklmn\r\n' * 64,
    '64kb': HEADER + b'0123456789abcde\r\n' * 4096,
    '8bit': HEADER + bytes(range(128, 256)) + b'\r\n' + 'Grüße\r\n'.encode() * 100,
    'dots': HEADER + b'.\r\n..\r\n...\r\n.a\r\n..b\r\n',
    'lines': HEADER + b'z' * 990 + b'\r\n' + b'w' * 998 + b'\r\n',
    'ends': HEADER + b'.\r\n\r\n.\r\n.\r\n\r\n',
    '25mb': HEADER + (b'y' * 98 + b'\r\n') * 262144,
}


@pytest.mark.parametrize('name', POSTFIX_BODIES)
def test_postfix_keeps_the_same_bytes(postfix, name):
    daemon, server = postfix
    recipient = f'{name}@x.test'
    body = POSTFIX_BODIES[name]
    submit(daemon, 'a@a.test', [recipient], body, ' BODY=8BITMIME')
    daemon.wait_event('Delivery', recipient)
    stored = server.wait(recipient)
    assert stored.count(b'\nReceived: ') == 2
    assert stored.endswith(b'\n' + body.replace(b'\r\n', b'\n'))


def test_postfix_takes_utf8_addresses(postfix):
    daemon, server = postfix
    submit(daemon, 'ä@a.test', ['grün@x.test'], HEADER + b'x\r\n', ' SMTPUTF8')
    daemon.wait_event('Delivery', 'grün@x.test')
    assert 'Delivered-To: grün@x.test'.encode() in server.wait('grün@x.test')


def test_postfix_says_no(place):
    if os.getuid() != 0:
        pytest.skip('Postfix must be started by root')
    server = place.keep(MailboxPostfix(place.subfolder('postfix'), smtpd_recipient_restrictions='reject',
                                smtpd_delay_reject='yes'))
    daemon = place.sluice(routes={'*': ('smtp', server.nexthop)})
    submit(daemon, '', ['x@x.test'], message())
    event = daemon.wait_event('Bounce', 'x@x.test')
    assert event['response']['code'] == 554


# --- swaks, smtplib, nodemailer, aiosmtpd -------------------------------------------------------------

@pytest.fixture(scope='module')
def secure(module_place):
    """STARTTLS, AUTH; trusts nobody else."""
    folder = module_place.subfolder('secure')
    make_certificate(folder, 'relay.test')
    crypted = subprocess.run(['openssl', 'passwd', '-6', 'secret'], check=True, text=True,
                             capture_output=True).stdout.strip()
    with open(f'{folder}/users', 'w', encoding='utf-8') as users:
        users.write(f'# who may send\nuser:{crypted}\n')
    receiver = module_place.receiver()
    daemon = module_place.sluice(
        routes={'*': ('smtp', receiver.nexthop)},
        listener={'relay_from': ['192.0.2.0/24'], 'tls_certificate': f'{folder}/cert',
                  'tls_key': f'{folder}/key', 'users': f'{folder}/users'})
    return daemon, receiver


def swaks(daemon, *options):
    return subprocess.run(['swaks', '--server', '127.0.0.1', '--port', str(daemon.port), '--from',
                           'a@a.test', '--helo', 'swaks.test', *options], capture_output=True,
                          text=True, timeout=60, check=False)


@pytest.mark.parametrize('mechanism', ['PLAIN', 'LOGIN'])
def test_swaks_with_tls_and_auth(secure, mechanism):
    daemon, receiver = secure
    to = f'{mechanism.lower()}@x.test'
    done = swaks(daemon, '--to', to, '-tls', '--auth', mechanism, '--auth-user', 'user',
                 '--auth-password', 'secret')
    assert done.returncode == 0, done.stdout + done.stderr
    daemon.wait_event('Delivery', to)
    [received] = receiver.to(to)
    assert b'with ESMTPSA' in received.body
    assert daemon.of('Reception', to)[0]['reception_protocol'] == 'ESMTPSA'


def test_swaks_with_a_wrong_password(secure):
    done = swaks(secure[0], '--to', 'w@x.test', '-tls', '--auth', 'PLAIN', '--auth-user', 'user',
                 '--auth-password', 'wrong')
    assert done.returncode == 28 and '535' in done.stdout


def test_swaks_without_tls_gets_no_auth(secure):
    done = swaks(secure[0], '--to', 'n@x.test', '--auth', 'PLAIN', '--auth-user', 'user',
                 '--auth-password', 'secret')
    assert done.returncode == 28


def test_swaks_without_auth_may_not_relay(secure):
    done = swaks(secure[0], '--to', 'n@x.test', '-tls')
    assert done.returncode == 24 and '554' in done.stdout


def test_swaks_pipelining(relay):
    daemon, receiver = relay
    done = swaks(daemon, '--to', 'p1@x.test,p2@x.test', '--pipeline')
    assert done.returncode == 0, done.stdout
    daemon.wait_events('Delivery', count=2)
    assert len(receiver.to('p1@x.test')) == 1


def insecure_context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def test_smtplib(secure):
    daemon, receiver = secure
    mail = email.message.EmailMessage()
    mail['Subject'], mail['From'], mail['To'] = 'Grüße', 'a@a.test', 'lib@x.test, lib2@x.test'
    mail.set_content('Grüße aus Python\n.\n..\n')
    with smtplib.SMTP('127.0.0.1', daemon.port) as client:
        client.starttls(context=insecure_context())
        client.login('user', 'secret')
        assert client.send_message(mail) == {}
        assert client.send_message(mail, to_addrs=['lib3@x.test']) == {}
    daemon.wait_event('Delivery', 'lib@x.test')
    daemon.wait_event('Delivery', 'lib3@x.test')
    [received] = receiver.to('lib@x.test')
    read = email.message_from_bytes(received.body, policy=email.policy.default)
    assert read['Subject'] == 'Grüße'
    assert read.get_content().splitlines() == ['Grüße aus Python', '.', '..']


def test_smtplib_utf8(relay):
    daemon, receiver = relay
    with smtplib.SMTP('127.0.0.1', daemon.port) as client:
        client.ehlo()
        client.sendmail('ä@ä.test', ['ü@x.test'], 'Subject: ö\r\n\r\nß\r\n'.encode(),
                        mail_options=['SMTPUTF8', 'BODY=8BITMIME'])
    [received] = receiver.wait()
    assert received.recipients == ['ü@x.test'] and 'SMTPUTF8' in received.parameters
    assert 'Subject: ö\r\n\r\nß\r\n'.encode() in received.body


def test_utf8_to_a_server_without_it_bounces(place):
    receiver = place.receiver(extensions=('8BITMIME',))
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)})
    submit(daemon, '', ['ü@x.test'], message(), ' SMTPUTF8')
    event = daemon.wait_event('Bounce', 'ü@x.test')
    assert event['response']['enhanced_code'] == {'class': 5, 'subject': 6, 'detail': 7}


def test_smtplib_refused_recipients(place):
    receiver = place.receiver()
    daemon = place.sluice(routes={'a.test': ('smtp', receiver.nexthop)})
    with smtplib.SMTP('127.0.0.1', daemon.port) as client:
        refused = client.sendmail('a@a.test', ['x@a.test', 'x@b.test'], 'Subject: x\r\n\r\nx\r\n')
    assert set(refused) == {'x@b.test'} and refused['x@b.test'][0] == 550


def test_nodemailer(relay):
    daemon, receiver = relay
    if not shutil.which('npm') or not shutil.which('node'):
        pytest.skip('no npm here')
    modules = os.path.join(daemon.folder, 'npm')
    done = subprocess.run(['npm', 'install', '--no-audit', '--no-fund', '--silent', '--prefix',
                           modules, '--fetch-retries', '0', '--fetch-timeout', '10000',
                           'nodemailer'], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip('npm cannot install nodemailer')
    script = '''
const t = require("nodemailer").createTransport({host: "127.0.0.1", port: %d, secure: false,
    ignoreTLS: true, pool: true});
Promise.all([...Array(20).keys()].map(n => t.sendMail({from: "a@a.test", to: "n" + n + "@x.test",
    subject: "Grüße", text: ".\\n..\\nx"}))).then(() => process.exit(0), e => {
    console.error(e); process.exit(1); });
''' % daemon.port
    done = subprocess.run(['node', '-e', script], capture_output=True, text=True, timeout=60,
                          check=False, env={**os.environ,
                                             'NODE_PATH': os.path.join(modules, 'node_modules')})
    assert done.returncode == 0, done.stderr
    receiver.wait(20)


def test_aiosmtpd(place):
    aiosmtpd = pytest.importorskip('aiosmtpd.controller')

    class Handler:
        def __init__(self):
            self.envelopes = []

        async def handle_DATA(self, server, session, envelope):
            self.envelopes.append((envelope.mail_from, list(envelope.rcpt_tos), envelope.content))
            return '250 OK'

    handler = Handler()
    controller = aiosmtpd.Controller(handler, hostname='127.0.0.1', port=free_port(), ready_timeout=PATIENCE)
    controller.start()
    place.closers.append(controller.stop)
    daemon = place.sluice(routes={'*': ('smtp', f'[127.0.0.1]:{controller.port}')})
    body = HEADER + b'.\r\n..x\r\n' + b'y' * 900 + b'\r\n'
    submit(daemon, 'a@a.test', ['x@x.test', 'y@x.test'], body, ' BODY=8BITMIME')
    daemon.wait_events('Delivery', count=2)
    [(sender, recipients, content)] = handler.envelopes
    assert sender == 'a@a.test' and sorted(recipients) == ['x@x.test', 'y@x.test']
    assert content.endswith(b'\r\n' + body)


# --- large envelopes ---------------------------------------------------------------------------------

def test_twenty_thousand_recipients(place):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          listener={'smtpd_recipient_limit': 0})
    names = [f'user{n}@d{n % 50}.test' for n in range(20000)]
    with Client(daemon) as client:
        client.ehlo()
        client.say('MAIL FROM:<a@a.test>', 250)
        for at in range(0, len(names), 500):
            part = names[at:at + 500]
            client.send(''.join(f'RCPT TO:<{name}>\r\n' for name in part))
            assert all(client.reply().code == 250 for _ in part)
        client.data(message('to many'))
    until(lambda: sum(len(m.recipients) for m in list(receiver.messages)) >= 20000,
          '20,000 recipients')
    daemon.wait_empty()
    got = [r for m in receiver.messages for r in m.recipients]
    assert sorted(got) == sorted(names)
    assert max(len(m.recipients) for m in receiver.messages) <= 50
    assert len(daemon.of('Delivery')) == 20000
    assert daemon.of('Reception')[0]['recipient_count'] == 20000


def test_chunks(relay):
    """BDAT, pipelined with the envelope, in pieces of all sizes."""
    daemon, receiver = relay
    body = HEADER + b'.\r\n..\r\nline\r\n' * 5000
    with Client(daemon) as client:
        client.ehlo()
        data = b'MAIL FROM:<a@a.test>\r\nRCPT TO:<chunks@x.test>\r\n'
        at, size, replies = 0, 1, 2
        while at + size < len(body):
            data += b'BDAT %d\r\n' % size + body[at:at + size]
            at, size, replies = at + size, size * 2, replies + 1
        data += b'BDAT %d LAST\r\n' % (len(body) - at) + body[at:]
        client.send(data)
        assert all(client.reply().code == 250 for _ in range(replies + 1))
    daemon.wait_event('Delivery', 'chunks@x.test')
    [received] = receiver.messages
    assert received.content == body
