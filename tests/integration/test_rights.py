"""Who may do what: every route of the interface with every kind of token, and what a tenant's token can reach of another's
mail, through whatever parameter."""
import base64
import contextlib
import http.client
import json
import os
import subprocess
import urllib.parse

import pytest

from support import api
from support.address import free_port
from support.certificate import make_certificate
from support.client import Client, message
from support.injection import post
from support.reloading import reload
from support.wait import PATIENCE, settled, until

TOKENS = {'full': '', 'read': 'read ', 'inject': 'inject ', 'full of acme': 'full tenant=acme ',
          'read of acme': 'read tenant=acme ', 'inject of acme': 'inject tenant=acme '}

# The table of rights. A new route fails here until somebody says who may ask for it.
EVERYBODY = {'nobody', 'wrong', 'loopback', 'trusted', 'control', *TOKENS}
OPERATORS = {'full', 'trusted', 'control'}
LOOK = OPERATORS | {'read', 'loopback'}
OWN_LOOK = LOOK | {'full of acme', 'read of acme'}
OWN_CHANGE = OPERATORS | {'full of acme'}
INJECT = OPERATORS | {'loopback', 'inject', 'full of acme', 'inject of acme'}
RIGHTS = {
    'GET /': EVERYBODY, 'GET /healthz': EVERYBODY, 'GET /readyz': EVERYBODY,
    'GET /v1/messages': OWN_LOOK, 'GET /v1/messages/:id': OWN_LOOK, 'GET /v1/counts': OWN_LOOK,
    'GET /v1/why': OWN_LOOK, 'GET /v1/events': OWN_LOOK, 'GET /v1/orders': OWN_LOOK,
    'POST /v1/orders': OWN_CHANGE, 'DELETE /v1/orders/:id': OWN_CHANGE,
    'POST /v1/inject': INJECT,
    'GET /v1/suppressions': OWN_LOOK, 'GET /v1/suppressions/:id': OWN_LOOK,
    'POST /v1/suppressions': OWN_CHANGE, 'DELETE /v1/suppressions/:id': OWN_CHANGE,
    'GET /v1/heard': LOOK, 'GET /v1/heard/:id': LOOK, 'DELETE /v1/heard/:id': OPERATORS,
    'GET /v1/return-keys': LOOK, 'POST /v1/return-keys': OPERATORS,
    'GET /v1': LOOK, 'GET /v1/status': LOOK, 'GET /v1/destinations': LOOK, 'GET /v1/sites': LOOK,
    'GET /v1/lanes': LOOK, 'GET /v1/hosts': LOOK, 'GET /v1/transports': LOOK, 'GET /v1/sources': LOOK,
    'GET /v1/cluster': LOOK, 'DELETE /v1/cluster/:id': OPERATORS, 'POST /v1/cluster/:id': OPERATORS,
    'GET /v1/trace': LOOK, 'GET /v1/config': LOOK, 'GET /v1/tenants': LOOK, 'GET /v1/responses': LOOK,
    'GET /v1/series': LOOK, 'GET /v1/windows': LOOK, 'GET /metrics': LOOK, 'GET /v1/events/consumers': LOOK,
    'POST /v1/lanes': OPERATORS, 'POST /v1/flush': OPERATORS, 'POST /v1/reload': OPERATORS,
    'POST /v1/drain': OPERATORS, 'DELETE /v1/drain': OPERATORS, 'POST /v1/restart': OPERATORS,
}


def secret(kind):
    return 'a-secret-token-of-' + kind.replace(' ', '-')


def write_tokens(path, lines):
    with open(path, 'w', encoding='ascii', opener=lambda p, f: os.open(p, f, 0o600)) as file:
        file.writelines(lines)


