"""An HTTPS server for the MTA-STS policies of one domain, which also takes what is posted; what it
answers can be changed."""
import http.server
import socket
import threading

from support.address import fresh_address


def is_usable():
    """The port of HTTPS cannot be chosen."""
    try:
        socket.create_server((fresh_address(), 443)).close()
    except OSError:
        return False
    return True


def policy(mode, *hosts, max_age=86400):
    lines = ['version: STSv1', f'mode: {mode}', *(f'mx: {host}' for host in hosts),
             f'max_age: {max_age}']
    return ''.join(f'{line}\r\n' for line in lines)


class PolicyHost:
    def __init__(self, context, body=''):
        self.address = fresh_address()
        self.status, self.headers, self.body = 200, {'Content-Type': 'text/plain'}, body
        self.requests, self.posted, self.post_status = [], [], 200
        host = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                host.requests.append((self.headers['Host'], self.path))
                body = host.body.encode()
                self.send_response(host.status)
                for name, value in host.headers.items():
                    self.send_header(name, value)
                if 'Transfer-Encoding' not in host.headers:
                    self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                body = self.rfile.read(int(self.headers['Content-Length']))
                host.posted.append((self.path, dict(self.headers), body))
                self.send_response(host.post_status)
                for name, value in host.headers.items():
                    self.send_header(name, value)
                self.send_header('Content-Length', '0')
                self.end_headers()

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def get_request(self):
                sock, peer = super().get_request()
                return context.wrap_socket(sock, server_side=True,
                                           do_handshake_on_connect=False), peer

            def handle_error(self, *_):
                pass

        self.server = Server((self.address, 443), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
            self.server = None
