"""Nodes take over the mail of one that is gone: what it accepted is delivered by others, and it begins anew when it returns.
The clock by which nodes judge each other runs HASTE times as fast as time (CLUSTER_HASTE=1: as time does)."""
import base64
import json
import os
import random
import shutil
import signal
import threading
import time

import pytest

from support import api
from support.client import Client, message, submit
from support.nats import HASTE, NatsClient, NatsCluster, section
from support.tools import PRELOAD, Account, Sink, Source
from support.wait import PATIENCE, until
from support.wire import Wire
from test_crash import FLOWS, LISTENER, LOAD, SEED, TENANTS
from test_log import lose_spool, wait_open

SPAN = 60 / HASTE  # seconds until a node counts as gone
LATE = 40  # until all of its mail is delivered, on a busy machine
TAKEOVERS = int(os.environ.get('TAKEOVERS', '1'))
TAKEOVER_RATE = os.environ.get('TAKEOVER_RATE', '300')


@pytest.fixture(scope='module')
def servers(tmp_path_factory):
    cluster = NatsCluster(tmp_path_factory.mktemp('nats'))
    yield cluster
    cluster.close()


@pytest.fixture
def nats(servers, monkeypatch):
    monkeypatch.setenv('SLUICE_CLUSTER_HASTE', str(HASTE))
    servers.mend()
    client = NatsClient(servers.servers[0])
    for stream in client.request('$JS.API.STREAM.NAMES')['streams'] or []:  # of nodes, too
        client.request(f'$JS.API.STREAM.DELETE.{stream}')
    client.close()
    return servers


@pytest.fixture
def nodes(nats, place):
    """Makes nodes of one cluster that deliver to one receiver."""
    receiver = place.receiver()

    def make(name, routes=None, options=None, **cluster):
        daemon = place.sluice(start=False, cluster=section(name, nats, log=True, **cluster),
                              routes=routes or {'*': ('smtp', receiver.nexthop)}, options=options or {})
        daemon.receiver = receiver
        return daemon

    return make


def received(daemon):
    return sorted(to for one in daemon.receiver.messages for to in one.recipients)


def takeover_of(daemon):
    return json.loads(api.get(daemon, '/v1/cluster').body.splitlines()[-1])['takeover']


def gone(factor=1.0):
    """Longer than it takes until a node counts as gone."""
    time.sleep(SPAN * factor)


def start_all(*daemons):
    for daemon in daemons:
        daemon.start(wait=False)
    for daemon in daemons:
        wait_open(daemon)


def hold(daemon):
    assert daemon.command('suspend', '--all', '--reason', 'x', '--here').returncode == 0


def wait_received(daemon, expected):
    until(lambda: len(received(daemon)) >= len(expected), lambda: f'{received(daemon)}\n{daemon.log()[-3000:]}', PATIENCE + 2 * SPAN)
    assert received(daemon) == sorted(expected)


def test_disk_lost(nodes):
    """kill -9 and the spool deleted: all that was accepted is delivered by the other node, under the same ids. What comes back
    is known to be of its tenant, which the other node never had mail of."""
    a, b = nodes('a'), nodes('b')
    a.listener.update(LISTENER)
    b.transports = {'smtp': {'verp': 'bounces@b.test'}}
    a.write_config()
    b.write_config()
    start_all(a, b)
    hold(a)
    for i in range(30):
        text = ('x' * 70 + '\r\n') * (3000 if i % 10 == 0 else 20)
        submit(a, 'a@a.test', [f'r{i}@x.test', f's{i}@x.test'], message(text=text, X_Tenant='acme'))
    ids = until(lambda: len(m := a.query('messages')) == 30 and sorted(x['id'] for x in m), a.log)
    lose_spool(a)
    begin = time.monotonic()
    wait_received(b, [f'{c}{i}@x.test' for c in 'rs' for i in range(30)])
    assert 20 / HASTE < time.monotonic() - begin < SPAN + LATE  # not at once
    assert 'is taken over: 30 messages' in b.log()
    assert sorted({e['id'] for e in b.wait_events('Delivery', count=60)}) == ids
    assert len({i[:4] for i in ids}) == 1 and ids[0][:4] != '0000'
    with open(os.path.join(b.spool, 'heard', 'names'), encoding='ascii') as names:
        assert [line.split(' ')[:2] for line in names] == [['1', 'acme']]


