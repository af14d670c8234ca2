"""The operators' interface over HTTP: its doors, who gets in, and requests that mean harm."""
import contextlib
import hashlib
import http.client
import json
import os
import socket
import ssl
import threading

import pytest

from support import api
from support.certificate import make_certificate
from support.client import message, submit
from support.wait import PATIENCE, until

SECRET = 'correct horse battery staple'.replace(' ', '-')
HASHED = 'another-secret-of-somebody'
READER = 'who-only-wants-to-know'


# --- asking ----------------------------------------------------------------------------------------

def control(daemon):
    return api.Connection(daemon)


def tcp(daemon):
    return http.client.HTTPConnection(daemon.address, daemon.http_port, timeout=PATIENCE)


DOORS = {'control': control, 'tcp': tcp}


def ask(connection, method, path, body=None, **headers):
    """(status, headers, body); the connection stays."""
    connection.request(method, path, body, {name.replace('_', '-'): value
                                            for name, value in headers.items()})
    response = connection.getresponse()
    return response.status, response.headers, response.read()


def once(connection, *args, **headers):
    with contextlib.closing(connection):
        return ask(connection, *args, **headers)


def is_complete(answer):
    """There is a whole response."""
    head, separator, body = answer.partition(b'\r\n\r\n')
    for line in head.lower().split(b'\r\n'):
        if line.startswith(b'content-length:'):
            return len(body) >= int(line.split(b':')[1])
    return bool(separator) and b' 100 ' not in head.split(b'\r\n')[0]


def say(daemon, data, responses=1):
    """Bytes to the TCP door; what comes back until it closes, or until there is a response."""
    with socket.create_connection((daemon.address, daemon.http_port), PATIENCE) as sock:
        answer = b''
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            sock.sendall(data)
            while not is_complete(answer) or answer.count(b'HTTP/1.') < responses:
                piece = sock.recv(1 << 16)
                if not piece:
                    break
                answer += piece
        return answer


def status_of(answer):
    """0: it closed without a word."""
    if not answer:
        return 0
    assert answer.startswith(b'HTTP/1.'), answer[:200]
    return int(answer.split(b' ', 2)[1])


@pytest.fixture(scope='module')
def daemon(module_place):
    """One with three messages that wait, and a door without tokens."""
    daemon = module_place.sluice(transports={'smtp': {'hold': True}},
                                 http={'trust_loopback': True, 'request_size_limit': '64K', 'connection_limit': 60,
                                       'timeout': '20s'})
    for n in range(3):
        submit(daemon, f's{n}@a.test', [f'x{n}@d{i}.test' for i in range(n + 1)], message(f'm{n}'))
    until(lambda: len(daemon.query('messages')) == 3, '3 messages')
    yield daemon
    assert daemon.is_alive(), daemon.log()
    assert daemon.stop() == 0, daemon.log()


# --- routes over both doors --------------------------------------------------------------------------

ARGUMENTS = {  # for routes that do not answer without
    '/v1/messages/:id': '/v1/messages/{id}', '/v1/why': '/v1/why?message={id}',
    '/v1/trace': '/v1/trace?destination=d0.test', '/v1/windows': '/v1/windows?destination=d0.test',
    '/v1/suppressions/:id': '/v1/suppressions/listed@d0.test', '/v1/heard/:id': '/v1/heard/00000000000000aa',
}


def routes(daemon):
    status, headers, body = once(control(daemon), 'GET', '/v1')
    assert status == 200 and headers['Content-Type'] == 'application/x-ndjson'
    *found, end = [json.loads(line) for line in body.splitlines()]
    assert end['end'] is True and end['count'] == len(found)
    return found


