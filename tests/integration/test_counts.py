"""What `sluice counts` and the filters of `sluice messages` say of a queue with mail in each
state."""
import time

import pytest

from support.address import free_port
from support.api import ask
from support.client import message, submit
from support.peer import Peer
from support.wait import until

REFUSES = 'send 220 peer.test ESMTP\nexpect EHLO\nsend 250 peer.test\nexpect MAIL\n' \
    'send 451 4.7.1 try later\nclose'
STUCK = 'chunks\nexpect MAIL\nsend 250 2.1.0 ok\nexpect RCPT\nsend 250 2.1.5 ok\nhold 1\nsilence'


def queue(daemon, tenant, campaign, *recipients, sender='a@back.test'):
    headers = {'X_Tenant': tenant, 'X_Campaign': campaign}
    submit(daemon, sender, recipients, message(**{k: v for k, v in headers.items() if v}))


@pytest.fixture(scope='module')
def stage(module_place):
    refuses, stuck = (module_place.keep(Peer(script)) for script in (REFUSES, STUCK))
    absent = f'[127.0.0.1]:{free_port()}'
    daemon = module_place.sluice(
        listener={'tenant_header': 'X-Tenant', 'campaign_header': 'X-Campaign'},
        options={'minimal_backoff_time': '300s', 'maximal_backoff_time': '300s'},
        transports={'smtp': {}, 'held': {'hold': True, 'source_pool': 'p'},
                    'narrow': {'initial_destination_concurrency': 1,
                               'destination_concurrency_limit': 1}},
        sources={'s1': {'address': '127.0.0.1'}, 's2': {'address': '127.0.0.2'}},
        pools={'p': {'sources': ['s1', 's2']}},
        routes={'held.test': ('held', None), '.held.test': ('held', '[127.0.0.1]:9'),
                'refuses.test': ('smtp', refuses.nexthop), 'absent.test': ('narrow', absent),
                'stuck.test': ('narrow', stuck.nexthop)})
    queue(daemon, 'acme', 'spring', 'a@Held.test', 'b@held.test', 'c@sub.held.test')
    queue(daemon, 'acme', '', 'x1@refuses.test', sender='news@back.test')
    queue(daemon, 'acme', '', 'x2@refuses.test')
    queue(daemon, 'globex', '', 'user@absent.test')
    for n in (1, 2):
        queue(daemon, 'globex', 'summer', f'user{n}@stuck.test')
    queue(daemon, '', '', 'nobody@held.test')
    for recipient in ('x1@refuses.test', 'x2@refuses.test', 'user@absent.test'):
        daemon.wait_event('TransientFailure', recipient)
    until(lambda: stuck.held, 'a message on its way')
    until(lambda: len(ask(daemon, '/v1/messages', state='deferred')[1]) == 4 and
          len(ask(daemon, '/v1/messages', state='active')[1]) == 5,
          lambda: f'three deferred and four active ones: {ask(daemon, "/v1/messages")}')
    return daemon, {'refuses': refuses.nexthop, 'absent': absent, 'stuck': stuck.nexthop}


def counts(daemon, by, **params):
    status, lines = ask(daemon, '/v1/counts', by=by, **params)
    assert status == 200, lines
    assert lines[-1]['end'] is True and lines[-1]['count'] == len(lines) - 1
    return lines[:-1]


def table(rows, *words):
    return {tuple(row[word] for word in words): (row['recipients'], row['messages'])
            for row in rows}


def test_groups(stage):
    daemon, nexthops = stage
    assert table(counts(daemon, 'tenant'), 'tenant') == {
        ('acme',): (5, 3), ('globex',): (3, 3), ('',): (1, 1)}
    assert table(counts(daemon, 'tenant,state'), 'tenant', 'state') == {
        ('acme', 'active'): (3, 1), ('acme', 'deferred'): (2, 2),
        ('globex', 'active'): (2, 2), ('globex', 'deferred'): (1, 1), ('', 'active'): (1, 1)}
    assert table(counts(daemon, 'domain'), 'domain') == {
        ('held.test',): (3, 2), ('sub.held.test',): (1, 1), ('refuses.test',): (2, 2),
        ('absent.test',): (1, 1), ('stuck.test',): (2, 2)}
    assert table(counts(daemon, 'transport,destination'), 'transport', 'destination') == {
        ('held', 'held.test'): (3, 2), ('held', '[127.0.0.1]:9'): (1, 1),
        ('smtp', nexthops['refuses']): (2, 2), ('narrow', nexthops['absent']): (1, 1),
        ('narrow', nexthops['stuck']): (2, 2)}
    assert table(counts(daemon, 'class'), 'class') == {('throttled',): (2, 2), ('',): (7, 5)}
    assert table(counts(daemon, 'source'), 'source') == {('s1,s2',): (4, 2), ('',): (5, 5)}
    assert table(counts(daemon, 'campaign,age'), 'campaign', 'age') == {
        ('spring', '<1m'): (3, 1), ('summer', '<1m'): (2, 2), ('', '<1m'): (4, 4)}


def test_whole(stage):
    """Without groups one row; the last line has the sums, and when it was counted."""
    daemon, _ = stage
    status, [row, end] = ask(daemon, '/v1/counts')
    assert status == 200
    assert (row['recipients'], row['messages']) == (9, 7)
    assert (end['recipients'], end['messages'], end['damaged'], end['more']) == (9, 7, 0, False)
    assert row['oldest'] <= end['as_of'] <= time.time()
    assert 0 <= end['took'] < 10
    # Asked again before two seconds have passed, it is the same walk.
    until(lambda: ask(daemon, '/v1/counts')[1][1]['as_of'] == ask(daemon, '/v1/counts')[1][1]['as_of'],
          'two answers of one walk')


