"""Requests that are wrong in hundreds of ways: each is told what is wrong with it, and the daemon
goes on. What test_http.py and test_inject.py send is not repeated; configurations are
test_bad_config.py's. At the end the daemon stops in order, which is when a sanitized build tells of
leaks."""
import contextlib
import json
import os
import re
import socket
import ssl

import pytest

from support.certificate import make_certificate
from support.raw_http import Answer, chunked, head, open_door, post, read_answers, say
from support.sanitizer import check_log
from support.wait import PATIENCE, best_of, until

FROM = 'sender@sender.test'
GOOD = {'from': FROM, 'recipients': ['r@a.test'], 'text': 'hello\n'}
SECRET = '0123456789abcdef0123456789abcdef'
LIMIT = 64 << 10
TRIES = 3  # a client that a busy machine makes slower than the door's second is disconnected


def is_served(daemon):
    return any(say(daemon, head('/v1/status'))[0].status == 200 for _ in range(TRIES))


@pytest.fixture(scope='module')
def daemon(module_place):
    """One that waits for nobody long, and to which all of this leaves no mail."""
    daemon = module_place.sluice(transports={'smtp': {'hold': True}}, http={'trust_loopback': True, 'request_size_limit': '64K', 'timeout': '1s'})
    yield daemon
    assert daemon.is_alive(), daemon.log()
    assert is_served(daemon)
    assert daemon.stop() == 0
    check_log(daemon.log())


# --- tables: name: (request, status, code[, what the text has]) ----------------------------------

TABLE = {}
CLOSED = 0  # without a word


def add(name, request, status=400, code='usage', text=''):
    assert name not in TABLE, name
    statuses = status if isinstance(status, set) else {status}
    TABLE[name] = (request, statuses, code, text)


def add_json(name, path, body, status=400, code='usage', text=''):
    add(f'{path}: {name}', post(path, body), status, code, text)


# JSON that is none, at every route that takes some.
BROKEN_JSON = {
    'a brace alone': b'{', 'a closing brace': b'}', 'a name without value': b'{"from"}',
    'a name and a colon': b'{"from":}', 'a comma at the end': b'{"dry_run": true,}',
    'two commas': b'{"dry_run": true,, "all": true}', 'no comma': b'{"a": 1 "b": 2}',
    'a name without quotes': b'{from: "x"}', 'single quotes': b"{'from': 'x'}",
    'text that never ends': b'{"from": "x', 'a line end in a text': b'{"from": "x\ny"}',
    'a bad escape': b'{"from": "\\x41"}', 'half an escape': b'{"from": "\\u00"}',
    'half a surrogate pair': b'{"from": "\\ud800"}', 'surrogates in the wrong order':
    b'{"from": "\\udc00\\ud800"}', 'an escaped NUL': b'{"from": "a\\u0000b"}',
    'an escaped NUL in a name': b'{"fr\\u0000om": 1}', 'a raw NUL': b'{"from": "a\0b"}',
    'a NUL behind it': b'{}\0', 'a byte order mark': b'\xef\xbb\xbf{}', 'UTF-16': '{}'.encode('utf-16'),
    'Latin-1': b'{"from": "\xfc"}', 'overlong UTF-8': b'{"from": "\xc0\xaf"}',
    'a surrogate in UTF-8': b'{"from": "\xed\xa0\x80"}', 'cut UTF-8': b'{"from": "\xe2\x82"}',
    'UTF-8 beyond Unicode': b'{"from": "\xf4\x90\x80\x80"}', 'a comment': b'{/* x */}',
    'a line comment': b'{} // x', 'NaN': b'{"a": NaN}', 'Infinity': b'{"a": -Infinity}',
    'a plus sign': b'{"a": +1}', 'leading zeros': b'{"a": 0123}', 'hex': b'{"a": 0x10}',
    'a point without digits': b'{"a": 1.}', 'a point in front': b'{"a": .5}',
    'half an exponent': b'{"a": 1e}', 'a minus alone': b'{"a": -}', 'a number beyond 64 bits':
    b'{"a": 99999999999999999999}', 'a number below 64 bits': b'{"a": -99999999999999999999}',
    'a real beyond all': b'{"a": 1e400}', 'True': b'{"a": True}', 'half a word': b'{"a": tru}',
    'undefined': b'{"a": undefined}', 'arrays too deep': b'{"a":' + b'[' * 3000 + b']' * 3000 + b'}',
    'braces without end': b'{"a":' * 9000, 'brackets without end': b'[' * 60000,
    'brackets closed wrongly': b'{"a": [1}', 'a text': b'"x"', 'a null': b'null', 'true': b'true',
    'spaces': b' \t\r\n ', 'a tab in a text': b'{"a": "\t"}', 'names twice deep inside':
    b'{"from": {"address": "a@b.c", "address": "d@e.f"}}', 'a form feed': b'\f{}',
    'digits without end': b'{"a": ' + b'9' * 60000 + b'}', 'two objects': b'{}{}',
    'an array of objects': b'[{}]', 'a query': b'dry_run=true', 'XML': b'<?xml version="1.0"?><a/>',
}
for title, data in BROKEN_JSON.items():
    add_json(title, '/v1/inject', data)
