"""The log of a node: what it accepted is on the servers before it says 250, and a spool is made of it where the disk is
lost."""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import pytest

from support import api, exposition, injection
from support.client import Client, message, submit
from support.daemon import PROGRAM
from support.nats import NatsClient, NatsCluster, section
from support.tools import Account, Sink, Source
from support.wait import until
from test_crash import FLOWS, LISTENER, LOAD, SEED, TENANTS, Killer, per_crash

LOST_DISKS = int(os.environ.get('LOST_DISKS', '6'))


@pytest.fixture(scope='module')
def servers(tmp_path_factory):
    cluster = NatsCluster(tmp_path_factory.mktemp('nats'))
    yield cluster
    cluster.close()


@pytest.fixture
def nats(servers):
    servers.mend()
    return servers


def log_section(name, nats, **options):
    return section(name, nats, log=True, **options)


def wait_open(daemon, patience=30):
    daemon.wait_log('log: it works', patience)


def lose_spool(daemon):
    """kill -9, and the disk is gone."""
    daemon.kill()
    shutil.rmtree(daemon.spool)


def restore(daemon, node):
    done = subprocess.run([PROGRAM, 'repair', '-c', daemon.config_path, '--from-log', node], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done
    return int(re.match(r'(\d+) messages in', done.stderr).group(1))


def test_accepted_mail_outlives_the_disk(nats, place):
    receiver = place.receiver()
    daemon = place.sluice(cluster=log_section('disk', nats), routes={'*': ('smtp', receiver.nexthop)})
    wait_open(daemon)
    daemon.command('suspend', '--domain', 'held.test', '--reason', 'x')
    for i in range(20):
        submit(daemon, 'a@a.test', [f'gone{i}@x.test'], message())
    for i in range(30):
        submit(daemon, 'a@a.test', [f'held{i}@held.test'], message(text=('x' * 70 + '\r\n') * (40 if i % 10 else 3000)))
    for i in range(20):
        daemon.wait_event('Delivery', f'gone{i}@x.test')
    time.sleep(1)
    lose_spool(daemon)
    assert restore(daemon, 'disk') == 30
    daemon.start()
    wait_open(daemon)
    daemon.command('resume', '--all')
    for i in range(30):
        daemon.wait_event('Delivery', f'held{i}@held.test')


def log_of(daemon):
    return json.loads(api.get(daemon, '/v1/cluster').body.splitlines()[-1])['log']


def refusal(daemon):
    """What MAIL is answered with, if it is refused."""
    with Client(daemon) as client:
        client.ehlo()
        client.send(b'MAIL FROM:<a@a.test>\r\n')
        reply = client.reply()
        return None if reply.code == 250 else str(reply)


def test_servers_stand_still(nats, place):
    """Nothing is accepted that only this node has; deliveries go on until as many as a crash may repeat have no durable
    result. All goes on when the servers do."""
    receiver = place.receiver()
    daemon = place.sluice(cluster=log_section('still', nats), routes={'*': ('smtp', receiver.nexthop)})
    wait_open(daemon)
    daemon.command('suspend', '--domain', 'later.test', '--reason', 'x', '--here')
    for i in range(5):
        submit(daemon, 'a@a.test', [f'r{i}@later.test'], message())
    until(lambda: [m['state'] for m in daemon.query('messages')] == ['suspended'] * 5, lambda: daemon.query('messages'))
    for server in nats.servers:
        server.signal(signal.SIGSTOP)
    begin = time.monotonic()
    with Client(daemon) as client:
        client.ehlo()
        client.mail('a@a.test', ['lost@x.test'])
        client.data(message(), 451)
    assert 1.9 < time.monotonic() - begin < 5
    assert refusal(daemon).startswith('451 4.3.0 Cluster not available'), refusal(daemon)
    answer = injection.post(daemon, {'from': 'a@a.test', 'to': 'b@b.test', 'text': 'x'})
    assert answer.status == 503 and b'servers do not store mail' in answer.body, answer.body
    assert b'servers do not store it' in daemon.command('why', 'x.test').stdout
    assert daemon.command('resume', '--all').returncode == 0
    receiver.wait(5)
    for server in nats.servers:
        server.signal(signal.SIGCONT)
    begin = time.monotonic()
    until(lambda: refusal(daemon) is None, daemon.log, 30)
    assert time.monotonic() - begin < 15
    submit(daemon, 'a@a.test', ['after@x.test'], message())
    daemon.wait_empty()
    assert sorted(daemon.results('after@x.test')), daemon.log()
    received = [to for one in receiver.messages for to in one.recipients]
    assert sorted(received) == sorted([*(f'r{i}@later.test' for i in range(5)), 'after@x.test'])
    assert daemon.stop() == 0


def test_log_stays_short(nats, place, report_table):
    """Mail that passes leaves the log, and mail that stays does not."""
    sink = place.keep(Sink(place.subfolder('tools')))
    daemon = place.sluice(cluster=log_section('short', nats), routes={'*': ('smtp', sink.nexthop)})
    wait_open(daemon)
    daemon.command('suspend', '--domain', 'stays.test', '--reason', 'x', '--here')
    for i in range(40):
        submit(daemon, 'a@a.test', [f'r{i}@stays.test'], message())
    most = 0
    source = place.keep(Source(place.subfolder('tools'), 'passing', f'127.0.0.1:{daemon.port}', '--messages', '9000',
                               '--connections', '8', '--size', '20000'))
    while source.process.poll() is None:
        most = max(most, log_of(daemon)['bytes'])
        time.sleep(0.2)
    until(lambda: log_of(daemon)['bytes'] < 150e6 and not log_of(daemon)['retelling'], lambda: log_of(daemon))
    assert most < 160e6, most
    retellings = exposition.value(exposition.parse(api.get(daemon, '/metrics').body), 'sluice_log_retellings_total')
    assert retellings >= 2, retellings
    lose_spool(daemon)
    assert restore(daemon, 'short') >= 40
    daemon.start()
    wait_open(daemon)
    daemon.command('resume', '--all')
    for i in range(40):
        daemon.wait_event('Delivery', f'r{i}@stays.test')


def test_log_is_full(nats, place):
    """New mail is refused before there is no room for results, and accepted again when mail has left."""
    receiver = place.receiver()
    daemon = place.sluice(cluster=log_section('full', nats, max_bytes='256M'), routes={'*': ('smtp', receiver.nexthop)})
    wait_open(daemon)
    daemon.command('suspend', '--domain', 'x.test', '--reason', 'x', '--here')
    sent, big = 0, message(text=('x' * 70 + '\r\n') * 7000)
    while (said := refusal(daemon)) is None:
        submit(daemon, 'a@a.test', [f'r{sent}@x.test'], big)
        sent += 1
        assert sent < 300, log_of(daemon)
    assert said.startswith("452 4.3.1 Insufficient room in the cluster's log"), said
    assert sent > 150
    assert b'log on the servers is full' in daemon.command('why', 'x.test').stdout
    assert daemon.command('resume', '--all').returncode == 0
    until(lambda: daemon.totals()['messages'] == 0, lambda: f'{log_of(daemon)}\n{daemon.log()[-2000:]}', 60)
    until(lambda: refusal(daemon) is None, lambda: f'{log_of(daemon)}\n{daemon.log()[-2000:]}', 30)
    assert len(receiver.messages) == sent


def test_log_is_lost(nats, place):
    """All mail is told to the servers anew when they lost the log."""
    receiver = place.receiver()
    daemon = place.sluice(cluster=log_section('gone', nats), routes={'*': ('smtp', receiver.nexthop)})
    wait_open(daemon)
    daemon.command('suspend', '--domain', 'x.test', '--reason', 'x', '--here')
    for i in range(30):
        submit(daemon, 'a@a.test', [f'r{i}@x.test'], message())
    client = NatsClient(nats.servers[0])
    number = next(row['number'] for row in daemon.query('cluster') if row.get('node') == 'gone')
    assert client.request(f'$JS.API.STREAM.DELETE.SLUICE_LOG_{number}')['success'] is True
    client.close()
    daemon.wait_log('the servers have lost it')
    until(lambda: log_of(daemon)['open'] and not log_of(daemon)['retelling'], lambda: log_of(daemon))
    submit(daemon, 'a@a.test', ['r30@x.test'], message())
    lose_spool(daemon)
    assert restore(daemon, 'gone') == 31


def test_log_is_taken(nats, place):
    """Who takes the log of a node that still runs, has all that the node says 250 to."""
    receiver = place.receiver()
    folder = place.subfolder('tools')
    daemon = place.sluice(cluster=log_section('taken', nats), routes={'*': ('smtp', receiver.nexthop)})
    other = place.sluice(start=False, cluster=log_section('taken', nats), routes={'*': ('smtp', receiver.nexthop)})
    other.write_config()
    wait_open(daemon)
    daemon.command('suspend', '--domain', 'x.test', '--reason', 'x', '--here')
    source = place.keep(Source(folder, 'x', f'127.0.0.1:{daemon.port}', '--messages', '0', '--seconds', '60',
                               '--rate', '300'))
    time.sleep(2)
    restored = restore(other, 'taken')
    daemon.wait_log('another process writes the log of node taken')
    assert refusal(daemon).startswith('451 '), refusal(daemon)
    source.end()
    accepted = [line for line in source.lines() if line['event'] == 'acked']
    assert len(accepted) > 100 and len(accepted) <= restored <= len(accepted) + 20, (len(accepted), restored)
    assert restore_fails(other) == 'there is something in'


def restore_fails(daemon):
    done = subprocess.run([PROGRAM, 'repair', '-c', daemon.config_path, '--from-log', 'taken'], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode != 0, done
    return re.match(r'sluice repair: (there is something in)', done.stderr).group(1)


class Loser(Killer):
    """Kills the daemon, and its disk is gone; the servers have what it accepted. Servers stand still or die meanwhile,
    never two of three."""

    def __init__(self, daemon, chance, nats, node):
        super().__init__(daemon, chance)
        self.nats, self.node, self.restored = nats, node, []

    def live(self):
        self.start()
        wait_open(self.daemon)
        self.until_dead(self.chance.uniform(0, 3))

    def lose(self, kind):
        if self.daemon.process is not None:
            self.kill(kind)
        else:  # it was stopped in order, which may cut deliveries short
            self.times.append(time.time())
            self.bounds.append(None)
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
        shutil.rmtree(self.daemon.spool)
        self.restored.append(restore(self.daemon, self.node))

    def at_any_time(self):
        self.live()
        self.lose('disk lost')

    def at_start(self):
        """While all is told to the log anew."""
        self.start()
        self.until_dead(self.chance.uniform(0.3, 1.2))
        self.lose('disk lost at start')

    def without_loss(self):
        """The spool is there; what the log has of the life before is of no use."""
        self.live()
        self.kill('kill')
        self.live()
        self.lose('kill, then disk lost')

    def server_dies(self):
        server = self.chance.choice(self.nats.servers)
        self.live()
        server.kill()
        self.until_dead(self.chance.uniform(0, 4))
        self.lose('server killed')
        server.start()
        self.nats.wait_ready()

    def server_stands_still(self):
        server = self.chance.choice(self.nats.servers)
        self.live()
        server.signal(signal.SIGSTOP)
        self.until_dead(self.chance.uniform(0, 4))
        if self.chance.random() < 0.5:
            server.signal(signal.SIGCONT)
            self.until_dead(self.chance.uniform(0, 1))
        self.lose('server stopped')
        server.signal(signal.SIGCONT)
        self.nats.wait_ready()

    def all_stand_still(self):
        """Nothing is acknowledged any more; then all go on."""
        self.live()
        for server in self.nats.servers:
            server.signal(signal.SIGSTOP)
        self.until_dead(self.chance.uniform(0, 6))
        for server in self.nats.servers:
            server.signal(signal.SIGCONT)
        self.nats.wait_ready()
        self.until_dead(self.chance.uniform(0, 3))
        self.lose('all stopped')

    def stopped(self):
        """An orderly stop, then the disk is lost."""
        self.live()
        self.read_bound()
        assert self.daemon.stop(40) == 0
        self.lose('stop, then disk lost')


def test_disk_lost_under_load(nats, place, capsys):
    """LOST_DISKS, SLUICE_SEED: how many rounds, and of which world."""
    chance = random.Random(SEED)
    folder = place.subfolder('tools')
    sink = place.keep(Sink(folder, '--defer', '0.02'))
    daemon = place.sluice(start=False, cluster=log_section('lost', nats), routes={'*': ('smtp', sink.nexthop)},
                          options=FLOWS, listener=LISTENER, tenants=TENANTS,
                          transports={'smtp': {'process_limit': 20, 'destination_recipient_limit': 10}})
    daemon.start()
    wait_open(daemon)
    sources = [place.keep(Source(folder, name, f'127.0.0.1:{daemon.port}', '--messages', '0', '--seconds', '3600',
                                 '--retry', '--timeout', '30', *options)) for name, options in LOAD.items()]
    loser = Loser(daemon, chance, nats, 'lost')
    loser.kill('begin')
    kinds = [loser.at_any_time] * 4 + [loser.at_start, loser.without_loss, loser.server_dies, loser.server_stands_still,
                                       loser.all_stand_still, loser.stopped]
    begin = time.monotonic()
    while len(loser.restored) < LOST_DISKS:
        chance.choice(kinds)()
    daemon.start()
    wait_open(daemon)
    loser.read_bound()
    for source in sources:
        source.end()
    daemon.wait_empty(60)
    assert daemon.stop(40) == 0
    account = Account(sources, sink)
    duplicates = account.duplicates()
    counts = per_crash(loser.times, duplicates)
    with capsys.disabled():
        print(f'\nseed {SEED}: {len(loser.restored)} disks lost in {time.monotonic() - begin:.0f} s ({loser.kinds}), '
              f'{sum(loser.restored)} messages restored; {len(account.acked)} accepted, {len(account.lost())} lost, '
              f'{len(duplicates)} repeated, at most {max(counts)} by one crash; bound '
              f'{max(b for b in loser.bounds if b is not None)} a crash')
    assert not account.lost(), account.lost()[:10]
    assert not account.unexpected(), account.unexpected()[:10]
    for number, allowed in zip(counts, loser.bounds):
        assert allowed is None or number <= allowed
    assert sum(counts) == len(duplicates), 'copies were repeated without a crash'
    assert len(account.acked) > 10 * len(loser.restored)


def processor_seconds(*pids):
    ticks = 0
    for pid in pids:
        with open(f'/proc/{pid}/stat', encoding='ascii') as stat:
            fields = stat.read().rsplit(')', 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf('SC_CLK_TCK')


def test_cost(nats, place, report_table):
    """What the log costs a message, servers included: LOG_MESSAGES at full speed, and a quarter as many at a given rate, with
    and without it."""
    count = int(os.environ.get('LOG_MESSAGES', '4000'))
    lines = []
    for name in ('without', 'with'):
        sink = place.keep(Sink(place.subfolder('tools')))
        log = log_section('cost', nats) if name == 'with' else section('cost', nats)
        daemon = place.sluice(cluster=log, routes={'*': ('smtp', sink.nexthop)})
        if name == 'with':
            wait_open(daemon)
        pids = [daemon.process.pid, *(server.process.pid for server in nats.servers)]
        before = [processor_seconds(pid) for pid in pids]
        source = place.keep(Source(place.subfolder('tools'), 'cost', f'127.0.0.1:{daemon.port}', '--messages', str(count),
                                   '--connections', '100', '--size', '4096'))
        begin = time.monotonic()
        source.wait(300)
        daemon.wait_empty(60)
        seconds = time.monotonic() - begin
        used = [processor_seconds(pid) - b for pid, b in zip(pids, before)]
        folder = place.subfolder('tools')
        steady = place.keep(Source(folder, 'steady', f'127.0.0.1:{daemon.port}', '--messages', str(count // 4),
                                   '--connections', '100', '--size', '4096', '--rate', '1000', '--json',
                                   os.path.join(folder, 'numbers')))
        steady.wait(300)
        with open(os.path.join(folder, 'numbers'), encoding='ascii') as numbers:
            latency = json.load(numbers)
        daemon.wait_empty(60)
        assert len({line['id'] for line in sink.lines()}) == count + count // 4
        lines.append(f'{name:8} {count / seconds:8.0f} messages/s  {used[0] / count * 1e6:6.1f} us of the node, '
                     f'{sum(used[1:]) / count * 1e6:6.1f} us of the servers a message; at 1,000/s {latency_text(latency)}')
        assert daemon.stop(30) == 0
    report_table('what the log costs', '\n'.join(lines))


def latency_text(numbers):
    return ', '.join(f'{name} {numbers["answer"][name] * 1000:.1f} ms' for name in ('p50', 'p90', 'p99'))