def test_disk_lost_here(nodes):
    """A node that begins with an empty spool has its own log taken over, by another node or by itself."""
    a = nodes('alone')
    start_all(a)
    hold(a)
    for i in range(10):
        submit(a, 'a@a.test', [f'r{i}@x.test'], message())
    lose_spool(a)
    a.start()
    wait_open(a)
    wait_received(a, [f'r{i}@x.test' for i in range(10)])


def logs(nats):
    client = NatsClient(nats.servers[0])
    names = client.request('$JS.API.STREAM.NAMES')['streams'] or []
    client.close()
    return [name for name in names if name.startswith('SLUICE_LOG_')]


def test_taker_killed(nodes, nats):
    """The taker dies in the middle, again and again, and loses its disk at last: others go on where it stopped."""
    a, b, c = nodes('a'), nodes('b'), nodes('c')
    start_all(a, b)
    hold(a)
    for i in range(600):
        submit(a, 'a@a.test', [f'r{i}@x.test'], message(text=('x' * 70 + '\r\n') * 60))
    hold(b)
    lose_spool(a)
    for _ in range(3):
        until(lambda: 'is ours, from epoch' in b.log() or len(logs(nats)) == 1, b.log, PATIENCE + SPAN)
        b.kill()
        if len(logs(nats)) == 1:
            break
        b.start()
        wait_open(b)
    if b.is_alive():
        b.kill()
    shutil.rmtree(b.spool)
    c.start()
    wait_received(c, [f'r{i}@x.test' for i in range(600)])


@pytest.mark.skipif(not os.path.exists(PRELOAD), reason='no fault library here')
def test_taker_stopped(nodes):
    """A taker that is stopped in order in the middle gives the log back: another node goes on where it stopped, and nothing is
    repeated. What it has by then it keeps until it returns."""
    a, b, c = nodes('a'), nodes('b'), nodes('c')
    switch = os.path.join(b.folder, 'switch')
    b.env = {'LD_PRELOAD': PRELOAD, 'FAULT_FOLDER': f'{b.spool}/data.mdb', 'FAULT_SWITCH': switch, 'FAULT_AT': '1', 'FAULT_TIMES': '0',
             'FAULT_CALLS': 'sync', 'FAULT_ACTION': 'stall'}
    start_all(a, b)
    hold(a)
    for i in range(300):
        submit(a, 'a@a.test', [f'r{i}@x.test'], message(text=('x' * 70 + '\r\n') * 900))
    hold(b)
    with open(switch, 'w', encoding='ascii'):
        pass  # its first transaction with mail of this log goes on when it has been told to stop
    lose_spool(a)
    b.wait_log('was read: ')
    b.signal(signal.SIGTERM)
    b.wait_log(' stopping')
    os.unlink(switch)
    assert b.wait_exit() == 0
    assert 'is given back' in b.log() and 'is taken over' not in b.log(), b.log()
    c.start()
    until(lambda: takeover_of(c)['logs'] == 1, c.log)
    theirs = takeover_of(c)['messages']
    assert 0 < theirs <= 300
    until(lambda: len(received(c)) == theirs, c.log)
    b.start()
    wait_open(b)
    assert len(b.query('messages')) == 300 - theirs
    assert b.command('resume', '--all').returncode == 0
    wait_received(c, [f'r{i}@x.test' for i in range(300)])


def number_of(daemon, name):
    return next(row['number'] for row in daemon.query('cluster') if row.get('node') == name)


