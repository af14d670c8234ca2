"""Logging in at a smart host: both mechanisms, every way in which it can fail, and that the password
is said to nobody else: not in clear, not in a log, an event, an answer or the spool."""
import base64
import contextlib
import os

import pytest

from support.certificates import Authority
from support.client import message, submit
from support.daemon import status_of
from support.peer import Peer
from support.wait import until

USER, PASSWORD = 'relay@customer.test', 'correct horse & staple'


def encoded(text):
    return base64.b64encode(text.encode()).decode()


PLAIN = encoded(f'\0{USER}\0{PASSWORD}')
SECRETS = [PASSWORD, encoded(PASSWORD), PLAIN]

CLEAR = 'send 220 peer.test ESMTP\nexpect EHLO\nsend 250-peer.test\n'
SECURE = 'secure\nexpect EHLO\nsend 250-peer.test\n'
ASK_PLAIN = f'send 250 AUTH GSSAPI LOGIN PLAIN\nexpect AUTH PLAIN {PLAIN}\n'
ASK_LOGIN = 'send 250 AUTH LOGIN\nexpect AUTH LOGIN\n'
SAY_LOGIN = (f'send 334 {encoded("Username:")}\nexpect {encoded(USER)}\n'
             f'send 334 {encoded("Password:")}\nexpect {encoded(PASSWORD)}\n')
IN = 'send 235 2.7.0 in\n'
MAIL = 'envelope\ndata\nsend 250 2.0.0 kept\n'
GOOD = SECURE + ASK_PLAIN + IN + MAIL + 'wait'

# What a server does, and the reply that the message is deferred with.
REFUSALS = {
    'refused': (SECURE + ASK_PLAIN + 'send 535 5.7.8 bad credentials\nwait', 535, '4.7.8'),
    'refused-bare': (SECURE + ASK_PLAIN + 'send 535 bad\nwait', 535, '4.7.8'),
    'refused-login': (SECURE + ASK_LOGIN + SAY_LOGIN + 'send 535 5.7.8 no\nwait', 535, '4.7.8'),
    'busy': (SECURE + ASK_PLAIN + 'send 454 4.7.0 later\nwait', 454, '4.7.0'),
    'too-weak': (SECURE + ASK_PLAIN + 'send 534 5.7.9 stronger\nwait', 534, '4.7.9'),
    'not-offered': (SECURE + 'send 250 SIZE\nwait', None, '4.7.0'),
    'other-kind': (SECURE + 'send 250 AUTH GSSAPI CRAM-MD5\nwait', None, '4.7.0'),
    'bad-challenge': (SECURE + ASK_LOGIN + 'send 334 not base64!\nwait', None, '4.7.0'),
    'one-too-many': (SECURE + ASK_PLAIN + 'send 334 \nwait', None, '4.7.0'),
    'closed': (SECURE + ASK_PLAIN + 'close', None, '4.4.2'),
    'echoed': (SECURE + ASK_PLAIN + f'send 535 5.7.8 not {PLAIN}\nwait', 535, '4.7.8'),
    'echoed-word': (SECURE + ASK_LOGIN + SAY_LOGIN + f'send 535-5.7.8 what is\n'
                    f'send 535 5.7.8 "{PASSWORD}"?\nwait', 535, '4.7.8'),
    # TLS did not come about: nothing may be said in clear.
    'no-tls': (CLEAR + 'send 250 AUTH PLAIN\nwait', None, '4.7.4'),
    'tls-refused': (CLEAR + 'send 250-AUTH PLAIN\nsend 250 STARTTLS\nexpect STARTTLS\n'
                    'send 454 4.7.0 not now\nwait', 454, '4.7.0'),
    'tls-broken': (CLEAR + 'send 250-AUTH PLAIN\nsend 250 STARTTLS\nexpect STARTTLS\nsend 220 go\n'
                   'hear\nsend 220 still here\nwait', None, '4.7.5'),
}
IN_CLEAR = ('no-tls', 'tls-refused', 'tls-broken')