class Doors:
    """A daemon with three doors over TCP: with tokens, of loopback, and one that trusts loopback."""

    def __init__(self, place, **settings):
        self.tokens = os.path.join(place.folder, 'tokens')
        write_tokens(self.tokens, [f'{rights}{kind.replace(" ", ".")}:{secret(kind)}\n'
                                   for kind, rights in TOKENS.items()])
        self.daemon = place.sluice(start=False, http={'tokens_file': self.tokens}, **settings)
        self.ports = {'loopback': free_port(), 'trusted': free_port()}
        with open(self.daemon.config_path, 'a', encoding='utf-8') as config:
            config.write(f'http "127.0.0.1:{self.ports["loopback"]}" {{ }}\n'
                         f'http "127.0.0.1:{self.ports["trusted"]}" {{ trust_loopback = yes }}\n')
        self.daemon.start()

    def ask(self, kind, method, path, body=None, **params):
        """(status, body); a body is what JSON is made of"""
        query = '?' + urllib.parse.urlencode(params) if params else ''
        headers = {'Content-Type': 'application/json'} if body is not None else {}
        if kind in TOKENS or kind == 'wrong':
            headers['Authorization'] = f'Bearer {secret(kind)}'
        if kind == 'control':
            connection = api.Connection(self.daemon)
        else:
            connection = http.client.HTTPConnection(
                '127.0.0.1', self.ports.get(kind, self.daemon.http_port), timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, path + query, json.dumps(body) if body is not None else None, headers)
            response = connection.getresponse()
            return response.status, response.read()

    def lines(self, kind, path, **params):
        status, body = self.ask(kind, 'GET', path, **params)
        assert status == 200, (status, body)
        return [json.loads(line) for line in body.splitlines()]

    def denied(self, why):
        name = f'sluice_denied_total{{why="{why}"}} '
        text = self.ask('control', 'GET', '/metrics')[1].decode()
        return next(int(float(line.removeprefix(name))) for line in text.splitlines() if line.startswith(name))


@pytest.fixture(scope='module')
def doors(module_place):
    made = Doors(module_place, transports={'smtp': {'hold': True}})
    yield made
    assert made.daemon.is_alive(), made.daemon.log()
    assert made.daemon.stop() == 0, made.daemon.log()


# --- every route, every kind ---------------------------------------------------------------------------

BODIES = {'POST /v1/flush': {'dry_run': True}, 'POST /v1/orders': {}, 'POST /v1/lanes': {}, 'POST /v1/inject': {}, 'POST /v1/suppressions': {},
          'POST /v1/reload': {}, 'POST /v1/drain': {'for': 'no span'}}


@pytest.mark.parametrize('kind', sorted(EVERYBODY))
def test_every_route(doors, kind):
    routes = [f'{route["method"]} {route["path"]}' for route in doors.lines('control', '/v1')[:-1]]
    assert len(routes) >= 30 and set(routes) == set(RIGHTS)
    for route in routes:
        method, path = route.split(' ')
        path = path.replace(':id', 'ffffffffffffff' if 'messages' in path else '999999')
        if route == 'POST /v1/restart':
            path += '?nothing=1'  # who may gets 400: counters would begin anew under the other tests
        for used in (method, 'HEAD') if method == 'GET' else (method,):
            status, body = doors.ask(kind, used, path, BODIES.get(route))
            where = (kind, used, path, status, body)
            if kind in RIGHTS[route]:
                assert status not in (401, 403), where
            elif kind in ('nobody', 'wrong'):
                assert status == 401, where
            else:
                assert status == 403, where
            if status in (401, 403) and used != 'HEAD':
                said = json.loads(body)
                assert said['code'] == ('token' if status == 401 else 'forbidden') and len(said['error']) > 20, where


def test_a_path_that_is_none(doors):
    for kind in EVERYBODY:
        expected = 401 if kind in ('nobody', 'wrong') else 404
        assert doors.ask(kind, 'GET', '/v1/nothing')[0] == expected, kind
        assert doors.ask(kind, 'POST', '/v1/nothing', {})[0] == expected, kind


def test_what_the_table_in_code_says(doors):
    """GET /v1 tells the right of each route, as clients read it."""
    for route in doors.lines('control', '/v1')[:-1]:
        may = RIGHTS[f'{route["method"]} {route["path"]}']
        assert route['tenants'] == ('full of acme' in may and may != EVERYBODY), route
        assert may in {'none': [EVERYBODY], 'look': [LOOK, OWN_LOOK], 'inject': [INJECT],
                       'change': [OPERATORS, OWN_CHANGE]}[route['right']], route


