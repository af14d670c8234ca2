"""The workload backlog of sluice-bench, small: the same starts and stops, nothing lost or repeated
(the workload itself compares what was delivered), and figures that are possible."""
import json
import os
import pathlib
import subprocess

from support.daemon import BUILD

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_a_queue_survives_its_starts_and_is_drained(place):
    report = os.path.join(place.folder, 'report.json')
    done = subprocess.run(
        ['/usr/bin/python3', ROOT / 'bench/sluice-bench', 'backlog', '--build', BUILD, '--dir',
         place.folder, '--json', report, '--messages', '5000', '--active', '300', '--destinations',
         '4', '--settle', '0', '--idle-seconds', '0.5'],
        capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
        env={**os.environ, 'PYTHONDONTWRITEBYTECODE': '1'})
    assert done.returncode == 0, done.stdout + done.stderr
    with open(report, encoding='utf-8') as file:
        found = json.load(file)
    assert [run['case'] for run in found['runs']] == ['new', 'old']
    for run in found['runs']:
        figures = run['figures']
        assert {figure['key'] for figure in found['figures']} <= set(figures)
        assert all(value > 0 for value in figures.values()), figures
        assert figures['accept_p50_ms'] <= figures['accept_p99_ms'] <= figures['accept_max_ms']
        assert figures['counts_p50_ms'] <= figures['counts_max_ms']
    assert [target['what'] for target in found['targets']] == \
        ['new: memory', 'new: first delivery', 'old: memory', 'old: first delivery']