def test_dead_return(nodes):
    """Who was taken over begins anew, and what he had is set aside. Lists of suppressed recipients stay."""
    a, b = nodes('a'), nodes('b')
    start_all(a, b)
    hold(a)
    assert a.command('suppress', 'no@x.test').returncode == 0
    for i in range(5):
        submit(a, 'a@a.test', [f'r{i}@x.test'], message())
    was = number_of(a, 'a')
    a.kill()
    wait_received(b, [f'r{i}@x.test' for i in range(5)])
    a.start()
    a.wait_log('has taken its mail over')
    until(lambda: os.path.exists(f'{a.spool}/taken-{was}.mdb'), a.log)
    wait_open(a)
    assert number_of(a, 'a') not in (was, number_of(a, 'b')) and a.query('messages') == []
    assert 'no@x.test' in a.command('suppressions').stdout.decode()
    assert a.command('resume', '--all').returncode == 0
    submit(a, 'a@a.test', ['new@x.test'], message())
    wait_received(a, [*(f'r{i}@x.test' for i in range(5)), 'new@x.test'])


def test_back_in_time(nodes, monkeypatch):
    """Who is back before he counts as gone goes on with his spool. By the true clock, or a busy machine is too late."""
    monkeypatch.setenv('SLUICE_CLUSTER_HASTE', '1')
    a, b = nodes('a'), nodes('b')
    start_all(a, b)
    hold(a)
    for i in range(5):
        submit(a, 'a@a.test', [f'r{i}@x.test'], message())
    number = number_of(b, 'a')
    a.kill()
    a.start()
    wait_open(a)
    assert len(a.query('messages')) == 5 and number_of(a, 'a') == number_of(b, 'a') == number and received(b) == []


def test_standing_still(nodes):
    """A node that stood still while others took its mail delivers none of it when it wakes, and says 250 to nothing, not to a message
    that was about to end either. All of it is deferred, so that nothing else wakes the taker for it."""
    a, b = nodes('a', routes={'*': ('smtp', '[127.0.0.1]:1')}, options=dict.fromkeys(
        ('minimal_backoff_time', 'maximal_backoff_time'), '4s')), nodes('b')
    start_all(a, b)
    for i in range(20):
        submit(a, 'a@a.test', [f'r{i}@x.test'], message())
    until(lambda: [m['state'] for m in a.query('messages')] == ['deferred'] * 20, a.log)
    late = Client(a)
    late.ehlo()
    late.mail('a@a.test', ['late@x.test'])
    late.send(b'DATA\r\n')
    assert late.reply().code == 354
    a.process.send_signal(signal.SIGSTOP)
    wait_received(b, [f'r{i}@x.test' for i in range(20)])
    late.send(b'Subject: late\r\n\r\n.\r\n')
    a.process.send_signal(signal.SIGCONT)
    try:
        assert late.reply().code == 451
    except (EOFError, ConnectionError):
        pass  # it begins anew
    late.close()
    a.wait_log('has taken its mail over')
    until(lambda: a.log().count('log: it works') == 2, a.log)
    assert received(b) == sorted(f'r{i}@x.test' for i in range(20)) and a.query('messages') == []
    assert 'the servers have lost' not in a.log()


def test_restart_fails(nodes):
    """Who was taken over and cannot start anew, as its configuration is wrong by now, does when it is right again."""
    a, b = nodes('a'), nodes('b')
    start_all(a, b)
    hold(a)
    submit(a, 'a@a.test', ['r@x.test'], message())
    a.process.send_signal(signal.SIGSTOP)
    wait_received(b, ['r@x.test'])
    with open(a.config_path, encoding='utf-8') as file:
        right = file.read()
    with open(a.config_path, 'w', encoding='utf-8') as file:
        file.write(right + '\nno_such_option = 1\n')
    a.process.send_signal(signal.SIGCONT)
    a.wait_log('the configuration is wrong, and this process goes on')
    with open(a.config_path, 'w', encoding='utf-8') as file:
        file.write(right)
    until(lambda: a.log().count('log: it works') == 2, a.log)
    assert a.query('messages') == []


