"""Configured rates hold over all nodes of a cluster together, by the receiver's own count, while nodes join, die and
are cut off from the servers."""
import collections
import contextlib
import os
import random
import re
import shutil
import signal
import socket
import threading
import time

import pytest

from support.injection import post
from support.nats import NatsClient, NatsCluster, section
from support.receiver import Receiver
from support.wait import Pulse, until

RATE, BURST = 40, 4  # a tenth of a second's worth
SLACK = RATE // 4  # what was sent in time and seen late, beside what Pulse tells of; a part too many would be a third of all
ESTABLISHED = 1  # of tcpi_state
IS_LONG = 'LIMIT_WORLDS' in os.environ


@pytest.fixture(scope='module')
def servers(tmp_path_factory):
    cluster = NatsCluster(tmp_path_factory.mktemp('nats'))
    yield cluster
    cluster.close()


def is_connected(sock):
    """The other side has not closed it, by the kernel: when a thread of ours hears of that is another question."""
    try:
        return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == ESTABLISHED
    except OSError:
        return False


class Crowd(Receiver):
    """Counts its connections by the node that has them; each message takes it a while.
    most: so many of them were open at a time"""

    def __init__(self, pause=0.0, heard=None):
        self.pause, self.heard, self.most, self.open = pause, heard, 0, set()
        self.changes = []  # (when, peer, +1 or -1)
        self.nodes = {}  # by peer
        super().__init__(answers=self.note)

    def _serve(self, sock, peer):
        self.changes.append((time.monotonic(), peer, 1))
        self.open.add(sock)
        self.most = max(self.most, sum(map(is_connected, list(self.open))))
        try:
            super()._serve(sock, peer)
        finally:
            self.open.discard(sock)
            self.changes.append((time.monotonic(), peer, -1))

    def note(self, verb, argument, session):
        if self.heard is not None:
            self.heard(verb, argument, session)
        if verb == 'MAIL':
            self.nodes[session.peer] = re.search(r'@(.*?)\.test>', argument).group(1)
        elif verb == '.':
            time.sleep(self.pause)

    def used(self, begin, end, node=None):
        """On average; of one node."""
        total, changes = 0, list(self.changes)
        for at, peer, change in changes:
            if node is None or self.nodes.get(peer) == node:
                total += change * (end - min(max(at, begin), end))
        return total / (end - begin)


class Counter:
    """What the receiver saw, by the node that sent it."""

    def __init__(self, place):
        self.seen, self.pulse = [], place.keep(Pulse())
        self.receiver = place.keep(Crowd(heard=self.note))

    def note(self, verb, argument, session):
        if verb == 'MAIL':
            self.seen.append((time.monotonic(), re.search(r'@(.*?)\.test>', argument).group(1)))

    def between(self, begin, end):
        return collections.Counter(node for at, node in list(self.seen) if begin <= at < end)

    def lately(self, span):
        now = time.monotonic()
        return self.between(now - span, now)

    def check(self, span, slack=0):
        """In no such span more than is allowed."""
        times = sorted(at for at, _ in list(self.seen))
        last = 0
        for first, begin in enumerate(times):
            while last < len(times) and times[last] < begin + span:
                last += 1
            allowed = span * RATE + BURST + SLACK + slack
            if last - first > allowed:
                late = self.pulse.most(begin, begin + span)
                assert last - first <= allowed + late * RATE, f'{last - first} in {span} s, of which {late} s are none'


def node(place, servers, counter, name, **options):
    return place.sluice(start=False, cluster=section(name, servers), routes={'*': ('smtp', counter.receiver.nexthop)},
                        transports={'smtp': {'max_message_rate': f'{RATE}/s', **options}})


def feed(daemon, name, count, recipients=('r@d.test',)):
    for first in range(0, count, 1000):
        post(daemon, {'messages': [{'from': f'{n}@{name}.test', 'recipients': recipients, 'text': 'x\n'}
                                   for n in range(first, min(first + 1000, count))]}).expect(202)


def is_joined(daemon, *names):
    rows = {row['node']: row['state'] for row in daemon.query('cluster') if 'state' in row}
    return all(rows.get(name) == 'alive' for name in names)


