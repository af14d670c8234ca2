"""Whose mail goes first where several wait for one slow receiver: classes, tenants by weight, campaigns in
turn, as the engine passes them to the scheduler; after a restart and by a reload too. It is the order
of deliveries that is looked at, never time: all mail is in the scheduler before the first of it goes, and one
connection carries one message at a time."""
import os

import pytest

from support import exposition
from support.api import ask, get
from support.client import Client, message
from support.injection import post
from support.reloading import reload
from support.signing_key import make_signing_key
from support.wait import settled, until

LISTENER = {'tenant_header': 'X-Tenant', 'campaign_header': 'X-Campaign', 'class_header': 'X-Class'}
ONE_AT_A_TIME = {'initial_destination_concurrency': 1, 'destination_concurrency_limit': 1, 'pipeline_depth': 1}


class Order:
    """answers of a Receiver: local parts in the order of their RCPT; `gate` is asked before each reply."""

    def __init__(self):
        self.came = []
        self.stop_at = None

    def __call__(self, verb, argument, session):
        if verb == 'RCPT':
            if self.stop_at is not None and len(self.came) >= self.stop_at:
                until(lambda: self.stop_at is None, 'the receiver goes on')
            self.came.append(argument.split('<')[1].split('@')[0])

    def of(self, first, last=None):
        """names without numbers"""
        return [name.rstrip('0123456789') for name in self.came[first:last]]


def send(daemon, name, count, **headers):
    with Client(daemon) as client:
        client.ehlo('client.test')
        for n in range(count):
            client.mail('a@a.test', [f'{name}{n}@x.test'])
            client.data(message(**headers))


def wait_in_core(daemon, count):
    def todo():
        return sum(row.get('todo', 0) for row in ask(daemon, '/v1/destinations')[1])
    until(lambda: todo() == count, lambda: f'{count} wait for the receiver, {todo()} do')


def daemon_of(place, receiver, tenants, **more):
    return place.sluice(listener=LISTENER, tenants=tenants, routes={'*': ('smtp', receiver.nexthop)},
                        transports={'smtp': {'hold': True, **ONE_AT_A_TIME}}, **more)


def let_go(daemon):
    daemon.transports['smtp']['hold'] = False
    reload(daemon)


@pytest.fixture
def order():
    return Order()


@pytest.fixture
def receiver(place, order):
    return place.receiver(answers=order)


def assert_shares(names, weights):
    """Of all that went while all of them waited, nobody has more beyond another than one message each."""
    given = dict.fromkeys(weights, 0)
    for name in names:
        given[name] += 1
        for i in weights:
            for j in weights:
                off = abs(given[i] / weights[i] - given[j] / weights[j])
                assert off <= 1 / weights[i] + 1 / weights[j] + 1e-9, (given, names)


WEIGHTS = {'five': 5, 'three': 3, 'one': 1}


@pytest.mark.parametrize('is_restarted', [False, True])
def test_tenants_by_weight(place, order, receiver, is_restarted):
    """5:3:1, whoever came first; that of "*" is each other one's. Names match in either case of letters."""
    tenants = {'Five': {'weight': 5}, '*': {'weight': 3}, 'one': {'weight': 1}}
    daemon = daemon_of(place, receiver, tenants)
    for name in ('one', 'three', 'five'):
        send(daemon, name, 30, X_Tenant=name)
    if is_restarted:
        daemon.stop()
        daemon.start()
    wait_in_core(daemon, 90)
    let_go(daemon)
    receiver.wait(90, 60)
    assert_shares(order.of(0, 50), WEIGHTS)
    assert order.of(0, 45).count('five') == 25


def test_weights_by_reload(place, order, receiver):
    """What waits goes by the new weights at once."""
    daemon = daemon_of(place, receiver, {'five': {'weight': 5}, 'three': {'weight': 3}})
    for name in ('one', 'three', 'five'):
        send(daemon, name, 60, X_Tenant=name)
    wait_in_core(daemon, 180)
    order.stop_at = 40
    let_go(daemon)
    until(lambda: len(order.came) == 40, 'the first ones')
    daemon.tenants = {'one': {'weight': 5}, 'three': {'weight': 3}}
    reload(daemon)
    order.stop_at = None
    receiver.wait(180, 60)
    assert_shares(order.of(0, 40), WEIGHTS)
    # Whom the first ones gave less for their weight comes first: two messages of each at most.
    assert_shares(order.of(46, 80), {'five': 1, 'three': 3, 'one': 5})