def test_servers_gone(nodes, nats):
    """Deliveries end when the servers were not heard for 45 s, and go on with them; with takeover = "manual" they go on."""
    a, m = nodes('a'), nodes('m', takeover='manual')
    start_all(a, m)
    for daemon in (a, m):
        hold(daemon)
        for i in range(3):
            submit(daemon, 'a@a.test', [f'{i}@{daemon.port}.test'], message())
        until(lambda: [r['state'] for r in daemon.query('messages')] == ['suspended'] * 3, lambda: daemon.query('messages'))
    for server in nats.servers:
        server.signal(signal.SIGSTOP)
    gone()
    for daemon in (a, m):
        assert daemon.command('resume', '--all').returncode == 0
    wait_received(m, [f'{i}@{m.port}.test' for i in range(3)])
    for server in nats.servers:
        server.signal(signal.SIGCONT)
    wait_received(a, [f'{i}@{d.port}.test' for i in range(3) for d in (a, m)])


def test_rate(nats, place, report_table):
    """TAKEOVER_RATE, TAKEOVERS: kill -9 and the spool deleted at so many messages a second, how often. All that a client was told 250
    for is there in time, from others."""
    folder = place.subfolder('tools')
    sink = place.keep(Sink(folder))
    a, b, c = daemons = [place.sluice(start=False, cluster=section(name, nats, log=True), routes={'*': ('smtp', sink.nexthop)})
                         for name in 'abc']
    start_all(*daemons)
    lines, sources, longest, bound = [], [], 0, 0
    for i in range(TAKEOVERS):
        source = place.keep(Source(folder, f'rate{i}', f'127.0.0.1:{a.port}', '--messages', '0', '--seconds', '60', '--timeout', '5',
                                   '--rate', TAKEOVER_RATE, '--connections', '100', '--size', '4096'))
        sources.append(source)
        time.sleep(4)
        lose_spool(a)
        begin = time.monotonic()
        source.process.kill()
        until(lambda: 'is taken over' in b.log() + c.log(), b.log, SPAN + PATIENCE)
        until(lambda: not Account([source], sink).lost(), lambda: b.log()[-2000:])
        longest = max(longest, time.monotonic() - begin)
        bound += max(int(line.split('at most ')[1].split()[0]) for d in (b, c) for line in d.log().splitlines()
                     if 'is taken over: ' in line)
        account = Account([source], sink)
        rate = len(account.acked) / (max(line['time'] for line in account.acked.values()) -
                                     min(line['time'] for line in account.acked.values()))
        lines.append(f'{len(account.acked)} accepted at {rate:.0f}/s')
        for daemon in (b, c):
            assert daemon.stop() == 0  # so that its log tells of the next one alone
        start_all(*daemons)
    account = Account(sources, sink)
    report_table('disks lost under load', f'clock {HASTE} times as fast, {TAKEOVERS} disks lost: {", ".join(lines)}; '
                 f'{len(account.lost())} lost, all delivered after at most {longest:.1f} s, {len(account.duplicates())} repeated, at most '
                 f'{bound} allowed')
    assert not account.lost() and not account.unexpected()
    assert longest < SPAN + LATE and len(account.duplicates()) <= bound


class Fate:
    """Nodes die with or without their disks and stand still, one at a time or two, and return; never the last one."""

    def __init__(self, chance, daemons):
        self.chance, self.daemons = chance, daemons
        self.kinds, self.ends, self.bound = {}, 0, 0

    def read_bound(self, daemon):
        for line in daemon.log().splitlines():
            if 'deliveries may repeat' in line and 'at most' in line:
                self.bound = max(self.bound, int(line.split('at most ')[1].split()[0]))

    def round(self):
        victim = self.chance.choice(self.daemons)
        others = [d for d in self.daemons if d is not victim]
        kind = self.chance.choice(['disk lost', 'disk lost', 'killed', 'stopped', 'taker killed'])
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        self.ends += 1
        time.sleep(self.chance.uniform(0, 2))
        if kind == 'stopped':
            victim.process.send_signal(signal.SIGSTOP)
            gone(1.5)
            victim.process.send_signal(signal.SIGCONT)
            return
        victim.kill()
        if kind != 'killed':
            shutil.rmtree(victim.spool)
        taker = self.chance.choice(others)
        if kind == 'taker killed':
            until(lambda: any('is ours, from epoch' in d.log() for d in others), victim.log, PATIENCE + SPAN)
            self.ends += 1
            taker.kill()
            if self.chance.random() < 0.5:
                shutil.rmtree(taker.spool)
            taker.start()
        gone(self.chance.uniform(0, 2))
        victim.start()


