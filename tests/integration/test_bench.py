"""The workloads of sluice-bench: what they report must be possible. No figure of speed is
judged."""
import json
import os
import pathlib
import subprocess
import sys
import types

import pytest

from support.address import free_port
from support.wait import until
from support.daemon import BUILD

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / 'bench/harness'), str(ROOT / 'bench')]

import flow  # noqa: E402
import measure  # noqa: E402
from relay import Failure, postfix_version  # noqa: E402
from windows import Windows  # noqa: E402
from workloads import pace  # noqa: E402

# workload: (options, {case: recipients that must arrive at the destinations of a run})
SMALL = {
    'single': (['--relays', 'raw,sluice', '--messages', '300', '--exact'], {'': 300}),
    'fifty': (['--messages', '301', '--timeline', '100'], {'': 301}),
    'zipf': (['--domains', '300', '--messages', '300'], {'': 300}),
    'million': (['--relays', 'raw,sluice', '--recipients', '2000', '--batch', '40', '--domains', '3'],
                {'': 2000}),
    'drain': (['--relays', 'raw,sluice', '--domains', '1,3', '--messages', '200'],
              {'1 destination': 200, '3 destinations': 200}),
    'mixed': (['--cases', 'w4', '--singles', '10', '--bulk', '400,400', '--lead', '0.1', '--exact'],
              {'w4': 420}),
    'slow-half': (['--domains', '4', '--rate', '20', '--seconds', '0.5', '--slow', '300'],
                  {'alone': 20, 'beside': 40}),
    'dead-tenth': (['--domains', '20', '--rate', '5', '--seconds', '0.4'],
                   {'alone': 36, 'beside': 36}),
    'distance': (['--domains', '2', '--messages', '500', '--round-trip', '20'],
                 {'pipelining, 2': 100, 'chunking, 2': 1000}),
    'bodies': (['--messages', '50'], {'': 50}),
    'tls': (['--messages', '50'], {'plain': 50, 'resumed': 50, 'full': 50}),
}


def start(folder, workload, *options):
    return subprocess.run(
        ['/usr/bin/python3', ROOT / 'bench/sluice-bench', workload, '--build', BUILD, '--dir',
         folder, '--json', os.path.join(folder, 'report.json'), *options],
        capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
        env={**os.environ, 'PYTHONDONTWRITEBYTECODE': '1'})


def bench(folder, workload, *options):
    done = start(folder, workload, *options)
    assert done.returncode == 0, done.stderr
    with open(os.path.join(folder, 'report.json'), encoding='utf-8') as file:
        return json.load(file)


def test_receivers_that_end_apart_have_courses_of_one_length():
    short, long = ({key: [1] * count for key in (*flow.SERIES, 'window')} for count in (2, 3))
    flow.level([short, long])
    assert short['messages'] == [1, 1, 0] and short['latency_p50'] == short['window'] == [1, 1, None]
    assert {len(series) for course in (short, long) for series in course.values()} == {3}


@pytest.mark.parametrize('workload', SMALL)
def test_workload(place, workload):
    options, recipients = SMALL[workload]
    relays = [] if '--relays' in options else ['--relays', 'sluice']
    report = bench(place.folder, workload, '--pairs', '1', *relays, *options)
    assert report['title'] and report['description']
    assert report['where']['workload'] == workload
    assert {run['case'] for run in report['runs']} == set(recipients)
    known = {figure['key'] for figure in report['figures']}
    for run in report['runs']:
        assert run['is_clean'] and run['pair'] == 1
        assert sum(one['recipients'] for one in run['destinations']) == recipients[run['case']]
        courses = run['timeline']['destinations'].values()
        assert 0 < sum(sum(one['messages']) for one in courses) <= recipients[run['case']]
        assert len({len(one[key]) for one in courses for key in (*flow.SERIES, 'window')}) == 1
        assert all(run['figures'][key] > 0 for key in known & set(run['figures']))
        assert ('worker' in run.get('threads', ())) == (run['relay'] == 'sluice')
        assert ('cpu_us' in run['figures']) == (run['relay'] == 'sluice')
    assert [(row['case'], row['relay']) for row in report['summary']] == \
        [(run['case'], run['relay']) for run in report['runs']]


