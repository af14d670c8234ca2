"""A sender without a queue on one connection: what the receiver itself can do in each mode.

lockstep    one command at a time
pipelining  the end of one message and the envelope of the next in one group (RFC 2920): one round
            trip a message
chunking    MAIL, RCPT and BDAT of one message after the other, replies only counted (RFC 3030)
"""
import selectors
import socket
import time

MODES = ('lockstep', 'pipelining', 'chunking')
BLOCK = 64  # messages that chunking writes at once


class RawClient:
    def __init__(self, address, port, size):
        self.sock = socket.create_connection((address, port), 60)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.body = b'Subject: raw\r\n\r\n' + b'x' * 70 + b'\r\n'
        self.body = (self.body * (size // len(self.body) + 1))[:size - 2] + b'\r\n'
        self.envelope = b'MAIL FROM:<raw@client.test>\r\nRCPT TO:<r@d1.test>\r\n'
        self.pending = b''
        self.expect(b'220')
        self.say(b'EHLO client.test\r\n', b'250')

    def expect(self, *codes):
        """One reply for each code."""
        for code in codes:
            while True:
                while b'\n' not in self.pending:
                    data = self.sock.recv(65536)
                    if not data:
                        raise EOFError('the receiver closed the connection')
                    self.pending += data
                line, self.pending = self.pending.split(b'\n', 1)
                if line[3:4] != b'-':
                    break
            if line[:3] != code:
                raise ValueError(f'{line!r} instead of {code!r}')

    def say(self, data, *codes):
        self.sock.sendall(data)
        self.expect(*codes)

    def run(self, mode, seconds):
        """Send for so long. Returns (messages answered, seconds from the first to the last)."""
        begin = time.monotonic()
        count = getattr(self, mode)(begin + seconds)
        elapsed = time.monotonic() - begin
        self.sock.close()
        return count, elapsed

    def lockstep(self, end):
        count = 0
        mail, rcpt = self.envelope.splitlines(keepends=True)
        while time.monotonic() < end:
            self.say(mail, b'250')
            self.say(rcpt, b'250')
            self.say(b'DATA\r\n', b'354')
            self.say(self.body + b'.\r\n', b'250')
            count += 1
        return count

    def pipelining(self, end):
        count = 0
        self.say(self.envelope + b'DATA\r\n', b'250', b'250', b'354')
        group = self.body + b'.\r\n' + self.envelope + b'DATA\r\n'
        while time.monotonic() < end:
            self.say(group, b'250', b'250', b'250', b'354')
            count += 1
        self.say(self.body + b'.\r\n', b'250')
        return count + 1

    def chunking(self, end):
        one = self.envelope + b'BDAT %d LAST\r\n' % len(self.body) + self.body
        block = memoryview(one * BLOCK)
        sent = replies = at = 0
        self.sock.setblocking(False)
        with selectors.DefaultSelector() as selector:
            selector.register(self.sock, selectors.EVENT_READ | selectors.EVENT_WRITE)
            while True:
                is_over = at == 0 and time.monotonic() >= end
                if is_over:
                    selector.modify(self.sock, selectors.EVENT_READ)
                    if replies == 3 * sent:
                        return sent
                for _, events in selector.select(60):
                    if events & selectors.EVENT_READ:
                        data = self.sock.recv(1 << 18)
                        replies += data.count(b'\n')
                        if not data or b'\n5' in data or b'\n4' in data:
                            raise ValueError(f'{data[-200:]!r}')
                    if events & selectors.EVENT_WRITE:
                        at += self.sock.send(block[at:])
                        if at == len(block):
                            at = 0
                            sent += BLOCK