def test_refusals_are_counted_and_logged(doors):
    daemon = doors.daemon
    before = {why: doors.denied(why) for why in ('token', 'right', 'tenant', 'origin', 'user')}
    for _ in range(50):
        assert doors.ask('wrong', 'GET', '/v1/status')[0] == 401
    assert doors.ask('read', 'POST', '/v1/reload', {})[0] == 403
    assert doors.ask('loopback', 'POST', '/v1/reload', {})[0] == 403
    assert doors.ask('read of acme', 'GET', '/v1/status')[0] == 403
    after = {why: doors.denied(why) for why in before}
    assert {why: after[why] - before[why] for why in before} == \
        {'token': 50, 'right': 2, 'tenant': 1, 'origin': 0, 'user': 0}
    for why in ('token', 'right', 'tenant'):  # each at least once; the others of ten seconds are counted only
        until(lambda: any('was refused to' in line and f'({why})' in line for line in daemon.log().splitlines()), daemon.log)
    lines = [line for line in daemon.log().splitlines() if 'was refused to' in line]
    assert len(lines) < sum(after.values()) / 4 and not any(secret(kind) in daemon.log() for kind in TOKENS)


def test_check_names_what_changes(place):
    daemon = place.sluice(start=False, http={})
    assert 'trust_loopback' in daemon.command('check').stderr.decode()
    for value in (True, False):
        daemon.http['trust_loopback'] = value
        daemon.write_config()
        done = daemon.command('check')
        assert done.returncode == 0 and b'trust_loopback' not in done.stderr, done.stderr
    path = os.path.join(place.folder, 'tokens')
    write_tokens(path, ['anna:0123456789abcdef\n'])
    daemon.http |= {'tokens_file': path, 'trust_loopback': True}
    daemon.write_config()
    assert b'does nothing' in daemon.command('check').stderr
    daemon.http['trust_loopback'] = False
    daemon.write_config()
    assert b'trust_loopback' not in daemon.command('check').stderr


def test_rights_change_by_reload(place):
    path = os.path.join(place.folder, 'tokens')
    write_tokens(path, ['read anna:0123456789abcdef\n'])
    daemon = place.sluice(http={'tokens_file': path}, transports={'smtp': {'hold': True}})

    def ask(method, target, body=None):
        connection = http.client.HTTPConnection('127.0.0.1', daemon.http_port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, target, body, {'Authorization': 'Bearer 0123456789abcdef',
                                                      'Content-Type': 'application/json'})
            return connection.getresponse().status
    mail = json.dumps({'from': 'a@a.test', 'recipients': ['b@b.test'], 'text': 'x\n', 'tenant': 'evil'})
    assert (ask('GET', '/v1/status'), ask('POST', '/v1/inject', mail)) == (200, 403)
    write_tokens(path, ['anna:0123456789abcdef\n'])
    reload(daemon)
    assert (ask('GET', '/v1/status'), ask('POST', '/v1/inject', mail)) == (200, 202)
    write_tokens(path, ['full tenant=acme anna:0123456789abcdef\n'])
    reload(daemon)
    assert (ask('GET', '/v1/status'), ask('POST', '/v1/inject', mail)) == (403, 403)
    write_tokens(path, ['full tenant=evil anna:0123456789abcdef\n'])
    reload(daemon)
    assert (ask('GET', '/v1/counts'), ask('POST', '/v1/inject', mail)) == (200, 202)


# --- across tenants --------------------------------------------------------------------------------------

OTHERS = ('evil', 'ACME', 'acme2', 'acm', '*', 'a*', 'acm*')
MARKS = (b'snowden@', b'victim', b'hush-hush', b'evil.example')  # of mail that is not acme's


def mail_of(tenant, n, **more):
    return {'from': f'snowden@{tenant}.test', 'recipients': [f'victim{n}@evil.example'], 'tenant': tenant,
            'campaign': 'hush-hush', 'text': 'x\n', **more}


