"""What the daemon counts about itself: metrics, tenants, responses, series and windows."""
import os
import re
import time

import pytest

from support import exposition
from support.api import ask, get
from support.client import message, submit
from support.wait import settled, until

ALERTS = os.path.join(os.path.dirname(__file__), '..', '..', 'docs', 'alerts.yml')
DEFERRED = '452 4.2.2 <{}>: mailbox of 192.0.2.7 is full, try in {} s [TSS04]'
FAILED = '550 5.1.1 User "{}" unknown (id 4fT9x0aB{})'
REFUSED = '421 4.7.0 mx1.peer.test: too busy'


def answers(verb, argument, _):
    """What is said depends on the recipient, and differs each time in what varies."""
    address = argument[argument.find('<') + 1:].split('>')[0] if verb == 'RCPT' else ''
    user = address.split('@')[0]
    if user.startswith('later'):
        return DEFERRED.format(address, 10 + len(user))
    if user.startswith('never'):
        return FAILED.format(user, len(user))
    return None


def metrics(daemon):
    answer = get(daemon, '/metrics')
    assert answer.type == 'text/plain; version=0.0.4; charset=utf-8'
    return exposition.parse(answer.body)


@pytest.fixture
def stage(place):
    """(daemon, receiver): mail to good.test and to bulk.test, by two transports; silent.test has
    nobody who listens."""
    receiver = place.receiver(answers=answers)
    dead = place.receiver(answers=lambda verb, *_: REFUSED if verb == '' else None)
    daemon = place.sluice(
        listener={'tenant_header': 'X-Tenant'},
        options={'minimal_backoff_time': '300s', 'maximal_backoff_time': '300s'},
        transports={'smtp': {}, 'bulk': {'source_pool': 'all'}},
        sources={'one': {'address': '127.0.0.1'}}, pools={'all': {'sources': ['one']}},
        routes={'bulk.test': ('bulk', receiver.nexthop), 'silent.test': ('smtp', dead.nexthop),
                '*': ('smtp', receiver.nexthop)})
    return daemon, receiver


def send(daemon, recipients, tenant='acme'):
    submit(daemon, 'sender@back.test', recipients, message(X_Tenant=tenant))


def test_metrics_are_valid_and_never_go_backwards(stage):
    daemon, receiver = stage
    before = metrics(daemon)
    assert exposition.value(before, 'sluice_messages_received_total') == 0
    for n in range(40):
        send(daemon, [f'user{n}@{domain}.test' for domain in ('good', 'bulk')], f't{n % 5}')
        if n % 4 == 0:
            send(daemon, [f'later{n}@good.test', f'never{n}@good.test', f'user{n}@good.test'])
            now = metrics(daemon)
            assert exposition.backwards(before, now) == []
            before = now
    daemon.wait_events('Delivery', count=100)  # the notices among them
    daemon.wait_events('TransientFailure', count=10)
    daemon.wait_events('Bounce', count=10)
    until(lambda: exposition.value(metrics(daemon), 'sluice_entries') == 0, 'idle schedulers')
    settled(lambda: check_end(daemon))
    assert exposition.backwards(before, metrics(daemon)) == []


def check_end(daemon):
    after, totals = metrics(daemon), daemon.totals()
    for name, member in (('messages_received', 'received'), ('recipients_delivered', 'delivered'),
                         ('recipients_deferred', 'deferrals'), ('recipients_failed', 'failed')):
        assert exposition.value(after, f'sluice_{name}_total') == totals[member], name
    check_sums(after)
    assert after['sluice_queue_messages'].samples[
        'sluice_queue_messages', (('state', 'deferred'),)] == totals['deferred'] == 10
    assert exposition.value(after, 'sluice_queue_oldest_seconds') > 0
    assert exposition.value(after, 'sluice_spool_free_bytes') > 1 << 20
    assert exposition.value(after, 'sluice_gate_closed') == 0
    assert exposition.value(after, 'process_open_fds') > 10
    assert exposition.value(after, 'process_resident_memory_bytes') > 1 << 20
    assert exposition.value(after, 'sluice_build_info') == 1


def check_sums(families):
    """Counted by whatever, it is the same."""
    def value(name, **labels):
        return exposition.value(families, f'sluice_{name}', **labels)
    for result in ('delivered', 'deferred', 'failed'):
        total = value(f'recipients_{result}_total')
        assert value('transport_attempts_total', result=result) == total
        assert value('tenant_attempts_total', result=result) == total
        assert value('source_attempts_total', result=result) == total
    assert value('tenant_messages_received_total') <= value('messages_received_total')
    assert value('source_attempts_total', source='one', result='delivered') == 40
    assert value('transport_attempts_total', transport='bulk') == 40
    assert value('queue_time_seconds_count') == value('recipients_delivered_total')
    assert 0 < value('delivery_time_seconds_count') <= value('queue_time_seconds_count')
    assert value('delivery_time_seconds_sum') > 0
    assert value('listener_connections_total', verdict='admitted') >= 50