for path in ('/v1/orders', '/v1/flush'):
    for title in ('a brace alone', 'an escaped NUL', 'Latin-1', 'arrays too deep', 'two objects',
                  'a number beyond 64 bits', 'a text', 'a null', 'spaces', 'digits without end'):
        add_json(title, path, BROKEN_JSON[title])

# A value of each type that a member does not have.
VALUES = {'a number': 7, 'a real': 0.5, 'true': True, 'a text': 'x y', 'an array': [[]],
          'an object': {'x': {}}, 'an empty object': {}, 'a nested array': [[['x']]]}
TEXTS = ('a number', 'a real', 'true', 'an array', 'an object')
MEMBERS = {  # of a message: which of them are wrong
    'from': (*TEXTS, 'a text', 'an empty object', 'a nested array'),
    'sender': (*TEXTS, 'a text'),
    'recipients': ('a number', 'true', 'a text', 'an array', 'an object', 'an empty object',
                   'a nested array'),
    'headers': ('a number', 'true', 'a text', 'an array', 'a nested array'),
    'text': TEXTS, 'html': TEXTS,
    'attachments': ('a number', 'true', 'a text', 'an array', 'an object', 'a nested array'),
    'raw': TEXTS, 'raw_base64': (*TEXTS, 'a text'),
    'tenant': (*TEXTS, 'a text'), 'campaign': (*TEXTS, 'a text'),
    'not_before': ('true', 'a text', 'an array', 'an object'),
    'expires': ('a number', 'a real', 'true', 'a text', 'an array', 'an object'),
    'expires_in': ('true', 'a text', 'an array', 'an object'),
    'unknown': ('a number', 'an object'), 'From': ('a text',), '': ('true',),
}


def with_member(name, value):
    message = {**GOOD, name: value}
    if name == 'sender':
        del message['from']
    if name.startswith('raw'):
        del message['text']
    return message


for name, kinds in MEMBERS.items():
    for kind in kinds:
        add_json(f'{name or "no name"} is {kind}', '/v1/inject', with_member(name, VALUES[kind]),
                 422, 'wrong', name)