def test_urgent_beside_bulk(place, order, receiver):
    """Urgent mail that came last is first, but a tenth is for lower classes while they wait."""
    tenants = {'*': {'classes': ['urgent', 'normal', 'bulk']}}
    daemon = daemon_of(place, receiver, tenants)
    send(daemon, 'bulk', 40, X_Class='bulk')
    send(daemon, 'normal', 40)
    send(daemon, 'urgent', 40, X_Class='urgent')
    wait_in_core(daemon, 120)
    let_go(daemon)
    receiver.wait(120, 60)
    assert order.of(0, 9) == ['urgent'] * 9
    assert order.of(0, 40).count('urgent') == 36
    rest = order.of(44)
    assert rest.count('normal') == 36 and rest[:38].count('normal') >= 33
    assert 'bulk' in order.of(0, 84 + 4)[44:84]


def test_floor_by_configuration_and_reload(place, order, receiver):
    """class_floor = 0: a lower class goes when no higher one waits; a quarter after a reload."""
    tenants = {'*': {'classes': ['urgent', 'normal', 'bulk']}}
    daemon = daemon_of(place, receiver, tenants, options={'class_floor': 0})
    send(daemon, 'bulk', 40, X_Class='bulk')
    send(daemon, 'urgent', 60, X_Class='urgent')
    wait_in_core(daemon, 100)
    order.stop_at = 20
    let_go(daemon)
    until(lambda: len(order.came) == 20, 'the first ones')
    daemon.options['class_floor'] = 25
    reload(daemon)
    order.stop_at = None
    receiver.wait(100, 60)
    assert order.of(0, 20) == ['urgent'] * 20
    assert 9 <= order.of(22, 62).count('bulk') <= 11


def test_campaigns_of_a_tenant(place, order, receiver):
    """Ten messages of a campaign behind two hundred of another of the same tenant go every other time; another
    tenant has as much as both."""
    daemon = daemon_of(place, receiver, {})
    send(daemon, 'large', 200, X_Tenant='shop', X_Campaign='sale')
    send(daemon, 'small', 10, X_Tenant='shop', X_Campaign='bills')
    wait_in_core(daemon, 210)
    let_go(daemon)
    receiver.wait(210, 60)
    assert order.of(0).index('small') <= 2
    assert order.of(0, 22).count('small') == 10


def test_single_behind_many(place, order, receiver):
    """A message of a tenant that has no other goes within one turn of those that wait, also mail of nobody."""
    daemon = daemon_of(place, receiver, {})
    for name in ('a', 'b', 'c'):
        send(daemon, name, 30, X_Tenant=name)
    send(daemon, 'single', 1, X_Tenant='quiet')
    send(daemon, 'nobody', 1)
    wait_in_core(daemon, 92)
    let_go(daemon)
    receiver.wait(92, 60)
    first = order.of(0, 5)
    assert 'single' in first and 'nobody' in first, first


def test_deferred_mail_comes_back_in_its_flow(place, order, receiver):
    """Read from the spool again, by a flush: shares hold as for new mail."""
    refused = []

    def answers(verb, argument, session):
        if verb == 'RCPT' and len(refused) < 30:
            refused.append(argument)
            return '450 4.2.1 later'
        return order(verb, argument, session)
    receiver.answers = answers
    daemon = daemon_of(place, receiver, {'two': {'weight': 2}},
                       options={'minimal_backoff_time': '1h', 'maximal_backoff_time': '1h'})
    send(daemon, 'one', 15, X_Tenant='one')
    send(daemon, 'two', 15, X_Tenant='two')
    wait_in_core(daemon, 30)
    let_go(daemon)
    until(lambda: daemon.totals()['deferred'] == 30, 'all refused')  # which is stored behind its events
    daemon.transports['smtp']['hold'] = True
    reload(daemon)
    daemon.command('flush')
    wait_in_core(daemon, 30)
    let_go(daemon)
    receiver.wait(30, 60)
    assert_shares(order.of(0, 20), {'one': 1, 'two': 2})