def test_labels_hold_any_name(stage):
    """What a client writes into its header is no part of the format."""
    daemon, _ = stage
    names = ['a"b', 'back\\slash', '{x="y"}', '#', 'ok', 'other']
    for n, name in enumerate(names):
        send(daemon, [f'user{n}@good.test'], name)
    daemon.wait_events('Delivery', count=len(names))

    def check():
        seen = {t['tenant'] for t in get(daemon, '/v1/tenants').list}
        assert {'ok', 'other'} <= seen
        shown = metrics(daemon)
        for name in seen:
            label = name.replace('\\', '\\\\').replace('"', '\\"')
            assert exposition.value(shown, 'sluice_tenant_messages_received_total', tenant=label) > 0
    settled(check)


def test_tenants(stage):
    daemon, _ = stage
    assert daemon.query('tenants') == []
    assert b'no mail came in' in daemon.command('tenants').stdout
    for _ in range(3):
        send(daemon, ['user@good.test', 'never@good.test'], 'acme')
    send(daemon, ['user@bulk.test'], 'small')
    daemon.wait_events('Bounce', count=3)
    daemon.wait_events('Delivery', 'user@good.test', count=3)
    daemon.wait_event('Delivery', 'user@bulk.test')

    def check():
        tenants = get(daemon, '/v1/tenants').list
        assert tenants[0]['tenant'] == 'acme'
        [acme, small] = [next(t for t in tenants if t['tenant'] == n) for n in ('acme', 'small')]
        assert (acme['received'], acme['recipients'], acme['delivered'], acme['failed']) == (3, 6, 3, 3)
        assert acme['deferred'] == acme['expired'] == acme['dropped'] == 0
        assert small['delivered'] == 1 and 0 < small['bytes'] < acme['bytes']
    settled(check)
    table = daemon.command('tenants').stdout.decode()
    assert re.search(r'^acme +3 +6 +0 +3 +0 +3 +0 +0 +- +- +- +-$', table, re.M), table


def test_responses(stage):
    daemon, receiver = stage
    assert b'nothing was deferred' in daemon.command('responses').stdout
    for n in range(3):
        send(daemon, [f'later{"x" * n}@good.test'], f't{n}')
    send(daemon, ['never@good.test', 'never@bulk.test'])
    send(daemon, ['user@silent.test'])
    daemon.wait_events('TransientFailure', count=4)
    daemon.wait_events('Bounce', count=2)

    def counted():
        found = get(daemon, '/v1/responses').list
        assert [r['count'] for r in found] == [3, 2, 1], found
        return found
    found = settled(counted)
    later, never, silent = found
    behind = ' (in reply to RCPT TO command)'
    assert later['text'] == '<*>: mailbox of * is full, try in * s [TSS04]' + behind
    assert later['example'] in {f'host 127.0.0.1[127.0.0.1] said: {DEFERRED.format(*a)}{behind}'
                                for a in (('later@good.test', 15), ('laterx@good.test', 16),
                                          ('laterxx@good.test', 17))}
    assert (later['code'], later['status'], later['kind']) == (452, '4.2.2', 'deferred')
    assert later['destinations'] == [receiver.nexthop]
    assert sorted(later['tenants']) == ['t0', 't1', 't2']
    assert time.time() - 60 < later['first'] <= later['last'] <= time.time()
    assert never['text'] == f'User "*" unknown (id *){behind}' and never['kind'] == 'failed'
    assert never['tenants'] == ['acme']
    assert (silent['kind'], silent['code'], silent['status']) == ('deferred', 421, '4.7.0')
    assert len(get(daemon, '/v1/responses?limit=1').list) == 1
    assert get(daemon, '/v1/responses?limit=0', 400).object['code'] == 'usage'
    assert get(daemon, '/v1/responses?other=1', 400).object['code'] == 'usage'
    shown = daemon.command('responses', '--limit', '2').stdout.decode()
    assert later['text'] in shown and '452' in shown and silent['text'] not in shown


def test_series(stage):
    daemon, _ = stage
    send(daemon, ['user@good.test', 'later@good.test'])
    daemon.wait_event('TransientFailure')

    def points():
        return get(daemon, '/v1/series?span=1h').object['points']

    def last():
        found = points()
        assert found and found[-1]['deferred'] == found[-1]['queued'] == 1
        assert found[-1]['received'] == found[-1]['delivered'] == 1
        return found
    found = settled(last)
    assert get(daemon, '/v1/series').object['step'] == 1
    times = [p['time'] for p in found]
    assert times == sorted(times)
    assert len(get(daemon, '/v1/series?span=1s').object['points']) == 1
    assert get(daemon, '/v1/series?span=soon', 400).object['code'] == 'usage'

    def rates():
        return daemon.totals()['rates']
    assert set(rates()) == {'received', 'delivered', 'deferred', 'failed'}
    send(daemon, ['user@good.test'])
    until(lambda: points()[-1]['delivered'] == 2, 'a point with the second delivery')
    # They are those of the last ten seconds, in which this test may have stood still.
    until(lambda: rates()['delivered'] > 0 or send(daemon, ['user@good.test']), 'a rate')
    assert rates()['failed'] == 0
    assert b'a second, over the last 10: received ' in daemon.command('status').stdout