@pytest.mark.parametrize('door', DOORS)
def test_every_route_that_reads(daemon, door):
    first = json.loads(once(control(daemon), 'GET', '/v1/messages?limit=1')[2].splitlines()[0])
    assert once(control(daemon), 'POST', '/v1/suppressions', '{"address": "listed@d0.test"}',
                Content_Type='application/json')[0] == 200
    os.makedirs(os.path.join(daemon.folder, 'spool', 'heard', 'unknown'), exist_ok=True)
    with open(os.path.join(daemon.folder, 'spool', 'heard', 'unknown', '00000000000000aa.eml'), 'wb') as kept:
        kept.write(b'Subject: hello\r\n\r\n')
    connection = DOORS[door](daemon)
    seen = 0
    for route in routes(daemon):
        if route['method'] != 'GET':
            continue
        path = ARGUMENTS.get(route['path'], route['path']).format(id=first['id'])
        status, headers, body = ask(connection, 'GET', path)
        assert status in (200, 503 if path == '/readyz' else 200), (path, status, body[:300])
        assert headers['Cache-Control'] == 'no-store' and \
            headers['X-Content-Type-Options'] == 'nosniff'
        if headers['Content-Type'] == 'application/x-ndjson':
            lines = [json.loads(line) for line in body.splitlines()]
            assert lines[-1]['end'] is True and lines[-1]['count'] == len(lines) - 1
        elif headers['Content-Type'] == 'application/json':
            assert isinstance(json.loads(body), dict)
        head_status, head_headers, nothing = ask(connection, 'HEAD', path)
        assert head_status == status and nothing == b''
        assert head_headers['Content-Type'] == headers['Content-Type']
        seen += 1
    connection.close()
    assert seen >= 10


@pytest.mark.parametrize('door', DOORS)
def test_methods(daemon, door):
    connection = DOORS[door](daemon)
    for path in {route['path'].replace(':id', 'x') for route in routes(daemon)}:
        status, headers, body = ask(connection, 'OPTIONS', path)
        assert status == 204 and 'OPTIONS' in headers['Allow'] and body == b''
        status, headers, body = ask(connection, 'PATCH', path)
        assert status == 405 and headers['Allow'] and json.loads(body)['code'] == 'method'
    assert ask(connection, 'GET', '/v1/nothing')[0] == 404
    assert json.loads(ask(connection, 'DELETE', '/nothing/at/all')[2])['code'] == 'missing'
    connection.close()


def test_pages_of_messages(daemon):
    connection = tcp(daemon)
    found, after = [], ''
    while True:
        *page, end = map(json.loads, ask(connection, 'GET', f'/v1/messages?limit=1{after}')[2]
                         .splitlines())
        found += page
        if not end['more'] or not page:
            break
        after = f'&after={page[-1]["id"]}'
    assert [m['sender'] for m in found] == ['s0@a.test', 's1@a.test', 's2@a.test']
    last = f'/v1/messages/{found[-1]["id"]}'
    whole = json.loads(ask(connection, 'GET', last)[2])
    assert [r['index'] for r in whole['list']] == [0, 1, 2] and whole['more'] is False
    part = json.loads(ask(connection, 'GET', f'{last}?limit=1&after=0')[2])
    assert [r['index'] for r in part['list']] == [1] and part['more'] is True
    connection.close()


def test_page_for_browsers(daemon):
    status, headers, body = once(tcp(daemon), 'GET', '/')
    assert status == 200 and headers['Content-Type'] == 'text/html; charset=utf-8'
    assert body.lstrip().lower().startswith(b'<!doctype html>')
    policy = headers['Content-Security-Policy']
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert 'unsafe-inline' not in policy.split('script-src')[1].split(';')[0]


def test_two_requests_at_once(daemon):
    request = b'GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'
    answer = say(daemon, request + b'GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\n'
                 b'Connection: close\r\n\r\n', responses=2)
    assert answer.count(b'HTTP/1.1 200 OK') == 2


# --- browsers ----------------------------------------------------------------------------------------

@pytest.mark.parametrize('headers, status', [
    ({'Host': 'evil.test'}, 403), ({'Host': '127.0.0.1.evil.test'}, 403), ({'Host': ''}, 403),
    ({'Host': 'localhost'}, 200), ({'Host': 'LOCALHOST:1'}, 200), ({'Host': 'relay.test'}, 200),
    ({'Host': '[::1]:80'}, 200), ({'Host': '192.0.2.1'}, 200),
    ({'Host': '127.0.0.1:1', 'Origin': 'http://127.0.0.1:1'}, 200),
    ({'Host': '127.0.0.1:1', 'Origin': 'http://127.0.0.1:2'}, 403),
    ({'Host': '127.0.0.1', 'Origin': 'http://evil.test'}, 403),
    ({'Host': '127.0.0.1', 'Origin': 'null'}, 403),
])
def test_pages_of_others(daemon, headers, status):
    got, answer_headers, body = once(tcp(daemon), 'GET', '/v1/status', **headers)
    assert got == status, body
    assert 'Access-Control-Allow-Origin' not in answer_headers
    assert once(control(daemon), 'GET', '/v1/status', **headers)[0] == 200