def test_what_reports_say(place, receiver):
    """why says that it is others' turn, and beside how many; tenants what each has in memory; the longest wait
    of each class is a metric."""
    daemon = daemon_of(place, receiver, {'five': {'weight': 5}})
    send(daemon, 'five', 20, X_Tenant='five')
    send(daemon, 'one', 10, X_Tenant='one', X_Class='bulk')
    wait_in_core(daemon, 30)

    def rows():
        return {row['tenant']: tuple(row.get(key) for key in ('weight', 'in_memory', 'waiting'))
                for row in daemon.query('tenants')}
    until(lambda: {'five': (5, 20, 20), 'one': (1, 10, 10)}.items() <= rows().items(), rows)

    def waiting(kind):
        return exposition.value(exposition.parse(get(daemon, '/metrics').body), 'sluice_waiting_seconds', **{'class': kind})
    until(lambda: waiting('bulk') > 0, 'a wait of bulk mail')
    assert waiting('urgent') == 0
    found = until(lambda: daemon.query('messages', '--tenant', 'one'), 'it is in the tables')
    chain = ask(daemon, '/v1/why', message=found[0]['id'])[1][0]['chain']
    assert any('takes turns with 1 other flow' in link['what'] and 'weighs 1' in link['what'] for link in chain), chain
    let_go(daemon)
    receiver.wait(30, 60)


def test_what_waits_for_places_keeps_no_other_tenant(place):
    """One tenant has its share of the memory, on hold, and a flush of its deferred mail that waits for places; what
    another has suspended comes all the same, though it may have two messages in memory at a time."""
    later = place.receiver(answers=lambda verb, argument, session: '450 4.2.0 later' if verb == 'RCPT' else None)
    good = place.receiver()
    daemon = place.sluice(
        options={'message_active_limit': 40, 'minimal_backoff_time': '1h', 'maximal_backoff_time': '2h'},
        transports={'held': {'hold': True}, 'smtp': {}},
        routes={'later.test': ('smtp', later.nexthop), 'held.test': ('held', good.nexthop), '*': ('smtp', good.nexthop)})

    def give(tenant, count, domain):
        post(daemon, {'messages': [{'from': 'a@a.test', 'recipients': [f'{tenant}{n}@{domain}'], 'text': 'x\n',
                                    'tenant': tenant} for n in range(count)]}).expect(202)
    give('full', 5, 'later.test')
    until(lambda: daemon.totals()['deferred'] == 5, daemon.totals)
    give('full', 60, 'held.test')
    until(lambda: daemon.totals()['active'] >= 35, daemon.totals)
    assert daemon.command('flush', '--tenant', 'full').returncode == 0
    assert daemon.command('suspend', '--tenant', 'other', '--for', '1h', '--reason', 'a test').returncode == 0
    give('other', 20, 'x.test')
    until(lambda: daemon.totals()['suspended'] == 20, daemon.totals)
    assert daemon.command('resume', '--tenant', 'other').returncode == 0
    good.wait(20, 60)


def in_memory(daemon):
    return {row['tenant']: row.get('in_memory', 0) for row in daemon.query('tenants')}


# How the tenant's mail comes into memory: from which class of the queue, in its turn or before its time.
WAYS = ['new', 'deferred', 'flushed', 'resumed', 'held']


