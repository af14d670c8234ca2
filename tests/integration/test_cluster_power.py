"""The power of everything fails, of the servers and of the nodes: what was accepted is there, also where a node's disk does not
return. Servers that acknowledge before they sync lose it, and so the cuts are real."""
import os
import random
import re
import shutil
import time

import pytest

from support.client import message, submit
from support.disk import Disk
from support.nats import HASTE, NatsCluster, section
from support.tools import Account, Sink, Source
from support.wait import until
from test_crash import FLOWS, LISTENER, LOAD, SEED, TENANTS
from test_log import log_of, restore, wait_open

POWER_CUTS = int(os.environ.get('POWER_CUTS', '2'))


MEMORY_PLACE = 4 << 30  # for the images, which have holes


@pytest.fixture
def power(place, memory_place, monkeypatch):
    monkeypatch.setenv('SLUICE_CLUSTER_HASTE', str(HASTE))
    return Power(place, memory_place)


class Power:
    """Servers and nodes, each with a disk of its own."""

    def __init__(self, place, images):
        self.place, self.images, self.disks, self.nats, self.nodes = place, images, {}, None, []

    def disk(self, name, folder):
        self.disks[name] = self.place.keep(Disk(os.path.join(self.images.folder, name), folder))

    def serve(self, syncs=True):
        folder = self.place.subfolder('nats')
        for i in range(3):
            self.disk(f'n{i}', os.path.join(folder, f'n{i}'))
        self.nats = self.place.keep(NatsCluster(folder, syncs=syncs))

    def node(self, name, **settings):
        daemon = self.place.sluice(start=False, cluster=section(name, self.nats, log=True, max_bytes='256M'), listener=LISTENER,
                                   **settings)
        self.disk(name, daemon.spool)
        self.nodes.append(daemon)
        return daemon

    def sync(self):
        for disk in self.disks.values():
            disk.sync()

    def cut(self):
        """All processes are dead and all disks without power before anything is written behind."""
        for one in [*self.nodes, *self.nats.servers]:
            one.process.kill()
        for disk in self.disks.values():
            disk.cut()
        for one in [*self.nodes, *self.nats.servers]:
            one.kill()

    def restore(self, *but):
        """The power is back, for all but these nodes, whose disks are empty ones."""
        for disk in self.disks.values():
            disk.restore_power()
        for daemon in but:
            for name in os.listdir(daemon.spool):
                path = os.path.join(daemon.spool, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        for server in self.nats.servers:
            server.start()
        self.nats.wait_ready()


@pytest.mark.parametrize('syncs', [True, False], ids=['synced', 'unsynced'])
def test_all_at_once(power, syncs):
    """What one node accepted, whose disk is lost too."""
    power.serve(syncs)
    daemon = power.node('a')
    daemon.start()
    wait_open(daemon)
    assert daemon.command('suspend', '--all', '--reason', 'x', '--here').returncode == 0
    for i in range(110):
        if i == 10:
            power.sync()  # so the log is there at least
        submit(daemon, 'a@a.test', [f'r{i}@x.test'], message(text=('x' * 70 + '\r\n') * (3000 if i % 10 == 5 else 20)))
    power.cut()
    power.restore(daemon)
    there = restore(daemon, 'a')
    assert there == 110 if syncs else 10 <= there < 110, there


def test_after_a_purge(power):
    """All that the servers had synced of a log is of no use any more, when the power fails: what is behind it they have in their own log
    only, and would not take it from there after a purge."""
    receiver = power.place.receiver()
    power.serve()
    daemon = power.node('a', routes={'*': ('smtp', receiver.nexthop)})
    daemon.start()
    wait_open(daemon)
    for i in range(11):  # 9 MB when compressed: they sync at 8, and begin another file
        text = ''.join(f'{os.urandom(36).hex()}\r\n' for _ in range(22000))
        submit(daemon, 'a@a.test', [f'passing{i}@x.test'], message(text=text))
    daemon.wait_empty()
    assert daemon.command('suspend', '--all', '--reason', 'x', '--here').returncode == 0
    for i in range(10):
        submit(daemon, 'a@a.test', [f'r{i}@x.test'], message())
    assert daemon.stop() == 0
    daemon.start()  # which tells the log all that is there anew; what is in front of that is of no use
    wait_open(daemon)
    until(lambda: not log_of(daemon)['retelling'], daemon.log)
    time.sleep(1.5)  # in which it would be purged
    submit(daemon, 'a@a.test', ['last@x.test'], message())
    power.cut()
    power.restore(daemon)
    assert restore(daemon, 'a') == 11


class Fate:
    """The power fails under load; all disks return, or all but one node's."""

    def __init__(self, power, chance):
        self.power, self.chance, self.kinds, self.restored, self.bound, self.ends = power, chance, {}, 0, 0, 0

    def start(self):
        for daemon in self.power.nodes:
            daemon.start(wait=False)
        for daemon in self.power.nodes:
            wait_open(daemon)
            self.read_bound(daemon)

    def read_bound(self, daemon):
        for line in daemon.log().splitlines():
            if found := re.search(r'at most (\d+) deliver', line):
                self.bound = max(self.bound, int(found.group(1)))

    def round(self, kind):
        """Mail of one source is held at the node that loses its disk."""
        victim = self.chance.choice(self.power.nodes)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        assert victim.command('suspend', '--domain', f'small{victim.cluster["node"]}.test', '--reason', 'x', '--here').returncode == 0
        time.sleep(self.chance.uniform(0.5, 3))
        for daemon in self.power.nodes:
            self.read_bound(daemon)
        self.power.cut()
        self.ends += len(self.power.nodes)
        self.power.restore(*([] if kind == 'disks returned' else [victim]))
        if kind == 'disk restored':
            self.restored += restore(victim, victim.cluster['node'])
        self.start()
        done = victim.command('resume', '--all')
        assert kind != 'disks returned' or done.returncode == 0, done  # the order was on the disk
        if kind == 'disk taken over':
            until(lambda: any(' messages' in line for d in self.power.nodes for line in d.log().splitlines()
                              if 'is taken over: ' in line), victim.log)


def test_under_load(power, capsys):
    """POWER_CUTS, SLUICE_SEED: how many, and of which world."""
    chance = random.Random(SEED)
    power.serve()
    folder = power.place.subfolder('tools')
    sink = power.place.keep(Sink(folder, '--defer', '0.02'))
    daemons = [power.node(name, routes={'*': ('smtp', sink.nexthop)}, options=FLOWS, tenants=TENANTS,
                          transports={'smtp': {'process_limit': 20, 'destination_recipient_limit': 10}}) for name in 'ab']
    fate = Fate(power, chance)
    fate.start()
    sources = [power.place.keep(Source(folder, f'{name}{daemon.cluster["node"]}', f'127.0.0.1:{daemon.port}', '--messages', '0',
                                       '--seconds', '3600', '--retry', '--timeout', '30', *LOAD[name]))
               for daemon in daemons for name in ('small', 'pipelined', 'large')]
    begin = time.monotonic()
    kinds = ['disk restored', 'disk taken over', 'disks returned']
    for i in range(POWER_CUTS):
        fate.round(kinds[i % len(kinds)])
    for source in sources:
        source.end()
    for daemon in daemons:
        daemon.wait_empty()
        fate.read_bound(daemon)
        assert daemon.stop() == 0
    account = Account(sources, sink)
    duplicates = account.duplicates()
    with capsys.disabled():
        print(f'\nseed {SEED}: {POWER_CUTS} power cuts in {time.monotonic() - begin:.0f} s ({fate.kinds}), {fate.restored} messages '
              f'restored; {len(account.acked)} accepted, {len(account.lost())} lost, {len(duplicates)} repeated; bound {fate.bound} '
              f'each of {fate.ends} ends')
    assert not account.lost(), account.lost()[:10]
    assert not account.unexpected(), account.unexpected()[:10]
    assert len(duplicates) <= fate.bound * fate.ends
    assert len(account.acked) > 10 * POWER_CUTS