@pytest.fixture(scope='module')
def authority(module_place):
    return Authority(module_place.subfolder('certificates'))


@pytest.fixture(scope='module')
def password_file(module_place):
    path = os.path.join(module_place.subfolder('password'), 'password')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(f'{PASSWORD}\n')
    return path


@pytest.fixture(scope='module')
def credentials(password_file):
    return {'smtp_auth_user': USER, 'smtp_auth_password_file': password_file}


@pytest.fixture(scope='module')
def stage(module_place, authority, credentials):
    """Each server refuses at first, and is good at the second attempt."""
    tls = authority.leaf('x', '127.0.0.1').server()
    peers = {name: module_place.keep(Peer(script, GOOD, tls=tls))
             for name, (script, _, _) in REFUSALS.items()}
    daemon = module_place.sluice(
        transports={'smtp': credentials},
        routes={f'{name}.test': ('smtp', peer.nexthop) for name, peer in peers.items()})
    for name in peers:
        submit(daemon, 'a@back.test', [f'user@{name}.test'], message(name))
    return daemon, peers


def assert_secret(daemon, *more):
    """Nothing that the daemon wrote or said holds the password."""
    said = [daemon.command(*what, *form).stdout
            for what in (['messages'], ['destinations'], *more) for form in ([], ['--json'])]
    for folder, _, names in os.walk(daemon.folder):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                with contextlib.suppress(FileNotFoundError), open(path, 'rb') as file:  # it may have gone
                    said.append(file.read())
    assert daemon.events() and daemon.log()
    for text in said:
        assert not any(secret.encode() in text for secret in SECRETS)


@pytest.mark.parametrize('name', REFUSALS)
def test_refusal(stage, name):
    """Deferred, whatever is said; delivered once the server lets us in."""
    daemon, peers = stage
    _, code, status = REFUSALS[name]
    recipient = f'user@{name}.test'
    daemon.wait_event('Delivery', recipient)
    first, *_, last = daemon.results(recipient)
    assert first['type'] == 'TransientFailure' and last['type'] == 'Delivery', first
    assert status_of(first) == status and first['response']['code'] == (code or 0), first
    assert not daemon.of('Bounce', recipient)
    peer = peers[name]
    assert not peer.errors and len(peer.bodies) == 1
    heard = peer.transcripts[0]
    assert not [line for line in heard if line.startswith('MAIL')]
    if name in IN_CLEAR:
        assert not [line for line in heard if line.startswith('AUTH')]


def test_nobody_hears_of_it(stage):
    daemon, _ = stage
    for name in REFUSALS:
        daemon.wait_event('Delivery', f'user@{name}.test')
    echoed = daemon.results('user@echoed.test')[0]['response']['content']
    assert 'not shown' in echoed
    assert_secret(daemon)


def test_while_it_waits(place, authority, credentials):
    """What the queue says of a message that is deferred by a server that repeats the password."""
    peer = place.keep(Peer(REFUSALS['echoed'][0], tls=authority.leaf('x').server()))
    daemon = place.sluice(transports={'smtp': credentials},
                          routes={'*': ('smtp', peer.nexthop)},
                          options={'minimal_backoff_time': '300s', 'maximal_backoff_time': '300s'})
    submit(daemon, 'a@back.test', ['user@x.test'], message())
    daemon.wait_event('TransientFailure', 'user@x.test')
    [queued] = until(lambda: [m for m in daemon.query('messages') if m['state'] == 'deferred'],
                     'the deferred message')
    assert 'not shown' in queued['last_reply']
    assert_secret(daemon, ['show', queued['id']])
    assert daemon.stop() == 0
    assert not any(secret in daemon.log() for secret in SECRETS)


