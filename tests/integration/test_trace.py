"""`sluice trace`: a dialogue can be read after it failed and while it goes on, no secret is in it,
and neither readers nor thousands of destinations cost more than they may."""
import base64
import json
import os
import re
import signal
import socket
import subprocess
import urllib.parse

import pytest

from support.address import free_port
from support.certificates import Authority
from support.client import message, submit
from support.daemon import PROGRAM
from support.peer import Peer
from support.tools import Sink, Source
from support.wait import settled, until

REFUSING = ('send 220 peer.test ESMTP\nexpect EHLO\nsend 250-peer.test\nsend 250 8BITMIME\n'
            'expect MAIL\nsend 250 2.1.0 ok\nexpect RCPT\nsend 450 4.2.1 full of mail\nexpect RSET\nsend 250 ok\nwait')
USER, PASSWORD = 'relay@customer.test', 'correct horse & staple'


def encoded(text):
    return base64.b64encode(text.encode()).decode()


PLAIN = encoded(f'\0{USER}\0{PASSWORD}')
SECRETS = [PASSWORD, encoded(PASSWORD), PLAIN, PLAIN.rstrip('=')]


def trace(daemon, destination, *options):
    return daemon.query('trace', destination, *options)


def texts(session, directions='<>-'):
    return [line['text'] for line in session['lines'] if line['dir'] in directions]


def dialogue(session):
    return [f"{line['dir']} {line['text']}" for line in session['lines'] if line['dir'] != '-']


def ended(daemon, destination):
    """Its sessions, when there are some and all are over."""
    found = trace(daemon, destination)
    return found if found and not any(s['open'] for s in found) else None


def wait_ended(daemon, destination, fits=lambda sessions: True):
    def seen():
        found = ended(daemon, destination)
        return found if found and fits(found) else None
    return until(seen, f'sessions with {destination} that are over')


def test_failure_can_be_read_when_it_is_over(place):
    """The whole dialogue of a refusal, with the message's id; then a good session beside it."""
    peer = place.keep(Peer(REFUSING, 'good'))
    daemon = place.sluice(routes={'*': ('smtp', peer.nexthop)},
                          transports={'smtp': {'smtp_connection_cache_time_limit': '0s'}})
    submit(daemon, 'a@back.test', ['user@x.test'], message())
    event = daemon.wait_event('Delivery', 'user@x.test')
    failed, good = wait_ended(daemon, peer.nexthop, lambda found: len(found) == 2)
    assert failed['failed'] and not good['failed']
    assert 'said: 450 4.2.1 full of mail' in failed['outcome'] and good['outcome'] == 'ok'
    assert (failed['delivered'], good['delivered']) == (0, 1)
    for session in failed, good:
        assert session['destination'] == peer.nexthop and session['transport'] == 'smtp'
        assert session['address'] == '127.0.0.1' and session['host'] == '127.0.0.1'
        assert session['started'] <= session['ended']
        assert not session['excerpt']
        times = [line['t'] for line in session['lines']]
        assert times == sorted(times) and times[0] == 0
        assert [line['n'] for line in session['lines']] == list(range(len(times)))
    assert failed['session'] < good['session']
    assert dialogue(failed)[:3] == ['< 220 peer.test ESMTP', '> EHLO relay.test',
                                    '< 250-peer.test']
    said = dialogue(failed)
    assert '> RCPT TO:<user@x.test>' in said and '< 450 4.2.1 full of mail' in said
    assert re.match(r'connect to \[127\.0\.0\.1\]:\d+$', texts(failed, '-')[0])
    assert re.match(r'connected from \[127\.0\.0\.1\]:\d+$', texts(failed, '-')[1])
    assert texts(failed, '-')[-1] == 'closed'
    bodies = [text for text in texts(good, '>') if text.startswith('[')]
    assert len(bodies) == 1 and re.fullmatch(r'\[\d+ bytes of message [0-9a-f]{16}\]', bodies[0])
    assert event['id'].startswith(bodies[0].split()[-1].rstrip(']')) or \
        bodies[0].split()[-1].rstrip(']') in json.dumps(event)
    assert trace(daemon, peer.nexthop, '--failed') == [failed]
    assert trace(daemon, peer.nexthop, '--last', '1') == [good]
    assert trace(daemon, peer.nexthop, '--transport', 'smtp') == [failed, good]
    assert trace(daemon, peer.nexthop.upper()) == [failed, good]
    assert trace(daemon, 'elsewhere.test') == []
    table = daemon.command('trace', peer.nexthop).stdout.decode()
    assert '< 450 4.2.1 full of mail\n' in table and '= ok; 1 message delivered\n' in table