@pytest.mark.parametrize('kind', ['', 'text/plain', 'application/x-www-form-urlencoded',
                                  'multipart/form-data; boundary=x', 'application/jsonx',
                                  'x' * 300])
def test_forms_of_others(daemon, kind):
    headers = {'Content_Type': kind} if kind else {}
    status, _, body = once(tcp(daemon), 'POST', '/v1/flush', b'{"dry_run": true}', **headers)
    assert status == 415 and json.loads(body)['code'] == 'usage'


# --- tokens and TLS ----------------------------------------------------------------------------------

@pytest.fixture
def guarded(place):
    path = os.path.join(place.folder, 'tokens')
    with open(path, 'w', encoding='ascii', opener=lambda p, f: os.open(p, f, 0o600)) as tokens:
        tokens.write(f'# who may ask\nanna:{SECRET}\nread graphs:{READER}\n'
                     f'bot:{hashlib.sha256(HASHED.encode()).hexdigest()}\n')
    return place.sluice(http={'tokens_file': path}, address='127.0.0.1')


def test_tokens(guarded):
    for token in (SECRET, HASHED):
        status, _, _ = once(tcp(guarded), 'GET', '/v1/status', Authorization=f'Bearer {token}')
        assert status == 200
    digest = hashlib.sha256(HASHED.encode()).hexdigest()
    for wrong in (None, '', 'Bearer', f'Bearer {SECRET}x', f'Bearer {SECRET[:-1]}',
                  f'Basic {SECRET}', SECRET, f'Bearer {digest}', 'Bearer ' + 'x' * 9000):
        for path in ('/v1/status', '/v1/nothing', '/v1/status?x=1'):
            headers = {} if wrong is None else {'Authorization': wrong}
            status, headers, body = once(tcp(guarded), 'GET', path, **headers)
            assert status == 401, (wrong, path, body)
            assert headers['WWW-Authenticate'].startswith('Bearer')
            assert json.loads(body)['code'] == 'token'
    for path in ('/healthz', '/readyz', '/'):
        assert once(tcp(guarded), 'GET', path)[0] == 200
    assert once(control(guarded), 'GET', '/v1/status')[0] == 200
    assert SECRET not in guarded.log()


def test_token_that_may_only_look(guarded):
    def asked(method, path, token=READER):
        return once(tcp(guarded), method, path, '{}' if method == 'POST' else None,
                    Authorization=f'Bearer {token}', Content_Type='application/json')[0]
    for path in ('/v1/status', '/metrics', '/v1/messages', '/'):
        assert asked('GET', path) == 200 and asked('HEAD', path) == 200
    changing = [('POST', '/v1/inject'), ('POST', '/v1/orders'), ('POST', '/v1/flush'), ('POST', '/v1/reload'),
                ('POST', '/v1/lanes'), ('DELETE', '/v1/orders/1')]
    for method, path in changing:
        assert asked(method, path) == 403
        assert asked(method, path, SECRET) not in (401, 403)
    assert asked('POST', '/v1/nothing') == 404


@pytest.mark.parametrize('mode, content, what', [
    (0o644, f'anna:{SECRET}\n', 'others may read it'), (0o600, 'anna\n', ':1: '),
    (0o600, '', 'no token'), (0o600, 'anna:short\n', '16 bytes'), (None, '', 'cannot read')])
def test_bad_tokens_file(place, mode, content, what):
    path = os.path.join(place.folder, 'tokens')
    if mode is not None:
        with open(path, 'w', encoding='ascii') as tokens:
            tokens.write(content)
        os.chmod(path, mode)
    daemon = place.sluice(start=False, http={'tokens_file': path})
    done = daemon.command('run')
    assert done.returncode in (69, 78) and what in done.stderr.decode()
    assert SECRET not in done.stderr.decode()


