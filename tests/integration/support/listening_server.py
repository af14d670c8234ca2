"""What the servers written for the tests have in common: they listen, serve each connection in a
thread of its own, and end with all their connections."""
import socket
import threading


class ListeningServer:
    """A kind of server adds `_serve(sock, ...)`, which speaks on one connection and closes it. It
    is called from the beginning: what it needs is set before this is initialised.
    connections: how many were accepted; is_over: set by close()
    sockets: what close() ends; `_serve` may add to them and take away."""

    connections = 0

    def __init__(self, address='127.0.0.1', port=0, family=socket.AF_INET, backlog=64):
        self.is_over = threading.Event()
        self.sockets = set()
        self.listener = socket.create_server((address, port), family=family, backlog=backlog)
        self.address, self.port = self.listener.getsockname()[:2]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def nexthop(self):
        return f'[{self.address}]:{self.port}'

    def close(self):
        self.is_over.set()
        for sock in [self.listener, *self.sockets]:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sock.close()

    def _accept(self):
        while True:
            try:
                sock, peer = self.listener.accept()
            except OSError:
                return
            arguments = self._accepted(peer)
            self.connections += 1
            self.sockets.add(sock)
            threading.Thread(target=self._serve, args=(sock, *arguments), daemon=True).start()

    def _accepted(self, peer):
        """Called for one connection after the other; what it returns `_serve` gets as well."""
        return (peer,)
