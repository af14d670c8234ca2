"""Standing orders with live traffic: mail suspended, returned and dropped by what it is, resumed and
flushed; sources closed; what an operator is shown and asked for; and that orders stay."""
import json
import os
import threading

from support import injection
from support.address import fresh_address, free_port
from support.api import ask
from support.client import message, submit
from support.wait import PATIENCE, settled, until

LABELS = {'tenant_header': 'X-Tenant', 'campaign_header': 'X-Campaign'}
LATER = {'minimal_backoff_time': '1h', 'maximal_backoff_time': '2h'}
WHY = ('--reason', 'ticket 12')


def send(daemon, tenant, *recipients, sender='a@a.test', campaign=None):
    headers = {'X_Tenant': tenant}
    if campaign:
        headers['X_Campaign'] = campaign
    submit(daemon, sender, recipients, message(**headers))


def run(daemon, *args, code=0):
    """A command; returns what it said."""
    done = daemon.command(*args)
    assert done.returncode == code, (args, done.stdout, done.stderr)
    return (done.stdout + done.stderr).decode()


def give(daemon, *args):
    """An order by the command; returns it as the interface shows it."""
    done = daemon.command(*args, *WHY, '--json')
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def states(daemon):
    """{state: number of messages}"""
    found = {}
    for one in daemon.query('messages'):
        found[one['state']] = found.get(one['state'], 0) + 1
    return found


def wait_states(daemon, **wanted):
    until(lambda: states(daemon) == wanted, lambda: f'{wanted}; it is {states(daemon)}\n'
          f'{daemon.log()[-2000:]}')


class Gate:
    """answers of a Receiver: the end of each message waits until it is opened."""

    def __init__(self):
        self.opened, self.entered = threading.Event(), threading.Event()

    def __call__(self, verb, argument, session):
        if verb == '.':
            self.entered.set()
            assert self.opened.wait(3 * PATIENCE)


class Busy:
    """answers of a Receiver: puts everybody off while it is on."""
    on = True

    def __call__(self, verb, argument, session):
        return '451 4.3.0 later' if self.on and verb == 'RCPT' else None


def relay(place, receiver, **settings):
    settings.setdefault('routes', {'*': ('smtp', receiver.nexthop)})
    return place.sluice(listener=LABELS, **settings)


# --- suspend and resume ----------------------------------------------------------------------------


def test_suspended_tenant(place):
    """New mail of one tenant waits, that of others goes; resumed, it is delivered at once."""
    receiver = place.receiver()
    daemon = relay(place, receiver)
    order = give(daemon, 'suspend', '--tenant', 'acme')
    assert order['order'] == 'suspend' and order['tenant'] == 'acme'
    assert order['reason'] == 'ticket 12' and order['by'] == 'local'
    assert round(order['until'] - order['created']) == 3600
    for n in range(20):
        send(daemon, 'acme' if n % 2 else 'other', f'r{n}@x.test')
    for n in range(0, 20, 2):
        daemon.wait_event('Delivery', f'r{n}@x.test')
    wait_states(daemon, suspended=10)
    assert len(receiver.messages) == 10
    assert not daemon.of('TransientFailure')

    def check():
        [shown] = daemon.query('orders')
        assert daemon.totals()['orders'] == 1
        assert shown['id'] == order['id'] and shown['matched'] >= 10
    settled(check)
    would = run(daemon, 'resume', order['id'], '--dry-run')
    assert 'would end: ' in would and 'acme' in would
    assert 'tenant=acme' in run(daemon, 'resume', order['id'])
    for n in range(1, 20, 2):
        daemon.wait_event('Delivery', f'r{n}@x.test')
    assert daemon.query('orders') == []
    daemon.wait_empty()
    assert daemon.stop() == 0