def test_every_workload_is_described_and_tried(place):
    done = subprocess.run(['/usr/bin/python3', ROOT / 'bench/sluice-bench', 'list'], text=True,
                          capture_output=True, check=True, timeout=60)
    listed = {line for line in done.stdout.splitlines() if line and not line.startswith(' ')}
    assert listed >= {*SMALL, 'rtt', 'tenants', 'connections', 'injection', 'stage'}


def test_each_stage_is_loaded(place):
    """And what its threads ask of the kernel is counted; a sanitized build has no counter."""
    counts = os.path.exists(os.path.join(BUILD, 'bench/call_count.so'))
    report = bench(place.folder, 'stage', '--pairs', '1', '--messages', '300', '--seconds', '1',
                   '--rate', '200', *(['--calls'] if counts else []))
    intake, delivery, posted, batch = report['runs']
    assert [run['case'] for run in report['runs']] == ['intake', 'delivery', 'http', 'batch']
    assert intake['recipients'] == delivery['recipients'] == 300
    assert 0 < posted['recipients'] <= 200
    assert batch['recipients'] == 1000  # one request
    assert all(run['figures']['rate'] > 0 for run in report['runs'])
    if counts:
        assert intake['calls']['spool-writer']['pwrite64 bytes'] > 300 * 4096
        assert delivery['calls']['worker']['send bytes'] > 300 * 4096
        assert posted['calls']['http']['sendmsg'] >= posted['recipients']
        assert batch['calls']['http']['sendmsg'] < 100  # of the daemon's start and figures too


@pytest.mark.skipif(os.geteuid() != 0, reason='a name server on port 53 needs root')
def test_domains_share_mx_sets(place):
    """Both ask the same name server, and all mail comes to the hosts that it names."""
    os.chmod(place.folder, 0o755)  # Postfix works as another user in there
    relays = ['sluice', 'postfix-nocache'] if postfix_version() else ['sluice']
    report = bench(place.folder, 'zipf', '--sites', '3', '--domains', '40', '--messages', '200',
                   '--messages-postfix', '50', '--pairs', '1', '--relays', ','.join(relays))
    assert [run['relay'] for run in report['runs']] == relays
    for run, count in zip(report['runs'], (200, 50)):
        assert sum(one['recipients'] for one in run['destinations']) == count
        courses = run['timeline']['destinations']
        assert set(courses) == {'d3.test to d39.test', 'd1.test to d40.test', 'd2.test to d38.test'}
        assert all(sum(one['messages']) > 0 for one in courses.values())
    assert len(report['targets']) == len(relays) - 1


def test_tenants_tells_of_singles_and_shares(place):
    """What each case must show is judged, and what it is judged by is possible."""
    report = bench(place.folder, 'tenants', '--relays', 'sluice', '--bulk', '300', '--singles', '5',
                   '--messages', '90')
    runs = {run['case']: run for run in report['runs']}
    assert list(runs) == ['urgent', 'alike', 'idle', 'shares', 'campaign', 'flood', 'no tenants',
                          'thousand']
    for case in ('urgent', 'alike', 'idle'):
        figures = runs[case]['figures']
        assert figures['demand'] >= figures['alone_p99'] > 0
        assert figures['alone_max'] >= 50 and figures['beside_max'] >= 50
        singles = runs[case]['timeline']['destinations']['singles']
        assert sum(singles['messages']) >= 10
        assert [one is None for one in singles['latency_p50']] == \
            [count == 0 for count in singles['messages']]
    for case, names in (('shares', ('five', 'three', 'one')), ('flood', ('urgent', 'normal', 'bulk'))):
        parts = [runs[case]['figures'][f'share_{name}'] for name in names]
        assert abs(sum(parts) - 100) < 1e-6 and max(parts) <= 100
    assert runs['campaign']['figures']['beside_max'] >= 50
    assert [target['what'].partition(':')[0] for target in report['targets']] == [
        'urgent', 'alike', 'idle', *['shares'] * 3, 'campaign', 'flood', 'flood', 'thousand']


