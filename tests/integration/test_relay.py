"""Mail in, mail out, the bytes unchanged."""
import random

import pytest

from support.client import Client, message, submit

HEADER = b'Subject: bytes\r\n\r\n'
SEED = random.Random(1)


def text(size, alphabet=bytes(range(32, 127))):
    """Lines of 70 bytes, CRLF, `size` bytes in total."""
    lines = b'\r\n'.join(bytes(SEED.choices(alphabet, k=70)) for _ in range(min(size, 65536) // 72))
    data = (lines + b'\r\n') * (size // max(len(lines), 1) + 1)
    return data[:max(size - 2, 0)].rstrip(b'\r') + b'\r\n' if size > 2 else b'\r\n'[:size]


BODIES = {
    'nothing at all': b'',
    'header only': b'Subject: no body\r\n',
    'header and empty line': HEADER,
    'no header': b'\r\njust text\r\n',
    '1 KB': HEADER + text(1024),
    '64 KB - 1': HEADER + text(65535),
    '64 KB': HEADER + text(65536),
    '64 KB + 1': HEADER + text(65537),
    '8 bit': HEADER + bytes(range(128, 256)) + b'\r\n' + 'Grüße\r\n'.encode(),
    'long line': HEADER + b'x' * 102400 + b'\r\n',
    'line of 998': HEADER + b'y' * 998 + b'\r\n',
    'leading dots': HEADER + b'.\r\n..\r\n...\r\n.a\r\n..b\r\n',
    'only a dot': HEADER + b'.\r\n',
    'first line a dot': b'.\r\n',
    'ends': HEADER + b'.\r\n\r\n.\r\n.\r\n\r\n',
    'empty lines': HEADER + b'\r\n' * 500,
    'blanks at line ends': HEADER + b'a \r\n \r\n\t\r\n',
    'control characters': HEADER + bytes(b for b in range(1, 32) if b not in (10, 13)) + b'\r\n',
}


@pytest.fixture(scope='module')
def shared(module_place):
    """As `relay`, for several tests."""
    receiver = module_place.receiver()
    return module_place.sluice(routes={'*': ('smtp', receiver.nexthop)}), receiver


@pytest.mark.parametrize('name', BODIES)
def test_body_is_unchanged(shared, name):
    daemon, receiver = shared
    recipient = f'{name.replace(" ", "-").replace("+", "p")}@a.test'
    submit(daemon, 'sender@sender.test', [recipient], BODIES[name], ' BODY=8BITMIME')
    daemon.wait_event('Delivery', recipient)
    [received] = receiver.to(recipient)
    assert received.sender == 'sender@sender.test'
    trace, content = received.split()
    assert content == BODIES[name]
    assert trace.startswith(b'Received: from client.test')
    assert b'by relay.test' in trace


def test_25_megabytes(shared):
    daemon, receiver = shared
    body = HEADER + text(25 << 20)
    submit(daemon, 'sender@sender.test', ['big@a.test'], body)
    daemon.wait_event('Delivery', 'big@a.test')
    [received] = receiver.to('big@a.test')
    assert received.content == body


def test_pipelined_session(relay):
    daemon, receiver = relay
    with Client(daemon) as client:
        client.ehlo()
        for n in range(20):
            client.send(f'MAIL FROM:<a@a.test>\r\nRCPT TO:<p{n}@a.test>\r\nDATA\r\n')
            assert [client.reply().code for _ in range(3)] == [250, 250, 354]
            client.send(b'Subject: x\r\n\r\n%d\r\n.\r\n' % n)
            client.expect(250)
        client.say('QUIT', 221)
    daemon.wait_events('Delivery', count=20)
    for n in range(20):
        [received] = receiver.to(f'p{n}@a.test')
        assert received.content == b'Subject: x\r\n\r\n%d\r\n' % n


def test_many_recipients_reach_everyone_once(relay):
    daemon, receiver = relay
    recipients = [f'r{n}@d{n % 5}.test' for n in range(500)]
    submit(daemon, 'a@a.test', recipients, message())
    daemon.wait_events('Delivery', count=500)
    got = [r for m in receiver.messages for r in m.recipients]
    assert sorted(got) == sorted(recipients)
    assert len(receiver.messages) < 100


def test_two_daemons_in_a_row(place):
    receiver = place.receiver()
    second = place.sluice(routes={'*': ('smtp', receiver.nexthop)}, options={'hostname': 'b.test'})
    first = place.sluice(routes={'*': ('smtp', f'[127.0.0.1]:{second.port}')})
    submit(first, 'a@a.test', ['x@x.test'], message())
    [received] = receiver.wait()
    assert received.body.count(b'Received: ') == 2
