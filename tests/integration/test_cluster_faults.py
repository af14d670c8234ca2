"""Four nodes of a cluster under load while everything about them fails at random, several things at once: they die, lose
their disks, stand still, are cut off from the servers, have full disks; servers die, stand still, lose their stores;
acknowledgements are lost, answers come late. Nothing that was accepted is lost, repeats stay within the bounds that are
printed, and receivers count no more than the limits allow.

FAULT_MINUTES, SLUICE_SEED, FAULT_HASTE, FAULT_KINDS: how long, which world, how fast the clock runs by which nodes judge each
other, and which faults alone (server_dies,majority_lost)."""
import collections
import datetime
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import time

import pytest

from support import api
from support.nats import NatsClient, NatsCluster, section
from support.receiver import Receiver
from support.tools import Account, Sink, Source
from support.wait import PATIENCE, Pulse, until
from support.wire import Wire
from test_crash import SEED, per_crash

IS_LONG = 'FAULT_MINUTES' in os.environ
SECONDS = 60 * float(os.environ.get('FAULT_MINUTES', '0.15'))
HASTE = int(os.environ.get('FAULT_HASTE', '4' if IS_LONG else '20'))
GONE = 60 / HASTE  # a node is taken over after so long
NAMES = 'abcd'
SEATS, RATE, BURST = 8, 20, 8
SPANS = (1, 2, 3, 4, 5, 7, 10)  # seconds in which messages are counted
EXCUSED = ('stands_still', 'is_cut', 'is_deaf', 'is_slow')
PAUSE = 0.3 if HASTE <= 5 else 0.1  # of a receiver that counts connections, for each message
LOAD = {  # of each node; together two and three times what a limit lets through, as clients are refused half of the time
    'mixed': ['--connections', '2', '--rate', '16' if IS_LONG else '24', '--size', '2000', '--tenants', '20:1', '--weights', '3,1',
              '--domains', 'seats.test'],
    # Alone at a limit that it keeps busy: all the time, or what is there before anything fails.
    'steady': ['--connections', '1', *(['--rate', '9', '--arrivals', 'even'] if IS_LONG else ['--messages', '60']),
               '--size', '1000', '--tenants', '3', '--weights', '0,1', '--domains', 'rate.test'],
    'many': ['--connections', '1', '--rate', '2', '--recipients', '20', '--tenants', '3'],
    'large': ['--connections', '1', '--rate', '0.5', '--size', '300000'],
}


def is_excused(spans, node, at):
    """It may have connections, and carry mail, that others do not know of."""
    return any(kind in EXCUSED and node == name and begin < at < end + 15 / HASTE + 1 for kind, name, begin, end in spans)


def time_of(text):
    return datetime.datetime.fromisoformat(text + '+00:00').timestamp()


def missed(texts):
    """Spans as of faults: nodes that others did not hear, whether something was done to them or the machine was busy."""
    found = [(time_of(when), name) for text in texts for when, name in re.findall(r'^(\S+)Z \S+ cluster: node (\w+) is late', text, re.M)]
    return [('stands_still', name, at - 15 / HASTE, at) for at, name in found]