def test_rate_over_nodes(place, servers, report_table):
    """Three nodes with one rate: together as one, each a third of it, and all of it for one that is alone."""
    servers.mend()
    counter = Counter(place)
    names = ['rate-a', 'rate-b', 'rate-c']
    daemons = {name: node(place, servers, counter, name).start() for name in names}
    for daemon in daemons.values():
        until(lambda: is_joined(daemon, *names), daemon.log)
    feed(daemons['rate-a'], 'rate-a', 6000)
    alone = until(lambda: (of := counter.lately(2)['rate-a']) >= 0.9 * 2 * RATE and of, lambda: f'{counter.seen[-200:]}')
    for name in names[1:]:
        feed(daemons[name], name, 3000)
    begin = time.monotonic()
    until(lambda: len(counter.between(begin, time.monotonic())) == 3, lambda: f'{counter.seen[-100:]}')
    fair_after = time.monotonic() - begin
    span = 10 if IS_LONG else 5

    def shared():
        of = counter.lately(span)
        return sum(of.values()) >= 0.9 * span * RATE and min(of[name] for name in names) >= span * RATE / 3 * 0.5 and of
    of = until(shared, lambda: f'{counter.lately(span)}')
    counter.check(10)
    counter.check(1)
    report_table('rates', f'40/s: {alone / 2:.1f}/s by one that is alone; of three in {span} s '
                          f'{", ".join(str(of[name]) for name in names)}; all had a part after {fair_after:.2f} s')


