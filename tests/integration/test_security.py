"""Clients that mean no good: smuggled messages, relaying, words before TLS, and waste."""
import itertools
import subprocess
import time

import pytest

from support.certificate import make_certificate
from support.client import Client, message, submit
from support.wait import PATIENCE, until

# What some other server may take for the end of a message; only CR LF . CR LF is (RFC 5321 4.1.1.4).
ENDINGS = {
    'LF.LF': b'\n.\n', 'LF.CR': b'\n.\r', 'CR.LF': b'\r.\n', 'CR.CR': b'\r.\r',
    'LF.CRLF': b'\n.\r\n', 'CR.CRLF': b'\r.\r\n', 'CRLF.LF': b'\r\n.\n', 'CRLF.CR': b'\r\n.\r',
    'CRLF.CRCRLF': b'\r\n.\r\r\n', 'CRCRLF.CRCRLF': b'\r\r\n.\r\r\n',
    'CRLF NUL.CRLF': b'\r\n\0.\r\n', 'CRLF.NUL CRLF': b'\r\n.\0\r\n', 'CRLF..CRLF': b'\r\n..\r\n',
    'CRLF. CRLF': b'\r\n. \r\n', 'CRLF.VT': b'\r\n.\x0b\r\n', 'CRLF.FF': b'\r\n.\x0c\r\n',
    'CRLF.NEL': b'\r\n.\x85\r\n', 'CRLF.LS': b'\r\n.\xe2\x80\xa8\r\n',
}
SMUGGLED = (b'MAIL FROM:<evil@a.test>\r\nRCPT TO:<victim@a.test>\r\nDATA\r\n'
            b'Subject: smuggled\r\n\r\nsmuggled\r\n')


@pytest.fixture(scope='module')
def shared(module_place):
    receiver = module_place.receiver()
    return module_place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                               listener={'smtpd_hard_error_limit': 1000}), receiver


