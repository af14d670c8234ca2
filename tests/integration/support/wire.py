"""A way to a server that may be cut in either direction, be slow, or lose what it carries, as networks do."""
import socket
import struct
import threading
import time

from support.listening_server import ListeningServer
from support.wait import PATIENCE

TICK = 0.01


class Connection:
    """lost: directions in which bytes are missing, so that they cannot go on"""

    def __init__(self, here, there):
        self.ends, self.lost, self.is_over = {'up': here, 'down': there}, set(), False

    def close(self, with_reset=False):
        self.is_over = True
        for end in self.ends.values():
            try:
                if with_reset:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is over already
            end.close()


class Wire(ListeningServer):
    """Both directions, 'up' to the server and 'down' from it:
    held: what comes is sent when the direction is not held any more, however late, as TCP does
    losing: what comes is gone, and so are its connections by mend()
    delay: seconds that each piece takes"""

    def __init__(self, port):
        self.server_port, self.delay = port, 0.0
        self.held, self.losing = set(), set()
        self.passing = set()
        super().__init__()

    @property
    def url(self):
        return f'nats://127.0.0.1:{self.port}'

    def _serve(self, sock, peer):
        try:
            there = socket.create_connection(('127.0.0.1', self.server_port), PATIENCE)
            there.settimeout(None)
        except OSError:
            sock.close()
            return
        for end in (sock, there):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(sock, there)
        self.passing.add(connection)
        other = threading.Thread(target=self._pass, args=(connection, 'up'), daemon=True)
        other.start()
        self._pass(connection, 'down')
        other.join()
        self.passing.discard(connection)
        self.sockets.discard(sock)

    def _pass(self, connection, way):
        source, target = connection.ends[way], connection.ends['down' if way == 'up' else 'up']
        try:
            while data := source.recv(65536):
                self._passes(way, data)
                time.sleep(self.delay)
                while way in self.held and not connection.is_over:
                    time.sleep(TICK)
                if way in self.losing:
                    connection.lost.add(way)
                elif way not in connection.lost:
                    target.sendall(data)
        except OSError:
            pass
        connection.close()

    def _passes(self, way, data):
        """For tests that wait for what they know in it."""

    def break_all(self):
        """Every connection ends by a reset."""
        for connection in list(self.passing):
            connection.close(with_reset=True)

    def mend(self):
        self.delay = 0.0
        self.held.clear()
        self.losing.clear()
        for connection in list(self.passing):
            if connection.lost:
                connection.close(with_reset=True)

    def close(self):
        self.mend()
        self.break_all()
        super().close()
