"""How long a node with a log stands still when servers go: the leader of its log killed, a server that is stopped in order, the majority
lost. What clients and receivers see of it, under a steady load."""
import os
import signal
import time

import pytest

from support.nats import NatsCluster, section
from support.tools import Account, Sink, Source
from support.wait import until
from test_log import stream_request, wait_open

LOST_SECONDS = float(os.environ.get('LOST_SECONDS', '4'))  # that there is no majority
STALLS = int(os.environ.get('STALLS', '1'))
RATE = 50
BACK = 30  # seconds: before nodes end their deliveries (45 s) and their mail is taken over; the figures are printed


@pytest.fixture
def servers(place):
    # A server that is told to go waits for grace_period, and closes its connections until the duration is over.
    return place.keep(NatsCluster(place.subfolder('nats'), extra='lame_duck_duration: "30s"\nlame_duck_grace_period: "5s"'))


class Load:
    def __init__(self, place, nats):
        self.nats = nats
        self.folder = place.subfolder('tools')
        self.sink = place.keep(Sink(self.folder))
        self.daemon = place.sluice(cluster=section('stall', nats, log=True), routes={'*': ('smtp', self.sink.nexthop)})
        wait_open(self.daemon)
        self.source = place.keep(Source(self.folder, 'steady', f'127.0.0.1:{self.daemon.port}', '--messages', '0', '--seconds',
                                        '3600', '--rate', str(RATE), '--arrivals', 'even', '--connections', '8', '--retry'))

    def times(self):
        """Of 250s and of deliveries."""
        return [sorted(line['time'] for line in self.source.lines() if line['event'] == 'acked'),
                sorted(line['time'] for line in self.sink.lines())]

    def flows(self):
        """Of each as much in the last second as there should be."""
        since = time.time() - 1
        return all(sum(t > since for t in times) > RATE / 2 for times in self.times())

    def stall(self, begin):
        """Waits until all flows again. returns: the longest pause since then of 250s and deliveries, and the end of the last one that is
        longer than a second; seconds"""
        time.sleep(3)
        until(self.flows, self.daemon.log)
        longest, back = [], 0
        for times in self.times():
            since = [begin, *(t for t in times if t > begin)]
            pauses = list(zip(since, since[1:]))
            longest.append(max(after - before for before, after in pauses))
            back = max([back, *(after - begin for before, after in pauses if after - before > 1)])
        return longest, back

    def leader(self):
        name = stream_request(self.nats, 'INFO', 'stall')['cluster']['leader']
        return next(server for server in self.nats.servers if server.name == name)


def text(what, longest, back):
    return f'{what}: no 250 for {longest[0]:.2f} s, no delivery for {longest[1]:.2f} s' + (f'; back after {back:.1f} s' if back else '')


def test_stalls(place, servers, report_table):
    """STALLS: how often each; LOST_SECONDS: how long there is no majority."""
    load = Load(place, servers)
    until(load.flows, load.daemon.log)
    lines = []
    for _ in range(STALLS):
        leader = load.leader()
        begin = time.time()
        leader.kill()
        longest, back = load.stall(begin)
        lines.append(text('leader killed', longest, back))
        assert back <= BACK, lines
        leader.start()
        servers.wait_ready()

        leader = load.leader()
        begin = time.time()
        leader.signal(signal.SIGUSR2)
        until(lambda: leader.process.poll() is not None, leader.log)
        longest, back = load.stall(begin)
        lines.append(text('leader stopped in order', longest, back))
        assert back <= BACK, lines
        leader.kill()
        leader.start()
        servers.wait_ready()

        gone = [server for server in servers.servers if server is not load.leader()]
        for server in gone:
            server.kill()
        time.sleep(LOST_SECONDS)
        assert not load.flows()
        begin = time.time()
        for server in gone:
            server.start()
        longest, back = load.stall(begin)
        lines.append(text(f'no majority for {LOST_SECONDS:.0f} s', longest, back))
        assert back <= BACK, lines
        servers.wait_ready()
    load.source.end()
    load.daemon.wait_empty()
    assert load.daemon.stop() == 0
    account = Account([load.source], load.sink)
    report_table('a node whose servers go', '\n'.join([*lines, f'{len(account.acked)} accepted, {len(account.lost())} lost, '
                                                       f'{len(account.duplicates())} repeated']))
    assert not account.lost() and not account.unexpected() and not account.duplicates()