def pieces(data, way):
    """The bytes in one write, byte by byte, or cut in the middle."""
    if way == 'whole':
        return [data]
    if way == 'bytes':
        return [data[i:i + 1] for i in range(len(data))]
    return [data[:len(data) // 2], data[len(data) // 2:]]


@pytest.mark.parametrize('way', ['whole', 'bytes', 'halves'])
@pytest.mark.parametrize('name', ENDINGS)
def test_smuggling_by_data(shared, name, way):
    """One message or none comes of it, never two."""
    daemon, receiver = shared
    recipient = f'{list(ENDINGS).index(name)}-{way}@a.test'
    with Client(daemon) as client:
        client.ehlo()
        client.mail('a@a.test', [recipient], ' BODY=8BITMIME')
        client.say('DATA', 354)
        client.send(b'Subject: first\r\n\r\nfirst')
        for piece in pieces(ENDINGS[name], way):
            client.send(piece)
        client.send(SMUGGLED + b'.\r\n')
        reply = client.reply()
        assert reply.code in (250, 550, 554), reply
        client.say('NOOP', 250)  # one reply came, not several
        client.say('QUIT', 221)
    if reply.code == 250:
        daemon.wait_event('Delivery', recipient)
        [received] = receiver.to(recipient)
        assert b'\r\nMAIL FROM:<evil@a.test>\r\n' in received.body
        bare = received.body.replace(b'\r\n', b'')
        assert b'\r' not in bare and b'\n' not in bare and b'\0' not in bare
    else:
        assert not receiver.to(recipient)
    assert not daemon.of(recipient='victim@a.test') and not receiver.to('victim@a.test')


@pytest.mark.parametrize('name', ENDINGS)
def test_smuggling_by_bdat(shared, name):
    daemon, receiver = shared
    recipient = f'bdat-{list(ENDINGS).index(name)}@a.test'
    body = b'Subject: first\r\n\r\nfirst' + ENDINGS[name] + SMUGGLED
    with Client(daemon) as client:
        client.ehlo()
        client.mail('a@a.test', [recipient], ' BODY=8BITMIME')
        client.send(b'BDAT %d LAST\r\n' % len(body) + body)
        reply = client.reply()
        assert reply.code in (250, 550, 554), reply
        client.say('NOOP', 250)
    if reply.code == 250:
        daemon.wait_event('Delivery', recipient)
        assert len(receiver.to(recipient)) == 1
    assert not daemon.of(recipient='victim@a.test') and not receiver.to('victim@a.test')


def test_content_of_a_refused_bdat_is_no_command(shared):
    daemon, receiver = shared
    with Client(daemon) as client:
        client.ehlo()
        client.send(b'BDAT %d LAST\r\n' % len(SMUGGLED) + SMUGGLED)
        assert client.reply().code in (503, 554)
        client.say('NOOP', 250)
    assert not receiver.to('victim@a.test')


def test_data_and_bdat_do_not_mix(shared):
    daemon, _ = shared
    with Client(daemon) as client:
        client.ehlo()
        client.mail('a@a.test', ['mix@a.test'])
        client.send(b'BDAT 4\r\nab\r\n')
        client.expect(250)
        client.say('DATA', 503)
        client.send(b'BDAT 2 LAST\r\n\r\n')
        client.expect(250)


# --- relaying ----------------------------------------------------------------------------------------

RELAY = ['user@far.test', 'user%far.test@relay.test', '"user@far.test"@relay.test',
         '@relay.test:user@far.test', 'far.test!user', 'far.test!user@relay.test',
         'user@[127.0.0.1]', 'USER@FAR.TEST', 'user@far.test.', 'user@relay.test',
         'postmaster@far.test', 'user@localhost', 'user@[IPv6:::1]', 'user@@far.test',
         'user@far.test@relay.test', '"user"@far.test', 'user%far.test', 'postmaster']
SENDERS = ['a@far.test', '', 'root@relay.test', 'a@[127.0.0.1]', 'postmaster', 'user@localhost']


def test_nobody_relays_by_default(place):
    """relay_from is empty unless it is written."""
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          listener={'relay_from': ['192.0.2.0/24'],
                                    'smtpd_hard_error_limit': 100000})
    accepted = []
    with Client(daemon) as client:
        client.ehlo()
        for sender, recipient in itertools.product(SENDERS, RELAY):
            if client.say(f'MAIL FROM:<{sender}>').code != 250:
                continue
            reply = client.say(f'RCPT TO:<{recipient}>')
            if reply.code < 500:
                accepted.append((sender, recipient, reply))
            assert client.say('DATA').code >= 500
            client.say('RSET', 250)
    assert not accepted
    assert not daemon.of('Reception')


def test_wrong_words_do_not_make_a_client_trusted(place):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          listener={'relay_from': ['192.0.2.0/24']})
    for line in ('XCLIENT ADDR=192.0.2.1', 'PROXY TCP4 192.0.2.1 192.0.2.2 1 25',
                 'XFORWARD ADDR=192.0.2.1', 'EHLO [192.0.2.1]', 'AUTH PLAIN AHVzZXIAcGFzcw=='):
        with Client(daemon) as client:
            client.send(line + '\r\n')
            client.reply()
            client.say('EHLO [192.0.2.1]')
            client.say('MAIL FROM:<a@a.test>', 250)
            assert client.say('RCPT TO:<b@far.test>').code >= 500


# --- TLS -------------------------------------------------------------------------------------------

@pytest.fixture(scope='module')
def guarded(module_place):
    """STARTTLS and AUTH for a client that is not trusted."""
    folder = module_place.subfolder('tls')
    make_certificate(folder, 'relay.test')
    crypted = subprocess.run(['openssl', 'passwd', '-6', 'secret'], check=True, text=True,
                             capture_output=True).stdout.strip()
    with open(f'{folder}/users', 'w', encoding='utf-8') as users:
        users.write(f'user:{crypted}\n')
    receiver = module_place.receiver()
    daemon = module_place.sluice(
        routes={'*': ('smtp', receiver.nexthop)},
        listener={'relay_from': ['192.0.2.0/24'], 'tls_certificate': f'{folder}/cert',
                  'tls_key': f'{folder}/key', 'users': f'{folder}/users'})
    return daemon, receiver