DEEPER = {  # what is inside of members, and what is too long, too late, too many
    'recipients: one too long': {'recipients': ['x' * 400 + '@a.test']},
    'recipients: label too long': {'recipients': ['a@' + 'x' * 64 + '.test']},
    'recipients: no domain': {'recipients': ['postmaster']},
    'recipients: no local part': {'recipients': ['@a.test']},
    'recipients: two at signs': {'recipients': ['a@b@c.test']},
    'recipients: two dots': {'recipients': ['a..b@c.test']},
    'recipients: a space': {'recipients': ['a b@c.test']},
    'recipients: angle brackets': {'recipients': ['<a@c.test>']},
    'recipients: a list in one': {'recipients': ['a@c.test, b@c.test']},
    'recipients: a name in front': {'recipients': ['A <a@c.test>']},
    'recipients: a NUL escaped as text': {'recipients': ['a%00@c.test\x01']},
    'recipients: a quote that never ends': {'recipients': ['"a@c.test']},
    'recipients: the null address': {'recipients': ['']},
    'recipients: null': {'recipients': [None]},
    'recipients: none': {'recipients': []},
    'recipients: an address literal that is none': {'recipients': ['a@[1.2.3]']},
    'recipients: unknown member': {'recipients': [{'address': 'a@b.test', 'mail': 'x'}]},
    'recipients: name too long': {'recipients': [{'address': 'a@b.test', 'name': 'x' * 401}]},
    'recipients: name is no text': {'recipients': [{'address': 'a@b.test', 'name': 5}]},
    'from: overlong': {'from': 'x' * 5000 + '@a.test'},
    'from: a source route': {'from': '@x.test:a@b.test'},
    'from: an object without address': {'from': {'name': 'x'}},
    'from and sender': {'sender': FROM},
    'headers: empty name': {'headers': {'': 'x'}},
    'headers: a colon in the name': {'headers': {'X:Y': 'x'}},
    'headers: a space in the name': {'headers': {'X Y': 'x'}},
    'headers: a name with umlauts': {'headers': {'X-Ü': 'x'}},
    'headers: a name of 1000 bytes': {'headers': {'X' * 1000: 'x'}},
    'headers: a number': {'headers': {'Subject': 5}},
    'headers: an empty array': {'headers': {'Reply-To': []}},
    'headers: an array in an array': {'headers': {'X-A': [['x']]}},
    'headers: Bcc': {'headers': {'Bcc': 'x@y.test'}},
    'headers: Subject twice': {'headers': {'Subject': ['a', 'b']}},
    'headers: Subject in two cases': {'headers': {'Subject': 'a', 'SUBJECT': 'b'}},
    'headers: a word without end': {'headers': {'X-A': 'x' * 2000}},
    'headers: MIME-Version': {'headers': {'MIME-Version': '1.0'}},
    'headers: Content-Type': {'headers': {'Content-Type': 'text/plain'}},
    'headers: To is no list': {'headers': {'To': '<<<'}},
    'headers: a DEL': {'headers': {'Subject': 'a\x7fb'}},
    'attachments: no content': {'attachments': [{}]},
    'attachments: content is no base64': {'attachments': [{'content': '!!!'}]},
    'attachments: cut base64': {'attachments': [{'content': 'QUJ'}]},
    'attachments: padding inside': {'attachments': [{'content': 'QQ==QUJD'}]},
    'attachments: content is a number': {'attachments': [{'content': 5}]},
    'attachments: a multipart': {'attachments': [{'content': '', 'content_type': 'multipart/mixed'}]},
    'attachments: a type without slash': {'attachments': [{'content': '', 'content_type': 'text'}]},
    'attachments: a type of 300 bytes': {'attachments': [
        {'content': '', 'content_type': 'text/' + 'x' * 300}]},
    'attachments: a line end in the type': {'attachments': [
        {'content': '', 'content_type': 'text/plain;\r\nX: y'}]},
    'attachments: a name of 300 bytes': {'attachments': [{'content': '', 'filename': 'x' * 300}]},
    'attachments: a bracket in the id': {'attachments': [{'content': '', 'content_id': '<x>'}]},
    'attachments: an empty id': {'attachments': [{'content': '', 'content_id': ''}]},
    'attachments: unknown disposition': {'attachments': [{'content': '', 'disposition': 'form-data'}]},
    'attachments: unknown member': {'attachments': [{'content': '', 'path': '/etc/passwd'}]},
    'text: a NUL that JSON cannot have': {'text': None},
    'raw beside text': {'raw': 'Subject: x\r\n\r\n'},
    'raw_base64 beside headers': {'raw_base64': 'U3ViamVjdDogeA0KDQo=', 'headers': {}},
    'tenant of 65 bytes': {'tenant': 'x' * 65}, 'tenant with umlauts': {'tenant': 'ü'},
    'campaign with a line end': {'campaign': 'a\nb'},
    'not_before: in 2 years': {'not_before': 99999999999},
    'not_before: no date': {'not_before': '2030-02-30T12:00:00Z'},
    'not_before: negative': {'not_before': -1},
    'not_before: beyond all': {'not_before': 1e300},
    'expires: past': {'expires': '1999-01-01T00:00:00Z'},
    'expires: with expires_in': {'expires': 4000000000, 'expires_in': '1h'},
    'expires: before not_before': {'not_before': '2027-06-01T00:00:00Z', 'expires': 1},
    'expires_in: negative': {'expires_in': -5}, 'expires_in: nothing': {'expires_in': 0},
    'expires_in: years': {'expires_in': '400d'}, 'expires_in: no unit': {'expires_in': '5x'},
    'expires_in: overflow': {'expires_in': '99999999999999999999d'},
    'messages is a text': {'messages': 'x'}, 'messages is an object': {'messages': {}},
    'messages is a number': {'messages': 1},
    'messages of numbers': {'messages': [1, 2]}, 'messages of null': {'messages': [None]},
    'messages in messages': {'messages': [{'messages': [GOOD]}]},
    'defaults is an array': {'messages': [GOOD], 'defaults': []},
    'defaults with a bad header': {'messages': [GOOD], 'defaults': {'headers': {'A B': 'x'}}},
    'defaults with a bad member': {'messages': [GOOD], 'defaults': {'nonsense': 1}},
    'something beside messages': {'messages': [GOOD], 'from': FROM},
}
for name, members in DEEPER.items():
    whole = members if 'messages' in members else {**GOOD, **members}
    add_json(name, '/v1/inject', whole, 422, 'wrong')
add_json('raw without header', '/v1/inject', {**{k: GOOD[k] for k in ('from', 'recipients')},
                                              'raw': 'no header'}, 422, 'wrong', 'raw')
add_json('raw with too many hops', '/v1/inject',
         {'from': FROM, 'recipients': ['a@a.test'], 'raw': 'Received: x\r\n' * 51 + '\r\n'},
         422, 'wrong', 'loop')
for name, query in {'from without UTF-8': 'from=%ff', 'to without UTF-8': 'to=%c3',
                    'tenant without UTF-8': 'tenant=%80'}.items():
    add(f'message/rfc822: {name}', post(f'/v1/inject?{query}', b'A: b\r\n\r\n', kind='message/rfc822'))