def test_mail_that_a_scheduler_has(place):
    """What is in flight is delivered; what waits for its turn is taken back."""
    gate = Gate()
    receiver = place.receiver(answers=gate)
    daemon = relay(place, receiver, transports={'smtp': {
        'destination_concurrency_limit': 1, 'initial_destination_concurrency': 1,
        'pipeline_depth': 1}})
    send(daemon, 'acme', 'first@x.test')
    assert gate.entered.wait(PATIENCE)
    for n in range(10):
        send(daemon, 'acme', f'a{n}@x.test')
        send(daemon, 'other', f'o{n}@x.test')
    until(lambda: states(daemon) == {'active': 21}, lambda: f'all active: {states(daemon)}')
    give(daemon, 'suspend', '--tenant', 'ac*')
    wait_states(daemon, active=11, suspended=10)
    gate.opened.set()
    daemon.wait_event('Delivery', 'first@x.test')
    for n in range(10):
        daemon.wait_event('Delivery', f'o{n}@x.test')
    wait_states(daemon, suspended=10)
    run(daemon, 'resume', '--tenant', 'AC*')
    for n in range(10):
        daemon.wait_event('Delivery', f'a{n}@x.test')
    daemon.wait_empty()


def test_suspended_destination(place):
    """Of one message the recipients of that destination wait, the others go."""
    one, two = place.receiver(), place.receiver()
    daemon = relay(place, one, routes={'one.test': ('smtp', one.nexthop),
                                       'two.test': ('smtp', two.nexthop)})
    order = give(daemon, 'suspend', '--destination', two.nexthop)
    send(daemon, 'acme', 'a@one.test', 'b@two.test', 'c@two.test')
    daemon.wait_event('Delivery', 'a@one.test')
    wait_states(daemon, suspended=1)
    assert not two.messages
    run(daemon, 'resume', order['id'])
    daemon.wait_event('Delivery', 'b@two.test')
    daemon.wait_event('Delivery', 'c@two.test')
    daemon.wait_empty()


def test_all_selectors_must_fit(place):
    receiver = place.receiver()
    daemon = relay(place, receiver)
    give(daemon, 'suspend', '--tenant', 'acme', '--campaign', 'spring*', '--domain', '*.x.test',
         '--transport', 'smtp')
    for tenant, campaign, recipient in (('other', 'spring1', '1@a.x.test'), ('acme', None, '2@a.x.test'),
                                        ('acme', 'autumn', '3@a.x.test'), ('acme', 'spring1', '4@x.test')):
        send(daemon, tenant, recipient, campaign=campaign)
        daemon.wait_event('Delivery', recipient)
    send(daemon, 'acme', '5@b.x.test', campaign='Spring2')
    wait_states(daemon, suspended=1)
    run(daemon, 'resume', '--all')
    daemon.wait_event('Delivery', '5@b.x.test')


def test_an_order_ends_by_itself(place):
    receiver = place.receiver()
    daemon = relay(place, receiver)
    order = give(daemon, 'suspend', '--tenant', 'acme', '--for', '12s')  # in which its mail is seen to wait
    send(daemon, 'acme', 'a@x.test')
    wait_states(daemon, suspended=1)
    event = daemon.wait_event('Delivery', 'a@x.test')
    assert event['timestamp'] >= order['until'] - 1
    daemon.wait_log(f'order {order["id"]} is over')
    until(lambda: daemon.query('orders') == [], 'no order')


def test_orders_and_mail_survive_a_kill(place):
    receiver = place.receiver()
    daemon = relay(place, receiver)
    order = give(daemon, 'suspend', '--tenant', 'acme', '--for', '5d')
    give(daemon, 'drop', '--tenant', 'spammer', '--for', '1h', '--yes')
    send(daemon, 'acme', 'a@x.test')
    wait_states(daemon, suspended=1)
    daemon.kill()
    daemon.start()
    kept, drop = daemon.query('orders')
    assert (kept['id'], kept['until'], kept['tenant']) == (order['id'], order['until'], 'acme')
    assert drop['order'] == 'drop'
    send(daemon, 'acme', 'b@x.test')
    send(daemon, 'other', 'c@x.test')
    daemon.wait_event('Delivery', 'c@x.test')
    wait_states(daemon, suspended=2)
    run(daemon, 'resume', order['id'])
    daemon.wait_event('Delivery', 'a@x.test')
    daemon.wait_event('Delivery', 'b@x.test')
    later = give(daemon, 'suspend', '--tenant', 'x')
    assert int(later['id']) > int(drop['id'])