@pytest.fixture(scope='module')
def mixed(module_place):
    """Mail of acme, of others and of nobody; some of it waits and some is gone."""
    receiver = module_place.receiver(answers=lambda verb, argument, session: '550 5.1.1 hush-hush'
                                     if verb == 'RCPT' and 'gone' in argument and 'mine' not in argument else None)
    made = Doors(module_place, transports={'smtp': {}, 'held': {'hold': True}},
                 routes={'*': ('held', None), 'gone.example': ('smtp', receiver.nexthop)})
    daemon = made.daemon
    made.ids = {'acme': [], 'evil': []}
    for n in range(3):
        for tenant in ('evil', 'ACME', 'acme2', None):
            body = mail_of(tenant or 'nobody', n)
            if tenant is None:
                del body['tenant']
            made.ids['evil'] += post(daemon, body).expect(202)['ids']
        made.ids['acme'] += post(daemon, {'from': 'me@acme.test', 'recipients': [f'own{n}@own.example'],
                                          'tenant': 'acme', 'campaign': 'ours', 'text': 'x\n'}).expect(202)['ids']
    gone = post(daemon, mail_of('evil', 9, recipients=['victim@gone.example'])).expect(202)['ids']
    made.gone = post(daemon, {'from': 'me@acme.test', 'recipients': ['mine@gone.example'], 'tenant': 'acme',
                              'text': 'x\n'}).expect(202)['ids'][0]
    daemon.wait_event('Bounce', id=gone[0])
    daemon.wait_event('Delivery', id=made.gone)
    made.ids['evil'] += gone
    made.ids['bounce'] = until(lambda: [event['id'] for event in daemon.of('Reception') if event['id'] not in
                                        sum(made.ids.values(), []) + [made.gone]], 'the notice')
    until(lambda: made.lines('full', '/v1/counts')[-1]['recipients'] == 16, lambda: made.lines('full', '/v1/counts'))
    daemon.command('suspend', '--tenant', 'evil', '--for', '1h', '--reason', 'hush-hush')
    daemon.command('suspend', '--tenant', 'a*', '--for', '1h', '--reason', 'hush-hush')
    daemon.command('suspend', '--tenant', 'acme', '--for', '2h', '--reason', 'they asked')
    yield made
    assert daemon.is_alive(), daemon.log()
    assert daemon.stop() == 0, daemon.log()


def assert_own(body, mixed, but=()):
    for mark in MARKS:
        assert mark not in body, (mark, body)
    for ident in mixed.ids['evil']:
        assert ident in but or ident.encode() not in body, (ident, body)


def test_own_mail_is_seen(mixed):
    until(lambda: len(mixed.lines('full', '/v1/messages', tenant='acme', state='suspended')) > 6, 'all are held')
    for kind in ('full of acme', 'read of acme'):
        *messages, end = mixed.lines(kind, '/v1/messages')
        assert {m['id'] for m in messages} == set(mixed.ids['acme']) and end['more'] is False
        [row, end] = mixed.lines(kind, '/v1/counts')
        assert row['recipients'] == end['recipients'] == end['messages'] == 3
        *rows, end = mixed.lines(kind, '/v1/counts', by='tenant,domain')
        assert [(row['tenant'], row['domain']) for row in rows] == [('acme', 'own.example')]
        own = mixed.ids['acme'][0]
        assert json.loads(mixed.ask(kind, 'GET', f'/v1/messages/{own}')[1])['list'][0]['recipient'] == 'own0@own.example'
        chain = json.loads(mixed.ask(kind, 'GET', '/v1/why', message=own)[1])['chain']
        assert any('suspended' in link['what'] for link in chain), chain
        assert any(link.get('because') == 'they asked' for link in chain), chain
        about = json.loads(mixed.ask(kind, 'GET', '/v1/why', tenant='acme')[1])['about']
        assert about['recipients'] == 3
        past = json.loads(mixed.ask(kind, 'GET', f'/v1/messages/{mixed.gone}')[1])
        assert {event['type'] for event in past['events']} == {'Reception', 'Delivery'}
        *events, end = mixed.lines(kind, '/v1/events', after='start')
        assert {event['id'] for event in events} == {*mixed.ids['acme'], mixed.gone}