def test_no_tokens_off_loopback(place):
    daemon = place.sluice(start=False, http={})
    text = daemon.config_text().replace(f'http "127.0.0.1:{daemon.http_port}"',
                                        f'http "0.0.0.0:{daemon.http_port}"')
    with open(daemon.config_path, 'w', encoding='utf-8') as config:
        config.write(text)
    done = daemon.command('check')
    assert done.returncode == 78 and b'tokens_file' in done.stderr


def test_tls(place):
    cert, key = make_certificate(place.folder, 'localhost')
    daemon = place.sluice(http={'tls_certificate': cert, 'tls_key': key, 'timeout': '3s'})
    context = ssl.create_default_context(cafile=cert)
    context.check_hostname = False
    def secured():
        return http.client.HTTPSConnection(daemon.address, daemon.http_port, timeout=PATIENCE,
                                           context=context)
    connection = secured()
    for _ in range(3):
        assert ask(connection, 'GET', '/v1/messages')[0] == 200
    connection.close()
    old = ssl.create_default_context(cafile=cert)
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection((daemon.address, daemon.http_port)) as sock, \
            pytest.raises((ssl.SSLError, ConnectionError)):
        old.wrap_socket(sock, server_hostname='localhost')
    assert not say(daemon, b'GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n').startswith(b'HTTP')
    with socket.create_connection((daemon.address, daemon.http_port)) as sock:
        sock.settimeout(PATIENCE)  # it says nothing in the handshake, and is not waited for
        while sock.recv(100):
            pass
    assert once(secured(), 'GET', '/healthz')[0] == 200


@pytest.mark.parametrize('swap', [True, False])
def test_bad_tls_files(place, swap):
    cert, key = make_certificate(place.folder, 'localhost')
    files = (key, cert) if swap else (cert, '/nonexistent')
    daemon = place.sluice(start=False, http={'tls_certificate': files[0], 'tls_key': files[1]})
    done = daemon.command('run')
    assert done.returncode in (69, 78) and b'http "' in done.stderr


# --- requests that mean harm -------------------------------------------------------------------------

def get(path, *headers, version='1.1', method='GET'):
    return '\r\n'.join([f'{method} {path} HTTP/{version}', 'Host: 127.0.0.1', *headers, '', '']
                       ).encode('latin-1')


def post(path, body, *headers, kind='application/json'):
    return get(path, f'Content-Type: {kind}', f'Content-Length: {len(body)}', *headers,
               method='POST') + body