def test_a_damaged_file_stops_the_start(place):
    daemon = relay(place, place.receiver())
    give(daemon, 'suspend', '--tenant', 'acme')
    assert daemon.stop() == 0
    path = os.path.join(daemon.spool, 'orders.json')
    with open(path, 'r+', encoding='ascii') as file:
        file.truncate(20)
    daemon.start(wait=False)
    assert daemon.wait_exit() == 78
    assert path in daemon.log() and 'cannot be used' in daemon.log()
    os.remove(path)
    daemon.start()
    assert daemon.query('orders') == []


# --- bounce and drop -------------------------------------------------------------------------------


def test_bounced_tenant(place):
    """Deferred mail of one tenant comes back to its senders, and so does what comes next."""
    receiver, busy = place.receiver(), Busy()
    far = place.receiver(answers=busy)
    daemon = relay(place, far, options=LATER, routes={'back.test': ('smtp', receiver.nexthop),
                                                      '*': ('smtp', far.nexthop)})
    send(daemon, 'acme', 'a@x.test', 'b@y.test', sender='me@back.test')
    send(daemon, 'other', 'c@x.test', sender='you@back.test')
    for recipient in ('a@x.test', 'b@y.test', 'c@x.test'):
        daemon.wait_event('TransientFailure', recipient)
    wait_states(daemon, deferred=2)
    text = run(daemon, 'bounce', '--tenant', 'acme', '--for', '1h', *WHY, code=64)
    assert '1 message with 2 recipients' in text and '--yes' in text
    assert daemon.query('orders') == []
    wait_states(daemon, deferred=2)
    order = give(daemon, 'bounce', '--tenant', 'acme', '--for', '1h', '--yes')
    assert order['would_match'] == {'messages': 1, 'recipients': 2}
    for recipient in ('a@x.test', 'b@y.test'):
        event = daemon.wait_event('AdminBounce', recipient)
        assert 'ticket 12' in event['response']['content']
    daemon.wait_event('Delivery', 'me@back.test')
    [notice] = receiver.to('me@back.test')
    assert notice.sender == '' and b'a@x.test' in notice.body and b'b@y.test' in notice.body
    send(daemon, 'acme', 'd@x.test', sender='next@back.test')
    daemon.wait_event('AdminBounce', 'd@x.test')
    daemon.wait_event('Delivery', 'next@back.test')
    wait_states(daemon, deferred=1)
    assert not receiver.to('you@back.test')


def test_dropped_campaign(place):
    """Nobody is told but the event log; only what is queued now is meant with --for 0."""
    receiver, busy = place.receiver(), Busy()
    far = place.receiver(answers=busy)
    daemon = relay(place, far, options=LATER, routes={'back.test': ('smtp', receiver.nexthop),
                                                      '*': ('smtp', far.nexthop)})
    for n in range(30):
        send(daemon, 'acme', f'r{n}@x.test', sender='me@back.test',
             campaign='spring' if n % 3 else 'other')
    daemon.wait_events('TransientFailure', count=30)
    wait_states(daemon, deferred=30)
    order = give(daemon, 'drop', '--campaign', 'spring', '--for', '0', '--yes')
    assert order['once'] and order['would_match'] == {'messages': 20, 'recipients': 20}
    daemon.wait_events('AdminDrop', count=20)
    wait_states(daemon, deferred=10)
    busy.on = False
    send(daemon, 'acme', 'late@x.test', sender='me@back.test', campaign='spring')
    daemon.wait_event('Delivery', 'late@x.test')
    assert not receiver.messages and len(daemon.of('AdminDrop')) == 20


# --- sources ---------------------------------------------------------------------------------------