def test_nothing_said_before_tls_survives(guarded):
    daemon, _ = guarded
    with Client(daemon) as client:
        client.ehlo()
        client.send(b'STARTTLS\r\nEHLO injected.test\r\nMAIL FROM:<evil@a.test>\r\n')
        reply = client.reply()
        if reply.code == 220:
            assert not client.pending
            client.starttls_now()
            assert client.say('MAIL FROM:<a@a.test>').code == 503
            client.ehlo()
            client.say('MAIL FROM:<a@a.test>', 250)  # no other transaction is open
        else:
            assert reply.code in (501, 554)
            assert client.is_closed()[0]


def test_state_before_tls_is_forgotten(guarded):
    daemon, _ = guarded
    with Client(daemon) as client:
        client.ehlo()
        client.starttls()
        assert client.say('MAIL FROM:<a@a.test>').code == 503
        hello = client.ehlo()
        assert 'STARTTLS' not in hello.text and 'AUTH PLAIN LOGIN' in hello.text
        assert client.say('STARTTLS').code in (502, 503, 554)


def test_starttls_with_an_argument(guarded):
    daemon, _ = guarded
    with Client(daemon) as client:
        client.ehlo()
        client.say('STARTTLS now', 501)
        client.say('NOOP', 250)


def test_starttls_in_a_transaction(guarded):
    daemon, _ = guarded
    with Client(daemon) as client:
        client.ehlo()
        client.say('MAIL FROM:<a@a.test>', 250)
        assert client.say('STARTTLS').code in (220, 503)


def test_no_auth_in_clear(guarded):
    daemon, _ = guarded
    with Client(daemon) as client:
        assert 'AUTH' not in client.ehlo().text
        assert client.say('AUTH PLAIN AHVzZXIAc2VjcmV0').code >= 500
        client.say('MAIL FROM:<a@a.test>', 250)
        assert client.say('RCPT TO:<b@b.test>').code >= 500


BAD_AUTH = {'wrong password': 'AHVzZXIAd3Jvbmc=', 'unknown user': 'AG5vYm9keQBzZWNyZXQ=',
            'no user': 'AABzZWNyZXQ=', 'no password': 'AHVzZXIA', 'too few NULs': 'dXNlcgBzZWNyZXQ=',
            'not base64': '!!!!', 'cut base64': 'AHVzZXIAc2VjcmV', 'empty': '=',
            'long': 'A' * 1900, 'other identity': 'cm9vdAB1c2VyAHNlY3JldA==',
            'NUL behind': 'AHVzZXIAc2VjcmV0AA=='}


@pytest.mark.parametrize('name', BAD_AUTH)
def test_bad_credentials(guarded, name):
    daemon, _ = guarded
    with Client(daemon) as client:
        client.ehlo()
        client.starttls()
        client.ehlo()
        assert 400 <= client.say(f'AUTH PLAIN {BAD_AUTH[name]}').code < 600
        client.say('MAIL FROM:<a@a.test>', 250)
        assert client.say('RCPT TO:<b@b.test>').code >= 500


def test_plaintext_instead_of_a_handshake(guarded):
    daemon, _ = guarded
    with Client(daemon) as client:
        client.ehlo()
        client.say('STARTTLS', 220)
        client.send(b'EHLO a\r\nMAIL FROM:<a@a.test>\r\n')
        assert client.is_closed()[0]
    submit_works(daemon)


def submit_works(daemon):
    """The daemon still serves others."""
    with Client(daemon) as client:
        client.ehlo()
        client.say('QUIT', 221)


# --- limits -----------------------------------------------------------------------------------------

@pytest.fixture(scope='module')
def limited(module_place):
    receiver = module_place.receiver()
    return module_place.sluice(
        routes={'*': ('smtp', receiver.nexthop)},
        listener={'message_size_limit': 100000, 'smtpd_recipient_limit': 10,
                  'smtpd_hard_error_limit': 5, 'smtpd_junk_command_limit': 20,
                  'line_length_limit': 1024, 'smtpd_connection_limit': 60})


@pytest.fixture
def impatient(place):
    return place.sluice(listener={'smtpd_timeout': '2s'})