class Gauge(Receiver):
    """Counts its connections and its messages by the node that they are of, and keeps a ledger as sluice-sink does."""

    def __init__(self, pause=0.0):
        self.pause, self.entries, self.mails = pause, [], []  # mails: (when, node)
        self.pulse = Pulse()
        self.changes = []  # (when, peer, +1 or -1)
        self.nodes = {}  # by peer
        super().__init__(answers=self.note)

    def _serve(self, sock, peer):
        peer = (*peer, len(self.changes))  # ports are used again
        self.changes.append((time.time(), peer, 1))
        try:
            super()._serve(sock, peer)
        finally:
            self.changes.append((time.time(), peer, -1))

    def note(self, verb, argument, session):
        if verb == 'EHLO':
            self.nodes[session.peer] = argument.split('.')[0]
        elif verb == 'MAIL':
            self.mails.append((time.time(), self.nodes[session.peer]))
        elif verb == '.':
            del self.messages[:]
            found = re.search(rb'^X-Sluice-Id: (.*)\r$', argument.content, re.M)
            digest = hashlib.sha256(argument.content[found.start():]).hexdigest()
            self.entries.append({'time': time.time(), 'id': found.group(1).decode(), 'sender': argument.sender,
                                 'recipients': argument.recipients, 'sha256': digest})
            time.sleep(self.pause)

    def close(self):
        self.pulse.close()
        super().close()

    def lines(self):
        return self.entries

    def beyond(self, limit):
        """[(when, connections, {node: connections})] of each time that there were more."""
        found, count = [], collections.Counter()
        for at, peer, change in sorted(self.changes, key=lambda c: c[0]):
            count[self.nodes.get(peer)] += change
            if change > 0 and count.total() > limit:
                found.append((at, count.total(), +count))
        return found

    def unexplained(self, limit, spans):
        """Of these, those that are not the connections of nodes that stood still, or did not reach the servers."""
        def held(at, count):
            return sum(number for node, number in count.items() if is_excused(spans, node, at))
        return [(at, total, count) for at, total, count in self.beyond(limit) if total - held(at, count) > limit]

    def most(self, span, spans=()):
        """Messages in any such time, but for those of nodes that stood still, or did not reach the servers, and for what came
        late because this process was."""
        times, most, last = sorted(at for at, node in self.mails if not is_excused(spans, node, at)), 0, 0
        ahead = time.time() - time.monotonic()
        for first, begin in enumerate(times):
            while last < len(times) and times[last] < begin + span:
                last += 1
            if last - first > most:
                late = self.pulse.most(begin - ahead, begin - ahead + span)
                most = max(most, int(last - first - late * RATE))
        return most


class Node:
    """One node with its ways to the servers."""

    def __init__(self, place, nats, name, routes):
        self.name, self.wires = name, [place.keep(Wire(server.port)) for server in nats.servers]
        cluster = {**section(name, nats, log=True, max_bytes='1G'), 'servers': [wire.url for wire in self.wires]}
        self.daemon = place.sluice(
            start=False, cluster=cluster, routes=routes,
            options={'message_active_limit': 60, 'hostname': f'{name}.relay.test'},
            listener={'tenant_header': 'X-Tenant', 'keep_control_headers': True},
            transports={'smtp': {'process_limit': 20, 'destination_recipient_limit': 10},
                        'seats': {'process_limit': 20, 'site_concurrency_limit': SEATS, 'destination_recipient_limit': 2,
                                  'initial_destination_concurrency': SEATS},
                        'rate': {'process_limit': 20, 'max_message_rate': f'{RATE}/s, burst {BURST}',
                                 'destination_recipient_limit': 2}})
        self.is_disk_full = False

    def history(self):
        """All that all of its processes printed."""
        with open(self.daemon.log_path, encoding='utf-8', errors='replace') as log:
            return log.read()

    def signal(self, number):
        self.daemon.signal(number)

    def number(self):
        """Of the spool that it writes a log of; None: of none yet."""
        try:
            status, rows = api.ask(self.daemon, '/v1/cluster')
        except (OSError, ValueError):
            return None  # it starts, or ends
        if status != 200:
            return None  # it is about to end
        return next((row.get('number') for row in rows if row['node'] == self.name), None) if rows[-1]['log']['open'] else None

    def limit_disk(self, is_full):
        """No file may become longer than the spool is."""
        self.is_disk_full = is_full
        size = os.path.getsize(os.path.join(self.daemon.spool, 'data.mdb')) if is_full else resource.RLIM_INFINITY
        _, hard = resource.prlimit(self.daemon.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.daemon.process.pid, resource.RLIMIT_FSIZE, (size if is_full else hard, hard))