def test_counts_are_not_those_of_another_question(mixed):
    """Counts are kept for a moment: not for somebody else. The sixteenth recipient is a notice's."""
    for kind, count in (('full', 16), ('read of acme', 3), ('full', 16), ('full of acme', 3)):
        assert mixed.lines(kind, '/v1/counts')[-1]['recipients'] == count
    assert len(mixed.lines('full', '/v1/counts', by='tenant')) > 4


def values_of(mixed):
    yield from OTHERS
    yield from (mixed.ids['evil'][0], mixed.ids['evil'][-1], mixed.ids['acme'][0], '0000000000000001', '0')
    yield from ('', 'start', '0:0', '1:0', '1:17', '1:1000', '99:0', '1', '5', 'victim*', '*@*', '*.example', 'held',
                'tenant,campaign,domain,destination,transport,source,state,age,class', 'acme', 'suspended', '1s',
                'Reception', 'gone.example', 'evil.example')


def test_nothing_of_others_by_any_parameter(mixed):
    """Each parameter of each route that a tenant's token reaches, with each value, alone and beside the own name."""
    for route in mixed.lines('control', '/v1')[:-1]:
        if not (route['tenants'] and route['method'] == 'GET'):
            continue
        arguments = [*mixed.ids['evil'][::4], *mixed.ids['bounce'], mixed.ids['acme'][0]] if ':id' in route['path'] else ['']
        for argument in arguments:
            path = route['path'].replace(':id', argument)
            for name in [*route['params'], 'nothing']:
                for value in values_of(mixed):
                    for more in ({}, {'tenant': 'acme'}) if 'tenant' in route['params'] else ({},):
                        params = {**more, name: value}
                        status, body = mixed.ask('full of acme', 'GET', path, **params)
                        assert status in (200, 400, 403, 404), (path, params, status, body)
                        if status == 200:
                            assert_own(body, mixed)
                        if name == 'tenant' and value in OTHERS:
                            assert status == 403, (path, params, status, body)


def test_ids_of_others_are_as_if_they_were_none(mixed):
    for ident in mixed.ids['evil']:
        for kind in ('full of acme', 'read of acme'):
            found = [mixed.ask(kind, 'GET', f'/v1/messages/{which}') for which in (ident, 'fffffffffffffff0')]
            assert found[0] == found[1] and found[0][0] == 404
            found = [mixed.ask(kind, 'GET', '/v1/why', message=which) for which in (ident, 'fffffffffffffff0')]
            assert found[0] == found[1] and found[0][0] == 404
    assert mixed.ask('full of acme', 'GET', '/v1/why', destination='evil.example')[0] == 403
    assert mixed.ask('full of acme', 'GET', '/v1/trace', destination='gone.example')[0] == 403


def test_event_streams_from_any_cursor(mixed):
    """Also inside lines: a client makes cursors up."""
    size = os.path.getsize(mixed.daemon.events_path)
    wanted = {*mixed.ids['acme'], mixed.gone}
    seen = 0
    for offset in range(0, size + 5, 13):
        status, body = mixed.ask('read of acme', 'GET', '/v1/events', after=f'1:{offset}')
        assert status == 200
        assert_own(body, mixed)
        *events, end = [json.loads(line) for line in body.splitlines()]
        assert end['end'] and {event['id'] for event in events} <= wanted
        assert all(event['tenant'] == 'acme' for event in events)
        seen += len(events)
    assert seen > 100


def order(kind='suspend', **selector):
    return {'order': kind, 'for': '1h', 'reason': 'a test', **selector}


