"""sluice-sink with a behaviour file: what each destination and domain does, seen from a socket."""
import errno
import json
import signal
import socket
import subprocess
import time

import pytest

from support.wait import is_ever_below
from test_tools import ADDRESS, BENCH, TIMEOUT, by_name, sink, source  # noqa: F401 (a fixture)

OTHER = '127.0.3.2'
BOTH = f'{ADDRESS}-{OTHER}'


@pytest.fixture
def behaving(sink, tmp_path):  # noqa: F811
    """A sink at two addresses with the text of a behaviour file."""

    def start(text, *options, hosts=BOTH, **more):
        path = tmp_path / 'behaviour.conf'
        path.write_text(text)
        return sink('--behaviour', str(path), *options, hosts=hosts, **more)

    return start


class Client:
    """A connection that says what it is told and times the answers."""

    def __init__(self, server, host=ADDRESS, source_address='127.0.0.1'):
        self.begin = time.monotonic()
        self.sock = socket.create_connection((host, server.port), TIMEOUT, (source_address, 0))
        self.file = self.sock.makefile('rb')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.sock.close()

    def reply(self):
        """The last line of one reply; '' when the connection has ended."""
        while (line := self.file.readline().decode())[3:4] == '-':
            pass
        return line.rstrip()

    def say(self, text):
        self.begin = time.monotonic()
        self.sock.sendall(f'{text}\r\n'.encode())
        return self.reply()

    def took(self):
        return time.monotonic() - self.begin

    def deliver(self, *recipients, sender='a@b.test'):
        """One message; the replies to MAIL, to each RCPT, and to what followed."""
        replies = [self.say(f'MAIL FROM:<{sender}>')]
        if replies[-1][:1] == '2':
            replies += [self.say(f'RCPT TO:<{one}>') for one in recipients]
        if any(line[:1] == '2' for line in replies[1:]):
            replies.append(self.say('DATA'))
            if replies[-1][:1] == '3':
                replies.append(self.say('x\r\n.'))
        elif replies[0][:1] == '2' and replies[-1][:3] != '421':
            self.say('RSET')
        return replies

    def fate(self, *recipients, **more):
        return self.deliver(*recipients, **more)[-1][:3]


def hello(server, host=ADDRESS, **more):
    client = Client(server, host, **more)
    assert client.reply()[:3] == '220'
    assert client.say('EHLO client.test')[:3] == '250'
    return client


def test_delays_by_stage(behaving):
    server = behaving('''
        destination "127.0.3.1" { delay_banner = 60 delay_ehlo = 70 delay_mail = 80
                                  delay_rcpt = 90 delay_data = 100 delay_dot = "110-130" }
        domain "slow.test" { delay_rcpt = 200 delay_dot = 210 }''')
    with Client(server) as client, Client(server, OTHER) as quick:
        assert client.reply()[:3] == '220' and client.took() >= 0.06
        for text, least in (('EHLO c.test', 0.07), ('MAIL FROM:<a@b.test>', 0.08),
                            ('RCPT TO:<x@d1.test>', 0.09), ('DATA', 0.1), ('x\r\n.', 0.11),
                            ('MAIL FROM:<a@b.test>', 0.08), ('RCPT TO:<x@slow.test>', 0.2),
                            ('DATA', 0.1), ('x\r\n.', 0.21)):
            assert client.say(text)[:1] in '23' and client.took() >= least, text
        # The delay of the domain holds at every address, and nothing else does here.
        assert quick.reply()[:3] == '220'
        assert quick.say('EHLO c.test')[:3] == '250'
        def deliver():
            begin = time.monotonic()
            assert quick.fate('x@d1.test') == '250'
            return time.monotonic() - begin
        assert is_ever_below(0.2, deliver)
        begin = time.monotonic()
        assert quick.fate('x@slow.test') == '250'
        assert time.monotonic() - begin >= 0.4


def test_tarpit_grows(behaving):
    server = behaving('destination "127.0.3.1" { tarpit = 30 }')
    with Client(server) as client:
        assert client.reply()[:3] == '220' and client.took() >= 0.03
        for i in range(2, 7):
            assert client.say('NOOP')[:3] == '250' and client.took() >= i * 0.03

    def greet():
        with Client(server) as client:
            assert client.reply()[:3] == '220'
            return client.took()
    assert is_ever_below(0.18, greet)  # each connection for itself