for name, query in {'no address': 'from=a&to=b', 'only commas': 'from=a@b.c&to=,,,',
                    'a quote without end': 'from=a@b.c&to=%22a@b.c,d@e.f',
                    'a bad time': 'from=a@b.c&to=d@e.f&not_before=yesterday',
                    'a bad span': 'from=a@b.c&to=d@e.f&expires_in=-1s'}.items():
    add(f'message/rfc822: {name}', post(f'/v1/inject?{query}', b'A: b\r\n\r\n', kind='message/rfc822'),
        422, 'wrong')
add('message/rfc822: a NUL', post('/v1/inject?from=a@b.c&to=d@e.f', b'A: b\r\n\r\n\0',
                                  kind='message/rfc822'), 422, 'wrong', 'NUL')
add('message/rfc822: empty', post('/v1/inject?from=a@b.c&to=d@e.f', b'', kind='message/rfc822'),
    {400, 422}, None)

# Orders and flushing.
ORDER = {'order': 'suspend', 'reason': 'test', 'tenant': 'nobody', 'for': '1h'}
SELECTORS = ('tenant', 'campaign', 'domain', 'destination', 'transport', 'source')
WRONG_ORDERS = {
    'order missing': {'order': None}, 'order unknown': {'order': 'delete'},
    'order in capitals': {'order': 'SUSPEND'}, 'order a number': {'order': 1},
    'order an array': {'order': ['suspend']}, 'order empty': {'order': ''},
    'for negative': {'for': -1}, 'for a real': {'for': 0.5}, 'for nothing': {'for': 0},
    'for a text': {'for': 'soon'}, 'for too long': {'for': '367d'}, 'for beyond all': {'for': 1 << 62},
    'for without number': {'for': 'd'}, 'for an array': {'for': ['1h']}, 'for true': {'for': True},
    'for with a space': {'for': '1 h'}, 'for in two units': {'for': '1h30m'},
    'reason missing': {'reason': None}, 'reason empty': {'reason': ''},
    'reason a number': {'reason': 5}, 'reason too long': {'reason': 'x' * 5000},
    'reason of two lines': {'reason': 'a\nb'}, 'reason an object': {'reason': {}},
    'dry_run a text': {'dry_run': 'yes'}, 'dry_run a number': {'dry_run': 1},
    'all a text': {'all': 'true'}, 'all an array': {'all': []},
    'unknown member': {'tenants': 'x'}, 'member in capitals': {'Tenant': 'x'},
    'member without name': {'': 'x'}, 'member of 5000 bytes': {'x' * 5000: 1},
}
for name, members in WRONG_ORDERS.items():
    add_json(name, '/v1/orders', {**ORDER, **members}, 422, 'wrong')
for name, value in {'a number': 5, 'true': True, 'an array': ['x'], 'an object': {}, 'empty': '',
                    'too long': 'x' * 256, 'a control character': 'a\x1fb'}.items():
    for word in SELECTORS:
        add_json(f'{word} is {name}', '/v1/orders', {**ORDER, word: value}, 422, 'wrong', word)
    add_json(f'tenant is {name}', '/v1/flush', {'tenant': value}, 422, 'wrong', 'tenant')
for name, members in {'dry_run a text': {'dry_run': 'x'}, 'an unknown member': {'reason': 'x'},
                      'dry_run a number': {'dry_run': 0}}.items():
    add_json(name, '/v1/flush', members, 422, 'wrong')
add_json('drop all by accident', '/v1/orders', {'order': 'drop', 'reason': 'x', 'for': '1h'}, 422,
         'wrong', 'all')
add_json('bounce all by accident', '/v1/orders',
         {'order': 'bounce', 'reason': 'x', 'for': '1h', 'all': False}, 422, 'wrong', 'all')
for name, ident in {'none': 'x', 'negative': '-1', 'beyond 64 bits': '9' * 30, 'zero': '0',
                    'not there': '424242', 'with a space': '1%20', 'of 9000 bytes': '1' * 9000}.items():
    add(f'DELETE an order whose id is {name}', head(f'/v1/orders/{ident}', method='DELETE'),
        404, 'missing')
add('DELETE an order twice named', head('/v1/orders/1/2', method='DELETE'), 404, 'missing')
add('DELETE with a body', post('/v1/orders/1', b'{}', method='DELETE'))

# Parameters of every route that reads.
GETS = {'/v1': (), '/v1/status': (), '/v1/messages': ('limit', 'after', 'tenant'), '/v1/counts': ('by', 'limit'),
        '/v1/messages/1': ('limit', 'after'), '/v1/why': ('message',), '/v1/destinations': ('state',),
        '/v1/hosts': ('match',), '/v1/orders': (), '/v1/transports': (), '/v1/sources': (),
        '/v1/trace': ('destination', 'limit'), '/v1/tenants': (), '/v1/responses': ('limit',),
        '/v1/series': ('span',), '/v1/windows': ('destination',), '/metrics': (), '/v1/events':
        ('after', 'limit', 'type'), '/v1/events/consumers': (), '/healthz': (), '/readyz': (), '/': ()}