def test_windows(stage):
    daemon, receiver = stage
    assert get(daemon, '/v1/windows', 400).object['code'] == 'usage'
    assert get(daemon, '/v1/windows?destination=nobody.test', 404).object['code'] == 'missing'
    for n in range(10):
        send(daemon, [f'user{n}@good.test'])
        daemon.wait_event('Delivery', f'user{n}@good.test')

    def windows(name=receiver.nexthop):
        return get(daemon, f'/v1/windows?destination={name}').object
    until(lambda: windows()['events'], 'a change of the window')
    found = windows()
    assert found['transport'] == 'smtp'
    first = found['events'][0]
    assert first['cause'] == 'positive feedback' and first['to'] == first['from'] + 1
    assert time.time() - 60 < first['time'] <= time.time() + 1
    send(daemon, ['user@silent.test'])
    daemon.wait_event('TransientFailure')
    dead = daemon.of('TransientFailure')[0]['queue']
    event = until(lambda: next((e for e in windows(dead)['events'] if e['to'] < e['from']), None),
                  'a window that shrank')
    assert event['cause'].startswith(('dead: ', 'negative feedback: ')), event
    assert 'too busy' in event['cause']
    assert get(daemon, f'/v1/windows?destination={dead}&transport=bulk', 404)


def test_busy_destinations_are_sampled(place):
    """Those that have work for as long as a sample takes."""
    hold = place.receiver(answers=lambda verb, *_: time.sleep(3) if verb == '.' else None)
    daemon = place.sluice(routes={'*': ('smtp', hold.nexthop)},
                          transports={'smtp': {'destination_concurrency_limit': 2}})
    for n in range(6):
        submit(daemon, 'a@back.test', [f'user{n}@good.test'], message())

    def samples():
        status, [answer] = ask(daemon, '/v1/windows', destination=hold.nexthop)
        return answer['samples'] if status == 200 else []  # nothing of it is known before it has mail
    until(lambda: any(s['todo'] > 0 and s['busy'] == 2 for s in samples()), lambda: samples())
    assert all(s['window'] <= 2 and s['in_flight'] >= s['busy'] for s in samples())


def test_alerts_name_what_is_shown(stage):
    """Each metric of docs/alerts.yml exists, with the labels that are asked for."""
    daemon, _ = stage
    with open(ALERTS, encoding='utf-8') as file:
        text = '\n'.join(line for line in file if not line.startswith('#'))
    names = set(re.findall(r'\b(?:sluice|process)_[a-z_]+', text))
    send(daemon, ['user@good.test'])  # a lane is shown once it is there
    daemon.wait_event('Delivery')
    assert len(names) >= 8

    def check():
        shown = metrics(daemon)
        assert not {n for n in names if not any(n in f.names() for f in shown.values())}
        for name, label, value in re.findall(r'(\w+)\{(\w+)="([^"]*)"\}', text):
            assert any(dict(labels).get(label) == value for _, labels in shown[name].samples), name
    settled(check)
    yaml = pytest.importorskip('yaml')
    rules = yaml.safe_load(text)['groups'][0]['rules']
    assert len(rules) == len({r['alert'] for r in rules}) >= 6
    for rule in rules:
        assert rule['expr'] and rule['for'] and rule['annotations']['summary'], rule


def test_orders_are_shown(stage):
    daemon, _ = stage
    assert exposition.value(metrics(daemon), 'sluice_source_closed', source='one') == 0
    done = daemon.command('suspend', '--source', 'one', '--for', '1h', '--reason', 'listed')
    assert done.returncode == 0, done.stderr

    def check():
        shown = metrics(daemon)
        assert exposition.value(shown, 'sluice_source_closed', source='one') == 1
        assert exposition.value(shown, 'sluice_orders', order='suspend') == 1
        assert exposition.value(shown, 'sluice_orders', order='drop') == 0
    settled(check)


def test_the_busiest_destinations_are_watched(place):
    """64 of them; one that has much more to do takes the place of one that has not."""
    count = 70
    daemon = place.sluice(options={'defer_transports': ['smtp']})
    names = [f'd{n}.test' for n in range(count)]
    submit(daemon, 'a@back.test', [f'user@{name}' for name in names], message())

    def watched():
        return {name for name in names
                if get(daemon, f'/v1/windows?destination={name}').object['is_watched']}
    until(lambda: daemon.totals()['destinations'] == count, 'all destinations')
    until(lambda: len(watched()) == 64, lambda: f'64 watched ones: {len(watched())}')
    left_out = (set(names) - watched()).pop()
    for _ in range(5):
        submit(daemon, 'a@back.test', [f'user@{left_out}'], message())
    until(lambda: left_out in watched(), f'{left_out} among the watched')
    assert len(watched()) == 64
    [sample, *_] = get(daemon, f'/v1/windows?destination={left_out}').object['samples']
    assert sample['todo'] >= 1 and sample['in_flight'] == sample['busy'] == 0