def test_injection(place):
    report = bench(place.folder, 'injection', '--pairs', '1', '--seconds', '1', '--rate', '50')
    alone, beside = report['runs']
    assert (alone['case'], beside['case']) == ('smtp', 'with http')
    assert 'not_taken' not in alone['figures'] and beside['figures']['not_taken'] == 0
    assert beside['figures']['answer_p99_ms'] >= beside['figures']['answer_p50_ms'] > 0
    got = {one['name']: one['recipients'] for one in beside['destinations']}
    assert got['d2.test'] == 50 and got['d1.test'] > 0
    assert [one['what'] for one in report['targets']] == ['deliveries lost to injection, %',
                                                          'injections not taken']
    assert report['targets'][1]['is_met']


def post_messages(port, *options):
    done = subprocess.run([os.path.join(BUILD, 'bench/sluice-inject'), '--to', f'127.0.0.1:{port}',
                           '--rate', '100', '--seconds', '1', *options],
                          capture_output=True, text=True, timeout=60)
    return done.returncode, json.loads(done.stdout)


def test_the_http_source_counts(place):
    daemon = place.sluice(transports={'smtp': {'hold': True}}, http={})
    code, numbers = post_messages(daemon.http_port, '--size', '3000', '--connections', '3')
    assert code == 0 and 1 <= numbers['connects'] <= 3  # as many as are needed
    assert numbers['offered'] == numbers['accepted'] == numbers['answer']['count'] == 100
    until(lambda: daemon.totals()['messages'] == 100, lambda: f'100: {daemon.totals()}')
    sizes = {event['size'] for event in daemon.of('Reception')}
    assert all(2900 < size < 3100 for size in sizes), sizes
    code, numbers = post_messages(daemon.http_port, '--domain', 'a..b')
    assert code == 75 and (numbers['accepted'], numbers['refused']) == (0, 100)
    assert 'recipients[0]' in numbers['last_problem']
    daemon.kill()
    code, numbers = post_messages(daemon.http_port)
    assert code == 75 and numbers['failed'] == 100 and numbers['last_problem']


def test_a_relay_of_somebody_else(place):
    """It is told where the mail must go; its processes are not looked at."""
    port = free_port('127.0.1.1')
    daemon = place.sluice(routes={f'd{i}.test': ('smtp', f'[127.0.1.{i}]:{port}') for i in (1, 2)})
    name = f'127.0.0.1:{daemon.port}'
    report = bench(place.folder, 'fifty', '--relays', name, '--domains', '2', '--pairs', '1',
                   '--messages-postfix', '100', '--sink-port', str(port))
    [run] = report['runs']
    assert run['relay'] == name and run['recipients'] == 100
    assert 'cpu_us' not in run['figures'] and run['foreign'] is None


def test_lost_mail_is_an_error(place):
    """The relay here is a receiver: it takes everything and passes nothing on."""
    receiver = place.receiver()
    done = start(place.folder, 'single', '--relays', f'127.0.0.1:{receiver.port}', '--pairs', '1',
                 '--messages-postfix', '10', '--sink-port', str(free_port('127.0.1.1')),
                 '--timeout', '1')
    assert done.returncode != 0 and '0 of 10 arrived' in done.stderr
    assert not os.path.exists(os.path.join(place.folder, 'report.json'))


@pytest.mark.parametrize('options, right', [
    (['--relays', 'exim'], 'not one of sluice'), (['--relays', 'sluice@/nowhere'], 'build/release'),
    (['--relays', '127.0.0.1:25'], '--sink-port'), (['--build', '/nowhere'], 'no build there')])