for path, names in GETS.items():
    add(f'{path}: an unknown parameter', head(f'{path}?nonsense=1'), 400, 'usage', 'nonsense')
    add(f'{path}: POST or DELETE', head(path, 'Content-Length: 0', method='PUT'), 405, 'method')
    if names:
        add(f'{path}: {names[0]} twice', head(f'{path}?{names[0]}=1&{names[0]}=2'), 400, 'usage',
            'twice')
        add(f'{path}: a bad escape', head(f'{path}?{names[0]}=%4'), 400, 'usage', 'escape')
for path in ('/v1/messages', '/v1/counts', '/v1/messages/1', '/v1/responses', '/v1/events'):
    for name, value in {'a word': 'many', 'with a sign': '%2B5', 'with a space': '5%20', 'real': '1.5',
                        'beyond all': '9' * 40}.items():
        add(f'{path}: limit {name}', head(f'{path}?limit={value}'), 400, 'usage', 'limit')
for name, target in {
        'span of no unit': '/v1/series?span=5y', 'span beyond all': f'/v1/series?span={"9" * 30}s',
        'span negative': '/v1/series?span=-5s', 'counts by nothing': '/v1/counts?by=',
        'counts by something else': '/v1/counts?by=tenant,colour', 'counts by commas': '/v1/counts?by=,,,',
        'older than no span': '/v1/messages?older=old', 'state unknown': '/v1/messages?state=lost',
        'a pattern with a control character': '/v1/messages?tenant=%01',
        'a pattern of 300 bytes': '/v1/messages?tenant=' + 'x' * 300,
        'an empty pattern': '/v1/counts?tenant=', 'why of nothing': '/v1/why', 'why of two things':
        '/v1/why?message=1&tenant=x', 'why of no id': '/v1/why?message=xyz', 'trace of nothing':
        '/v1/trace', 'trace of 2000 bytes': '/v1/trace?destination=' + 'x' * 2000, 'windows of nothing':
        '/v1/windows', 'destinations in no state': '/v1/destinations?state=ready,lost',
        'escapes that end too early': '/v1/hosts?match=%', 'an escape of a NUL': '/v1/hosts?match=a%00b',
        'an escape of DEL': '/v1/hosts?match=%7f', 'an escape in a name': '/v1/hosts?mat%zzch=1',
        'a parameter without name': '/v1/hosts?=x', 'a path with a tab': '/v1/%09',
        '33 parameters': '/v1/hosts?' + '&'.join(f'p{i}=1' for i in range(33)),
        'half an id': '/v1/messages/%31%', 'an id of letters': '/v1/messages/ghijklmn'}.items():
    add(name, head(target))
for name, target in {'windows of an unknown destination': '/v1/windows?destination=nowhere.test',
                     'why of an unknown message': '/v1/why?message=00000000000000ff',
                     'trace of an unknown transport': '/v1/trace?destination=a&transport=pigeon',
                     'a route with a tail': '/v1/status.json', 'a route in capitals': '/V1/STATUS',
                     'semicolons': '/v1/status;x=1', 'an empty segment': '/v1//status',
                     'a dot': '/v1/./status', 'another version': '/v2/status',
                     'a backslash': '/v1%5cstatus', 'UTF-8 in the path': '/v1/st%c3%a4tus',
                     'overlong UTF-8 in the path': '/v1/%c0%ae%c0%ae', 'a file': '/etc/passwd',
                     'a well-known one': '/.well-known/security.txt', 'an encoded query':
                     '/v1/status%3flimit=1'}.items():
    add(name, head(target), 404, 'missing')
for path, method in {'/v1/inject': 'GET', '/v1/flush': 'DELETE', '/v1/reload': 'GET', '/v1/orders':
                     'DELETE', '/v1/orders/1': 'GET', '/v1/messages/1': 'DELETE', '/metrics': 'POST'}.items():
    add(f'{method} {path}', head(path, 'Content-Length: 0', method=method), 405, 'method')
for method in ('PROPFIND', 'PATCH', 'Post', 'GET\t', 'X' * 40):
    add(f'method {method!r}', head('/v1/status', method=method), {CLOSED, 400, 405}, None)

# Framing. libmicrohttpd's own answers have no JSON.
PLAIN = {CLOSED, 400, 413, 414, 431, 501, 505}
KIND = 'Content-Type: application/json'
for name, value in {'empty': '', 'hex': '0x2', 'with a plus': '+2', 'with letters': '2x', 'a list':
                    '2, 3', 'a real': '2.0', 'two words': '2 2', 'of 300 digits': '2' * 300,
                    'quoted': '"2"', 'negative zero': '-0', 'just beyond 64 bits':
                    '18446744073709551616', 'just below 2^63': '9223372036854775807'}.items():
    add(f'Content-Length {name}', head('/v1/flush', KIND, f'Content-Length: {value}', method='POST')
        + b'{}', PLAIN, None)