def test_orders_across_tenants(mixed):
    def ids(kind):
        return {o['id'] for o in mixed.lines(kind, '/v1/orders')[:-1]}
    everybody = ids('full')
    shown = mixed.lines('read of acme', '/v1/orders')
    assert [o['reason'] for o in shown[:-1]] == ['they asked']
    queued = {m['id'] for m in mixed.lines('full', '/v1/messages')[:-1]}
    for what in ('suspend', 'bounce', 'drop'):
        for other in OTHERS:
            status, body = mixed.ask('full of acme', 'POST', '/v1/orders', order(what, tenant=other))
            assert status == 403 and json.loads(body)['code'] == 'forbidden', body
            assert mixed.ask('full of acme', 'POST', '/v1/orders', order(what, tenant=other, dry_run=True))[0] == 403
    for hidden in everybody - ids('full of acme'):
        assert mixed.ask('full of acme', 'DELETE', f'/v1/orders/{hidden}')[0] == 404
    for operators in ids('full of acme'):
        assert mixed.ask('full of acme', 'DELETE', f'/v1/orders/{operators}')[0] == 403
    assert ids('full') == everybody
    status, body = mixed.ask('full of acme', 'POST', '/v1/orders', order('bounce', domain='*', dry_run=True))
    assert status == 200 and json.loads(body)['would_match']['recipients'] == 3, body
    assert_own(body, mixed)
    for selector in ({}, {'tenant': 'acme'}, {'domain': '*'}, {'campaign': 'hush*'}, {'source': '*'},
                     {'transport': 'held'}, {'destination': 'evil.example'}):
        status, body = mixed.ask('full of acme', 'POST', '/v1/orders', order(**selector))
        given = json.loads(body)
        assert status == 201 and given['tenant'] == 'acme', body
        assert given['matched'] in (0, 3), given
        assert_own(body.replace(b'"campaign":"hush*"', b'').replace(b'"destination":"evil.example"', b''), mixed)
        assert mixed.ask('full of acme', 'DELETE', f'/v1/orders/{given["id"]}')[0] == 200
    for selector in ({'domain': '*', 'for': 0}, {'all': True, 'for': 0}, {'destination': 'evil.example', 'for': '1h'}):
        assert mixed.ask('full of acme', 'POST', '/v1/orders', {**order('drop'), **selector})[0] == 201
    own = set(mixed.ids['acme'])
    until(lambda: not own & {m['id'] for m in mixed.lines('full', '/v1/messages')[:-1]}, 'the own mail is dropped')
    assert {m['id'] for m in mixed.lines('full', '/v1/messages')[:-1]} == queued - own
    [new] = post(mixed.daemon, mail_of('ACME', 77)).expect(202)['ids']
    [gone] = post(mixed.daemon, mail_of('acme', 77)).expect(202)['ids']
    assert mixed.daemon.wait_event('AdminDrop', id=gone)
    until(lambda: new in {m['id'] for m in mixed.lines('full', '/v1/messages')[:-1]}, "another tenant's is left")
    assert not mixed.daemon.of('AdminDrop', id=new)


def test_a_tenant_has_room_for_so_many_orders(mixed):
    given = []
    while (answer := mixed.ask('full of acme', 'POST', '/v1/orders', order(campaign=f'c{len(given)}')))[0] == 201:
        given.append(json.loads(answer[1])['id'])
    assert answer[0] == 429 and 50 < len(given) <= 100
    status, body = mixed.ask('full', 'POST', '/v1/orders', order(tenant='x'))
    assert status == 201
    for ident in [*given, json.loads(body)['id']]:
        assert mixed.ask('full', 'DELETE', f'/v1/orders/{ident}')[0] == 200


def test_orders_of_a_tenant_outlive_a_restart(place):
    made = Doors(place, transports={'smtp': {'hold': True}})
    status, body = made.ask('full of acme', 'POST', '/v1/orders', order())
    assert status == 201
    ident = json.loads(body)['id']
    assert made.daemon.stop() == 0
    made.daemon.start()
    post(made.daemon, mail_of('ACME', 1)).expect(202)
    post(made.daemon, mail_of('acme', 1)).expect(202)
    until(lambda: [m['tenant'] for m in made.lines('full', '/v1/messages', state='suspended')[:-1]] == ['acme'],
          lambda: made.lines('full', '/v1/messages'))
    assert made.ask('full of acme', 'DELETE', f'/v1/orders/{ident}')[0] == 200


