"""A raw SMTP client: sends exactly the bytes it is told to."""
import socket
import ssl

from support.wait import PATIENCE


class Reply:
    def __init__(self, lines):
        self.lines = lines
        self.code = int(lines[-1][:3])
        self.text = '\n'.join(line[4:] for line in lines)

    def __repr__(self):
        return ' / '.join(self.lines)


class Client:
    def __init__(self, target, greet=True, source=None, patience=PATIENCE):
        """target: (address, port), or a Sluice"""
        if not isinstance(target, tuple):
            target = (target.address, target.port)
        self.sock = socket.create_connection(target, patience,
                                             (source, 0) if source is not None else None)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pending = b''
        if greet:
            self.expect(220)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data.encode() if isinstance(data, str) else data)

    def line(self):
        while b'\n' not in self.pending:
            data = self.sock.recv(65536)
            if not data:
                raise EOFError(self.pending)
            self.pending += data
        line, self.pending = self.pending.split(b'\n', 1)
        return line.rstrip(b'\r').decode('utf-8', 'replace')

    def reply(self):
        lines = [self.line()]
        while lines[-1][3:4] == '-':
            lines.append(self.line())
        return Reply(lines)

    def expect(self, code):
        reply = self.reply()
        assert reply.code == code, reply
        return reply

    def say(self, line, code=None):
        self.send(line + '\r\n')
        return self.reply() if code is None else self.expect(code)

    def ehlo(self, name='client.test'):
        return self.say(f'EHLO {name}', 250)

    def starttls(self):
        self.say('STARTTLS', 220)
        assert not self.pending
        self.starttls_now()

    def starttls_now(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self.sock = context.wrap_socket(self.sock)

    def mail(self, sender, recipients, parameters=''):
        self.say(f'MAIL FROM:<{sender}>{parameters}', 250)
        for recipient in recipients:
            self.say(f'RCPT TO:<{recipient}>', 250)

    def data(self, body, code=250):
        """body: bytes with CRLF line ends, without dots doubled"""
        self.say('DATA', 354)
        self.send(stuffed(body))
        return self.expect(code)

    def is_closed(self):
        """Reads to the end; what still comes is returned with it."""
        rest = self.pending
        try:
            while True:
                data = self.sock.recv(65536)
                if not data:
                    return True, rest
                rest += data
        except ConnectionResetError:
            return True, rest
        except socket.timeout:
            return False, rest


def stuffed(body):
    if body.startswith(b'.'):
        body = b'.' + body
    body = body.replace(b'\r\n.', b'\r\n..')
    if body and not body.endswith(b'\r\n'):
        body += b'\r\n'
    return body + b'.\r\n'


def submit(target, sender, recipients, body, parameters='', hello='client.test'):
    """One message in one session; returns the reply to the end of data."""
    with Client(target) as client:
        client.ehlo(hello)
        client.mail(sender, recipients, parameters)
        return client.data(body)


def message(subject='test', text='Hello.\r\n', **headers):
    """A small complete message, bytes."""
    lines = [f'Subject: {subject}', 'From: <sender@sender.test>']
    lines += [f'{name.replace("_", "-")}: {value}' for name, value in headers.items()]
    return ('\r\n'.join(lines) + '\r\n\r\n' + text).encode()