CLOSED = 0  # without a word
MALFORMED = {
    'nothing': (b'', {CLOSED}),
    'a line end': (b'\r\n', {CLOSED, 400}),
    'many line ends': (b'\r\n' * 5000, {CLOSED, 400}),
    'not HTTP': (b'EHLO me\r\n\r\n', {CLOSED, 400}),
    'SMTP is for the control socket': (b'SMTP\r\n\r\n', {CLOSED, 400}),
    'old protocol': (b'queue list\r\n\r\n', {CLOSED, 400, 404, 405}),
    'binary': (bytes(range(256)) * 20, {CLOSED, 400}),
    'zeros': (b'\0' * 4000, {CLOSED, 400}),
    'TLS hello': (bytes.fromhex('16030100c8010000c40303') + b'x' * 200, {CLOSED, 400}),
    'no version': (b'GET /v1\r\n\r\n', {CLOSED, 400, 403, 200}),
    'version 0.9': (get('/v1', version='0.9'), {CLOSED, 400, 505}),
    'version 2.0': (get('/v1', version='2.0'), {CLOSED, 400, 505}),
    'version 1.x': (get('/v1', version='1.x'), {CLOSED, 400, 505}),
    'HTTP/2 preface': (b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', {CLOSED, 400, 404, 505}),
    'no host': (b'GET /v1 HTTP/1.1\r\n\r\n', {400}),
    'no method': (b' /v1 HTTP/1.1\r\nHost: x\r\n\r\n', {CLOSED, 400, 403, 405}),
    'method of 9000 bytes': (b'X' * 9000 + b' /v1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n',
                             {CLOSED, 400, 405, 413, 414, 431}),
    'unknown method': (get('/v1', method='BREW'), {405}),
    'method in lower case': (get('/v1', method='get'), {400, 405}),
    'TRACE': (get('/v1', method='TRACE'), {400, 405}),
    'CONNECT': (get('evil.test:443', method='CONNECT'), {400, 404, 405}),
    'absolute target': (get('http://evil.test/v1/status'), {400, 404}),
    'star': (get('*'), {400, 404}),
    'target without slash': (get('v1/status'), {400, 404}),
    'spaces in the target': (get('/v1/status and more'), {CLOSED, 400, 404}),
    'dots in the path': (get('/v1/../../../etc/passwd'), {404}),
    'encoded dots': (get('/%2e%2e/%2e%2e/etc/passwd'), {404}),
    'double slash': (get('//v1/status'), {404}),
    'slash at the end': (get('/v1/status/'), {404}),
    'NUL in the path': (get('/v1/status%00'), {400}),
    'raw NUL in the path': (get('/v1/nothing\0'), {CLOSED, 400, 404}),
    'line end in the path': (get('/v1/status%0d%0aX:y'), {400}),
    'escape of nothing': (get('/v1/status%'), {400}),
    'escape of letters': (get('/v1/%zz'), {400}),
    'UTF-8 that is none': (get('/v1/messages/%ff%fe'), {400, 404}),
    'long path': (get('/v1/' + 'x' * 20000), {404, 414}),
    'longer path': (get('/v1/' + 'x' * 200000), {CLOSED, 414, 413, 431}),
    'long query': (get('/v1/hosts?match=' + 'x' * 20000), {200, 414}),
    'long parameter name': (get('/v1/hosts?' + 'x' * 20000 + '=1'), {400, 414}),
    'many parameters': (get('/v1/hosts?' + '&'.join(f'p{i}' for i in range(3000))), {414}),
    'many ampersands': (get('/v1/hosts?' + '&' * 20000), {414}),
    'parameter twice': (get('/v1/messages?limit=1&limit=2'), {400}),
    'parameter of another route': (get('/v1/messages?match=x'), {400}),
    'negative limit': (get('/v1/messages?limit=-1'), {400}),
    'limit 0': (get('/v1/messages?limit=0'), {400}),
    'limit too large': (get('/v1/messages?limit=10001'), {400}),
    'limit beyond 64 bits': (get('/v1/messages?limit=99999999999999999999999'), {400}),
    'limit in hex': (get('/v1/messages?limit=0x10'), {400}),
    'limit empty': (get('/v1/messages?limit='), {400}),
    'after is no id': (get('/v1/messages?after=zz'), {400}),
    'after too long': (get('/v1/messages?after=' + '0' * 17), {400}),
    'id is none': (get('/v1/messages/xyz'), {400}),
    'id too long': (get('/v1/messages/' + 'f' * 17), {400}),
    'id of nothing': (get('/v1/messages/ffffffffffffffff'), {404}),
    'id empty': (get('/v1/messages/'), {400, 404}),
    'id with a slash': (get('/v1/messages/1%2f2'), {400, 404}),
    'state of nothing': (get('/v1/destinations?state=asleep'), {400}),
    'recipients beyond all': (get('/v1/messages/1?after=99999999999'), {400}),
    'header without colon': (get('/v1', 'Nonsense'), {CLOSED, 400}),
    'header without name': (get('/v1', ': x'), {CLOSED, 400, 200}),
    'header with a NUL': (get('/v1', 'X-Y: a\0b'), {CLOSED, 400, 200}),
    'header folded': (get('/v1', 'X-Y: a', '  b'), {CLOSED, 400, 200}),
    'header of 100000 bytes': (get('/v1', 'X-Y: ' + 'x' * 100000), {CLOSED, 413, 431}),
    '5000 headers': (get('/v1', *(f'X-{i}: y' for i in range(5000))), {CLOSED, 413, 431}),
    'two hosts': (get('/v1', 'Host: evil.test'), {400, 200}),
    'header never ends': (get('/v1')[:-2] + b'X-Y: z', {CLOSED, 400}),
    'body on GET': (post('/v1/status', b'{}').replace(b'POST', b'GET', 1), {400}),
    'length negative': (get('/v1/flush', 'Content-Length: -1', method='POST'), {CLOSED, 400, 413}),
    'length of letters': (get('/v1/flush', 'Content-Length: x', method='POST'), {CLOSED, 400}),
    'length beyond 64 bits': (get('/v1/flush', 'Content-Type: application/json',
                                  'Content-Length: 99999999999999999999999', method='POST'),
                              {CLOSED, 400, 413}),
    'length too large': (get('/v1/flush', 'Content-Type: application/json',
                             'Content-Length: 99999999', method='POST'), {413}),
    'length longer than the body': (post('/v1/flush', b'{}').replace(b': 2\r', b': 9\r'),
                                    {CLOSED, 400}),
    'length twice': (post('/v1/flush', b'{}', 'Content-Length: 5'), {CLOSED, 400, 200, 202}),
    'length and chunks': (post('/v1/flush', b'0\r\n\r\n', 'Transfer-Encoding: chunked'),
                          {CLOSED, 400, 200, 202}),
    'chunk of letters': (get('/v1/flush', 'Content-Type: application/json',
                             'Transfer-Encoding: chunked', method='POST') + b'xyz\r\n\r\n',
                         {CLOSED, 400}),
    'chunk beyond 64 bits': (get('/v1/flush', 'Content-Type: application/json',
                                 'Transfer-Encoding: chunked', method='POST')
                             + b'f' * 20 + b'\r\n\r\n', {CLOSED, 400, 413}),
    'chunks too large': (get('/v1/flush', 'Content-Type: application/json',
                             'Transfer-Encoding: chunked', method='POST')
                         + (b'1000\r\n' + b' ' * 4096 + b'\r\n') * 18 + b'0\r\n\r\n', {413}),
    'chunks without end': (get('/v1/flush', 'Content-Type: application/json',
                               'Transfer-Encoding: chunked', method='POST')
                           + (b'1000\r\n' + b' ' * 4096 + b'\r\n') * 100, {CLOSED, 413}),
    'unknown transfer coding': (get('/v1/flush', 'Content-Type: application/json',
                                    'Transfer-Encoding: gzip', method='POST'),
                                {CLOSED, 200, 202, 400, 413, 501}),
    'expects something': (get('/v1', 'Expect: miracles'), {200, 400, 417}),
    'upgrade': (get('/v1', 'Connection: Upgrade', 'Upgrade: h2c'), {200, 400}),
    'JSON that is none': (post('/v1/flush', b'{'), {400}),
    'JSON list': (post('/v1/flush', b'[]'), {400}),
    'JSON number': (post('/v1/flush', b'5'), {400}),
    'JSON twice': (post('/v1/flush', b'{} {}'), {400}),
    'JSON with a name twice': (post('/v1/flush', b'{"dry_run": true, "dry_run": false}'), {400}),
    'JSON not in UTF-8': (post('/v1/flush', b'{"tenant": "\xff"}'), {400}),
    'JSON with NUL': (post('/v1/flush', b'{"tenant": "a\\u0000b"}'), {400, 422}),
    'JSON deep': (post('/v1/flush', b'{"a":' * 5000 + b'1' + b'}' * 5000), {400}),
    'JSON number huge': (post('/v1/flush', b'{"a": 1e999}'), {400, 422}),
    'form': (post('/v1/flush', b'a=b', kind='application/x-www-form-urlencoded'), {415}),
    'mail where none is taken': (post('/v1/flush', b'Subject: x\r\n\r\n', kind='message/rfc822'),
                                 {415}),
}


@pytest.fixture(scope='module')
def hasty(module_place):
    """One that does not wait long for the rest of a request."""
    daemon = module_place.sluice(http={'trust_loopback': True, 'request_size_limit': '64K', 'timeout': '2s'})
    yield daemon
    assert daemon.is_alive(), daemon.log()
    assert daemon.stop() == 0, daemon.log()


def test_request_lines_around_the_bound(hasty):
    """Each is answered, whatever memory it leaves for that: none is closed by the timeout."""
    for size in (*range(30600, 30800, 20), *range(32000, 32900, 3)):
        target = '/v1/hosts?match='
        target += 'x' * (size - len(target))
        status = status_of(say(hasty, get(target)))
        assert status == (200 if size <= 30 * 1024 else 414), size


def test_parameters_around_the_bound(hasty):
    """Each takes memory beside the request line: these too are answered, however many there are."""
    for long in (0, 10000, 25000):
        seen = {status_of(say(hasty, get('/v1/hosts?match=' + 'x' * long + '&' * count)))
                for count in (*range(0, 440, 40), *range(440, 560, 4))}
        assert seen == {200, 414}, (long, seen)


@pytest.mark.parametrize('name', MALFORMED)
def test_malformed(hasty, name):
    daemon = hasty
    data, expected = MALFORMED[name]
    answer = say(daemon, data)
    status = status_of(answer)
    assert status in expected, (status, answer[:300])
    if b'application/json' in answer and status >= 400:
        body = json.loads(answer.split(b'\r\n\r\n', 1)[1])
        assert body['error'] and body['code']
    assert once(tcp(daemon), 'GET', '/healthz')[0] == 200
    assert daemon.is_alive()


def test_there_are_enough_malformed_ones():
    assert len(MALFORMED) >= 60


# --- clients that mean harm --------------------------------------------------------------------------

def test_body_that_unfolds(place):
    """Two bytes of JSON can take three hundred of memory, and the thread that unfolds them serves nobody."""
    daemon = place.sluice(http={'trust_loopback': True, }, transports={'smtp': {'hold': True}})
    before = daemon.peak_memory()
    for item in (b'{}', b'[]', b'""', b'0', b'{"":0}'):
        body = b'{"recipients":[' + (item + b',') * (30_000_000 // (len(item) + 1)) + b'0]}'
        status, _, answer = once(tcp(daemon), 'POST', '/v1/inject', body, Content_Type='application/json')
        assert status == 413 and b'objects and arrays' in answer
    assert daemon.peak_memory() - before < 100_000_000
    status, _, answer = once(tcp(daemon), 'POST', '/v1/flush', b' ' * 65537, Content_Type='application/json')
    assert status == 413 and b'65536' in answer


def test_slow_head_and_body(place):
    daemon = place.sluice(http={'timeout': '1s'})
    with socket.create_connection((daemon.address, daemon.http_port)) as silent, \
            socket.create_connection((daemon.address, daemon.http_port)) as slow, \
            socket.create_connection((daemon.address, daemon.http_port)) as slow_body:
        slow_body.sendall(get('/v1/flush', 'Content-Type: application/json',
                              'Content-Length: 60000', method='POST'))
        ended = set()
        streams = {'silent': silent, 'slow': slow, 'body': slow_body}
        for sock in streams.values():
            sock.setblocking(False)

        def drip():
            """A byte now and then keeps nobody from being disconnected."""
            for name in streams.keys() - ended:
                try:
                    if name != 'silent':
                        streams[name].send(b'G')
                    if streams[name].recv(1000) == b'':
                        ended.add(name)
                except BlockingIOError:
                    pass
                except OSError:
                    ended.add(name)
            until(lambda: tcp_is_served(daemon), 'service')  # not always in time for this door, on a busy machine
            return len(ended) == len(streams)
        until(drip, lambda: f'three disconnections: {ended}')


def test_more_connections_than_there_may_be(place):
    daemon = place.sluice(http={'trust_loopback': True, 'connection_limit': 20})
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.create_connection((daemon.address, daemon.http_port)))
                 for _ in range(40)]

        def closed():
            count = 0
            for sock in socks:
                sock.setblocking(False)
                try:
                    count += sock.recv(1, socket.MSG_PEEK) == b''
                except BlockingIOError:
                    pass
                except OSError:
                    count += 1
            return count
        until(lambda: closed() == 20, lambda: f'20 disconnected: {closed()}')
        assert once(control(daemon), 'GET', '/v1/status')[0] == 200
        left = [sock for sock in socks if is_open(sock)]
        left[0].setblocking(True)
        left[0].sendall(get('/healthz'))
        assert left[0].recv(100).startswith(b'HTTP/1.1 200')

    def is_served():
        try:
            return once(tcp(daemon), 'GET', '/v1/status')[0] == 200
        except (OSError, http.client.HTTPException):
            return False
    until(is_served, 'a place for a new connection')


