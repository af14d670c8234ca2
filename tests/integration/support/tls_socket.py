"""A TLS connection that one thread reads while another writes: OpenSSL's object bears only one at a
time, and Python 3.11 does not see to that."""
import select
import ssl
import threading


class TlsSocket:
    def __init__(self, sock):
        self.sock = sock
        self.lock = threading.Lock()
        self.timeout = sock.gettimeout()
        sock.settimeout(0)

    def __getattr__(self, name):
        return getattr(self.sock, name)

    def _call(self, function, argument):
        while True:
            with self.lock:
                try:
                    return function(argument)
                except ssl.SSLWantReadError:
                    awaited = select.POLLIN
                except ssl.SSLWantWriteError:
                    awaited = select.POLLOUT
            waiting = select.poll()  # select() takes no descriptor above 1023
            waiting.register(self.sock, awaited)
            if not waiting.poll(self.timeout * 1000):
                raise TimeoutError

    def recv(self, size):
        return self._call(self.sock.recv, size)

    def sendall(self, data):
        rest = memoryview(data)
        while rest:
            rest = rest[self._call(self.sock.send, rest):]