def test_a_wrong_argument_says_what_is_right(place, options, right):
    done = start(place.folder, 'single', *options)
    assert done.returncode != 0 and right in done.stderr


def ledgers(folder, received):
    lines = [{'event': 'offered', 'id': 'a', 'recipients': ['1@d.test', '2@d.test']},
             {'event': 'offered', 'id': 'b', 'recipients': ['3@d.test', '4@dead.test']},
             {'event': 'acked', 'id': 'a'}, {'event': 'acked', 'id': 'b'}]
    (folder / 'offered.jsonl').write_text('\n'.join(map(json.dumps, lines)))
    (folder / 'received.jsonl').write_text('\n'.join(
        json.dumps({'id': id, 'recipients': recipients}) for id, *recipients in received))
    flow.check_ledgers(types.SimpleNamespace(folder=folder), {'d.test'})


def test_ledgers_tell_what_numbers_cannot(tmp_path):
    ledgers(tmp_path, [('a', '2@d.test'), ('a', '1@d.test'), ('b', '3@d.test')])
    for wrong in ([('a', '1@d.test'), ('a', '2@d.test')],
                  [('a', '1@d.test'), ('a', '1@d.test'), ('b', '3@d.test')]):
        with pytest.raises(Failure):
            ledgers(tmp_path, wrong)


def test_ratios_are_of_neighbours(tmp_path):
    """Medians of the undisturbed runs, and quotients within each round."""
    runs = [{'case': '', 'relay': relay, 'pair': pair, 'is_clean': pair != 3,
             'figures': {'rate': rate}}
            for pair, rates in enumerate([(10, 1), (30, 2), (99, 99), (16, 4)], 1)
            for relay, rate in zip(('sluice', 'postfix'), rates)]
    mine, theirs = measure.summarise(runs, [measure.RATE])
    assert (mine['relay'], mine['figures'], mine['pairs']) == ('sluice', {'rate': 16}, 3)
    assert mine['ratios'] == {'postfix': {'rate': {'median': 10, 'least': 4, 'most': 15}}}
    assert theirs['figures'] == {'rate': 2}


def test_windows_fall_into_the_intervals_of_the_receiver():
    windows = types.SimpleNamespace(samples=[(9.5, {'a': 1}), (10.1, {'a': 2}), (10.4, {'a': 3}),
                                             (12.2, {'a': 4, 'b': 5}), (13.5, {'a': 6})])
    assert Windows.along(windows, 'a', 10, 0.5, 6) == [3, None, None, None, 4, None]
    assert Windows.along(windows, 'b', 10, 1, 3) == [None, None, 5]


def test_round_trips_bound_the_rates(place):
    """Whatever the machine does besides: no client is faster than its replies allow."""
    report = bench(place.folder, 'rtt', '--round-trips', '0,40', '--relays', 'raw,sluice',
                   '--seconds', '1', '--backlog', '300')
    cells = {(c['relay'], c['mode'], c['round_trip_ms']): c for c in report['cells']}
    assert len(cells) == 12
    for relay in ('raw', 'sluice'):
        for trip in (0, 40):
            cell = cells[relay, 'lockstep', trip]
            assert cell['max_in_flight'] == 1 and cell['connections'] == 1
        assert cells[relay, 'lockstep', 40]['rate'] <= 1 / (4 * 0.04)
        assert cells[relay, 'pipelining', 40]['rate'] <= 1 / 0.04
        assert cells[relay, 'pipelining', 40]['max_in_flight'] <= 2
    # The receiver itself is no limit: more than one message a round trip, on a machine that stands still for seconds too.
    assert cells['raw', 'chunking', 40]['rate'] > 2 / 0.04
    assert cells['raw', 'chunking', 40]['max_in_flight'] > 10
    rows = {(r['mode'], r['round_trip_ms']): r for r in report['rows']}
    assert rows['chunking', 40]['sluice'] == cells['sluice', 'chunking', 40]['rate']