def test_closed_sources(place):
    """Mail goes out from the sources that are left, and waits when there are none."""
    receiver = place.receiver()
    daemon = relay(place, receiver,
                   sources={'a': {'address': fresh_address()}, 'b': {'address': fresh_address()}},
                   pools={'out': {'sources': ['a', 'b']}},
                   transports={'smtp': {'source_pool': 'out',
                                        'smtp_connection_reuse_count_limit': 1}})
    one = give(daemon, 'suspend', '--source', 'a')
    for n in range(6):
        send(daemon, 'acme', f'r{n}@x.test')
        assert daemon.wait_event('Delivery', f'r{n}@x.test')['egress_source'] == 'b'
    two = give(daemon, 'suspend', '--source', 'b')
    for n in range(4):
        send(daemon, 'acme', f's{n}@x.test')
    wait_states(daemon, suspended=4)
    assert not daemon.of('TransientFailure')
    run(daemon, 'resume', one['id'])
    for n in range(4):
        assert daemon.wait_event('Delivery', f's{n}@x.test')['egress_source'] == 'a'
    run(daemon, 'resume', two['id'])
    daemon.wait_empty()


def put_in_force(daemon, **settings):
    """By a reload."""
    for name, value in settings.items():
        setattr(daemon, name, value)
    daemon.write_config()
    run(daemon, 'reload')


def test_reload_frees_what_an_order_held(place):
    """Mail that an order about sources, transports or destinations held goes as soon as settings give
    it other ones: by a reload, over a restart, and when the order is lifted after that."""
    receiver = place.receiver()
    sources, renamed = ({name: {'address': fresh_address()}} for name in ('old', 'new'))
    daemon = relay(place, receiver, sources=sources, pools={'out': {'sources': ['old']}},
                   transports={'smtp': {'source_pool': 'out'}, 'other': {}})
    give(daemon, 'suspend', '--source', 'old')
    give(daemon, 'suspend', '--tenant', 'held')
    send(daemon, 'acme', 'a@x.test', 'b@x.test')
    send(daemon, 'held', 'h@x.test')
    wait_states(daemon, suspended=2)
    put_in_force(daemon, sources=renamed, pools={'out': {'sources': ['new']}})
    assert daemon.wait_event('Delivery', 'b@x.test')['egress_source'] == 'new'
    wait_states(daemon, suspended=1)

    one = give(daemon, 'suspend', '--source', 'new')
    send(daemon, 'acme', 'c@x.test')
    wait_states(daemon, suspended=2)
    assert daemon.stop() == 0
    daemon.sources, daemon.pools = sources, {'out': {'sources': ['old']}}
    daemon.write_config()
    daemon.start()
    wait_states(daemon, suspended=2)  # the first order is about this one
    put_in_force(daemon, routes={'*': ('other', receiver.nexthop)})
    daemon.wait_event('Delivery', 'c@x.test')
    assert run(daemon, 'resume', one['id'])

    two = give(daemon, 'suspend', '--transport', 'other')
    send(daemon, 'acme', 'd@x.test')
    wait_states(daemon, suspended=2)
    assert daemon.stop() == 0
    daemon.routes, daemon.transports = {'*': ('smtp', receiver.nexthop)}, {'smtp': {}, 'other': {}}
    daemon.write_config()
    daemon.start()
    daemon.wait_event('Delivery', 'd@x.test')
    run(daemon, 'resume', two['id'])
    wait_states(daemon, suspended=1)
    assert not daemon.of('Delivery', 'h@x.test')