def test_connections_are_limited(behaving):
    server = behaving('''
        destination "127.0.3.1" { connections = 3 connections_per_client = 2 }
        destination "127.0.3.2" { connections = 1 }''')
    with hello(server) as first, hello(server) as second:
        with Client(server) as third:
            assert third.reply()[:3] == '421' and third.reply() == ''
        with hello(server, source_address='127.0.0.2') as elsewhere:
            with Client(server, source_address='127.0.0.3') as fourth:
                assert fourth.reply()[:3] == '421'
            assert elsewhere.say('NOOP')[:3] == '250'
        assert {c.say('NOOP')[:3] for c in (first, second)} == {'250'}
        with hello(server, OTHER):
            with Client(server, OTHER, source_address='127.0.0.2') as more:
                assert more.reply()[:3] == '421'
    numbers = server.finish()
    listeners = by_name(numbers['listeners'], 'address')
    assert listeners[f'{ADDRESS}:{server.port}']['refused'] == 2
    assert listeners[f'{ADDRESS}:{server.port}']['max_open'] == 3
    assert listeners[f'{OTHER}:{server.port}']['refused'] == 1
    assert numbers['refused'] == 3


def test_messages_and_recipients_are_limited(behaving):
    server = behaving('''
        default { messages_per_connection = 2 recipients_per_message = 2 }
        domain "d2.test" { recipients_per_message = 1 }''')
    with hello(server) as client:
        replies = client.deliver('a@d1.test', 'b@d1.test', 'c@d1.test')
        assert [line[:3] for line in replies] == ['250', '250', '250', '452', '354', '250']
        replies = client.deliver('a@d2.test', 'b@d2.test')
        assert [line[:3] for line in replies] == ['250', '250', '452', '354', '250']
        assert client.say('MAIL FROM:<a@b.test>')[:3] == '421' and client.reply() == ''
    with hello(server) as client:
        assert client.fate('a@d1.test') == '250'
    numbers = server.finish()
    assert (numbers['messages'], numbers['recipients'], numbers['rejected']) == (3, 4, 2)
    domains = by_name(numbers['domains'], 'domain')
    assert (domains['d1.test']['rejected'], domains['d2.test']['rejected']) == (1, 1)


def test_rates(behaving):
    server = behaving('''
        destination "127.0.3.1" { rate = 5/d }
        destination "127.0.3.2" { rate = 4/d rate_reply = "451 4.7.1 slower" }
        domain "d9.test" { rate = 2/d rate_reply = "450 4.2.1 not so fast" }''')
    with hello(server) as client:
        assert [client.fate('x@d1.test') for _ in range(5)] == ['250'] * 5
        assert client.deliver('x@d1.test')[-1] == '421 4.7.0 too many messages'
        assert client.reply() == ''
    with hello(server) as client:
        assert client.say('MAIL FROM:<a@b.test>')[:3] == '421'
    with hello(server, OTHER) as client:
        # One message to many of a domain counts once.
        replies = client.deliver('x@d9.test', 'y@d9.test', 'z@d1.test')
        assert {line[:3] for line in replies} == {'250', '354'}
        assert client.fate('x@d9.test') == '250'
        replies = client.deliver('x@d9.test', 'z@d1.test')
        assert replies[1] == '450 4.2.1 not so fast' and replies[-1][:3] == '250'
        assert client.fate('z@d1.test') == '250'
        assert client.deliver('z@d1.test') == ['451 4.7.1 slower']
        assert client.say('NOOP')[:3] == '250'
    numbers = server.finish()
    assert (numbers['messages'], numbers['deferred'], numbers['rejected']) == (9, 3, 1)
    listeners = by_name(numbers['listeners'], 'address')
    assert listeners[f'{ADDRESS}:{server.port}']['deferred'] == 2
    assert by_name(numbers['domains'], 'domain')['d9.test']['rejected'] == 1