def test_pace_tells_what_was_accepted_and_refused(place):
    """A limit that the engine does not know is never exceeded, and its refusals are counted."""
    report = bench(place.folder, 'pace', '--relays', 'sluice', '--rates', '50', '--seconds', '4',
                   '--settle', '1', '--again', '1', '--parallel', '4', '--cases',
                   'rate,messages,addresses,one-of-four')
    runs = {run['case']: run for run in report['runs']}
    assert list(runs) == ['rate, R = 50', 'messages', 'addresses, R = 20', 'addresses, R = 50',
                          'one-of-four, R = 5', 'one-of-four, others']
    assert len(report['targets']) == 2 * len(runs)
    courses = {name: course for run in report['runs'] if 'timeline' in run
               for name, course in run['timeline']['destinations'].items()}
    assert set(courses) == set(runs)
    for name, run in runs.items():
        figures, course = run['figures'], courses[name]
        assert {len(values) for values in course.values()} == {4}
        assert figures['refused'] == sum(course['refused'])
        rate = {'messages': 10, 'one-of-four, others': 30}.get(name) or int(name.split('= ')[1])
        assert {*course['limit']} - {None} == {rate}
        if name not in ('messages', 'one-of-four, others'):
            assert sum(course['messages']) <= rate * 5 + max(1, rate / 10)
    assert sum(courses['rate, R = 50']['refused']) > 0  # nobody can know before it is said
    four = [name for name in courses if name.startswith('one-of-four')]
    assert sum(sum(courses[name]['messages']) for name in four) > 0


def test_pace_judges_what_lies_behind_a_change():
    """Accepted from the settled state on, refused at all times but just behind a change."""
    args = types.SimpleNamespace(seconds=4, settle=1, again=2, stage='mail', reply=pace.REPLY)
    case = pace.rate_case(args, 'halved', (10, 5), 4)
    course = {'destination': '', 'client': '127.0.0.1', 'limit': [None, *[10] * 4, *[5] * 4, 5],
              'messages': [0, 9, 9, 9, 9, 8, 8, 4, 5, 77], 'refused': [7, 1, 0, 0, 0, 40, 30, 2, 0, 99],
              'refused_recipients': [0] * 10, 'refused_connections': [0] * 7 + [1, 0, 0]}
    numbers = {'uptime': 9.5, 'timeline': {'interval': 1, 'start': 100, 'clients': [course]}}
    [row] = pace.judge(args, 'sluice', case, numbers, 101.4)
    assert row['figures'] == {'accepted': 90, 'rate': 4.5, 'refused': 4, 'allowed': 0,
                              'refused_share': 400 / 45}
    drawn = row['timeline']['destinations']['halved']
    assert drawn['limit'] == [10] * 4 + [5] * 4 and sum(drawn['refused']) == 74
    [accepted, refused] = pace.targets(types.SimpleNamespace(
        **vars(args), rates=[], cases=['halved']), [{**row, 'case': 'halved, R = 200'}])
    assert (accepted['measured'], accepted['is_met'], refused['is_met']) == ('90.0', False, False)
    # Somebody who never came has got nothing, and that is no success.
    numbers['timeline']['clients'] = []
    [row] = pace.judge(args, 'sluice', case, numbers, 101.4)
    assert row['figures']['accepted'] == row['figures']['refused'] == 0


def test_connections_are_all_open_at_once(place):
    report = bench(place.folder, 'connections', '--counts', '4,40', '--hosts', '4',
                   '--messages', '400', '--settle', '0')
    assert [(c['kind'], c['connections'], c['opened']) for c in report['cells']] == \
        [(kind, count, count) for kind in ('plain', 'tls') for count in (4, 40)]
    assert all(c['cpu_us'] > 0 for c in report['cells'])
    assert [r['kind'] for r in report['rows']] == ['plain', 'tls']