def test_no_connection(place):
    """Nobody listens there: why stands in the trace."""
    nexthop = f'[127.0.0.1]:{free_port()}'
    daemon = place.sluice(routes={'*': ('smtp', nexthop)})
    submit(daemon, 'a@back.test', ['user@x.test'], message())
    daemon.wait_event('TransientFailure', 'user@x.test')
    session = wait_ended(daemon, nexthop)[0]
    assert session['outcome'] == 'Connection refused' and session['failed']
    assert texts(session)[1:] == ['no connection: Connection refused', 'closed']


def test_loss_and_strange_bytes(place):
    """What a server says is shown as text, whatever it is, and a lost connection as that."""
    peer = place.keep(Peer('send 220-\\ hi\nraw 220 \\x1b[2J\\x00\\xff\\r\\n\nexpect EHLO\nclose',
                           'good'))
    daemon = place.sluice(routes={'*': ('smtp', peer.nexthop)})
    submit(daemon, 'a@back.test', ['user@x.test'], message())
    daemon.wait_event('Delivery', 'user@x.test')
    session = until(lambda: trace(daemon, peer.nexthop, '--failed'), 'the failure')[0]
    heard = texts(session, '<')
    assert heard[0] == '220-\\\\ hi' and heard[1] == '220 \\x1b[2J\\x00\\xff'
    assert any('lost connection with' in text for text in texts(session, '-')), texts(session)
    table = daemon.command('trace', peer.nexthop).stdout
    assert not [b for b in table if b < 32 and b != 10 or b > 126]


CLEAR = 'send 220 peer.test ESMTP\nexpect EHLO\nsend 250-peer.test\n'
LOGINS = {
    'plain': f'send 250 AUTH PLAIN\nexpect AUTH PLAIN {PLAIN}\n',
    'login': f'send 250 AUTH LOGIN\nexpect AUTH LOGIN\nsend 334 {encoded("Username:")}\n'
             f'expect {encoded(USER)}\nsend 334 {encoded("Password:")}\n'
             f'expect {encoded(PASSWORD)}\n',
}
ECHO = f'raw 535-5.7.8 not {PASSWORD[:4]}\ndrip {PASSWORD[4:9]}\nraw {PASSWORD[9:]}\\r\\n\n' \
       f'send 535 5.7.8 {encoded(PASSWORD)} {PLAIN}\nwait'


@pytest.mark.parametrize('mechanism', LOGINS)
@pytest.mark.parametrize('tls', (False, True), ids=('clear', 'tls'))
def test_secrets_are_masked(place, mechanism, tls):
    """No byte of the password, nor of a form of it, is in any answer, even when it is said back:
    while the session goes on (it is asked for all the time), when it failed, when it worked."""
    password = os.path.join(place.subfolder('password'), 'password')
    with open(password, 'w', encoding='ascii') as file:
        file.write(PASSWORD + '\n')
    authority = Authority(place.subfolder('certificates'))
    begin = CLEAR + ('send 250 STARTTLS\nexpect STARTTLS\nsend 220 go\nstarttls\nexpect EHLO\n'
                     'send 250-peer.test\n' if tls else '')
    peer = place.keep(Peer(begin + LOGINS[mechanism] + ECHO,
                           begin + LOGINS[mechanism] + f'send 235 2.7.0 in as {PASSWORD}\nenvelope\n'
                           f'data\nsend 250 2.0.0 kept for {PLAIN}\nwait',
                           tls=authority.leaf('x', '127.0.0.1').server()))
    daemon = place.sluice(
        routes={'*': ('smtp', peer.nexthop)},
        transports={'smtp': {'smtp_auth_user': USER, 'smtp_auth_password_file': password,
                             'smtp_auth_requires_tls': 'no',
                             'smtp_tls_security_level': 'may' if tls else 'none'}})
    submit(daemon, 'a@back.test', ['user@x.test'], message())
    answers = []

    def ask():
        for form in ([], ['--json']):
            answers.append(daemon.command('trace', peer.nexthop, *form).stdout.decode())
        return daemon.of('Delivery', 'user@x.test')
    until(ask, 'the delivery')
    ask()
    assert not [s for s in SECRETS for answer in answers if s in answer]

    def check():
        failed, good = trace(daemon, peer.nexthop, '--failed')[0], trace(daemon, peer.nexthop)[-1]
        for session in failed, good:
            said = texts(session, '>')
            if mechanism == 'plain':
                assert 'AUTH PLAIN ***' in said
            else:
                at = said.index('AUTH LOGIN')
                assert said[at + 1:at + 3] == ['***', '***']
            assert ('STARTTLS' in said) == tls
            assert any(text.startswith('TLS: TLSv1.') for text in texts(session, '-')) == tls
        assert '535-5.7.8 not ' + '*' * len(PASSWORD) in texts(failed, '<'), texts(failed)
        assert f'250 2.0.0 kept for {"*" * len(PLAIN)}' in texts(good, '<')
    settled(check)


