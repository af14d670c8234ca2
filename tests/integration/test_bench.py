"""The workloads of sluice-bench: what they report must be possible. No figure of speed is judged."""
import json
import os
import pathlib
import subprocess

from support.daemon import BUILD

ROOT = pathlib.Path(__file__).resolve().parents[2]


def bench(folder, workload, *options):
    report = os.path.join(folder, 'report.json')
    done = subprocess.run(
        ['/usr/bin/python3', ROOT / 'bench/sluice-bench', workload, '--build', BUILD, '--dir',
         folder, '--json', report, *options],
        capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
        env={**os.environ, 'PYTHONDONTWRITEBYTECODE': '1'})
    assert done.returncode == 0, done.stderr
    with open(report, encoding='utf-8') as file:
        return json.load(file)


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
    # The receiver itself is no limit: far more than one message a round trip.
    assert cells['raw', 'chunking', 40]['rate'] > 10 / 0.04
    assert cells['raw', 'chunking', 40]['max_in_flight'] > 10
    rows = {(r['mode'], r['round_trip_ms']): r for r in report['rows']}
    assert rows['chunking', 40]['sluice'] == cells['sluice', 'chunking', 40]['rate']


def test_connections_are_all_open_at_once(place):
    report = bench(place.folder, 'connections', '--counts', '4,40', '--hosts', '4',
                   '--messages', '400', '--settle', '0')
    assert [(c['kind'], c['connections'], c['opened']) for c in report['cells']] == \
        [(kind, count, count) for kind in ('plain', 'tls') for count in (4, 40)]
    assert all(c['cpu_us'] > 0 for c in report['cells'])
    assert [r['kind'] for r in report['rows']] == ['plain', 'tls']