def test_sources_say_what_they_hold(place):
    """An order about a source counts the mail that no other source is left to; sources shows it."""
    receiver = place.receiver()
    daemon = relay(place, receiver,
                   sources={'a': {'address': fresh_address()}, 'b': {'address': fresh_address()}},
                   pools={'out': {'sources': ['a', 'b']}},
                   transports={'smtp': {'source_pool': 'out'}})
    give(daemon, 'suspend', '--tenant', 'acme')
    for n in range(3):
        send(daemon, 'acme', f'a{n}@x.test')
    wait_states(daemon, suspended=3)
    assert 'closed' not in run(daemon, 'sources')
    one = give(daemon, 'suspend', '--source', 'a')
    assert one['would_match'] == {'messages': 0, 'recipients': 0} and 'warnings' not in one
    assert '3 messages with 3 recipients' in run(daemon, 'suspend', '--source', 'b', '-n')
    two = give(daemon, 'suspend', '--source', 'b', '--for', '2h')
    assert two['would_match']['messages'] == two['matched'] == 3
    for n in range(4):
        send(daemon, 'other', f'b{n}@x.test', f'c{n}@x.test')
    wait_states(daemon, suspended=7)
    until(lambda: [o['matched'] for o in daemon.query('orders')] == [3, 8, 11],
          lambda: daemon.query('orders'))
    text = run(daemon, 'sources')
    assert f'(order {one["id"]})' in text and f'(order {two["id"]})' in text
    closed = {s['source']: s['closed'] for s in daemon.query('sources')}
    assert closed['b']['order'] == two['id'] and 7100 < closed['b']['remaining'] <= 7200
    run(daemon, 'resume', one['id'])
    assert text.count('closed for') == 2 and run(daemon, 'sources').count('closed for') == 1


def test_matched_goes_on(place):
    """Queued mail counts when the order is given, new mail when it comes, each once: also mail that
    is looked at again as another order is lifted, and over a restart."""
    receiver, busy = place.receiver(), Busy()
    far = place.receiver(answers=busy)
    daemon = relay(place, far, options=LATER)
    for n in range(5):
        send(daemon, 'acme', f'r{n}@x.test', f's{n}@x.test')
    send(daemon, 'other', 'o@x.test')
    daemon.wait_events('TransientFailure', count=11)
    wait_states(daemon, deferred=6)
    order = give(daemon, 'suspend', '--tenant', 'acme')
    assert order['matched'] == order['would_match']['recipients'] == 10

    def matched(count):
        until(lambda: daemon.query('orders')[0]['matched'] == count, lambda: daemon.query('orders'))
    for n in range(6):
        send(daemon, 'acme', f't{n}@x.test')
    matched(16)
    passing = give(daemon, 'suspend', '--tenant', 'oth*')
    run(daemon, 'resume', passing['id'])
    run(daemon, 'flush')  # deferred mail meets the order now, and had been counted
    wait_states(daemon, suspended=11, deferred=1)
    matched(16)
    daemon.stop()
    daemon.start()
    matched(16)
    send(daemon, 'acme', 'u@x.test', 'v@x.test', 'w@x.test')
    matched(19)
    assert not receiver.messages


def test_unknown_names_warn(place):
    """An order that names what nobody knows stands, and whoever gives it is told on stderr."""
    receiver = place.receiver()
    daemon = relay(place, receiver, sources={'a': {'address': fresh_address()}},
                   pools={'out': {'sources': ['a']}}, transports={'smtp': {'source_pool': 'out'}})
    send(daemon, 'acme', 'r@x.test', campaign='spring')
    daemon.wait_event('Delivery', 'r@x.test')
    for word, value, warns in (
            ('tenant', 'acme', False), ('tenant', 'ac*', False), ('tenant', 'amce', True),
            ('campaign', 'sprnig', True), ('transport', 'smtp', False), ('transport', 'stmp', True),
            ('source', 'a', False), ('source', 'b', True), ('destination', 'x.test', True),
            ('destination', receiver.nexthop, False), ('domain', 'nowhere.test', False)):
        for extra in ((), ('-n',)):
            done = daemon.command('suspend', f'--{word}', value, *WHY, *extra)
            assert done.returncode == 0, done.stderr
            text = done.stderr.decode()
            assert (f'sluice suspend: warning: {word} {value}: ' in text) == warns, (word, text)
            assert text.count('\n') == warns
    order = give(daemon, 'bounce', '--tenant', 'nobody', '--campaign', 'c', '--for', '1h', '--yes')
    assert [w.split(':')[0] for w in order['warnings']] == ['tenant nobody', 'campaign c']
    for extra in ((), ('-n',)):
        for word, value, warns in (('tenant', 'nobody', True), ('tenant', 'acme', False),
                                   ('destination', 'x.test', True), ('source', 'b', True),
                                   ('destination', receiver.nexthop, False)):
            done = daemon.command('flush', f'--{word}', value, *extra)
            assert done.returncode == 0
            assert (f'sluice flush: warning: {word} {value}: ' in done.stderr.decode()) == warns, done