def test_under_load(nats, place, capsys):
    """TAKEOVERS, SLUICE_SEED: how many rounds, and of which world."""
    chance = random.Random(SEED)
    folder = place.subfolder('tools')
    sink = place.keep(Sink(folder, '--defer', '0.02'))
    daemons = [place.sluice(start=False, cluster=section(name, nats, log=True), routes={'*': ('smtp', sink.nexthop)},
                            options=FLOWS, listener=LISTENER, tenants=TENANTS,
                            transports={'smtp': {'process_limit': 20, 'destination_recipient_limit': 10}}) for name in 'abc']
    start_all(*daemons)
    sources = [place.keep(Source(folder, f'{name}{i}', f'127.0.0.1:{daemon.port}', '--messages', '0', '--seconds', '3600',
                                 '--retry', '--timeout', '30', *options))
               for i, daemon in enumerate(daemons) for name, options in list(LOAD.items())[:2]]
    fate = Fate(chance, daemons)
    begin = time.monotonic()
    for _ in range(TAKEOVERS):
        fate.round()
        for daemon in daemons:
            fate.read_bound(daemon)
    gone(1.3)
    for source in sources:
        source.end()
    until(lambda: len(logs(nats)) == 3, lambda: '\n'.join(d.log()[-1500:] for d in daemons), 60 + 2 * SPAN)
    for daemon in daemons:
        fate.read_bound(daemon)  # of what was taken over behind the last round
        daemon.wait_empty()
        assert daemon.stop() == 0
    account = Account(sources, sink)
    duplicates = account.duplicates()
    with capsys.disabled():
        print(f'\nseed {SEED}: {TAKEOVERS} rounds in {time.monotonic() - begin:.0f} s ({fate.kinds}); {len(account.acked)} '
              f'accepted, {len(account.lost())} lost, {len(duplicates)} repeated; bound {fate.bound} each of {fate.ends} ends')
    assert not account.lost(), account.lost()[:10]
    assert not account.unexpected(), account.unexpected()[:10]
    assert len(duplicates) <= fate.bound * fate.ends


def test_orders(nodes):
    """What a node has that was stopped in order stays until it returns, or an operator has it taken over; so it is with all
    where takeover is "manual". One that is gone can be forgotten after that."""
    a, b = nodes('a', takeover='manual'), nodes('b', takeover='manual')
    start_all(a, b)
    hold(a)
    for i in range(5):
        submit(a, 'a@a.test', [f'r{i}@x.test'], message())
    assert b'is not gone' in b.command('cluster', 'adopt', 'a').stderr
    assert b'no such node' in b.command('cluster', 'adopt', 'x').stderr
    assert a.stop() == 0
    gone(1.3)
    assert received(b) == []
    a.start()
    wait_open(a)
    assert len(a.query('messages')) == 5
    assert a.stop() == 0
    done = b.command('cluster', 'adopt', 'a')
    assert done.returncode == 0 and done.stdout == b'taking over: a\n', done
    wait_received(b, [f'r{i}@x.test' for i in range(5)])
    until(lambda: takeover_of(b) == {'logs': 1, 'messages': 5}, lambda: takeover_of(b))
    hold(b)
    submit(b, 'a@a.test', ['later@x.test'], message())
    c = nodes('c', takeover='manual')
    start_all(c)
    b.kill()
    gone(1.3)
    assert received(c) == [f'r{i}@x.test' for i in range(5)]
    assert c.command('cluster', 'adopt', 'b').returncode == 0
    wait_received(c, [*(f'r{i}@x.test' for i in range(5)), 'later@x.test'])
    assert c.command('cluster', 'forget', 'b').returncode == 0


