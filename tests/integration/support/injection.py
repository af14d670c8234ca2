"""POST /v1/inject over the control socket."""
import http.client
import json
import os
import socket

from support.wait import PATIENCE


class Answer:
    def __init__(self, response, body):
        self.status, self.body = response.status, body
        self.retry_after = response.getheader('Retry-After')
        self.object = json.loads(body)

    def __repr__(self):
        return f'{self.status} {self.body[:2000]!r}'

    def expect(self, status):
        assert self.status == status, self
        return self.object

    @property
    def places(self):
        """Where the mistakes are."""
        return [mistake['where'] for mistake in self.expect(422)['mistakes']]


class Connection(http.client.HTTPConnection):
    def __init__(self, daemon):
        super().__init__('localhost', timeout=PATIENCE)
        self.path = os.path.join(daemon.spool, 'control')

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self.path)


def post(daemon, body, query='', content_type='application/json', connection=None, headers=()):
    """body: what JSON is made of, or bytes"""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    use = connection or Connection(daemon)
    try:
        try:
            use.request('POST', f'/v1/inject{query}', data, {'Content-Type': content_type, **dict(headers)})
        except BrokenPipeError:
            pass  # refused without the body
        response = use.getresponse()
        return Answer(response, response.read())
    finally:
        if connection is None:
            use.close()