def is_open(sock):
    try:
        return sock.recv(1, socket.MSG_PEEK) != b''
    except BlockingIOError:
        return True
    except OSError:
        return False


def test_clients_that_leave(daemon):
    """In the middle of a request, while its answer is made, and without reading it."""
    for n in range(100):
        for path in (os.path.join(daemon.spool, 'control'), None):
            sock = socket.socket(socket.AF_UNIX if path else socket.AF_INET)
            with sock:
                sock.connect(path or (daemon.address, daemon.http_port))
                with contextlib.suppress(OSError):
                    sock.sendall(get('/v1/messages')[:n + 1] if n % 3 else get('/v1/messages'))
    until(lambda: tcp_is_served(daemon), 'service')
    assert daemon.is_alive()


def tcp_is_served(daemon):
    try:
        return once(tcp(daemon), 'GET', '/v1/messages')[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def test_many_clients(daemon):
    """40 threads over both doors."""
    failures = []

    def work(number):
        connection = DOORS['tcp' if number % 2 else 'control'](daemon)
        try:
            for n in range(50):
                path = ('/v1/messages', '/v1/status', '/v1/destinations', '/v1/messages/1')[n % 4]
                status = ask(connection, 'GET', path)[0]
                if status not in (200, 404):
                    failures.append((path, status))
        except (OSError, http.client.HTTPException) as error:
            failures.append(error)
        finally:
            connection.close()
    threads = [threading.Thread(target=work, args=(n,)) for n in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# --- the control socket ------------------------------------------------------------------------------

def open_control(daemon):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(PATIENCE)
    sock.connect(os.path.join(daemon.spool, 'control'))
    return sock


@pytest.mark.parametrize('pieces', [[b'SMTP\r\n'], [b'SMTP\n'], [b'S', b'M', b'T', b'P', b'\r', b'\n'],
                                    [b'SMTP\r', b'\n']])
def test_mail_over_the_control_socket(daemon, pieces):
    with open_control(daemon) as sock:
        for piece in pieces:
            sock.sendall(piece)
        assert sock.recv(1000).startswith(b'220 ')
        sock.sendall(b'QUIT\r\n')
        assert sock.recv(1000).startswith(b'221 ')


@pytest.mark.parametrize('start', [b'', b'S', b'SMTP', b'SMTP\r'])
def test_half_a_word_and_gone(daemon, start):
    with open_control(daemon) as sock:
        sock.sendall(start)
        sock.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(100) == b''


@pytest.mark.parametrize('start', [b'SMTPX / HTTP/1.1\r\n\r\n', b'SMTP \r\n\r\n', b'smtp\r\n\r\n'])
def test_neither_mail_nor_http(daemon, start):
    with open_control(daemon) as sock:
        sock.sendall(start)
        answer = b''
        with contextlib.suppress(ConnectionResetError):
            while not is_complete(answer) and (piece := sock.recv(1000)):
                answer += piece
        assert status_of(answer) in (0, 400, 404, 405)


def test_stop_with_requests_behind_others(place):
    """Clients that send on without waiting have requests that nobody takes up any more."""
    daemon = place.sluice(http={})
    behind = b''.join(get(f'/v1/{word}') for word in ('status', 'counts', 'messages', 'destinations'))
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            sock = stack.enter_context(open_control(daemon))
            sock.sendall(behind * 100)
            assert sock.recv(1) == b'H'
        assert daemon.stop() == 0, daemon.log()


def test_stop_with_clients(place):
    """Open connections, idle and in the middle of a request, keep nobody from stopping."""
    daemon = place.sluice(http={})
    with contextlib.ExitStack() as stack:
        for n in range(10):
            sock = stack.enter_context(socket.create_connection((daemon.address,
                                                                 daemon.http_port)))
            sock.sendall(get('/v1/messages')[:n * 5])
            stack.enter_context(open_control(daemon)).sendall(b'SM' if n % 2 else b'GET /')
        assert once(tcp(daemon), 'GET', '/readyz')[0] == 200
        assert daemon.stop() == 0, daemon.log()
