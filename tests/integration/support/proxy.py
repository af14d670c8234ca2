"""Proxies for outbound connections, written for the tests from the specifications: one that is told
its target by a PROXY header, and one that speaks SOCKS version 5, well or badly."""
import ipaddress
import socket
import struct
import threading

from support.listening_server import ListeningServer
from support.receiver import Receiver
from support.wait import PATIENCE


def read_exactly(sock, count):
    data = b''
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise EOFError(data)
        data += more
    return data


class HeaderReceiver(Receiver):
    """A receiver that wants a PROXY header first, as behind a proxy that is the target as well.
    headers: ((source address, port), (target address, port)) of each connection."""

    def __init__(self, **settings):
        self.headers, self.errors = [], []
        super().__init__(**settings)

    def _serve(self, sock, peer):
        try:
            self.headers.append(self.header(sock))
        except (AssertionError, EOFError) as error:
            self.errors.append(repr(error))
            sock.close()
            return
        super()._serve(sock, peer)

    @staticmethod
    def header(sock):
        head = read_exactly(sock, 16)
        assert head[:12] == b'\r\n\r\n\0\r\nQUIT\n', head
        assert head[12] == 0x21, head  # version 2, PROXY
        family = {0x11: socket.AF_INET, 0x21: socket.AF_INET6}[head[13]]
        size = 4 if family == socket.AF_INET else 16
        length, = struct.unpack('!H', head[14:])
        assert length == 2 * size + 4, head
        body = read_exactly(sock, length)
        source, target = (socket.inet_ntop(family, body[at:at + size]) for at in (0, size))
        ports = struct.unpack('!HH', body[2 * size:])
        return (source, ports[0]), (target, ports[1])


class SocksProxy(ListeningServer):
    """login: (user, password) that it demands, else it demands none.
    answer: bytes that follow the request instead of a connection, before it closes.
    greeting: bytes that it says instead of its choice of a method, before it closes.
    silent_at: 'method' or 'reply', where it says nothing any more.
    is_dribbling: its answers come byte by byte, and the target's first bytes with the last of them.
    requests: (address, port) asked for; logins: (user, password) heard."""

    def __init__(self, login=None, answer=None, greeting=None, silent_at=None, is_dribbling=False):
        self.login, self.answer, self.greeting = login, answer, greeting
        self.silent_at, self.is_dribbling = silent_at, is_dribbling
        self.requests, self.logins, self.errors = [], [], []
        super().__init__()
        self.name = f'{self.address}:{self.port}'

    def _serve(self, sock, _):
        sock.settimeout(PATIENCE)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.dialogue(sock)
        except AssertionError as error:
            self.errors.append(str(error))
        except (OSError, EOFError):
            pass
        finally:
            sock.close()

    def say(self, sock, data, last=b''):
        """last: sent in one piece with the last byte"""
        if self.is_dribbling:
            for n in range(len(data) - 1):
                sock.sendall(data[n:n + 1])
            data = data[-1:]
        sock.sendall(data + last)

    def dialogue(self, sock):
        version, count = read_exactly(sock, 2)
        methods = read_exactly(sock, count)
        assert version == 5 and 0 in methods, (version, methods)
        if self.silent_at == 'method':
            self.is_over.wait()
        if self.greeting is not None:
            sock.sendall(self.greeting)
            return
        if not self.choose(sock, methods):
            return
        target = self.target(sock)
        self.requests.append(target)
        if self.silent_at == 'reply':
            self.is_over.wait()
        if self.answer is not None:
            self.say(sock, self.answer)
            return
        self.pipe(sock, socket.create_connection(target, PATIENCE))

    def choose(self, sock, methods):
        if self.login is None:
            self.say(sock, b'\x05\x00')
            return True
        if 2 not in methods:
            self.say(sock, b'\x05\xff')
            return False
        self.say(sock, b'\x05\x02')
        version, size = read_exactly(sock, 2)
        assert version == 1, version
        user = read_exactly(sock, size)
        password = read_exactly(sock, read_exactly(sock, 1)[0])
        self.logins.append((user.decode(), password.decode()))
        is_good = self.logins[-1] == self.login
        self.say(sock, b'\x01\x00' if is_good else b'\x01\x01')
        return is_good

    @staticmethod
    def target(sock):
        version, command, reserved, kind = read_exactly(sock, 4)
        assert (version, command, reserved) == (5, 1, 0)
        address = ipaddress.ip_address(read_exactly(sock, {1: 4, 4: 16}[kind]))
        return str(address), struct.unpack('!H', read_exactly(sock, 2))[0]

    def pipe(self, client, server):
        self.sockets.add(server)
        for sock in (client, server):
            sock.settimeout(3 * PATIENCE)  # idle for as long as another part of the test may take
        first = server.recv(65536)  # so that the greeting comes together with the reply
        self.say(client, b'\x05\x00\x00\x01' + bytes(6), first)
        threading.Thread(target=self.copy, args=(client, server), daemon=True).start()
        self.copy(server, client)

    @staticmethod
    def copy(source, sink):
        """Either end shows at the other side as what it was."""
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except ConnectionResetError:
            sink.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            sink.close()
        except OSError:
            pass
        for sock in (source, sink):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
