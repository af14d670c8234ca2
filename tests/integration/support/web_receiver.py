"""A web server that takes posted events; it can be slow, refuse, close, die and come back."""
import http.server
import json
import socket
import ssl
import threading

from support.address import free_port
from support.wait import PATIENCE, until


class Request:
    def __init__(self, headers, body):
        self.headers, self.body = headers, body

    @property
    def events(self):
        text = self.body.decode()
        return json.loads(text) if text.startswith('[') else [json.loads(line) for line in
                                                              text.splitlines()]


class WebReceiver:
    """answer: function (Request) -> status, or None to close the connection without one. Only what
    was answered with 2xx is in `accepted`; everything that came is in `requests`."""

    def __init__(self, answer=lambda request: 204, port=None, tls=None):
        self.answer, self.tls = answer, tls
        self.requests, self.accepted, self.sockets = [], [], []
        self.server = None
        self.port = port or free_port()  # which nobody else takes while it does not listen
        self.start()

    def start(self):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_POST(self):
                request = Request(self.headers, self.rfile.read(int(self.headers['Content-Length'])))
                outer.requests.append(request)
                status = outer.answer(request)
                if status is None:
                    self.close_connection = True
                    return
                if 200 <= status < 300:
                    outer.accepted.append(request)
                try:
                    self.send_response(status)
                    if status in (301, 302, 307):
                        self.send_header('Location', '/elsewhere')
                    self.send_header('Content-Length', '0')
                    self.end_headers()
                except OSError:
                    pass  # it did not wait so long

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_):
                pass  # a client that went away

            def get_request(self):
                accepted = super().get_request()
                outer.sockets.append(accepted[0])
                return accepted

        self.server = Server(('127.0.0.1', self.port), Handler)
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, kwargs={'poll_interval': 0.02},
                         daemon=True).start()

    def close(self):
        """Nobody listens any more; start() comes back on the same port."""
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None
            for sock in self.sockets:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # closed before

    @property
    def url(self):
        return f'{"https" if self.tls else "http"}://127.0.0.1:{self.port}/hook/secret/?key=secret'

    def events(self):
        """Of what was accepted, in order of acceptance."""
        return [event for request in list(self.accepted) for event in request.events]

    def wait(self, kind, count, patience=PATIENCE):
        """Until so many different recipients had such an event; returns all of these events."""
        def there():
            found = [e for e in self.events() if e['type'] == kind]
            return found if len({e['recipient'] for e in found}) >= count else None
        return until(there, lambda: f'{count} x {kind}, of {len(self.events())} events', patience)
