"""POST /v1/inject over the control socket."""
import json

from support.api import Connection


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