@pytest.mark.parametrize('way', WAYS)
def test_places_are_given_back(place, order, receiver, way):
    """One tenant fills the memory; what comes later has its share of the places though nothing is delivered, and a
    third one its own of theirs. Each message is tried once, and each arrives."""
    refused = []
    is_tried = is_refusing = way in ('deferred', 'flushed')

    def answers(verb, argument, session):
        if verb == 'RCPT' and is_refusing:
            refused.append(argument)
            return '450 4.2.1 later'
        return order(verb, argument, session)
    receiver.answers = answers
    backoff = '1h' if way == 'flushed' else '2s'
    key = os.path.join(place.subfolder('keys'), 'key')
    make_signing_key(key)
    daemon = daemon_of(place, receiver, {'late': {'weight': 2}}, dkims={'s._domainkey.sender.test': {'key': key}},
                       options={'message_active_limit': 40, 'minimal_backoff_time': backoff,
                                'maximal_backoff_time': backoff, 'queue_run_delay': '1s'})
    if is_tried:
        let_go(daemon)
    if way in ('resumed', 'held'):
        span = '1h' if way == 'resumed' else '3s'
        assert daemon.command('suspend', '--tenant', 'full', '--for', span, '--reason', 'a test').returncode == 0
    send(daemon, 'full', 60, X_Tenant='full')
    if is_tried:
        until(lambda: len(set(refused)) == 60, lambda: len(refused))
        until(lambda: daemon.totals()['deferred'] == 60 or way == 'deferred', daemon.totals)
        daemon.transports['smtp']['hold'] = True
        reload(daemon)
        until(lambda: daemon.totals()['entries_in_flight'] == 0, daemon.totals)
    if way == 'flushed':
        daemon.command('flush')
    if way == 'resumed':
        until(lambda: daemon.totals()['suspended'] == 60, daemon.totals)
        assert daemon.command('resume', '--tenant', 'full').returncode == 0
    until(lambda: in_memory(daemon).get('full') == 35, lambda: in_memory(daemon))
    # What was refused before the scheduler heard of the hold is deferred once more, and written down behind that.
    settled(lambda: check_nothing_goes(daemon, 35, len(refused)))
    tried = len(daemon.of('TransientFailure'))
    send(daemon, 'late', 60, X_Tenant='late')
    until(lambda: 21 <= in_memory(daemon)['late'] <= 25, lambda: in_memory(daemon))
    send(daemon, 'last', 60, X_Tenant='last')

    def is_shared():
        shares = in_memory(daemon)
        return shares['last'] >= 7 and sum(shares.values()) <= 40 and shares['full'] <= 11 and 16 <= shares['late'] <= 20
    until(is_shared, lambda: in_memory(daemon))
    assert given_back(daemon) >= 35 - 11
    assert len(daemon.of('TransientFailure')) == tried
    if way == 'resumed':
        # What gave its place back is still held by its place in the queue: a start finds out that nothing holds it.
        daemon.kill()
        daemon.start()
    is_refusing = False
    let_go(daemon)
    until(lambda: len(order.came) == 180, lambda: len(order.came))
    assert len(set(order.came)) == 180
    until(lambda: len(daemon.of('Delivery')) == 180 and daemon.totals()['active'] == 0, daemon.totals)
    assert len(daemon.of('TransientFailure')) == tried
    if not is_tried and way != 'resumed':
        # What left memory and came again was signed again, and is counted once.
        sealed = exposition.parse(get(daemon, '/metrics').body)
        assert exposition.value(sealed, 'sluice_dkim_messages_total', result='signed') == 180


def check_nothing_goes(daemon, count, refused):
    wait_in_core(daemon, count)
    assert daemon.totals()['entries_in_flight'] == 0 and in_memory(daemon)['full'] == count
    assert len(daemon.of('TransientFailure')) == refused


def given_back(daemon):
    families = exposition.parse(get(daemon, '/metrics').body)
    return exposition.value(families, 'sluice_messages_given_back_total')


def test_a_kill_while_places_are_given_back(place, order, receiver):
    """In the middle of it, again and again: each message arrives once, as nothing was tried or written."""
    daemon = daemon_of(place, receiver, {}, options={'message_active_limit': 320})
    names = ['full', 'a', 'b', 'c', 'd']
    send(daemon, 'full', 330, X_Tenant='full')
    until(lambda: in_memory(daemon).get('full') == 280, lambda: in_memory(daemon))
    for name in names[1:]:
        send(daemon, name, 60, X_Tenant=name)
        until(lambda: given_back(daemon) > 0, 'places are given back')
        daemon.kill()
        daemon.start()
        until(lambda: daemon.totals()['active'] == 280, daemon.totals)
    let_go(daemon)
    until(lambda: len(order.came) == 570, lambda: len(order.came))
    daemon.wait_empty()
    assert len(set(order.came)) == len(order.came) == 570
    assert len(daemon.of('Delivery')) == 570 and not daemon.of('TransientFailure')