def test_drain(nodes, nats, place):
    """A machine that is given up: it takes no more mail, delivers what it can, stops, and another has the rest. Nothing is left of it,
    and nothing is repeated."""
    refused = threading.Event()
    receiver = place.receiver(answers=lambda verb, argument, session: '451 4.3.0 later'
                              if verb == 'RCPT' and '@later.test' in argument and not refused.is_set() else None)
    a, b = (nodes(name, routes={'*': ('smtp', receiver.nexthop)}) for name in 'ab')
    b.receiver = receiver
    start_all(a, b)
    hold(a)
    wanted = [f'r{i}@{domain}.test' for i in range(100) for domain in ('x', 'later')]
    for to in wanted:
        submit(a, 'a@a.test', [to], message())
    assert a.command('resume', '--all').returncode == 0 and a.command('drain').returncode == 0
    assert a.wait_exit() == 0
    assert received(b) == sorted(to for to in wanted if to.endswith('@x.test'))
    refused.set()
    assert b.command('cluster', 'adopt', 'a').returncode == 0
    wait_received(b, wanted)
    until(lambda: len(logs(nats)) == 1 and b.query('messages') == [], b.log)
    assert b.command('cluster', 'forget', 'a').returncode == 0
    assert received(b) == sorted(wanted)


def test_log_vanished(nodes, nats):
    """When the servers lost a log, its mail is on its node's disk only, and nobody makes an empty one of it. Other logs
    are taken over meanwhile."""
    a, b, c = nodes('a'), nodes('b'), nodes('c')
    start_all(a)
    start_all(b, c)
    hold(a)
    for i in range(5):
        submit(a, 'a@a.test', [f'r{i}@x.test'], message())
    number = number_of(a, 'a')
    a.kill()
    client = NatsClient(nats.servers[0])
    assert client.request(f'$JS.API.STREAM.DELETE.SLUICE_LOG_{number}')['success'] is True
    client.close()
    b.wait_log(f'the servers have lost log {number}')
    hold(c)
    submit(c, 'a@a.test', ['other@x.test'], message())
    c.kill()
    wait_received(a, ['other@x.test'])
    a.start()
    wait_open(a)
    assert len(a.query('messages')) == 5
    assert a.command('resume', '--all').returncode == 0
    wait_received(a, [*(f'r{i}@x.test' for i in range(5)), 'other@x.test'])


def test_no_room(nodes):
    """Who has no room for a dead node's mail leaves it to others."""
    a, full, c = nodes('a'), nodes('full', options={'spool_reserve': '4095M'}), nodes('c')
    start_all(a, full)
    hold(a)
    submit(a, 'a@a.test', ['r@x.test'], message(text=''.join(f'{os.urandom(35).hex()}\r\n' for _ in range(50000))))
    lose_spool(a)
    full.wait_log('is left to others')
    found = takeover_of(full)  # it may be about to look again
    assert (found['logs'], found['messages']) == (0, 0), found
    c.start()
    wait_received(c, ['r@x.test'])


def test_not_seen(nodes, nats):
    """A node that others do not see, as there are too many or its entry is of another version, is not held for dead."""
    a, b = nodes('a'), nodes('z')
    start_all(a)
    client = NatsClient(nats.servers[0])
    for i in range(63):
        client.put('sluice_nodes', f'f{i}', json.dumps({'format': 1, 'node': f'f{i}', 'state': 'left', 'address': 'f.test', 'beats': 1,
                                                        'version': '0', 'start': '0' * 15 + '1', 'started': 1}).encode())
    until(lambda: 'node f62 at' in a.log(), a.log)
    start_all(b)
    a.wait_log('z and others are not seen')
    gone(1.7)
    assert 'is ours' not in a.log() and 'has taken' not in b.log()
    client.close()