def test_announced_size(limited):
    with Client(limited) as client:
        assert 'SIZE 100000' in client.ehlo().text
        client.say('MAIL FROM:<a@a.test> SIZE=100001', 552)
        for size in ('18446744073709551616', '99999999999999999999999999', '-1', '0x10', ''):
            assert client.say(f'MAIL FROM:<a@a.test> SIZE={size}').code in (501, 552)


def test_size_of_data(limited):
    with Client(limited) as client:
        client.ehlo()
        client.mail('a@a.test', ['b@b.test'], ' SIZE=100')
        client.data(b'x' * 70000 + b'\r\n' + b'y' * 70000 + b'\r\n', 552)
        client.mail('a@a.test', ['b@b.test'])
        client.data(message())


def test_size_of_chunks(limited):
    with Client(limited) as client:
        client.ehlo()
        client.mail('a@a.test', ['b@b.test'])
        code = 250
        for _ in range(3):
            client.send(b'BDAT 50000\r\n' + b'x' * 49998 + b'\r\n')
            code = client.reply().code
        assert code in (552, 503, 554)


@pytest.mark.parametrize('size', ['18446744073709551615', '18446744073709551616', '-1', '0x10', 'x',
                                  '1e9', '', '4294967296'])
def test_odd_size_of_a_chunk(limited, size):
    with Client(limited) as client:
        client.ehlo()
        client.mail('a@a.test', ['b@b.test'])
        client.send(f'BDAT {size}\r\n')
        reply = client.reply()
        assert reply.code in (421, 501, 552), reply
    submit_works(limited)


def test_recipient_limit(limited):
    with Client(limited) as client:
        client.ehlo()
        client.say('MAIL FROM:<a@a.test>', 250)
        for n in range(10):
            client.say(f'RCPT TO:<r{n}@b.test>', 250)
        assert '4.5.3' in client.say('RCPT TO:<r10@b.test>', 452).text
        client.data(message())
    limited.wait_events('Delivery', count=10)


def test_long_command_line(limited):
    with Client(limited) as client:
        client.ehlo()
        client.send(b'NOOP ' + b'x' * 3000 + b'\r\n')
        assert client.reply().code in (500, 501, 421)


def test_endless_command_line(limited):
    with Client(limited) as client:
        client.ehlo()
        try:
            for _ in range(200):
                client.send(b'x' * 65536)
        except OSError:
            return  # closed in the middle
        assert client.is_closed()[0]


def test_errors_end_the_session(limited):
    with Client(limited) as client:
        client.ehlo()
        codes = []
        try:
            for _ in range(20):
                codes.append(client.say('FOO').code)
        except (EOFError, OSError):
            pass
        assert 421 in codes and len(codes) <= 7


def test_junk_commands_end_the_session(limited):
    with Client(limited) as client:
        client.ehlo()
        codes = []
        try:
            for _ in range(100):
                codes.append(client.say('NOOP').code)
        except (EOFError, OSError):
            pass
        assert 421 in codes and 20 <= len(codes) <= 30


def test_silent_client_is_sent_away(impatient):
    with Client(impatient) as client:
        client.ehlo()
        client.expect(421)
        assert client.is_closed()[0]


def test_slow_command_has_a_deadline(impatient):
    """A byte now and then does not prolong it."""
    with Client(impatient) as client:
        begin = time.monotonic()  # before the reply from which on it counts
        client.ehlo()
        client.sock.settimeout(0.2)
        answer = b''
        while b'421' not in answer:
            assert time.monotonic() - begin < PATIENCE
            try:
                client.send(b'N')
                answer += client.sock.recv(1000)
            except TimeoutError:
                continue
            except OSError:
                break
        assert time.monotonic() - begin >= 1.9


def test_many_idle_clients_do_not_stop_the_others(limited):
    clients = [Client(limited) for _ in range(30)]
    try:
        submit(limited, 'a@a.test', ['among@b.test'], message())
        limited.wait_event('Delivery', 'among@b.test')
    finally:
        for client in clients:
            client.close()


