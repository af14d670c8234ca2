"""Receivers that limit a client's connections, and the workload that measures beside them."""
import argparse
import os
import pathlib

from load import Sink, free_port, inject
from relay import Sluice, running
from support.daemon import BUILD
from workloads import limited

LIMIT = 5
MESSAGES = 300


def test_the_window_is_what_the_receiver_counts(place):
    """Each connection carries one message, and never is one opened while the receiver still counts
    those before it: none is refused by a receiver that allows just the window."""
    build, folder, port = pathlib.Path(BUILD), pathlib.Path(place.folder), free_port()
    transport = {'initial_destination_concurrency': LIMIT, 'destination_concurrency_limit': LIMIT,
                 'smtp_connection_reuse_count_limit': 1}
    with Sink(build, folder, '--connections-per-client', LIMIT, '--delay-dot', 30) as sink, \
            running(lambda place: Sluice(build, place, port, [('limited.test', sink.nexthop())],
                                         transport), folder):
        inject(build, port, MESSAGES, 1000, 'limited.test')
        sink.wait(lambda numbers: numbers['messages'] == MESSAGES, 60, 'all messages')
        numbers = sink.end()
    assert (numbers['refused'], numbers['connections']) == (0, MESSAGES)
    assert numbers['listeners'][0]['max_open'] >= LIMIT


def test_workload(place):
    """Only what must be so whatever the machine does besides: each delivery teaches once, and none
    is deferred that was not refused."""
    parser = argparse.ArgumentParser()
    limited.add_arguments(parser)
    args = parser.parse_args(['--receivers', 'sink', '--rules', 'readme', '--feedbacks', '1/N',
                              '--recipients', '60', '--time-scale', '0.01'])
    args.build, args.dir, args.size = pathlib.Path(BUILD), place.folder, 1000
    args.folder = pathlib.Path(place.folder, 'sinks')
    os.mkdir(args.folder)
    result = limited.run(args)
    assert {run['caching'] for run in result['runs']} == {'no', 'yes'}
    for run in result['runs']:
        figures = run['figures']
        assert run['feedbacks'] == 30 and run['codes'].keys() <= {421}
        # What was refused before anything was accepted is deferred; later refusals are nobody's attempt.
        assert figures['deferred'] <= 100 * 2 * figures['refused'] / 60 < 100
        assert 1 <= figures['average'] <= limited.LIMIT
    assert [run['relay'] for run in result['summary']] == ['sluice', 'sluice']