for name, pieces in {'a size of nothing': (b'\r\n{}\r\n',), 'a negative size': (b'-2\r\n{}\r\n',),
                     'a size with 0x': (b'0x2\r\n{}\r\n',), 'a size of 16 digits': (b'f' * 16 + b'\r\n{}',),
                     'no line end behind the data': (b'2\r\n{}0\r\n\r\n',),
                     'an extension without end': (b'2;' + b'x' * 70000,),
                     'a size line of spaces': (b' ' * 70000,),
                     'more than said': (b'2\r\n{}}}}\r\n',)}.items():
    add(f'chunks: {name}', chunked('/v1/flush', *pieces, end=b''), PLAIN, None)
for name, coding in {'gzip and chunks': 'gzip, chunked', 'chunks twice': 'chunked, chunked', 'an unknown':
                     'rot13', 'empty': '', 'identity': 'identity'}.items():
    add(f'transfer coding: {name}', head('/v1/flush', KIND, f'Transfer-Encoding: {coding}',
                                         method='POST') + b'2\r\n{\r\n0\r\n\r\n', 400, 'usage', 'Transfer-Encoding')
add('a body just too large', post('/v1/flush', b' ' * (LIMIT + 1)), 413, 'large')
add('a chunked body just too large', chunked('/v1/flush', b'%x\r\n' % (LIMIT + 1), b' ' * (LIMIT + 1),
                                             b'\r\n'), 413, 'large')
add('a message just too large', post('/v1/inject', {**GOOD, 'text': 'x' * LIMIT}), 413, 'large')
for name, lines in {'a header without value': ['X-Y'], 'a space before the colon': ['X-Y : z'],
                    'a NUL in a name': ['X\0Y: z'], 'a name of 40000 bytes': ['X' * 40000 + ': y'],
                    'a bare carriage return': ['X-Y: a\rX-Z: b'], '1000 long headers':
                    [f'X-{i}: {"y" * 100}' for i in range(1000)], 'binary': ['\x80\xff: \x01']}.items():
    add(f'header: {name}', head('/healthz', *lines), PLAIN | {200}, None)
for kind in ('text/json', 'application/json/x', 'application/xml', 'message/partial', 'application/jso',
             'json', '*/*', 'application/x-ndjson', '\xff', 'a' * 5000):
    add(f'Content-Type {kind[:30]!r}', post('/v1/inject', GOOD, kind=kind), 415)
for name, host in {'empty with a port': ':80', 'a port of letters': '127.0.0.1:http', 'a port of 6 digits':
                   '127.0.0.1:999999', 'an address that is none': '127.0.0.256', 'brackets open':
                   '[::1', 'a user': 'me@127.0.0.1', 'a path': '127.0.0.1/x', '300 bytes': 'x' * 300,
                   'a rebinding name': '127.0.0.1.nip.test', 'a space': '127.0.0.1 x', 'UTF-8': 'l\xf6calhost'
                   }.items():
    add(f'Host: {name}', head('/v1/status', host=host), {400, 403}, None)


def test_there_are_enough():
    assert len(TABLE) >= 400


def expect(answer, statuses, code, text=''):
    assert answer.status in statuses, (sorted(statuses), answer)
    if code is not None:
        assert answer.is_json, answer
        told = answer.object
        assert told['code'] == code and told['error'] and text in told['error'], told
        assert len(told['error']) < 1000 and not re.search(r'[\0-\x1f\x7f]', told['error'])


@pytest.mark.parametrize('name', TABLE)
def test_malformed(daemon, name):
    request, statuses, code, text = TABLE[name]
    answer = best_of(TRIES, lambda: say(daemon, request)[0], lambda answer: answer.status in statuses)
    expect(answer, statuses, code, text)
    assert is_served(daemon)


def test_one_connection_for_all(daemon):
    """What was answered in JSON and read to its end does not harm the requests that follow."""
    wrong = [row for row in TABLE.values() if row[2] is not None and row[1] <= {400, 404, 405, 415, 422}
             and b'DELETE /v1/orders/1 ' not in row[0]]

    def failure():
        with contextlib.ExitStack() as stack:
            sock = stack.enter_context(open_door(daemon))
            for request, statuses, code, text in wrong:
                with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                    sock.sendall(request)
                answers = read_answers(sock)
                if not answers:  # it was closed behind an answer, which the last one must have said
                    return f'closed before the answer to {request[:200]}'
                expect(answers[0], statuses, code, text)
                if b'connection: close' in answers[0].data.lower():
                    sock.close()
                    sock = stack.enter_context(open_door(daemon))
        return None
    found = best_of(TRIES, failure, lambda found: found is None)
    assert found is None, found
    assert is_served(daemon)


# --- pipelines, halves, drops ----------------------------------------------------------------------

def test_pipelined(daemon):
    """300 at once, a third of them wrong."""
    good, wrong = head('/healthz'), post('/v1/flush', b'{')
    answers = say(daemon, (good + wrong + head('/nothing')) * 100, 300)
    assert [a.status for a in answers] == [200, 400, 404] * 100