def test_connection_limit(limited):
    clients = [Client(limited, greet=False) for _ in range(70)]
    try:
        codes = [client.reply().code for client in clients]
        assert codes.count(421) >= 10 and codes.count(220) >= 30
    finally:
        for client in clients:
            client.close()

    def is_back():
        with Client(limited, greet=False) as client:
            return client.reply().code == 220
    until(is_back, 'room for a client')


def test_connections_of_one_client(place):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          listener={'relay_from': ['192.0.2.0/24'],
                                    'smtpd_client_connection_count_limit': 3})
    clients = [Client(daemon, greet=False, source='127.0.0.2') for _ in range(4)]
    assert sorted(client.reply().code for client in clients) == [220, 220, 220, 421]
    with Client(daemon, greet=False, source='127.0.0.3') as other:
        other.expect(220)
    for client in clients:
        client.close()


def test_hop_limit(place):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)}, options={'hopcount_limit': 10})
    with Client(daemon) as client:
        client.ehlo()
        client.mail('a@a.test', ['b@b.test'])
        assert '5.4.6' in client.data(b'Received: from x by y; now\r\n' * 11 + message(),
                                      554).text
        client.mail('a@a.test', ['b@b.test'])
        client.data(b'Received: from x by y; now\r\n' * 10 + message())


def test_a_loop_ends(place):
    """Two relays that send everything to each other."""
    one = place.sluice(start=False, options={'hopcount_limit': 10, 'bounce_queue_lifetime': '0s'})
    two = place.sluice(start=False, options={'hopcount_limit': 10, 'bounce_queue_lifetime': '0s'})
    for daemon, other in ((one, two), (two, one)):
        daemon.routes = {'*': ('smtp', f'[127.0.0.1]:{other.port}')}
        daemon.write_config()
        daemon.start()
    submit(one, '', ['b@b.test'], message())
    until(lambda: one.of('Bounce') or two.of('Bounce'), 'the end of the loop')
    one.wait_empty()
    two.wait_empty()
    assert len(one.of('Reception')) + len(two.of('Reception')) <= 12


def test_low_space_refuses_mail(place):
    """More is wanted as reserve than there is: mail is refused for now, and the queue drains."""
    receiver = place.receiver()
    daemon = place.sluice(start=False, routes={'*': ('smtp', receiver.nexthop)},
                          transports={'smtp': {'hold': True}})
    daemon.start()
    submit(daemon, 'a@a.test', ['early@b.test'], message())
    assert daemon.stop() == 0
    daemon.options.update(spool_reserve='60T', map_size='64T')
    daemon.transports = {'smtp': {}}
    daemon.write_config()
    daemon.start()
    daemon.wait_event('Delivery', 'early@b.test')
    with Client(daemon) as client:
        client.ehlo()
        assert '4.3.1' in client.say('MAIL FROM:<a@a.test>', 452).text


ODD = [b'\0\r\n', b'\xff\xfe\r\n', b'MAIL FROM:<a\0b@a.test>\r\n', b'MAIL FROM:<a@a.test\r\n',
       b'GET / HTTP/1.1\r\n', b'POST / HTTP/1.1\r\n', b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
       b'MAIL FROM:<' + b'a' * 2000 + b'@a.test>\r\n', b'RCPT TO:<>\r\n', b'\r\n' * 30,
       b'MAIL FROM:<a@a.test> FOO=BAR\r\n', b'EHLO ' + b'x' * 600 + b'\r\n',
       b'MAIL FROM:<a@b.test>\nRCPT TO:<c@d.test>\n', b'HELO a b c\r\n', b'EHLO\r\n', b' EHLO a\r\n',
       b'MAIL FROM:<gr\xc3\xbcn@a.test>\r\n', b'MAIL FROM:<"a\r\nb"@a.test>\r\n']


@pytest.mark.parametrize('number', range(len(ODD)))
def test_odd_input_harms_nobody(shared, number):
    daemon, _ = shared
    with Client(daemon) as client:
        client.send(ODD[number])
        client.send(b'\r\nQUIT\r\n')
        _, rest = client.is_closed()
        for line in rest.splitlines():
            assert line[:3].isdigit() and line.isascii()
    assert daemon.is_alive()
    submit_works(daemon)