def test_connections_over_nodes(place, servers, report_table):
    """Four nodes, and receivers that let all of them have 20 connections and 2: never more at a time, and hardly ever
    fewer; each node has its turn in twenty seconds, of which the short form sees the first half; who joins has its share
    before that."""
    servers.mend()
    wide, narrow = place.keep(Crowd(0.1)), place.keep(Crowd(0.05))
    names = [f'seat-{x}' for x in 'abcd']
    daemons = [place.sluice(start=False, cluster=section(name, servers),
                            routes={'n.test': ('narrow', narrow.nexthop), '*': ('wide', wide.nexthop)},
                            transports={'wide': {'site_concurrency_limit': 20, 'initial_destination_concurrency': 20,
                                                 'destination_recipient_limit': 2},
                                        'narrow': {'site_concurrency_limit': 2,
                                                   'destination_recipient_limit': 2}}) for name in names]

    def fill(daemon, name, count):
        for domain, messages in (('d', count), ('n', count // 3)):
            feed(daemon, name, messages, [f'{r}@{domain}.test' for r in range(100)])
    for daemon, name in list(zip(daemons, names))[:3]:
        daemon.start()
    for daemon in daemons[:3]:
        until(lambda: is_joined(daemon, *names[:3]), daemon.log)
    for daemon, name in list(zip(daemons, names))[:3]:
        fill(daemon, name, 150)
    until(lambda: wide.used(time.monotonic() - 1, time.monotonic()) > 19, lambda: f'{wide.changes[-50:]}')
    daemons[3].start()
    until(lambda: is_joined(daemons[0], *names), daemons[0].log)
    fill(daemons[3], names[3], 150)
    joined = time.monotonic()
    until(lambda: wide.used(time.monotonic() - 0.5, time.monotonic(), names[3]) >= 4.5, lambda: f'{wide.changes[-50:]}')
    joined = time.monotonic() - joined
    span = 20 if IS_LONG else 12
    time.sleep(span)

    def used():
        """Of each receiver all, and by node, in the last so many seconds."""
        time.sleep(0.2)
        end = time.monotonic()
        return [(crowd.used(end - span, end), [crowd.used(end - span, end, name) for name in names]) for crowd in (wide, narrow)]

    def is_used():
        (all_wide, shares), (all_narrow, turns) = figures = used()
        return all_wide >= 19 and all_narrow >= 1.9 and min(shares) >= 4 and \
            sum(turn > 0.02 for turn in turns) >= (4 if IS_LONG else 3) and figures
    (all_wide, shares), (all_narrow, turns) = until(is_used, lambda: f'{used()}')
    report_table('connections', f'of 20 at most {wide.most}, on average {all_wide:.2f} ('
                 f'{", ".join(f"{s:.2f}" for s in shares)}); of 2 at most {narrow.most}, on average '
                 f'{all_narrow:.2f} ({", ".join(f"{s:.2f}" for s in turns)}); who joined had its share after '
                 f'{joined:.2f} s')
    assert wide.most <= 20 and narrow.most <= 2
    assert joined < 15  # not with its turn in twenty seconds


def test_stop_death_and_return(place, servers):
    """Who stops in order gives his part back at once; who is killed, within 15 seconds; who returns has his again.
    Never more than the rate."""
    servers.mend()
    counter = Counter(place)
    names = ['life-a', 'life-b', 'life-c']
    a, b, c = daemons = [node(place, servers, counter, name).start() for name in names]
    for daemon in daemons:
        until(lambda: is_joined(daemon, *names), daemon.log)
    for daemon, name in zip(daemons, names):
        feed(daemon, name, 4000)
    until(lambda: len(counter.lately(1)) == 3, a.log)
    assert b.stop() == 0
    begin = time.monotonic()
    until(lambda: set(counter.lately(0.5)) == {names[0], names[2]} and sum(counter.lately(1).values()) >= 0.85 * RATE, a.log)
    given_back = time.monotonic() - begin
    c.kill()
    until(lambda: counter.lately(1)[names[0]] >= 0.85 * RATE, a.log)
    c.start()
    until(lambda: is_joined(a, names[0], names[2]), a.log)
    until(lambda: counter.lately(2)[names[2]] >= RATE / 3, c.log)
    counter.check(10)
    counter.check(1)
    assert given_back < 9  # ten seconds: what others wait for who did not say that he goes


def test_without_servers(place, servers):
    """No part is used when no server has answered for ten seconds, and `why` says what mail waits for; other mail goes.
    Back when they answer."""
    servers.mend()
    counter = Counter(place)
    free, crowd = place.receiver(), place.keep(Crowd(0.5))
    a = place.sluice(start=False, cluster=section('cut-off', servers),
                     routes={'d.test': ('smtp', counter.receiver.nexthop), 'c.test': ('crowd', crowd.nexthop),
                             '*': ('free', free.nexthop)},
                     transports={'smtp': {'max_message_rate': f'{RATE}/s'}, 'free': {},
                                 'crowd': {'site_concurrency_limit': 4, 'destination_recipient_limit': 2}}).start()
    until(lambda: is_joined(a, 'cut-off'), a.log)
    feed(a, 'cut-off', 20, [f'{r}@c.test' for r in range(100)])  # for longer than anything here is waited for
    feed(a, 'cut-off', 6000)
    until(lambda: counter.seen and crowd.used(time.monotonic() - 0.1, time.monotonic()) == 4, a.log)
    for server in servers.servers:
        server.signal(signal.SIGSTOP)
    begin = time.monotonic()
    until(lambda: not counter.lately(1), a.log)
    assert 1 < time.monotonic() - begin < 25  # ten seconds; at 45 s deliveries end for another reason
    until(lambda: crowd.used(time.monotonic() - 0.1, time.monotonic()) == 0, a.log)
    feed(a, 'a', 1, ['r@elsewhere.test'])
    a.wait_event('Delivery', 'r@elsewhere.test')
    why = a.command('why', '-d', counter.receiver.nexthop).stdout.decode()
    assert "waits for this node's share of its rate" in why, why
    why = a.command('why', '-d', crowd.nexthop).stdout.decode()
    assert "waits for this node's share of the connections" in why and '4 of the site' in why, why
    for server in servers.servers:
        server.signal(signal.SIGCONT)
    until(lambda: counter.lately(1)['cut-off'] >= 0.85 * RATE, a.log)
    until(lambda: crowd.used(time.monotonic() - 0.1, time.monotonic()) == 4, a.log)
    counter.check(10)
    assert crowd.most == 4


def test_reload_of_a_rate(place, servers):
    """Another rate is another limit, which begins at once; without one nothing is held back."""
    servers.mend()
    counter = Counter(place)
    names = ['load-a', 'load-b']
    a, b = daemons = [node(place, servers, counter, name).start() for name in names]
    for daemon in daemons:
        until(lambda: is_joined(daemon, *names), daemon.log)
        feed(daemon, names[daemons.index(daemon)], 3000)
    until(lambda: len(counter.lately(1)) == 2, a.log)
    for daemon in daemons:
        daemon.transports['smtp']['max_message_rate'] = '20/s'
        daemon.write_config()
        assert daemon.command('reload').returncode == 0
    begin = time.monotonic()
    until(lambda: time.monotonic() > begin + 3 and 0.85 * 3 * 20 <= sum(counter.lately(3).values()) <= 3 * 20 + 2 + 2,
          lambda: f'20 a second: {sum(counter.lately(3).values())} in three')
    del a.transports['smtp']['max_message_rate']
    a.write_config()
    assert a.command('reload').returncode == 0
    until(lambda: sum(1 for _, name in list(counter.seen) if name == 'load-a') == 3000, a.log)


class World:
    """Nodes and servers that come and go, and mail at all of them, under one rate and one limit of connections."""

    def __init__(self, rng, daemons, servers):
        self.rng, self.daemons, self.servers = rng, daemons, servers
        self.down, self.asleep, self.log = set(), set(), []

    def step(self):
        act = self.rng.choice(['feed', 'feed', 'kill', 'stop', 'start', 'sleep', 'wake', 'server', 'wait'])
        name = self.rng.choice(sorted(self.daemons))
        daemon = self.daemons[name]
        is_up = name not in self.down and name not in self.asleep
        self.log.append((act, name))
        if act == 'feed' and is_up:
            feed(daemon, name, self.rng.choice([1, 20, 200]))
        elif act in ('kill', 'stop') and is_up:
            daemon.kill() if act == 'kill' else daemon.stop()
            self.down.add(name)
        elif act == 'start' and name in self.down:
            daemon.start()
            self.down.discard(name)
        elif act == 'sleep' and is_up and not self.asleep:
            daemon.signal(signal.SIGSTOP)
            self.asleep.add(name)
        elif act == 'wake' and name in self.asleep:
            daemon.signal(signal.SIGCONT)
            self.asleep.discard(name)
        elif act == 'server':
            server = self.rng.choice(self.servers.servers)
            server.kill()
            time.sleep(self.rng.uniform(0, 1))
            server.start()
        time.sleep(self.rng.uniform(0, 1.5))


def test_random(place, servers):
    """LIMIT_WORLDS, LIMIT_SEED: how many worlds of 20 steps, and the first one's number; else one of 12. One of the nodes
    may stand still and wake: then its part counts twice for a moment."""
    first = int(os.environ.get('LIMIT_SEED', '1'))
    for seed in range(first, first + int(os.environ.get('LIMIT_WORLDS', '1'))):
        servers.mend()
        counter, rng = Counter(place), random.Random(seed)
        names = [f'w{seed}-{x}' for x in 'abc']
        daemons = {name: node(place, servers, counter, name, site_concurrency_limit=5).start() for name in names}
        world = World(rng, daemons, servers)
        for _ in range(20 if IS_LONG else 12):
            world.step()
        for name in sorted(world.asleep):
            daemons[name].signal(signal.SIGCONT)
        for name in sorted(world.down):
            daemons[name].start()
        servers.mend()
        for name, daemon in daemons.items():
            try:
                daemon.wait_empty(120)
            except AssertionError:
                raise AssertionError(f'seed {seed}, {name}: {world.log}\n{daemon.log()}') from None
        has_slept = any(act == 'sleep' for act, _ in world.log)
        counter.check(10, slack=BURST + RATE if has_slept else 0)
        assert counter.receiver.most <= (10 if has_slept else 5), (seed, world.log)
        for daemon in daemons.values():
            daemon.stop()


def test_slow_rate(place, servers):
    """One in ten seconds: the first at once, whichever node has it; the next ten seconds later, and not ten seconds after
    it was asked for."""
    servers.mend()
    counter = Counter(place)
    names = ['slow-a', 'slow-b']
    a, b = daemons = [node(place, servers, counter, name, max_message_rate='6/min').start() for name in names]
    for daemon in daemons:
        until(lambda: is_joined(daemon, *names), daemon.log)
    begin = time.monotonic()
    feed(a, 'slow-a', 1)
    until(lambda: len(counter.seen) == 1, a.log)
    assert counter.seen[0][0] - begin < 9
    time.sleep(8)
    asked = time.monotonic()
    feed(b, 'slow-b', 1)
    until(lambda: len(counter.seen) == 2, b.log)
    assert counter.seen[1][0] - begin >= 9
    assert counter.seen[1][0] - asked < 9


def test_servers_that_lost_all(place, servers):
    """All servers lose their disks: the nodes, which go on as they are, put there again what they know, and share their
    rate as before; who joins gets a number of its own."""
    servers.mend()
    counter = Counter(place)
    names = ['lost-a', 'lost-b', 'lost-c']
    a, b, c = daemons = [node(place, servers, counter, name) for name in names]
    for daemon, name in list(zip(daemons, names))[:2]:
        daemon.start()
        until(lambda: is_joined(daemon, name), daemon.log)
        feed(daemon, name, 4000)
    assert a.command('suspend', '--tenant', 'acme', '--reason', 'kept').returncode == 0
    until(lambda: len(counter.lately(1)) == 2, a.log)
    for server in servers.servers:
        server.kill()
        shutil.rmtree(server.folder / 'store')
    servers.mend()
    c.start()
    for daemon in daemons:
        until(lambda: is_joined(daemon, *names), daemon.log)
    until(lambda: 'kept' in str(c.query('orders')), c.log)
    # Who joins before the others have put their numbers there again may get one of theirs; they take another then.
    until(lambda: len({row['number'] for row in a.query('cluster') if row.get('node') in names}) == 3, a.log)
    feed(c, names[2], 4000)
    until(lambda: len(counter.lately(1)) == 3, c.log)
    begin = time.monotonic()
    until(lambda: time.monotonic() > begin + 3 and 3 * RATE * 0.85 <= sum(counter.lately(3).values()) <= 3 * RATE + BURST + 2,
          lambda: f'{RATE} a second: {counter.lately(3)} in three')
    assert all(daemon.stop() == 0 for daemon in daemons)


def test_quota_over_nodes(place, servers):
    """Three nodes and 200 messages a day for all: exactly so many, also when one of them leaves in between and returns.
    Another one, which is killed, may take two with it."""
    servers.mend()
    counter = Counter(place)
    names = ['day-a', 'day-b', 'day-c']
    daemons = [place.sluice(start=False, cluster=section(name, servers),
                            routes={'*': ('smtp', counter.receiver.nexthop)},
                            transports={'smtp': {'max_message_quota': '200/d'}}) for name in names]
    today = time.time() // 86400
    for daemon, name in zip(daemons, names):
        daemon.start()
        until(lambda: is_joined(daemon, name), daemon.log)
        feed(daemon, name, 40)
    until(lambda: len(counter.seen) == 120, lambda: f'{len(counter.seen)}')
    assert daemons[1].stop() == 0
    daemons[2].kill()
    daemons[1].start()
    until(lambda: is_joined(daemons[0], names[0], names[1]), daemons[0].log)
    for daemon, name in list(zip(daemons, names))[:2]:
        feed(daemon, name, 100)
    until(lambda: len(counter.seen) >= 198, lambda: f'{len(counter.seen)}')
    until(lambda: 'has used up its quota' in daemons[0].command('why', '-d', counter.receiver.nexthop).stdout.decode(),
          daemons[0].log)
    assert len(counter.seen) <= 200 or time.time() // 86400 != today
    assert all(daemon.stop() == 0 for daemon in daemons[:2])


def hostile_values(rng):
    sample = b'1 3 4000 1:2:4 2:2:4'
    for _ in range(150):
        value = bytearray(sample)
        for _ in range(rng.randrange(1, 4)):
            value[rng.randrange(len(value))] = rng.choice(b'0123456789: -x\0')
        yield bytes(value[:rng.randrange(len(value) + 1)] if rng.randrange(3) == 0 else value)
    yield from (b'', b'1', b'2 0 0', b'1 0 0' + b' 9:4:4' * 9000, b'1 4294967295 1000000000 1:1000000:1000000', b'\0' * 1000,
                b'1 0 0 ' + b' '.join(b'%d:1000000:1' % n for n in range(1, 65)))
    yield b'1 0 4000 1:4:4 777:4:4 65535:1000000:1000000'


def test_hostile_values(place, servers):
    """Whoever may write to the bucket writes what is no value, or says that others have it all: the daemon goes on, and
    so does the rate when nobody stands behind what was said."""
    servers.mend()
    counter = Counter(place)
    a = node(place, servers, counter, 'struck').start()
    until(lambda: is_joined(a, 'struck'), a.log)
    with contextlib.closing(NatsClient(servers.servers[0])) as client:
        feeder = threading.Thread(target=feed, args=(a, 'struck', 6000))
        feeder.start()
        [key] = client.keys('sluice_limits')
        until(lambda: counter.seen, a.log)
        for value in hostile_values(random.Random(5)):
            client.put('sluice_limits', key, value)
            time.sleep(0.005)
        client.settle()
        feeder.join()
    until(lambda: sum(counter.lately(1).values()) >= 0.85 * RATE,
          lambda: a.log()[-3000:])
    assert a.stop() == 0