def test_pipelined_behind_garbage(daemon):
    """Nothing behind a request that cannot be read is taken for one."""
    answers = say(daemon, head('/healthz') + b'nonsense\r\nx: y\r\n\r\n' + post('/v1/inject', GOOD), 3)
    assert answers[0].status == 200 and not any(a.status == 202 for a in answers)
    assert is_served(daemon)


SMUGGLED = post('/v1/inject', GOOD)
SMUGGLING = {
    'two lengths': head('/v1/flush', KIND, 'Content-Length: 2', f'Content-Length: {2 + len(SMUGGLED)}',
                        method='POST') + b'{}' + SMUGGLED,
    'a length and chunks': head('/v1/flush', KIND, f'Content-Length: {5 + len(SMUGGLED)}',
                                'Transfer-Encoding: chunked', method='POST') + b'0\r\n\r\n' + SMUGGLED,
    'a space behind the name': head('/v1/flush', KIND, f'Content-Length : {len(SMUGGLED)}',
                                    method='POST') + SMUGGLED,
    'chunks with a space behind the name': head('/v1/flush', KIND, 'Transfer-Encoding : chunked',
                                                method='POST') + b'%x\r\n' % len(SMUGGLED) + SMUGGLED,
    'a coding of two': head('/v1/flush', KIND, 'Transfer-Encoding: gzip, chunked', method='POST')
                       + b'0\r\n\r\n' + SMUGGLED,
    'a body on GET': head('/healthz', f'Content-Length: {len(SMUGGLED)}') + SMUGGLED,
    'a body on DELETE': head('/v1/orders/1', f'Content-Length: {len(SMUGGLED)}', method='DELETE')
                        + SMUGGLED,
    'a body for nobody': head('/nothing', f'Content-Length: {len(SMUGGLED)}', method='POST') + SMUGGLED,
    'a body on OPTIONS': head('/v1', f'Content-Length: {len(SMUGGLED)}', method='OPTIONS') + SMUGGLED,
    'a forbidden host': head('/v1/status', f'Content-Length: {len(SMUGGLED)}', method='POST',
                             host='evil.test') + SMUGGLED,
    'a wrong type': head('/v1/inject', 'Content-Type: text/plain', f'Content-Length: {len(SMUGGLED)}',
                         method='POST') + SMUGGLED,
}


@pytest.mark.parametrize('name', SMUGGLING)
def test_bodies_are_no_requests(daemon, name):
    with open_door(daemon) as sock:
        sock.sendall(SMUGGLING[name])
        sock.shutdown(socket.SHUT_WR)
        answers = read_answers(sock, 9)
    assert not any(a.status == 202 for a in answers), answers
    assert is_served(daemon)


@pytest.mark.parametrize('cut', [1, 4, 20, -30, -1])
def test_half_a_request_and_closed(daemon, cut):
    """The other side says that nothing more comes."""
    with open_door(daemon) as sock:
        sock.sendall(post('/v1/inject', GOOD)[:cut])
        sock.shutdown(socket.SHUT_WR)
        assert not any(a.status == 202 for a in read_answers(sock))
    assert is_served(daemon)


def test_a_request_and_half_closed(daemon):
    """The answer comes all the same."""
    for path in ('/healthz', '/v1/messages', '/v1/counts'):
        with open_door(daemon) as sock:
            sock.sendall(head(path))
            sock.shutdown(socket.SHUT_WR)
            assert [a.status for a in read_answers(sock)] in ([200], [])
    assert is_served(daemon)


def test_slow_ones(daemon):
    """A byte now and then, in the head, in the body, in a chunk, behind a 100: everyone is
    disconnected, and meanwhile others are served."""
    starts = {'head': b'GET /v1/status HT', 'name': head('/v1')[:-2] + b'X-',
              'body': head('/v1/inject', KIND, 'Content-Length: 60000', method='POST'),
              'chunk': chunked('/v1/inject', b'ff', end=b''),
              'expect': head('/v1/inject', KIND, 'Content-Length: 60000', 'Expect: 100-continue',
                             method='POST')}
    with contextlib.ExitStack() as stack:
        open_ones = {}
        for name, start in starts.items():
            for n in range(3):
                sock = stack.enter_context(open_door(daemon))
                sock.sendall(start)
                sock.setblocking(False)
                open_ones[name, n] = sock

        def drip():
            for key, sock in list(open_ones.items()):
                try:
                    sock.send(b'1')
                    if sock.recv(4096) == b'':
                        del open_ones[key]
                except BlockingIOError:
                    pass
                except OSError:
                    del open_ones[key]
            assert is_served(daemon)
            return not any(name in ('head', 'name') for name, _ in open_ones)
        until(drip, 'no more slow heads')
        until(lambda: drip() and not open_ones, 'no more slow bodies', 3 * PATIENCE)


def test_answers_that_nobody_reads(daemon):
    """They pile up in the sockets, and end with them."""
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(open_door(daemon)) for _ in range(10)]
        for sock in socks:
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError, OSError):
                while True:
                    sock.send(head('/') * 50)
        assert is_served(daemon)
    until(lambda: is_served(daemon), 'service')