class World:
    """Each fault is a generator, which begins it, yields how long it lasts, and then ends it.

    busy: what has a fault; under_way: [(when it is due, its generator, what it keeps busy)]
    ends: when processes died; done: how many faults of each kind there were, and spans: [(kind, node, begin, end)]"""

    def __init__(self, chance, nodes, nats):
        self.chance, self.nodes, self.nats = chance, nodes, nats
        self.busy, self.under_way, self.ends = set(), [], []
        self.done, self.spans = collections.Counter(), []
        self.kinds = [(self.dies, 4), (self.loses_disk, 4), (self.is_stopped, 2), (self.stands_still, 3), (self.is_cut, 4),
                      (self.is_deaf, 3), (self.is_slow, 2), (self.has_full_disk, 2), (self.server_dies, 2),
                      (self.server_stands_still, 2), (self.majority_lost, 2), (self.server_loses_store, 1)]
        if 'FAULT_KINDS' in os.environ:
            self.kinds = [(kind, weight) for kind, weight in self.kinds if kind.__name__ in os.environ['FAULT_KINDS'].split(',')]

    def span(self, most):
        """Often short, seldom long."""
        return most * self.chance.random() ** 2

    # --- of a node's process

    def dies(self, node):
        yield from self.dead(node, False)

    def loses_disk(self, node):
        yield from self.dead(node, True)

    def dead(self, node, is_disk_lost):
        node.daemon.kill()
        node.is_disk_full = False
        self.ends.append(time.time())
        if is_disk_lost and os.path.exists(node.daemon.spool):  # it may not have come so far
            shutil.rmtree(node.daemon.spool)
        yield self.span(2.5 * GONE)
        node.daemon.start(wait=False)

    def is_stopped(self, node):
        """In order: others leave its mail to it."""
        node.signal(signal.SIGTERM)
        deadline = time.monotonic() + 60
        while node.daemon.is_alive():
            assert time.monotonic() < deadline, f'{node.name} does not end:\n{node.daemon.log()[-4000:]}'
            yield 0.1
        code = node.daemon.wait_exit()
        assert code in (0, -signal.SIGTERM) or node.is_disk_full, f'{node.name} ended with {code}:\n{node.daemon.log()[-4000:]}'
        node.is_disk_full = False
        self.ends.append(time.time())
        yield self.span(2 * GONE)
        node.daemon.start(wait=False)

    def stands_still(self, node):
        node.signal(signal.SIGSTOP)
        yield self.span(2.5 * GONE)
        node.signal(signal.SIGCONT)

    def has_full_disk(self, node):
        if node.daemon.is_alive() and os.path.exists(os.path.join(node.daemon.spool, 'data.mdb')):
            node.limit_disk(True)
            yield self.span(2 * GONE)
            if node.daemon.is_alive():
                node.limit_disk(False)

    # --- of its ways to servers

    def some_wires(self, node):
        return self.chance.sample(node.wires, self.chance.choice([1, 2, 3, 3, 3]))

    def is_cut(self, node):
        wires, ways = self.some_wires(node), self.chance.choice([{'up'}, {'down'}, {'up', 'down'}])
        for wire in wires:
            wire.held.update(ways)
            if self.chance.random() < 0.3:
                wire.break_all()
        yield self.span(2.5 * GONE)
        for wire in wires:
            if self.chance.random() < 0.5:
                wire.break_all()
            wire.mend()

    def is_deaf(self, node):
        """What servers answer is lost."""
        for wire in node.wires:
            wire.losing.add('down')
        yield self.span(2)
        for wire in node.wires:
            wire.mend()

    def is_slow(self, node):
        wires, delay = self.some_wires(node), self.span(1)
        for wire in wires:
            wire.delay = delay
        yield self.span(2 * GONE)
        for wire in wires:
            wire.mend()

    # --- of servers

    def server_dies(self):
        server = self.chance.choice(self.nats.servers)
        server.kill()
        yield self.span(8)
        server.start()

    def server_stands_still(self):
        server = self.chance.choice(self.nats.servers)
        server.signal(signal.SIGSTOP)
        yield self.span(8)
        server.signal(signal.SIGCONT)

    def majority_lost(self):
        servers = self.chance.sample(self.nats.servers, self.chance.choice([2, 3]))
        are_killed = self.chance.random() < 0.5
        for server in servers:
            server.kill() if are_killed else server.signal(signal.SIGSTOP)
        yield self.span(8)
        for server in servers:
            server.start() if are_killed else server.signal(signal.SIGCONT)

    def server_loses_store(self):
        """When the others have all: else it would be the only one of a majority that does."""
        yield from self.until_ready(self.nats.servers)
        server = self.chance.choice(self.nats.servers)
        others = [s for s in self.nats.servers if s is not server]
        server.kill()
        yield 1
        if (yield from self.until_ready(others)):
            shutil.rmtree(server.folder / 'store')
        server.start()
        yield from self.until_ready(self.nats.servers)

    @staticmethod
    def until_ready(servers):
        """Whether they were, for a second, within half a minute."""
        count, deadline = 0, time.monotonic() + 30
        while count < 3 and time.monotonic() < deadline:
            yield 0.5
            count = count + 1 if all(server.is_ready() for server in servers) else 0
        return count == 3

    # --- all of it

    def begin(self):
        kinds, weights = zip(*self.kinds)
        kind = self.chance.choices(kinds, weights)[0]
        node = self.chance.choice(self.nodes)
        part = {'is_cut': 'wires', 'is_deaf': 'wires', 'is_slow': 'wires', 'has_full_disk': 'disk', 'dies': 'life',
                'loses_disk': 'life', 'is_stopped': 'life', 'stands_still': 'life'}.get(kind.__name__, 'servers')
        key = part if part == 'servers' else (node.name, part)
        if key in self.busy or (part == 'disk' and (node.name, 'life') in self.busy):
            return
        self.busy.add(key)
        self.done[kind.__name__.replace('_', ' ')] += 1
        fault = kind() if part == 'servers' else kind(node)
        span = [kind.__name__, None if part == 'servers' else node.name, time.time(), None]
        self.spans.append(span)
        self.go_on(fault, key, span)

    def around(self, at):
        """[(fault, node, seconds until it began, seconds until it ended)] of those about that time."""
        return [(kind, node, round(begin - at, 2), round(end - at, 2)) for kind, node, begin, end in self.spans
                if begin - 1 < at < end + 60 / HASTE]

    def go_on(self, fault, key, span):
        try:
            self.under_way.append((time.monotonic() + next(fault), fault, key, span))
        except StopIteration:
            self.busy.discard(key)
            span[3] = time.time()

    def step(self):
        """Ends what is due; a process that ended by itself is started again, as its supervisor would."""
        now = time.monotonic()
        for one in [one for one in self.under_way if one[0] <= now]:
            self.under_way.remove(one)
            self.go_on(*one[1:])
        for node in self.nodes:
            if (node.name, 'life') not in self.busy and not node.daemon.is_alive():
                code = node.daemon.wait_exit()
                assert code in (os.EX_CANTCREAT, os.EX_OSERR) and node.is_disk_full, f'{node.name} ended with {code}:\n{node.daemon.log()[-4000:]}'
                node.is_disk_full = False
                self.ends.append(time.time())
                node.daemon.start(wait=False)

    def run(self, seconds):
        end, due = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            if time.monotonic() >= due:
                self.begin()
                due = time.monotonic() + self.chance.expovariate(1 / min(GONE / 5, 3))
            self.step()
            time.sleep(0.02)
        while self.under_way:
            self.under_way = [(min(due, time.monotonic() + GONE), *rest) for due, *rest in self.under_way]
            self.step()
            time.sleep(0.02)