def test_long_session_keeps_its_ends(place):
    """Hundreds of messages on one connection: the first and the last lines, and how many are not
    there. What failed in between stays as an excerpt."""
    refused = []

    def answers(verb, argument, session):
        if verb == 'RCPT' and 'bad@' in argument:
            refused.append(argument)
            return '550 5.1.1 nobody of that name'
        return None
    receiver = place.receiver(answers=answers)
    daemon = place.sluice(
        routes={'*': ('smtp', receiver.nexthop)},
        transports={'smtp': {'destination_concurrency_limit': 1,
                             'initial_destination_concurrency': 1,
                             'smtp_connection_cache_time_limit': '600s'}})
    for i in range(300):
        name = 'bad' if i == 100 else f'user{i}'
        submit(daemon, '' if name == 'bad' else 'a@back.test', [f'{name}@x.test'], message())
    daemon.wait_events('Delivery', count=299)
    excerpt, session = until(
        lambda: (lambda found: found if len(found) == 2 and found[1]['delivered'] == 299 else None)(
            trace(daemon, receiver.nexthop)), 'the session and its excerpt')
    assert excerpt['excerpt'] and excerpt['session'] == session['session']
    assert '550 5.1.1 nobody of that name' in texts(excerpt, '<')
    assert '550 5.1.1 nobody of that name' not in texts(session, '<')
    gaps = [line for line in session['lines'] if line['text'].endswith('lines left out')]
    assert len(gaps) == 1
    left_out = int(gaps[0]['text'].split()[1])
    numbers = [line['n'] for line in session['lines']]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] + 1 == len(numbers) - 1 + left_out
    assert len(json.dumps(session)) < 20000 and session['delivered'] == 299
    assert 'EHLO relay.test' in texts(session, '>')
    assert session['lines'][-1]['dir'] == '<'


class Follower:
    def __init__(self, place, daemon, *arguments):
        self.path = os.path.join(place.subfolder('follower'), 'out')
        with open(self.path, 'wb') as out:
            self.process = subprocess.Popen(
                [PROGRAM, 'trace', '-c', daemon.config_path, '-f', *arguments], stdout=out,
                stderr=out, stdin=subprocess.DEVNULL)

    def close(self):
        self.process.kill()
        self.process.wait()

    def text(self):
        with open(self.path, encoding='ascii') as out:
            return out.read()


def test_follow_shows_each_line_once(place):
    """What a session says is printed while it goes on, and nothing twice."""
    peer = place.keep(Peer(
        'send 220 peer.test ESMTP\nexpect EHLO\nsend 250 peer.test\nexpect MAIL\nsend 250 ok\n'
        'expect RCPT\nsend 250 ok\nexpect DATA\nhear\nwait', 'good'))
    daemon = place.sluice(routes={'*': ('smtp', peer.nexthop)})
    follower = place.keep(Follower(place, daemon, peer.nexthop))
    submit(daemon, 'a@back.test', ['user@x.test'], message())
    until(lambda: '> DATA' in follower.text(), follower.text)
    [session] = trace(daemon, peer.nexthop)
    assert session['open'] and session['outcome'] == 'open'
    assert daemon.stop() == 0
    until(lambda: follower.process.poll() is not None, 'its end')
    text = follower.text()
    for line in ('220 peer.test ESMTP', 'EHLO relay.test', 'RCPT TO:<user@x.test>', 'DATA'):
        assert text.count(line) == 1, text