def test_reset_in_the_middle(daemon):
    """With what was not read, so that the system sends a reset."""
    for cut in range(10, 200, 10):
        with open_door(daemon) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')
            with contextlib.suppress(OSError):
                sock.sendall((head('/v1/messages') * 3)[:cut])
    until(lambda: is_served(daemon), 'service')


# --- tokens and TLS ----------------------------------------------------------------------------------

@pytest.fixture(scope='module')
def guarded(module_place):
    cert, key = make_certificate(module_place.folder, 'localhost')
    path = os.path.join(module_place.folder, 'tokens')
    with open(path, 'w', encoding='ascii', opener=lambda p, f: os.open(p, f, 0o600)) as tokens:
        tokens.write(f'anna:{SECRET}\n')
    daemon = module_place.sluice(http={'tokens_file': path, 'tls_certificate': cert, 'tls_key': key,
                                       'timeout': '2s'})
    yield daemon
    assert say_tls(daemon, head('/v1/status', f'Authorization: Bearer {SECRET}')).status == 200
    assert daemon.stop() == 0
    check_log(daemon.log())


def say_tls(daemon, data):
    return best_of(TRIES, lambda: say_tls_once(daemon, data), lambda answer: answer.status != 0)


def say_tls_once(daemon, data):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with open_door(daemon) as plain, context.wrap_socket(plain, server_hostname='localhost') as sock:
        with contextlib.suppress(OSError):
            sock.sendall(data)
        with contextlib.suppress(ssl.SSLError):
            return (read_answers(sock) or [Answer(b'')])[0]
    return Answer(b'')


WRONG_TOKENS = {
    'nothing': '', 'no scheme': SECRET, 'another scheme': f'Digest {SECRET}', 'no space': f'Bearer{SECRET}',
    'a tab': f'Bearer\t{SECRET}', 'one byte less': f'Bearer {SECRET[1:]}', 'capitals':
    f'Bearer {SECRET.upper()}', 'the name too': f'Bearer anna:{SECRET}', 'quotes': f'Bearer "{SECRET}"',
    'two tokens': f'Bearer {SECRET} {SECRET}', 'a comma': f'Bearer {SECRET},', 'twice as long':
    f'Bearer {SECRET * 2}', 'only the scheme': 'Bearer ', 'binary': 'Bearer \x80\xff', 'of 20000 bytes':
    'Bearer ' + 'x' * 20000, 'base64': 'Basic YW5uYTp4', 'digest': 'Bearer ' + '0' * 64,
}


@pytest.mark.parametrize('name', WRONG_TOKENS)
def test_wrong_tokens(guarded, name):
    for path in ('/v1/status', '/v1/orders', '/metrics'):
        expect(say_tls(guarded, head(path, f'Authorization: {WRONG_TOKENS[name]}')), {401}, 'token')
    expect(say_tls(guarded, post('/v1/inject', GOOD, f'Authorization: {WRONG_TOKENS[name]}')), {401},
           'token')
    assert SECRET not in guarded.log()


def test_two_tokens_in_two_headers(guarded):
    answer = say_tls(guarded, head('/v1/status', 'Authorization: Bearer x', f'Authorization: Bearer {SECRET}'))
    assert answer.status in (400, 401)


@pytest.mark.parametrize('data', [
    head('/healthz'), b'', b'\x16', b'\x16\x03\x01', b'\x16\x03\x01\xff\xff' + b'\0' * 70000,
    b'\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00', b'\x80\x2e\x01\x00\x02', b'\x15\x03\x03\x00\x02\x02\x28',
    b'\x17\x03\x03\x00\x10' + b'x' * 16, bytes(range(256)) * 10])
def test_plain_at_the_tls_door(guarded, data):
    with open_door(guarded) as sock:
        with contextlib.suppress(OSError):
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while piece := sock.recv(4096):
                assert not piece.startswith(b'HTTP/')
    assert say_tls(guarded, head('/healthz')).status == 200


def test_tls_at_the_plain_door(daemon):
    with open_door(daemon) as plain, pytest.raises((ssl.SSLError, OSError)):
        ssl.create_default_context().wrap_socket(plain, server_hostname='localhost')
    assert is_served(daemon)


def test_no_mail_came_of_it(daemon):
    [answer] = say(daemon, head('/v1/status'))
    assert answer.object['messages'] == 0 and answer.object['received'] == 0
    [orders] = say(daemon, head('/v1/orders'))
    assert orders.body.startswith(b'{"end":true,"count":0')


def test_nothing_of_it_in_the_log(daemon):
    """A client cannot write lines of its own."""
    for line in daemon.log().splitlines():
        assert re.match(r'\d{4}-\d\d-\d\dT|\S+\.conf:', line), line
    assert json.dumps(GOOD['text']) not in daemon.log()