def test_injection_across_tenants(mixed):
    plain = {'from': 'me@acme.test', 'recipients': ['own@own.example'], 'text': 'x\n', 'campaign': 'later'}
    for kind in ('full of acme', 'inject of acme'):
        before = len(mixed.daemon.of('Reception', campaign='later'))
        for other in ('evil', 'ACME', 'acme2', '*'):
            for body, params in (({**plain, 'tenant': other}, {}), (plain, {'tenant': other}),
                                 ({**plain, 'tenant': 'acme'}, {'tenant': other}),
                                 ({'messages': [plain, {**plain, 'tenant': other}]}, {}),
                                 ({'messages': [plain], 'defaults': {'tenant': other}}, {})):
                status, answer = mixed.ask(kind, 'POST', '/v1/inject', body, **params)
                assert status == 403 and 'acme' in json.loads(answer)['error'], (kind, body, params, answer)
        assert len(mixed.daemon.of('Reception', campaign='later')) == before
        for body, params in ((plain, {}), ({**plain, 'tenant': 'acme'}, {}), (plain, {'tenant': 'acme'}),
                             ({'messages': [plain], 'defaults': {'tenant': 'acme'}}, {}),
                             ({**plain, 'headers': {'X-Tenant': 'evil'}}, {})):
            status, answer = mixed.ask(kind, 'POST', '/v1/inject', body, **params)
            assert status == 202, answer
            [ident] = json.loads(answer)['ids']
            assert mixed.daemon.wait_event('Reception', id=ident)['tenant'] == 'acme'


# --- users of a listener ------------------------------------------------------------------------------------

def test_user_who_is_bound_to_a_tenant(place):
    folder = place.subfolder('users')
    make_certificate(folder, 'relay.test')
    crypted = subprocess.run(['openssl', 'passwd', '-6', 'secret'], check=True, text=True, capture_output=True).stdout

    def write(text):
        with open(f'{folder}/users', 'w', encoding='utf-8') as users:
            users.write(text)
    write(f'tenant=acme alice:{crypted}bob:{crypted}')
    daemon = place.sluice(listener={'relay_from': ['192.0.2.0/24'], 'users': f'{folder}/users', 'tenant': 'default',
                                    'tls_certificate': f'{folder}/cert', 'tls_key': f'{folder}/key',
                                    'tenant_header': 'X-Tenant'}, transports={'smtp': {'hold': True}})

    def send(user, body):
        """The replies to the contents."""
        client.ehlo('client.test')
        client.starttls()
        client.ehlo('client.test')
        client.send('AUTH PLAIN ' + base64.b64encode(f'\0{user}\0secret'.encode()).decode() + '\r\n')
        client.expect(235)
        replies = []
        for content in body:
            client.send('MAIL FROM:<a@a.test>\r\n')
            client.expect(250)
            client.send('RCPT TO:<b@b.test>\r\n')
            client.expect(250)
            client.send('DATA\r\n')
            client.expect(354)
            client.send(content + b'.\r\n')
            replies.append(client.reply())
        return replies

    large = b'x' * 998 + b'\r\n'
    with Client(daemon) as client:
        replies = send('alice', [message(), message(X_Tenant='acme'), message(X_Tenant='evil'),
                                 message(X_Tenant='ACME') + large * 200, message(X_Tenant='no tenant'), message()])
    assert [reply.code for reply in replies] == [250, 250, 550, 550, 250, 250]
    assert replies[2].text.startswith('5.7.1')
    with Client(daemon) as client:
        assert [reply.code for reply in send('bob', [message(), message(X_Tenant='evil')])] == [250, 250]
    received = until(lambda: len(daemon.of('Reception')) == 6 and daemon.of('Reception'), '6 messages')
    assert [event['tenant'] for event in received] == ['acme'] * 4 + ['default', 'evil']
    daemon.wait_log('user alice')
    daemon.wait_log('bound to tenant acme')
    write(f'tenant=evil alice:{crypted}')
    reload(daemon)
    with Client(daemon) as client:
        assert [reply.code for reply in send('alice', [message(X_Tenant='acme'), message()])] == [550, 250]
    write(f'tenant=a*b alice:{crypted}')
    assert 'users' in reload(daemon, 422)['complaints'][0]