def test_follow_under_load_drops(place):
    """Thousands of messages to the one destination that is followed by two who stand still for a while: all are delivered,
    and what could not be shown is counted."""
    folder = place.subfolder('tools')
    sink = place.keep(Sink(place.subfolder('sink')))
    daemon = place.sluice(
        routes={'*': ('smtp', sink.nexthop)},
        transports={'smtp': {'smtp_connection_reuse_count_limit': 20}})
    followers = [place.keep(Follower(place, daemon, sink.nexthop)) for _ in range(2)]
    submit(daemon, 'a@load.test', ['first@load.test'], message())
    until(lambda: all('> DATA' in f.text() for f in followers), 'both follow')
    for follower in followers:
        follower.process.send_signal(signal.SIGSTOP)
    source = place.keep(Source(folder, 'load', f'127.0.0.1:{daemon.port}', '--messages', '6000',
                               '--connections', '4'))
    # Far more than a socket holds; after 30 seconds the daemon would take them for gone.
    daemon.wait_events('Delivery', count=1500, patience=120)
    for follower in followers:
        follower.process.send_signal(signal.SIGCONT)
    source.wait(120)
    daemon.wait_events('Delivery', count=6001, patience=120)
    until(lambda: all('dropped' in f.text() or 'left out' in f.text() for f in followers),
          'lines that were dropped')
    assert all(f.process.poll() is None for f in followers)
    # Nothing twice: of one session no line number comes back.
    for text in (f.text() for f in followers):
        greetings = {}
        session = None
        for line in text.splitlines():
            if found := re.match(r'session (\d+):', line):
                session = found[1]
            elif re.match(r' +0\.\d+ - connect to', line):
                greetings[session] = greetings.get(session, 0) + 1
        assert greetings and set(greetings.values()) == {1}


def used_bytes(daemon):
    """What all that is recorded takes, as an answer's last line says."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(os.path.join(daemon.spool, 'control'))
        sock.sendall(b'GET /v1/trace?destination=x HTTP/1.1\r\nHost: localhost\r\n'
                     b'Connection: close\r\n\r\n')
        answer = b''
        while data := sock.recv(1 << 16):
            answer += data
    return json.loads(answer.splitlines()[-1])['used_bytes']


@pytest.mark.parametrize('memory', (1, 64))
def test_memory_of_many_destinations(place, memory):
    """10,000 destinations: what is recorded stays within trace_memory, and the last are there."""
    sink = place.keep(Sink(place.subfolder('sink'), address='0.0.0.0'))
    daemon = place.sluice(options={'trace_memory': f'{memory}M', 'allow_loopback': True},
                          transports={'smtp': {'smtp_tcp_port': sink.port,
                                               'smtp_connection_cache_time_limit': '0s'}})
    for batch in range(10):
        submit(daemon, 'a@back.test',
               [f'u@[127.{1 + batch}.{i // 250}.{1 + i % 250}]' for i in range(1000)], message())
    daemon.wait_events('Delivery', count=10000, patience=120)
    if memory == 1:
        assert 900_000 < used_bytes(daemon) <= 1 << 20  # all that it may have
    else:
        assert 4 << 20 < used_bytes(daemon) < 20 << 20  # nobody had to go
    last = until(lambda: (lambda found: found if all(s['outcome'] == 'ok' for s in found) else None)(
        [s for n in range(231, 251) for s in trace(daemon, f'[127.10.3.{n}]')]), 'their ends')
    assert len(last) == 20 if memory == 64 else last
    assert not [s for s in last if s['failed'] or s['delivered'] != 1]


def test_what_is_refused(place):
    daemon = place.sluice()
    done = daemon.command('trace')
    assert done.returncode == 64
    for options, word in ((['--transport', 'none'], b'no such transport'),
                          (['--last', '0'], b'limit')):
        done = daemon.command('trace', 'x.test', *options)
        assert done.returncode in (64, 66) and word in done.stderr, done.stderr
    long = urllib.parse.quote('x' * 400)
    assert daemon.command('trace', long).returncode == 64
    silent = place.sluice(options={'trace_memory': 0})
    done = silent.command('trace', 'x.test')
    assert done.returncode == 69 and b'trace_memory' in done.stderr