def test_rejections_by_stage(behaving):
    for stage, index in (('mail', 0), ('rcpt', 1), ('data', 2), ('dot', 3)):
        server = behaving(f'''
            destination "127.0.3.1" {{ reject = {{"{stage}:1:553 5.7.1 never"}} }}
            destination "127.0.3.2" {{ reject = {{"{stage}:1:421 4.7.1 later"}} }}''')
        with hello(server) as client, hello(server, OTHER) as closing:
            replies = client.deliver('x@d1.test')
            assert replies[index] == '553 5.7.1 never' and len(replies) == index + 1, stage
            assert client.say('NOOP')[:3] == '250'
            assert client.deliver('x@d1.test')[index] == '553 5.7.1 never'
            assert closing.deliver('x@d1.test')[index] == '421 4.7.1 later'
            assert closing.reply() == ''
        numbers = server.finish()
        assert numbers['messages'] == 0
        # 4xx to a recipient is of the recipient, elsewhere of the message.
        expected = (3, 0) if stage == 'rcpt' else (2, 1)
        assert (numbers['rejected'], numbers['deferred']) == expected, stage
    server = behaving('''
        destination "127.0.3.1" { reject = {"banner:1:554 5.7.1 no service"} }
        destination "127.0.3.2" { reject = {"ehlo:1:502 5.7.1 no"} }''')
    with Client(server) as client, Client(server, OTHER) as other:
        assert client.reply() == '554 5.7.1 no service' and client.reply() == ''
        assert other.reply()[:3] == '220' and other.say('EHLO x')[:3] == '502'
    numbers = server.finish()
    assert numbers['refused'] == 1


def test_a_domain_speaks_for_its_recipients(behaving):
    server = behaving('''
        default { reject = {"rcpt:1:550 5.1.1 nobody"} }
        domain "d1.test" { reject = {"dot:1:451 4.3.0 not now"} }
        domain "d2.test" { reject = {} greylist = 0 }
        domain "d3.test" { reject = {"rcpt:1:452 4.2.2 full"} }''')
    with hello(server) as client:
        replies = client.deliver('x@other.test', 'x@d3.test', 'X@D1.test')
        assert [line[:3] for line in replies] == ['250', '550', '452', '250', '354', '451']
    domains = by_name(server.finish()['domains'], 'domain')
    assert domains['d1.test']['deferred'] == 1
    assert domains['d3.test']['rejected'] == domains['other.test']['rejected'] == 1


def test_greylist(behaving):
    server = behaving('destination "127.0.3.1" { greylist = 1 }')
    with hello(server) as client:
        begin = time.monotonic()
        assert client.deliver('x@d1.test')[-1][:3] == '451'
        assert client.deliver('x@d1.test', sender='other@b.test')[-1][:3] == '451'
        while client.fate('x@d1.test') != '250':
            assert time.monotonic() - begin < TIMEOUT
            time.sleep(0.02)
        assert time.monotonic() - begin >= 1
        assert client.fate('y@d1.test') == '451'
        assert client.fate('x@d1.test') == '250'
    with hello(server, source_address='127.0.0.2') as elsewhere:
        assert elsewhere.fate('x@d1.test') == '451'
    with hello(server, OTHER) as other:
        assert other.fate('x@d1.test') == '250'


def test_faults_of_one_destination(behaving):
    server = behaving('''
        destination "127.0.3.1" { fault = {"reset:1"} }
        destination "127.0.3.2" { fault = {"close:1"} }''')
    with Client(server) as client:
        assert client.reply()[:3] == '220'
        with pytest.raises(ConnectionResetError):
            client.say('NOOP')
            client.reply()
    with hello(server, OTHER) as other:
        assert other.fate('x@d1.test') == '250'
        assert other.reply() == ''


def test_silent(behaving):
    server = behaving('destination "127.0.3.1" { silent = yes }')
    with socket.socket() as unheard, hello(server, OTHER) as other:
        unheard.setblocking(False)
        assert unheard.connect_ex((ADDRESS, server.port)) == errno.EINPROGRESS
        # On loopback a connection is there before connect returns, or is not.
        for _ in range(20):
            assert other.say('NOOP')[:3] == '250'
        with pytest.raises(OSError, match='not connected') as failure:
            unheard.getpeername()
        assert failure.value.errno == errno.ENOTCONN
    numbers = server.finish()
    assert by_name(numbers['listeners'], 'address')[f'{ADDRESS}:{server.port}']['connections'] == 0