def logs(nats):
    """Names of their streams; None: no answer yet."""
    client = NatsClient(nats.servers[0])
    names = client.request('$JS.API.STREAM.NAMES').get('streams')
    client.close()
    return names and {name for name in names if name.startswith('SLUICE_LOG_')}


def tell(nodes):
    return f'seed {SEED}\n' + '\n'.join(f'--- {node.name}\n{node.history()[-3000:]}' for node in nodes)


class Result:
    """What clients, receivers and the nodes' logs say of it all."""

    def __init__(self, world, account, seats, rate):
        self.world, self.account, self.rate = world, account, rate
        texts = [node.history() for node in world.nodes]
        # A claim of a log ends what its node did: what had no durable result may be delivered again.
        self.claims = [time_of(when) for text in texts
                       for when in re.findall(r'^(\S+)Z info: take-over: log \d+ is ours', text, re.M)]
        self.bound = max([int(n) for text in texts
                          for n in re.findall(r'at most (\d+) (?:deliveries|of their deliveries) may repeat', text)], default=0)
        self.duplicates = account.duplicates()
        self.by_end = per_crash(sorted(world.ends + self.claims), self.duplicates)
        self.beyond = seats.beyond(SEATS)
        self.most_seats = max([count for _, count, _ in self.beyond], default=SEATS)
        spans = world.spans + missed(texts)
        self.unexplained = seats.unexplained(SEATS, spans)
        self.too_many = max(0, *(rate.most(span, spans) - span * RATE - BURST for span in SPANS))

    def text(self):
        kinds = ', '.join(f'{count} {kind}' for kind, count in self.world.done.most_common())
        return (f'seed {SEED}, clocks of nodes {HASTE} times as fast: {self.world.done.total()} faults ({kinds})\n'
                f'{len(self.account.acked)} accepted, {len(self.account.lost())} lost; {len(self.world.ends)} processes ended, '
                f'{len(self.claims)} logs were claimed; {len(self.duplicates)} repeated, at most {max(self.by_end, default=0)} by one end, '
                f'where {self.bound} are allowed\nconnections: at most {self.most_seats} of {SEATS}; {len(self.beyond)} times too many, '
                f'{len(self.unexplained)} of them not by nodes that stood still or were cut off\nmessages: at most '
                f'{self.rate.most(10)} of {10 * RATE + BURST} in 10 s, {self.rate.most(1)} of {RATE + BURST} in 1 s; '
                f'{self.too_many} too many of other nodes than those')

    def check(self):
        assert not self.account.lost(), self.account.lost()[:10]
        assert not self.account.unexpected(), self.account.unexpected()[:10]
        assert sum(self.by_end) == len(self.duplicates), 'copies were repeated although no process had ended'
        assert max(self.by_end, default=0) <= self.bound
        assert len(self.account.acked) > 5 * SECONDS
        # What nodes that stood still had may be used twice for a moment; each node has all of it where nothing is shared.
        assert self.most_seats <= 3 * SEATS
        assert self.rate.most(10) <= 2 * (10 * RATE + BURST)
        # Messages of some time may come a third of a second closer together than they were sent.
        assert self.too_many <= RATE / 3
        # A faster clock makes of every busy moment of the machine a node that stands still.
        assert HASTE > 5 or not self.unexplained, (self.unexplained, self.world.around(self.unexplained[0][0]))


