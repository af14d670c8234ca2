"""The numbers by state: status, metrics and `sluice counts --by state` say the same of a queue with
mail in every state, whatever orders come and go."""
import time

from support import exposition
from support.injection import post
from support.peer import Peer
from support.wait import settled, until
from test_metrics import metrics
from test_orders import give, run

HOUR = 3600
STATES = ('incoming', 'active', 'deferred', 'scheduled', 'suspended')
BUSY = 'send 220 peer.test ESMTP\nexpect EHLO\nsend 250 peer.test\nexpect MAIL\n' \
    'send 451 4.3.0 try later\nclose'
LIMIT = 7  # active messages; of more an eighth is kept for flows that have none


def busy_relay(place, **options):
    busy = place.keep(Peer(BUSY))
    return place.sluice(
        transports={'smtp': {}, 'held': {'hold': True}},
        routes={'held.test': ('held', None), '*': ('smtp', busy.nexthop)},
        options={'minimal_backoff_time': '1h', 'maximal_backoff_time': '2h',
                 'message_active_limit': LIMIT, **options})


def inject(daemon, tenant, *recipients, **members):
    return post(daemon, {'from': 'a@a.test', 'recipients': recipients, 'text': 'x\n', 'tenant': tenant,
                         **members}).expect(202)


def of_status(daemon):
    """{state: messages}, of states with any"""
    totals = daemon.totals()
    assert totals['messages'] == sum(totals[state] for state in STATES), totals
    return {state: totals[state] for state in STATES if totals[state]}


def of_metrics(daemon):
    samples = metrics(daemon)['sluice_queue_messages'].samples
    found = {state: samples['sluice_queue_messages', (('state', state),)] for state in STATES}
    assert len(samples) == len(STATES)
    return {state: int(n) for state, n in found.items() if n}


def of_counts(daemon):
    """A filter that fits all mail, another one than before: no answer of some moments ago."""
    of_counts.asked += 1
    rows = daemon.query('counts', '--by', 'state', '--campaign', '*' * (1 + of_counts.asked % 2))
    return {row['state']: row['messages'] for row in rows}


of_counts.asked = 0


def all_agree(daemon, **wanted):
    until(lambda: of_status(daemon) == wanted,
          lambda: f'{wanted}\n{daemon.totals()}\n{daemon.log()[-2000:]}')
    until(lambda: of_counts(daemon) == wanted == of_status(daemon) == of_metrics(daemon),
          lambda: f'{wanted}\ncounts {of_counts(daemon)}\nstatus {of_status(daemon)}\n'
          f'metrics {of_metrics(daemon)}')

    def check():
        assert not daemon.totals()['is_estimate']
        said = run(daemon, 'status').splitlines()
        [line] = [line for line in said if line.startswith('messages ')]
        assert line == f'messages {sum(wanted.values())}: ' + ', '.join(
            f'{state} {wanted.get(state, 0)}' for state in STATES) + '; quarantined 0'
    settled(check)


def test_every_state(place):
    """One after the other every state, then orders that come, go by their time and are lifted, and a
    new start. Nobody has to count storage."""
    daemon = busy_relay(place)
    all_agree(daemon)
    for n in range(10):
        inject(daemon, 'acme', f'r{n}@busy.test')
    all_agree(daemon, deferred=10)
    later = time.time() + HOUR
    for n in range(4):
        inject(daemon, 'globex', f's{n}@busy.test', not_before=later)
    all_agree(daemon, deferred=10, scheduled=4)
    order = give(daemon, 'suspend', '--tenant', 'acme', '--for', '1h')
    all_agree(daemon, scheduled=4, suspended=10)
    for n in range(3):
        inject(daemon, 'acme', f'n{n}@busy.test')
    inject(daemon, 'globex', 'g@busy.test')
    all_agree(daemon, deferred=1, scheduled=4, suspended=13)
    brief = give(daemon, 'suspend', '--tenant', 'globex', '--for', '25s')  # in which all is counted
    all_agree(daemon, suspended=18)
    daemon.wait_log(f'order {brief["id"]} is over')
    all_agree(daemon, deferred=1, scheduled=4, suspended=13)
    for n in range(LIMIT + 5):
        inject(daemon, 'initech', f'h{n}@held.test')
    all_agree(daemon, incoming=5, active=LIMIT, deferred=1, scheduled=4, suspended=13)
    daemon.kill()
    daemon.start()
    all_agree(daemon, incoming=5, active=LIMIT, deferred=1, scheduled=4, suspended=13)
    run(daemon, 'resume', order['id'])
    # What was never tried is incoming again; it waits for a place, as does what is due.
    all_agree(daemon, incoming=8, active=LIMIT, deferred=11, scheduled=4)


def test_scheduled_mail_whose_time_comes_behind_a_backlog(place):
    """It waits for a place like other new mail, and is no longer scheduled."""
    daemon = busy_relay(place)
    for n in range(LIMIT):  # of the same tenant: another one's would give places back
        inject(daemon, 'globex', f'h{n}@held.test')
    all_agree(daemon, active=LIMIT)
    for n in range(3):
        inject(daemon, 'globex', f's{n}@busy.test', not_before=time.time() + 2)
    inject(daemon, 'globex', 'later@busy.test', not_before=time.time() + HOUR)
    all_agree(daemon, incoming=3, active=LIMIT, scheduled=1)


def test_long_queue(place):
    """Too long for a walk at each question: status says that it is counting, then what it counted, and
    when; once no order stands it is exact at once."""
    daemon = busy_relay(place)
    count = 20500
    for n in range(0, count, 500):
        post(daemon, {'defaults': {'from': 'a@a.test', 'text': 'x\n', 'tenant': f't{n // 500 % 2}'},
                      'messages': [{'recipients': [f'r{n + i}@held.test']} for i in range(500)]}).expect(202)
    rest = count - LIMIT
    all_agree(daemon, incoming=rest, active=LIMIT)
    asked = time.time()
    order = give(daemon, 'suspend', '--tenant', 't1', '--for', '1h')
    first = daemon.totals()
    assert first['is_estimate'] or first['suspended'] > 9000  # a walk that began with the order may be over by now
    assert 'being counted' in run(daemon, 'status') or not daemon.totals()['is_estimate']
    until(lambda: not daemon.totals()['is_estimate'], 'a walk')
    assert of_status(daemon)['suspended'] > 9000
    # The places of those that the order took are free when they are put aside, with the others of their tenant.
    until(lambda: of_status(daemon)['active'] == LIMIT, daemon.totals)
    assert sum(of_status(daemon).values()) == count
    until(lambda: of_status(daemon) == of_counts(daemon), 'the same by counts')
    assert asked <= daemon.totals()['states_as_of']  # the walk began after the order, if just before `first` was answered
    run(daemon, 'resume', order['id'])
    all_agree(daemon, incoming=rest, active=LIMIT)
    families = metrics(daemon)
    assert exposition.value(families, 'sluice_quarantined_messages') == 0


def test_totals_say_what_they_count(relay):
    """What came is counted in messages, what became of it in recipients."""
    daemon, _ = relay
    inject(daemon, 'acme', 'a@a.test', 'b@a.test', 'c@a.test')
    daemon.wait_empty()
    said = daemon.command('status').stdout.decode()
    assert 'since start: messages received 1; recipients delivered 3, deferred 0, ' in said