def test_hold_extensions_and_round_trip(behaving):
    server = behaving('''
        destination "127.0.3.1" { hold = yes extensions = {size, "chunking"} }
        destination "127.0.3.2" { round_trip = 150 extensions = none }''')
    with Client(server) as held, Client(server, OTHER) as far:
        assert far.reply()[:3] == '220' and far.took() >= 0.15

        def eleven():
            far.begin = time.monotonic()
            far.sock.sendall(b'EHLO x\r\n' + b'NOOP\r\n' * 10)
            assert [far.reply()[:3] for _ in range(11)] == ['250'] * 11
            assert far.took() >= 0.15
            return far.took()
        assert is_ever_below(11 * 0.15, eleven)
        held.sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            held.sock.recv(100)
        held.sock.settimeout(TIMEOUT)
        server.process.send_signal(signal.SIGUSR2)
        assert held.reply()[:3] == '220'
        held.sock.sendall(b'EHLO x\r\n')
        lines = [held.file.readline()[4:].split()[0] for _ in range(3)]
        assert lines[1:] == [b'CHUNKING', b'SIZE']


def test_profiles(behaving, tmp_path):
    listed = subprocess.run([str(BENCH / 'sluice-sink'), '--profiles'], capture_output=True,
                            text=True, timeout=TIMEOUT, check=True).stdout
    names = [line.split()[0] for line in listed.splitlines()]
    assert {'gmail', 'outlook', 'yahoo'} <= set(names)
    folder = tmp_path / 'profiles'
    folder.mkdir()
    (folder / 'mine.conf').write_text('profile mine { description = x messages_per_connection = 1 }')
    server = behaving('default { use = mine }', '--profiles-dir', str(folder))
    with hello(server) as client:
        assert [client.fate('x@d1.test') for _ in range(2)] == ['250', '421']
    server = behaving('destination "127.0.3.1" { use = yahoo delay_dot = 0 round_trip = 0 '
                      'delay_rcpt = 0 reject = {} }')
    with hello(server) as client:
        assert [client.fate('x@d1.test') for _ in range(21)] == ['250'] * 20 + ['421']


def test_mistakes_end_the_program(tmp_path):
    path = tmp_path / 'wrong.conf'
    path.write_text('default {\n  delay = 3\n  rate = 3\n}\n')
    for options, text in ((['--behaviour', str(path)], f'{path}:2: delay: there is no such key'),
                          (['--behaviour', str(path)], f'{path}:3: rate: "3" is not a rate; write'),
                          (['--behaviour', '/no/such'], '/no/such: No such file'),
                          (['--profiles', '--profiles-dir', '/no/such'], '--profiles-dir'),
                          (['--timeline', '0'], '--timeline 0: not understood'),
                          (['--delay-dot', '3-1'], '3-1 is out of range; write 0 to')):
        done = subprocess.run([str(BENCH / 'sluice-sink'), *options], capture_output=True,
                              text=True, timeout=TIMEOUT)
        assert done.returncode in (64, 78) and text in done.stderr, done.stderr


def test_a_destination_without_address_is_told(behaving):
    server = behaving('destination "127.0.9.1" { tarpit = 1 }')
    assert 'behaviour.conf:1: destination "127.0.9.1": no listening address' in server.log.read_text()