# --- flush -----------------------------------------------------------------------------------------


def test_flush(place):
    """Deferred mail of one tenant is tried now; then all of it."""
    busy = Busy()
    receiver = place.receiver(answers=busy)
    daemon = relay(place, receiver, options=LATER)
    send(daemon, 'acme', 'a@x.test')
    send(daemon, 'other', 'b@x.test')
    daemon.wait_events('TransientFailure', count=2)
    wait_states(daemon, deferred=2)
    busy.on = False
    assert '1 message with 1 recipient' in run(daemon, 'flush', '--tenant', 'acme', '-n')
    run(daemon, 'flush', '--tenant', 'acme')
    daemon.wait_event('Delivery', 'a@x.test')
    wait_states(daemon, deferred=1)
    run(daemon, 'flush')
    daemon.wait_event('Delivery', 'b@x.test')
    daemon.wait_empty()


def test_flush_knows_what_it_sends(place):
    """Mail that a flush sends at once is no reason to warn, however late the names are looked at."""
    busy = Busy()
    receiver = place.receiver(answers=busy)
    daemon = relay(place, receiver, options=LATER)
    names = [f'c{n}' for n in range(8)]
    for name in names:
        send(daemon, 'acme', f'{name}@x.test', campaign=name)
    give(daemon, 'suspend', '--tenant', 'large')
    many = {'from': 'a@a.test', 'recipients': [f'r{n}@x.test' for n in range(1000)], 'text': 'x',
            'tenant': 'large', 'headers': {'Subject': 'x'}}
    injection.post(daemon, {'messages': [many] * 90}).expect(202)
    wait_states(daemon, deferred=len(names), suspended=90)
    busy.on = False
    is_over = threading.Event()

    def count():
        while not is_over.is_set():
            ask(daemon, '/v1/counts', by='domain', domain='n*')

    readers = [threading.Thread(target=count) for _ in range(12)]
    for reader in readers:
        reader.start()
    try:
        for name in names:
            done = daemon.command('flush', '--campaign', name)
            assert (done.returncode, done.stderr) == (0, b''), done
            daemon.wait_event('Delivery', f'{name}@x.test')
    finally:
        is_over.set()
        for reader in readers:
            reader.join()


def test_flush_of_a_destination(place):
    """Nobody listens there; then somebody does, and is tried before the host's time."""
    port = free_port()
    daemon = place.sluice(options=LATER, listener=LABELS,
                          transports={'smtp': {'initial_destination_concurrency': 1}},
                          routes={'*': ('smtp', f'[127.0.0.1]:{port}')})
    send(daemon, 'acme', 'a@x.test')
    daemon.wait_event('TransientFailure', 'a@x.test')
    wait_states(daemon, deferred=1)
    until(lambda: [host['state'] for host in daemon.query('hosts')] == ['retry'], lambda: daemon.query('hosts'))
    place.receiver(port=port)
    run(daemon, 'flush', '--destination', f'[127.0.0.1]:{port}')
    daemon.wait_event('Delivery', 'a@x.test')


# --- what is shown and asked for -------------------------------------------------------------------


def test_dry_run(place):
    busy = Busy()
    daemon = relay(place, place.receiver(answers=busy), options=LATER)
    send(daemon, 'acme', 'a@x.test', 'b@x.test')
    send(daemon, 'acme', 'c@x.test')
    send(daemon, 'other', 'd@x.test')
    daemon.wait_events('TransientFailure', count=4)
    wait_states(daemon, deferred=3)
    for command in ('suspend', 'bounce', 'drop'):
        text = run(daemon, command, '--tenant', 'acme', '-n')
        assert f'would {command} tenant=acme' in text and '2 messages with 3 recipients' in text
    assert '3 messages with 4 recipients' in run(daemon, 'suspend', '--all', '--dry-run')
    assert '0 messages' in run(daemon, 'suspend', '--source', 'nowhere', '-n')
    assert daemon.query('orders') == [] and states(daemon) == {'deferred': 3}
    assert not daemon.of('AdminBounce') and not daemon.of('AdminDrop')