def test_limit(stage):
    daemon, _ = stage
    _, lines = ask(daemon, '/v1/counts', by='tenant', limit=1)
    assert [line.get('tenant') for line in lines] == ['acme', None]
    assert lines[-1]['more'] is True and lines[-1]['recipients'] == 9


# what is asked, (recipients, messages) that fit
FILTERS = [
    ({'tenant': 'ACME'}, (5, 3)), ({'tenant': 'g*x'}, (3, 3)), ({'tenant': 'g'}, None),
    ({'campaign': '*'}, (9, 7)), ({'campaign': 's*'}, (5, 3)),
    ({'domain': '*held.test'}, (4, 2)), ({'destination': 'held.test'}, (3, 2)),
    ({'transport': 'narrow'}, (3, 3)), ({'source': 's2'}, (4, 2)), ({'source': 's3'}, None),
    ({'sender': 'news@*'}, (1, 1)), ({'recipient': 'user*'}, (3, 3)),
    ({'state': 'deferred'}, (3, 3)), ({'state': 'active,deferred'}, (9, 7)),
    ({'state': 'suspended'}, None), ({'older': '1h'}, None),
    ({'tenant': 'acme', 'state': 'deferred', 'recipient': 'x2@*'}, (1, 1)),
]


@pytest.mark.parametrize('asked, wanted', FILTERS, ids=lambda v: str(v))
def test_filters(stage, asked, wanted):
    """Counts and lists agree."""
    daemon, _ = stage
    rows = ask(daemon, '/v1/counts', **asked)[1][:-1]
    assert [(r['recipients'], r['messages']) for r in rows] == ([wanted] if wanted else [])
    status, lines = ask(daemon, '/v1/messages', **asked)
    assert status == 200
    assert len(lines) - 1 == (wanted[1] if wanted else 0)


def test_pages_of_a_search(stage):
    daemon, _ = stage
    _, whole = ask(daemon, '/v1/messages', tenant='acme')
    _, [first, end] = ask(daemon, '/v1/messages', tenant='acme', limit=1)
    assert (first, end['more']) == (whole[0], True)
    _, rest = ask(daemon, '/v1/messages', tenant='acme', after=first['id'])
    assert rest[:-1] == whole[1:-1] and rest[-1]['more'] is False


WRONG = [('/v1/counts', {'by': 'size'}), ('/v1/counts', {'by': 'tenant,,state'}),
         ('/v1/counts', {'by': ''}),
         ('/v1/counts', {'state': 'lost'}), ('/v1/counts', {'older': 'yesterday'}),
         ('/v1/counts', {'tenant': ''}), ('/v1/messages', {'domain': 'x' * 256}),
         ('/v1/messages', {'sender': 'x' * 600}),
         ('/v1/messages', {'after': 'zzz'}), ('/v1/counts', {'color': 'red'})]


@pytest.mark.parametrize('path, params', WRONG, ids=lambda v: str(v)[:40])
def test_wrong_questions(stage, path, params):
    daemon, _ = stage
    status, [answer] = ask(daemon, path, **params)
    assert (status, answer['code']) == (400, 'usage')
    assert next(iter(params)) in answer['error']


def test_commands(stage):
    daemon, _ = stage
    done = daemon.command('counts', '--by', 'tenant,state', '--transport', 'narrow')
    assert done.returncode == 0, done.stderr
    head, *lines, sums = done.stdout.decode().splitlines()
    assert head.split() == ['TENANT', 'STATE', 'RECIPIENTS', 'MESSAGES', 'OLDEST']
    assert [line.split()[:4] for line in lines] == [['globex', 'active', '2', '2'],
                                                    ['globex', 'deferred', '1', '1']]
    assert sums.startswith('3 recipients in 3 messages, counted ')
    done = daemon.command('counts')
    assert done.stdout.split()[:1] == [b'STATE'], done.stderr
    assert len(daemon.query('messages', '--tenant', 'acme', '--state', 'deferred')) == 2
    assert daemon.command('counts', '--by', 'size').returncode == 64
    assert daemon.command('counts', '--tenant', 'zz').stdout.startswith(
        b'0 recipients in 0 messages, counted ')


def test_restart(place):
    """An empty queue, and a restart that keeps whose mail it is."""
    daemon = place.sluice(listener={'tenant': 'fixed'}, transports={'held': {'hold': True}},
                          routes={'*': ('held', None)})
    assert ask(daemon, '/v1/counts')[1][0]['end'] is True
    submit(daemon, 'a@back.test', ['u@held.test'], message())
    wanted = [{'tenant': 'fixed', 'recipients': 1, 'messages': 1}]

    def seen():
        rows = ask(daemon, '/v1/counts', by='tenant', recipient='u@*')[1][:-1]
        return [{k: row[k] for k in ('tenant', 'recipients', 'messages')} for row in rows]
    until(lambda: seen() == wanted, lambda: f'{wanted}: {seen()}')
    assert daemon.stop() == 0
    daemon.start()
    until(lambda: seen() == wanted, lambda: f'{wanted}: {seen()}')
