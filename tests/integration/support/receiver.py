"""An SMTP receiver that keeps everything as it came. Written for the tests, so that what is compared
went through no library that would repair it."""
import re
import socket
import threading

from support.listening_server import ListeningServer
from support.wait import PATIENCE, until


class Received:
    """One message that was accepted."""

    def __init__(self, sender, recipients, body, peer, parameters):
        self.sender, self.recipients, self.body = sender, recipients, body
        self.peer, self.parameters = peer, parameters

    def split(self):
        """(trace header that the relay added, the rest); a notice has none"""
        found = re.match(rb'Received:.*?\r\n(?![ \t])', self.body, re.S)
        end = found.end() if found else 0
        return self.body[:end], self.body[end:]

    @property
    def content(self):
        """As it was sent into the relay."""
        return self.split()[1]


class Receiver(ListeningServer):
    """answers: function (verb, argument, session) -> reply line without CRLF, or None for the usual.
    Verbs are upper case; "." is the end of data, "" the greeting."""

    def __init__(self, address='127.0.0.1', port=0, extensions=('PIPELINING', '8BITMIME',
                 'SMTPUTF8', 'SIZE 0', 'ENHANCEDSTATUSCODES'), answers=None, tls=None,
                 family=socket.AF_INET):
        self.extensions, self.answers, self.tls = extensions, answers, tls
        self.messages = []
        self.lock = threading.Lock()
        super().__init__(address, port, family, backlog=512)

    def wait(self, count=1, patience=PATIENCE):
        until(lambda: len(self.messages) >= count,
              lambda: f'{count} messages, {len(self.messages)} came', patience)
        return self.messages

    def to(self, recipient):
        return [m for m in list(self.messages) if recipient in m.recipients]

    def _serve(self, sock, peer):
        try:
            Session(self, sock, peer).run()
        except (OSError, EOFError, ValueError):
            pass
        finally:
            self.sockets.discard(sock)
            sock.close()


class Session:
    def __init__(self, receiver, sock, peer):
        self.receiver, self.sock, self.peer = receiver, sock, peer
        self.file = sock.makefile('rb', 1 << 18)
        self.sender, self.recipients, self.parameters = None, [], ''
        self.is_tls = False
        self.chunks = []
        self.transactions = 0
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def answer(self, verb, argument, usual):
        text = self.receiver.answers and self.receiver.answers(verb, argument, self)
        text = text or usual
        self.sock.sendall(text.encode() + b'\r\n')
        return text[0] in '23'

    def run(self):
        self.answer('', '', '220 receiver.test ESMTP')
        while True:
            line = self.file.readline()
            if not line:
                return
            assert line.endswith(b'\r\n') and line.count(b'\r') == 1, line
            text = line[:-2].decode('utf-8')
            verb, _, argument = text.partition(' ')
            if not self.command(verb.upper(), argument):
                return

    def command(self, verb, argument):
        if verb == 'EHLO':
            extensions = self.receiver.extensions
            if self.receiver.tls and not self.is_tls:
                extensions = (*extensions, 'STARTTLS')
            lines = ['receiver.test', *extensions]
            self.answer(verb, argument, '\r\n'.join(
                f'250{"-" if i + 1 < len(lines) else " "}{t}' for i, t in enumerate(lines)))
        elif verb == 'STARTTLS':
            if self.answer(verb, argument, '220 2.0.0 go ahead'):
                self.sock = self.receiver.tls.wrap_socket(self.sock, server_side=True)
                self.file = self.sock.makefile('rb', 1 << 18)
                self.is_tls = True
        elif verb == 'MAIL':
            found = re.match(r'FROM:<([^>]*)>(.*)$', argument, re.I)
            self.recipients = []
            if self.answer(verb, argument, '250 2.1.0 ok'):
                self.sender, self.parameters = found.group(1), found.group(2)
        elif verb == 'RCPT':
            found = re.match(r'TO:<([^>]*)>', argument, re.I)
            if self.answer(verb, argument, '250 2.1.5 ok'):
                self.recipients.append(found.group(1))
        elif verb == 'DATA':
            usual = '354 go' if self.recipients else '503 5.5.1 no recipients'
            if self.answer(verb, argument, usual):
                self.body()
        elif verb == 'BDAT':
            self.chunk(argument)
        elif verb == 'QUIT':
            self.answer(verb, argument, '221 2.0.0 bye')
            return False
        else:
            self.answer(verb, argument, '250 2.0.0 ok')
        return True

    def body(self):
        parts = []
        while True:
            line = self.file.readline()
            if not line:
                raise EOFError
            assert line.endswith(b'\r\n'), 'a bare LF came'
            assert b'\r' not in line[:-2], 'a bare CR came'
            if line == b'.\r\n':
                break
            parts.append(line[1:] if line.startswith(b'.') else line)
        self.take(b''.join(parts))

    def take(self, body):
        self.transactions += 1
        received = Received(self.sender, list(self.recipients), body, self.peer[0],
                            self.parameters)
        self.recipients = []
        if self.is_accepted(received):
            with self.receiver.lock:
                self.receiver.messages.append(received)
            self.sock.sendall(b'250 2.0.0 kept\r\n')

    def chunk(self, argument):
        size, *last = argument.split()
        data = self.file.read(int(size))
        if len(data) < int(size):
            raise EOFError
        self.chunks.append(data)
        if not last:
            self.sock.sendall(b'250 2.0.0 chunk\r\n')
            return
        body, self.chunks = b''.join(self.chunks), []
        if not self.recipients:
            self.sock.sendall(b'503 5.5.1 no recipients\r\n')
            return
        self.take(body)

    def is_accepted(self, received):
        text = self.receiver.answers and self.receiver.answers('.', received, self)
        if text:
            self.sock.sendall(text.encode() + b'\r\n')
            return False
        return True