def test_what_is_refused(place):
    daemon = relay(place, place.receiver())
    assert '--reason' in run(daemon, 'suspend', '--tenant', 'acme', code=64)
    assert 'which mail' in run(daemon, 'suspend', *WHY, code=64)
    assert 'which mail' in run(daemon, 'drop', '--for', '0', '--yes', *WHY, code=64)
    assert '--for' in run(daemon, 'bounce', '--tenant', 'a', '--yes', *WHY, code=64)
    assert 'for' in run(daemon, 'suspend', '--tenant', 'a', '--for', '0', *WHY, code=64)
    assert 'span' in run(daemon, 'suspend', '--tenant', 'a', '--for', 'long', *WHY, code=64)
    assert 'tenant' in run(daemon, 'suspend', '--tenant', 'a\tb', *WHY, code=64)
    assert 'reason' in run(daemon, 'suspend', '--tenant', 'a', '--reason', 'x' * 501, code=64)
    assert 'no such order' in run(daemon, 'resume', '17', code=66)
    assert 'selectors' in run(daemon, 'resume', '--tenant', 'acme', code=66)
    run(daemon, 'resume', code=64)
    assert daemon.query('orders') == []
    daemon.stop()
    run(daemon, 'suspend', '--tenant', 'acme', *WHY, code=69)


def test_list_for_people(place):
    daemon = relay(place, place.receiver())
    assert 'no orders' in run(daemon, 'orders')
    run(daemon, 'suspend', '--tenant', 'acme', '--domain', '*.test', '--for', '2h', '--reason',
        'too many complaints')
    run(daemon, 'drop', '--all', '--for', '0', '--yes', '--reason', 'a test')
    first, second = run(daemon, 'orders').splitlines()[1:]
    assert 'tenant=acme domain=*.test' in first and 'too many complaints' in first
    assert 'all mail' in second and 'once' in second
    daemon.wait_log('by local: suspend tenant=acme domain=*.test for 7200 s: too many complaints')


# --- a crowd ---------------------------------------------------------------------------------------


def test_flapping_orders_lose_nothing(place):
    """Orders come and go while mail flows from several tenants to several destinations: in the end
    every recipient has exactly one delivery."""
    receivers = [place.receiver() for _ in range(3)]
    daemon = relay(place, receivers[0], routes={f'd{n}.test': ('smtp', receiver.nexthop)
                                                for n, receiver in enumerate(receivers)})
    wanted, done = [], threading.Event()

    def flap():
        tests = [('--tenant', 't1'), ('--destination', receivers[1].nexthop), ('--domain', 'd2.*'),
                 ('--tenant', 't*', '--transport', 'smtp')]
        while not done.is_set():
            for selectors in tests:
                order = give(daemon, 'suspend', *selectors, '--for', '1h')
                run(daemon, 'flush', *selectors[:2])
                run(daemon, 'resume', order['id'])

    def feed(tenant):
        for n in range(150):
            names = [f'{tenant}-{n}-{d}@d{d}.test' for d in range(3)]
            send(daemon, tenant, *names)
            wanted.extend(names)
    flapper = threading.Thread(target=flap)
    feeders = [threading.Thread(target=feed, args=(f't{n}',)) for n in range(3)]
    for thread in (flapper, *feeders):
        thread.start()
    for thread in feeders:
        thread.join()
    done.set()
    flapper.join()
    assert daemon.query('orders') == []
    daemon.wait_empty()
    assert len(wanted) == 3 * 150 * 3
    arrived = sorted(name for receiver in receivers for m in receiver.messages
                     for name in m.recipients)
    assert arrived == sorted(wanted)
    assert not daemon.of('TransientFailure') and not daemon.of('Bounce')
    until(lambda: daemon.totals()['active'] == 0, 'nothing active')
    assert daemon.stop() == 0