def test_timeline(behaving):
    server = behaving('destination "127.0.3.2" { rate = 30/d rate_reply = "450 4.7.1 no" }',
                      '--timeline', '100')
    with hello(server) as idle:
        source(server.port, '--messages', '500', '--connections', '5', '--rate', '1000')
        with hello(server, OTHER) as client:
            for _ in range(50):
                client.deliver('x@d1.test')
        idle.say('QUIT')
    numbers = server.finish()
    for quantity in [numbers, *numbers['listeners'], *numbers['domains']]:
        latency = quantity['latency']
        assert latency['p50'] <= latency['p90'] <= latency['p99'] <= latency['max']
    timeline = numbers['timeline']
    assert timeline['interval'] == 0.1 and timeline['start'] <= numbers['first']
    intervals = int(numbers['uptime'] / 0.1) + 1
    first, second = (timeline['listeners'][f'{host}:{server.port}'] for host in (ADDRESS, OTHER))
    for series in (first, second):
        assert {len(values) for values in series.values()} == {intervals}
    assert (sum(first['messages']), sum(first['deferred']), max(first['open'])) == (500, 0, 6)
    assert (sum(second['messages']), sum(second['deferred']), max(second['open'])) == (30, 20, 1)
    for messages, p50, p99 in zip(first['messages'], first['latency_p50'], first['latency_p99']):
        assert (p50 is None) == (messages == 0)
        assert messages == 0 or 0 < p50 <= p99 <= numbers['latency']['max']
    assert set(second['latency_p50']) == {None}  # these carried no stamp
    here, there = (timeline['domains'][name] for name in ('example.test', 'd1.test'))
    assert (here['messages'], here['latency_p50']) == (first['messages'], first['latency_p50'])
    assert there['messages'] == second['messages'] and len(timeline['domains']) == 2
    at = int((numbers['first'] - timeline['start']) / 0.1)
    assert first['messages'][at] > 0 and sum(first['messages'][:at]) == 0


def test_many_addresses_and_domains(sink, tmp_path):  # noqa: F811
    path = tmp_path / 'many.conf'
    path.write_text('default { delay_ehlo = 1000 delay_mail = 0 }\n'
                    'destination "127.1.0.1-127.1.39.16" { delay_ehlo = 1 }\n'
                    'destination "127.1.39.16" { rate = 3/d }\n' +
                    ''.join(f'domain "d{i}.test" {{ delay_dot = 1 }}\n' for i in range(1, 2001)))
    server = sink('--behaviour', str(path), '--timeline', '1000', '--json', str(tmp_path / 'live'),
                  hosts='127.1.0.1-127.1.39.16')
    done = subprocess.run(
        [str(BENCH / 'sluice-source'), '--to', f'127.1.20.7:{server.port}', '--messages', '12000',
         '--connections', '8', '--pipelining', '--domains', 'd%d.test:12000', '--size', '500'],
        capture_output=True, timeout=2 * TIMEOUT)
    assert done.returncode == 0, done.stderr
    with hello(server, '127.1.39.16') as client:
        assert [client.fate('x@last.test') for _ in range(4)] == ['250'] * 3 + ['421']
    numbers = server.finish()
    assert len(numbers['listeners']) == len(numbers['timeline']['listeners']) == 10000
    assert numbers['messages'] == 12003 and len(numbers['domains']) == 12001
    domains = by_name(numbers['domains'], 'domain')
    assert {domains[f'd{i}.test']['messages'] for i in range(1, 12001)} == {1}
    assert domains['last.test']['messages'] == 3


def test_source_and_sink_agree_whatever_happens(behaving):
    server = behaving('''
        default { reject = {"mail:0.05:450 4.7.1 x", "rcpt:0.05:550 5.1.1 x",
                            "data:0.05:451 4.3.0 x", "dot:0.05:452 4.3.1 x"}
                  rate = 3000/d rate_reply = "450 4.7.1 y" messages_per_connection = 40
                  delay_rcpt = "0-2" }
        domain "d2.test" { reject = {"rcpt:0.2:450 4.2.1 x", "dot:0.2:554 5.7.1 x"} }''')
    done = subprocess.run(
        [str(BENCH / 'sluice-source'), '--to', f'{ADDRESS}:{server.port}', '--messages', '1500',
         '--connections', '20', '--domains', 'd%d.test:3', '--retry', '--per-connection', '40'],
        capture_output=True, text=True, timeout=TIMEOUT)
    sent = json.loads(done.stdout)
    received = server.finish()
    assert sent['acked'] == received['messages'] > 500
    assert sent['unknown'] == 0 and sent['acked'] + sent['refused'] + sent['deferred'] == 1500
    assert sum(d['messages'] for d in received['domains']) == received['messages']
    assert sum(d['rejected'] for d in received['domains']) == received['rejected'] > 50
    # At MAIL no domain is known yet.
    assert received['deferred'] > sum(d['deferred'] for d in received['domains']) > 0