@pytest.fixture
def nats(tmp_path, monkeypatch):
    monkeypatch.setenv('SLUICE_CLUSTER_HASTE', str(HASTE))
    cluster = NatsCluster(tmp_path / 'nats')
    yield cluster
    cluster.close()


def wait_well(nats, nodes):
    """Each node writes a log of its own, there are no others, and nothing is queued."""
    patience = 60 + 3 * GONE + SECONDS  # what is beyond the limits waits
    nats.wait_ready()
    until(lambda: logs(nats) == {f'SLUICE_LOG_{node.number()}' for node in nodes}, lambda: f'{logs(nats)} of {tell(nodes)}', patience)
    for node in nodes:
        until(lambda: node.daemon.totals()['messages'] == 0, lambda: f'{node.daemon.query("messages")[:3]} at {node.name}, {tell(nodes)}',
              patience)


def test_everything_fails(nats, place, capsys):
    folder = place.subfolder('tools')
    sink = place.keep(Sink(folder, '--defer', '0.02'))
    seats, rate = place.keep(Gauge(PAUSE)), place.keep(Gauge())
    routes = {'seats.test': ('seats', seats.nexthop), 'rate.test': ('rate', rate.nexthop), '*': ('smtp', sink.nexthop)}
    nodes = [Node(place, nats, name, routes) for name in NAMES]
    for node in nodes:
        node.daemon.start(wait=False)
    for node in nodes:
        node.daemon.wait_log('log: it works')
    sources = [place.keep(Source(folder, f'{name}-{node.name}', f'127.0.0.1:{node.daemon.port}', '--messages', '0', '--seconds',
                                 '7200', '--retry', '--timeout', '30', *options))
               for node in nodes for name, options in LOAD.items()]
    if not IS_LONG:
        for source in sources:
            if source.name.startswith('steady'):
                source.wait(PATIENCE)
    world = World(random.Random(SEED), nodes, nats)
    begin = time.monotonic()
    world.run(SECONDS)
    healed = time.monotonic()
    for source in sources:
        source.end()
    wait_well(nats, nodes)
    well = time.monotonic()
    for node in nodes:
        assert node.daemon.stop() == 0, node.history()[-3000:]
    result = Result(world, Account(sources, sink, seats, rate), seats, rate)
    with capsys.disabled():
        print(f'\n{result.text()}\n{healed - begin:.0f} s, and all was well {well - healed:.0f} s later')
    result.check()
