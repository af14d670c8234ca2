r"""An SMTP server that follows a script, one script a connection; the last one is repeated.

A script is a text of lines:
  expect PREFIX   read a line, which must begin so (upper or lower case)
  begin           read MAIL, and answer RSET where that comes before it
  send TEXT       write the text and CRLF
  raw TEXT        write the text alone; \r \n \0 \xNN are understood
  data            read up to the end of data; the message counts as a copy
  hear            read something, whatever it is
  wait            read and forget until the other side closes
  serve [N [S]]   be a good server until the other side closes, or has sent N messages; each reply
                  comes S seconds after its command, as from afar, while more commands are read
  chunk           read BDAT N LAST and what it announces; the message counts as a copy
  hold N [VERB]   read on until N whole messages have come by BDAT, and then until VERB has come
  answer [V=C..]  answer what was held of one message: command V with code C (none: no reply),
                  the others with 250
  mark            a line in the transcript: what is heard after it (Transcript.after)
  pause SECONDS   let time pass: for rules about time only
  drip TEXT       the text byte by byte, DRIP_SECONDS apart
  flood TEXT      the text again and again, as long as the other side takes it
  silence         read nothing until the test is over
  gate            wait until the test opens the gate (Peer.gate)
  starttls        turn the connection into TLS
  reset           close with RST
  finish          send FIN and go on reading
  close           close; the end of a script does the same
Lines of `hello`, `plain`, `chunks`, `secure`, `envelope`, `accept`, `good` stand for several
(SHORT).
"""
import queue
import socket
import struct
import threading
import time

from support.listening_server import ListeningServer
from support.tls_socket import TlsSocket
from support.wait import PATIENCE

SHORT = {
    'hello': ['send 220 peer.test ESMTP', 'expect EHLO', 'send 250-peer.test',
              'send 250-8BITMIME', 'send 250 PIPELINING'],
    'plain': ['send 220 peer.test ESMTP', 'expect EHLO', 'send 250 peer.test'],
    'envelope': ['expect MAIL', 'send 250 2.1.0 ok', 'expect RCPT', 'send 250 2.1.5 ok',
                 'expect DATA', 'send 354 go'],
    'chunks': ['send 220 peer.test ESMTP', 'expect EHLO', 'send 250-peer.test',
               'send 250-CHUNKING', 'send 250 PIPELINING'],
    'secure': ['send 220 peer.test ESMTP', 'expect EHLO', 'send 250-peer.test',
               'send 250 STARTTLS', 'expect STARTTLS', 'send 220 go', 'starttls'],
    'good': ['send 220 peer.test ESMTP', 'serve'],
    'accept': ['hello', 'envelope', 'data', 'send 250 2.0.0 kept', 'wait'],
}


DRIP_SECONDS = 0.3
FLOOD_BYTES = 4 << 20


class Transcript(list):
    """What was heard on one connection."""
    deepest = 0  # most messages begun and not answered at a time, as `serve` saw it

    def after(self):
        """Behind the mark."""
        return self[self.index(MARK) + 1:] if MARK in self else []


MARK = '--'
GOOD = {'AUTH': '235 2.7.0 in', 'RSET': '250 2.0.0 ok', 'MAIL': '250 2.1.0 ok', 'RCPT': '250 2.1.5 ok',
        'BDAT': '250 2.6.0 kept'}


def expand(script):
    for line in script.strip().splitlines():
        line = line.strip()
        if line in SHORT:
            yield from expand('\n'.join(SHORT[line]))
        elif line:
            yield line


class Peer(ListeningServer):
    """receive_buffer: bytes of a body that fit into the connection when nobody reads
    extensions: that `serve` offers"""

    def __init__(self, *scripts, address='127.0.0.1', port=0, tls=None, receive_buffer=None,
                 extensions=()):
        self.scripts = [list(expand(script)) for script in scripts]
        self.tls, self.extensions = tls, extensions
        self.bodies = []
        self.held = []
        self.transcripts = []
        self.errors = []
        self.gate = threading.Event()
        super().__init__(address, port)
        if receive_buffer:
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)

    def _accepted(self, peer):
        script = self.scripts[min(self.connections, len(self.scripts) - 1)]
        self.transcripts.append(Transcript())
        return script, self.transcripts[-1]

    def _serve(self, sock, script, transcript):
        run = Run(self, sock, transcript)
        try:
            for line in script:
                verb, _, argument = line.partition(' ')
                getattr(run, f'do_{verb}')(argument)
        except AssertionError as error:
            self.errors.append(f'{error}; heard {transcript}')
        except (OSError, EOFError):
            transcript.append('lost')
        finally:
            self.sockets.discard(run.sock)
            run.sock.close()