@pytest.mark.parametrize('script', [ASK_PLAIN, ASK_LOGIN + SAY_LOGIN], ids=['plain', 'login'])
def test_once_a_connection(place, authority, credentials, script):
    """Verified, logged in, and used for the second message as it is."""
    peer = place.keep(Peer(SECURE + script + IN + 2 * MAIL + 'wait',
                           tls=authority.leaf('x', '127.0.0.1').server()))
    daemon = place.sluice(
        routes={'*': ('smtp', peer.nexthop)}, options={'workers': 1},
        transports={'smtp': {**credentials, 'smtp_tls_security_level': 'verify',
                             'smtp_tls_CAfile': authority.cert,
                             'smtp_connection_cache_time_limit': '60s'}})
    for name in ('one', 'two'):
        submit(daemon, 'a@back.test', [f'{name}@x.test'], message())
        assert daemon.wait_event('Delivery', f'{name}@x.test')['tls_verdict'] == 'Verified'
    assert peer.connections == 1 and not peer.errors
    assert_secret(daemon)


def test_the_wrong_server_is_not_told(place, authority, credentials):
    """At level verify."""
    peer = place.keep(Peer(GOOD, tls=authority.leaf('x', 'elsewhere.test').server()))
    daemon = place.sluice(
        routes={'*': ('smtp', peer.nexthop)},
        transports={'smtp': {**credentials, 'smtp_tls_security_level': 'verify',
                             'smtp_tls_CAfile': authority.cert}})
    submit(daemon, 'a@back.test', ['user@x.test'], message())
    assert status_of(daemon.wait_event('TransientFailure', 'user@x.test')) == '4.7.5'
    assert not any('AUTH' in line for heard in peer.transcripts for line in heard)


def test_in_clear_where_that_is_allowed(place, credentials):
    peer = place.keep(Peer(CLEAR + ASK_PLAIN + IN + MAIL + 'wait'))
    daemon = place.sluice(
        routes={'*': ('smtp', peer.nexthop)},
        transports={'smtp': {**credentials, 'smtp_auth_requires_tls': False}})
    submit(daemon, 'a@back.test', ['user@x.test'], message())
    daemon.wait_event('Delivery', 'user@x.test')
    assert not peer.errors


def test_credentials_stay_with_their_transport(place, credentials):
    """The same host by way of another transport is not told them."""
    peer = place.keep(Peer('good', extensions=['AUTH PLAIN']))
    daemon = place.sluice(
        transports={'open': {}, 'known': {**credentials, 'smtp_auth_requires_tls': False}},
        routes={'open.test': ('open', peer.nexthop), 'known.test': ('known', peer.nexthop)})
    for domain in ('known.test', 'open.test'):
        submit(daemon, 'a@back.test', [f'user@{domain}'], message())
        daemon.wait_event('Delivery', f'user@{domain}')
    assert [any(line.startswith('AUTH') for line in heard) for heard in peer.transcripts] == \
        [True, False]


@pytest.mark.parametrize('content,reason', [(None, 'No such file'), ('', 'the first line is empty'),
                                            ('x' * 5000, 'more than 4000 bytes')])
def test_bad_password_file(place, content, reason):
    path = os.path.join(place.folder, 'password')
    if content is not None:
        with open(path, 'w', encoding='ascii') as file:
            file.write(content)
    daemon = place.sluice(
        start=False, routes={'*': ('smtp', '[127.0.0.1]:9')},
        transports={'smtp': {'smtp_auth_user': USER, 'smtp_auth_password_file': path}})
    daemon.start(wait=False)
    assert daemon.wait_exit() == 78
    assert 'transport "smtp": smtp_auth_password_file' in daemon.log() and reason in daemon.log()


def test_check_warns(place, credentials):
    daemon = place.sluice(start=False, transports={'smtp': credentials},
                          routes={'*': ('smtp', '[127.0.0.1]:9')})
    done = daemon.command('check')
    assert done.returncode == 0 and b'write verify' in done.stdout + done.stderr