def owner(nats, number):
    """What its key says, or None."""
    client = NatsClient(nats.servers[0])
    answer = client.request('$JS.API.STREAM.MSG.GET.KV_sluice_owner',
                            json.dumps({'last_by_subj': f'$KV.sluice_owner.{number}'}).encode())
    client.close()
    return base64.b64decode(answer['message']['data']).decode() if 'message' in answer else None


def test_log_never_made(nodes, nats):
    """Who dies before its log was made left a key, by which the others end what there is of it."""
    a, b = nodes('a', max_bytes='1000T'), nodes('b')
    start_all(b)
    a.start()
    a.wait_log('the servers have no room')
    number = number_of(a, 'a')
    assert owner(nats, number) == f'1 1 {number} unmade'
    lose_spool(a)
    until(lambda: owner(nats, number) == f'1 2 {number_of(b, "b")} adopted', lambda: f'{owner(nats, number)}\n{b.log()}')
    assert takeover_of(b)['messages'] == 0 and 'lost log' not in b.log()


class StoppingWire(Wire):
    """Its node stands still as soon as it has asked for the stream of its log, and the question waits that long."""

    daemon = None

    def _passes(self, way, data):
        if self.daemon is not None and way == 'up' and b'STREAM.CREATE.SLUICE_LOG_' in data:
            self.daemon.signal(signal.SIGSTOP)
            self.held.add('up')
            self.daemon = None


@pytest.mark.parametrize('wakes', [True, False])
def test_log_made_too_late(nodes, nats, place, wakes):
    """A node that stands still before its log is made, until others have ended what there was of it, leaves no stream that is
    nobody's; nor does one that dies with the question on its way."""
    a, b = nodes('a'), nodes('b')
    start_all(b)
    wires = [place.keep(StoppingWire(server.port)) for server in nats.servers]
    for wire in wires:
        wire.daemon = a
    a.cluster['servers'] = [wire.url for wire in wires]
    a.write_config()
    a.start(wait=False)
    until(lambda: any(wire.held for wire in wires), a.log)
    number = number_of(b, 'a')
    until(lambda: owner(nats, number) == f'1 2 {number_of(b, "b")} adopted', lambda: f'{owner(nats, number)}\n{b.log()}')
    if not wakes:
        a.kill()
    for wire in wires:
        wire.daemon = None
        wire.mend()
    if not wakes:
        b.wait_log(f'log {number} was made when its node was gone, and is removed', PATIENCE + SPAN)
        assert f'SLUICE_LOG_{number}' not in logs(nats)
        return
    a.signal(signal.SIGCONT)
    until(lambda: number_of(b, 'a') != number, a.log)
    wait_open(a)
    assert set(logs(nats)) == {f'SLUICE_LOG_{number_of(b, name)}' for name in 'ab'}, a.log()


def test_newer_frames(nodes, nats):
    """A log that a newer version wrote to is given back, by a node that has just begun its own log too."""
    a, b = nodes('a'), nodes('b')
    start_all(a, b)
    number = number_of(a, 'a')
    lose_spool(a)
    client = NatsClient(nats.servers[0])
    client.publish(f'sluice.log.{number}', bytes.fromhex('0200010000000000000001000000000000000100000000' '13d04446d6ebad32'))
    client.settle()
    client.close()
    b.wait_log('has frames of a newer version of sluice, and is left to nodes that have it')
    until(lambda: ' given ' in owner(nats, number), lambda: f'{owner(nats, number)}\n{b.log()}')
    assert 'is taken over' not in b.log()


def test_stop_while_keys_change(nodes, nats):
    """What others do to the keys of logs is told to a node until its connection is closed, and to nobody behind that."""
    a = nodes('a')
    start_all(a)
    is_over = threading.Event()

    def change():
        client = NatsClient(nats.servers[0])
        while not is_over.is_set():
            for _ in range(200):
                client.put('sluice_owner', '60000', b'1 1 60000 adopted')
            client.settle()
        client.close()
    changers = [threading.Thread(target=change) for _ in range(4)]
    for changer in changers:
        changer.start()
    try:
        assert a.stop() == 0, a.log()
    finally:
        is_over.set()
        for changer in changers:
            changer.join()