class Run:
    def __init__(self, peer, sock, transcript):
        self.peer, self.sock, self.transcript = peer, sock, transcript
        sock.settimeout(3 * PATIENCE)  # idle for as long as another part of the test may take
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pending = bytearray()
        self.unanswered = []  # commands of each message that is held

    def read_to(self, end):
        searched = 0
        while True:
            at = self.pending.find(end, searched)
            if at >= 0:
                break
            searched = max(0, len(self.pending) - len(end))
            data = self.sock.recv(65536)
            if not data:
                raise EOFError
            self.pending += data
        text = bytes(self.pending[:at])
        del self.pending[:at + len(end)]
        return text

    def do_expect(self, prefix):
        line = self.read_line()
        assert line.upper().startswith(prefix.upper()), f'expected {prefix}, got {line}'

    def do_begin(self, _):
        line = self.read_line()
        if line.upper() == 'RSET':
            self.do_send(GOOD['RSET'])
            line = self.read_line()
        assert line.upper().startswith('MAIL'), f'expected MAIL, got {line}'

    def do_send(self, text):
        self.sock.sendall(text.encode() + b'\r\n')

    def do_raw(self, text):
        self.sock.sendall(text.encode('latin-1').decode('unicode_escape').encode('latin-1'))

    def do_data(self, _):
        # A body that begins with the final dot is an empty one.
        self.pending[:0] = b'\r\n'
        body = self.read_to(b'\r\n.\r\n')[2:]
        self.peer.bodies.append(body)
        self.transcript.append(f'body {len(body)}')

    def do_hear(self, _):
        self.transcript.append('bytes')
        if not self.sock.recv(65536):
            raise EOFError

    def do_wait(self, _):
        while self.sock.recv(65536):
            pass
        raise EOFError

    def do_chunk(self, _):
        line = self.read_line()
        assert line.startswith('BDAT ') and line.endswith(' LAST'), line
        self.peer.bodies.append(self.read_chunk(line))

    def do_hold(self, argument):
        count, _, last = argument.partition(' ')
        commands, whole = [], 0
        while whole < int(count) or (last and commands[-1:] != [last]):
            line = self.read_line()
            commands.append(line[:4].upper())
            if commands[-1] == 'BDAT':
                self.peer.held.append(self.read_chunk(line))
                self.unanswered.append(commands)
                commands, whole = [], whole + 1
        if commands:
            self.unanswered.append(commands)

    def do_answer(self, argument):
        codes = dict(part.split('=') for part in argument.split())
        for verb in self.unanswered.pop(0):
            code = codes.get(verb, '250')
            if code == '250':
                self.do_send(GOOD[verb])
            elif code:
                self.do_send(f'{code} {code[0]}.0.0 {verb}')

    def read_line(self):
        line = self.read_to(b'\r\n').decode('utf-8', 'replace')
        self.transcript.append(line)
        return line

    def read_chunk(self, line):
        size = int(line.split()[1])
        while len(self.pending) < size:
            data = self.sock.recv(65536)
            if not data:
                raise EOFError
            self.pending += data
        body = bytes(self.pending[:size])
        del self.pending[:size]
        return body

    def do_serve(self, argument):
        count, seconds = (*argument.split(), '0', '0')[:2]
        Service(self, int(count), float(seconds)).run()

    def do_mark(self, _):
        self.transcript.append(MARK)

    def do_drip(self, text):
        for byte in text.encode():
            self.sock.sendall(bytes([byte]))
            if self.peer.is_over.wait(DRIP_SECONDS):
                return

    def do_flood(self, text):
        data = text.encode().decode('unicode_escape').encode('latin-1') * 200
        for _ in range(FLOOD_BYTES // len(data)):
            self.sock.sendall(data)

    def do_pause(self, seconds):
        self.peer.is_over.wait(float(seconds))

    def do_gate(self, _):
        self.peer.gate.wait(3 * PATIENCE)

    def do_silence(self, _):
        self.peer.is_over.wait()

    def do_starttls(self, _):
        self.peer.sockets.discard(self.sock)
        self.sock = TlsSocket(self.peer.tls.wrap_socket(self.sock, server_side=True))
        self.peer.sockets.add(self.sock)

    def do_reset(self, _):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.sock.close()
        raise EOFError

    def do_finish(self, _):
        self.sock.shutdown(socket.SHUT_WR)

    def do_close(self, _):
        raise EOFError


class Service:
    """A good server: the line `serve`."""

    def __init__(self, connection, count, seconds):
        self.connection, self.count, self.seconds = connection, count, seconds
        self.begun = self.answered = 0
        self.replies = queue.Queue()
        if seconds:
            threading.Thread(target=self.write_later, daemon=True).start()

    def write_later(self):
        while True:
            due, text, is_final = self.replies.get()
            time.sleep(max(0, due - time.monotonic()))
            try:
                self.write(text, is_final)
            except OSError:
                pass
            self.replies.task_done()

    def write(self, text, is_final):
        self.answered += is_final  # before its reader can go on
        self.connection.do_send(text)

    def reply(self, text, is_final=False):
        if self.seconds:
            self.replies.put((time.monotonic() + self.seconds, text, is_final))
        else:
            self.write(text, is_final)

    def run(self):
        taken = 0
        while not self.count or taken < self.count:
            line = self.connection.read_line()
            verb = line[:4].upper()
            if verb == 'QUIT':
                self.reply('221 2.0.0 bye')
                break
            if verb == 'MAIL':
                self.begun += 1
                transcript = self.connection.transcript
                transcript.deepest = max(transcript.deepest, self.begun - self.answered)
            taken += self.answer(verb, line)
        self.replies.join()

    def answer(self, verb, line):
        """returns  whether that was the end of a message"""
        if verb == 'EHLO':
            lines = ['peer.test', *self.connection.peer.extensions]
            self.reply('\r\n'.join(f'250{"-" if i + 1 < len(lines) else " "}{text}'
                                   for i, text in enumerate(lines)))
            return False
        if verb == 'BDAT':
            self.connection.peer.bodies.append(self.connection.read_chunk(line))
        elif verb == 'DATA':
            self.reply('354 go')
            self.connection.do_data('')
        else:
            self.reply(GOOD.get(verb, '250 2.0.0 ok'))
            return False
        self.reply(GOOD['BDAT'], is_final=True)
        return True


class FullHost:
    """A port whose queue of connections is full: one more is never answered."""

    def __init__(self, address, port):
        self.address, self.port = address, port
        self.listener = socket.create_server((address, port), backlog=0)
        self.callers = []
        for _ in range(3):
            caller = socket.socket()
            caller.setblocking(False)
            caller.connect_ex((address, port))
            self.callers.append(caller)

    def close(self):
        for sock in [self.listener, *self.callers]:
            sock.close()