# --- classes -------------------------------------------------------------------------------------------

ALLOWED = {'acme': {'normal', 'bulk'}, 'quiet': {'bulk'}, 'fast': {'urgent', 'normal', 'bulk'}, 'unnamed': {'normal', 'bulk'}}
NEXT_LOWER = {'urgent': ['urgent', 'normal', 'bulk'], 'normal': ['normal', 'bulk'], 'bulk': ['bulk']}


def test_no_token_gives_a_class_that_the_tenant_may_not_use(place):
    """Whoever injects, and for whom: the class is what the tenant's section allows, else the next lower one."""
    doors = Doors(place, transports={'smtp': {'hold': True}},
                  tenants={'acme': {'classes': ['normal', 'bulk']}, 'quiet': {'classes': ['bulk']},
                           'fast': {'classes': ['urgent', 'normal', 'bulk']}})
    expected = {}
    for kind in sorted(EVERYBODY - {'nobody', 'wrong'}):
        for tenant, allowed in ALLOWED.items():
            for wanted, steps in NEXT_LOWER.items():
                recipient = f'{kind.replace(" ", ".")}.{tenant}.{wanted}@a.test'
                status, body = doors.ask(kind, 'POST', '/v1/inject', {
                    'from': 'a@a.test', 'recipients': [recipient], 'text': 'x', 'tenant': tenant, 'class': wanted})
                may = kind in INJECT and ('acme' not in kind or tenant == 'acme')
                assert status == (202 if may else 403), (kind, tenant, wanted, status, body)
                if may:
                    expected[recipient] = next(step for step in steps if step in allowed)
    assert len(expected) == 12 * len(INJECT - {'full of acme', 'inject of acme'}) + 3 * 2
    for recipient, wanted in expected.items():
        assert doors.daemon.wait_event('Reception', recipient)['mail_class'] == wanted, recipient

    def check():
        rows = {row['tenant']: row['lowered'] for row in doors.lines('control', '/v1/tenants') if 'tenant' in row}
        for tenant in ALLOWED:
            lowered = sum(found != recipient.split('@')[0].rsplit('.', 1)[1] for recipient, found in expected.items()
                          if f'.{tenant}.' in recipient.replace('of.acme', 'of'))
            assert rows[tenant] == lowered, tenant
    settled(check)


def test_a_tenant_changes_its_own_list_alone(doors):
    def put(kind, body, **params):
        return doors.ask(kind, 'POST', '/v1/suppressions', body, **params)[0]

    assert put('control', {'address': 'all@x.test', 'source': 'the operator'}) == 200
    assert put('control', {'address': 'evil@x.test', 'tenant': 'evil'}) == 200
    assert put('full of acme', {'address': 'own@x.test'}) == 200
    assert put('full of acme', {'address': 'own@x.test', 'tenant': 'evil'}) == 403
    assert put('full of acme', {'address': 'own@x.test'}, tenant='evil') == 403
    assert [one['address'] for one in doors.lines('read of acme', '/v1/suppressions')[:-1]] == ['own@x.test']
    assert doors.ask('read of acme', 'GET', '/v1/suppressions', tenant='')[0] == 403
    assert doors.ask('read of acme', 'GET', '/v1/suppressions', tenant='evil')[0] == 403
    for path in ('all@x.test', 'evil@x.test'):
        assert doors.ask('full of acme', 'DELETE', f'/v1/suppressions/{path}')[0] == 404
    status, body = doors.ask('read of acme', 'GET', '/v1/suppressions/all@x.test')
    assert status == 200 and json.loads(body)['source'] == ''
    assert doors.ask('full of acme', 'DELETE', '/v1/suppressions/own@x.test')[0] == 200
    kept = {(one['tenant'], one['address']) for one in doors.lines('control', '/v1/suppressions')[:-1]}
    assert kept == {('', 'all@x.test'), ('evil', 'evil@x.test')}
