"""The log of a node: what it accepted is on the servers before it says 250, and a spool is made of it where the disk is
lost."""
import base64
import collections
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import threading
import time

import pytest

from support import api, exposition, injection
from support.client import Client, message, submit
from support.daemon import PROGRAM
from support.nats import NatsClient, NatsCluster, section
from support.tools import Account, Sink, Source
from support.wait import PATIENCE, best_of, until
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
    client = NatsClient(servers.servers[0])
    client.forget_logs()
    client.close()
    return servers


def log_section(name, nats, **options):
    return section(name, nats, log=True, **options)


def wait_open(daemon, patience=PATIENCE):
    daemon.wait_log('log: it works', patience)


def lose_spool(daemon):
    """kill -9, and the disk is gone."""
    daemon.kill()
    shutil.rmtree(daemon.spool)


def retellings(daemon):
    """How often all mail has been told to the servers anew."""
    return exposition.value(exposition.parse(api.get(daemon, '/metrics').body), 'sluice_log_retellings_total')


def wait_told(daemon, before):
    """Until it has been once more than `before`. That none is under way would not do: one that is due may not have begun."""
    until(lambda: retellings(daemon) > before and log_of(daemon)['open'] and not log_of(daemon)['retelling'],
          lambda: (before, retellings(daemon), log_of(daemon)))


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
    settled_place(nats, 'disk')
    lose_spool(daemon)
    os.makedirs(os.path.join(daemon.spool, 'lost+found'))  # a new disk, for the daemon's user
    if os.geteuid() == 0:
        os.chown(daemon.spool, 65534, 65534)
    was = os.stat(daemon.spool)
    assert 30 <= restore(daemon, 'disk') < 30 + 20  # the last results may not have come so far
    assert os.stat(daemon.spool).st_ino == was.st_ino
    assert os.stat(os.path.join(daemon.spool, 'data.mdb')).st_uid == was.st_uid
    daemon.start()
    wait_open(daemon)
    daemon.command('resume', '--all')
    for i in range(30):
        daemon.wait_event('Delivery', f'held{i}@held.test')


def test_disk_lost_within_a_message(nats, place):
    """What the log has of a message that did not come to its end gets into no other one, and nobody gets its id."""
    receiver = place.receiver()
    daemon = place.sluice(cluster=log_section('within', nats), routes={'*': ('smtp', receiver.nexthop)})
    wait_open(daemon)
    with Client(daemon) as client:
        client.ehlo()
        client.mail('large@a.test', ['large@x.test'])
        client.send(b'DATA\r\n')
        assert client.reply().code == 354
        before = log_of(daemon)['place']
        client.send(b'Subject: large\r\n\r\n' + (b'y' * 70 + b'\r\n') * 2000)
        until(lambda: log_of(daemon)['place'] > before, lambda: log_of(daemon))  # it has a piece
        lose_spool(daemon)
    assert restore(daemon, 'within') == 0
    daemon.start()
    wait_open(daemon)
    daemon.command('suspend', '--all', '--reason', 'x', '--here')
    for i in range(3):
        submit(daemon, 'small@a.test', [f'r{i}@x.test'], message(text=f'{i}\r\n'))
    lose_spool(daemon)
    assert restore(daemon, 'within') == 3
    daemon.start()
    wait_open(daemon)
    receiver.wait(3)
    assert sorted((m.recipients, m.content) for m in receiver.messages) == [
        ([f'r{i}@x.test'], message(text=f'{i}\r\n')) for i in range(3)]
    received = [int(e['id'], 16) for e in daemon.of('Reception')]
    assert min(received) & 0xffffffffffff > 1 << 20, received  # what the first life had reserved


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
    assert 1.9 < time.monotonic() - begin < 20  # and not when the servers go on
    assert refusal(daemon).startswith('451 4.3.0 Cluster not available'), refusal(daemon)
    answer = injection.post(daemon, {'from': 'a@a.test', 'to': 'b@b.test', 'text': 'x'})
    assert answer.status == 503 and b'servers do not store mail' in answer.body, answer.body
    assert b'servers do not store it' in daemon.command('why', 'x.test').stdout
    assert daemon.command('resume', '--all').returncode == 0
    receiver.wait(5)
    for server in nats.servers:
        server.signal(signal.SIGCONT)
    until(lambda: refusal(daemon) is None, daemon.log)
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
    assert retellings(daemon) >= 2
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
    end, said, why = time.monotonic() + 600, '', b''
    # 451: the servers are slow for once; and a retelling that ends makes room once more
    while b'log on the servers is full' not in why:
        try:
            submit(daemon, 'a@a.test', [f'r{sent}@x.test'], big)
            sent += 1
        except AssertionError as refused:
            said = str(refused).splitlines()[0]
            why = daemon.command('why', 'x.test').stdout
        assert sent < 300 and time.monotonic() < end, (sent, log_of(daemon), said)
    assert said.startswith("452 4.3.1 Insufficient room in the cluster's log"), said
    assert sent > 150
    assert daemon.stop() == 0  # more room for it, and less again, which takes nothing away
    for size in ('512M', '256M'):
        daemon.cluster['max_bytes'] = size
        daemon.write_config()
        daemon.start()
        wait_open(daemon)
        assert stream_request(nats, 'INFO', 'full')['config']['max_bytes'] == int(size[:-1]) << 20
        until(lambda: (refusal(daemon) is None) == (size == '512M'), lambda: refusal(daemon))
        assert daemon.stop() == 0
    daemon.start()
    wait_open(daemon)
    assert daemon.command('resume', '--all').returncode == 0
    until(lambda: daemon.totals()['messages'] == 0, lambda: f'{log_of(daemon)}\n{daemon.log()[-2000:]}')
    until(lambda: refusal(daemon) is None, lambda: f'{log_of(daemon)}\n{daemon.log()[-2000:]}')
    assert len(receiver.messages) == sent


def test_killed_while_all_is_told_anew(place):
    """Again and again, with so much mail that the log has no room for what the dead told and for all of it once more."""
    one = NatsCluster(place.subfolder('nats'), 1)
    place.keep(one)
    daemon = place.sluice(cluster=log_section('anew', one, max_bytes='256M'))
    wait_open(daemon)
    daemon.command('suspend', '--all', '--reason', 'x', '--here')
    noise = os.urandom(4 << 20).translate(bytes(128 + i % 128 for i in range(256)))  # which cannot be compressed much
    body = b'Subject: x\r\n\r\n' + b''.join(noise[i:i + 900] + b'\r\n' for i in range(0, len(noise), 900))

    def is_taken(i):
        try:
            submit(daemon, 'a@a.test', [f'r{i}@x.test'], body)
            return True
        except AssertionError:  # there is no room for the moment
            return False

    def size():
        return stream_request(one, 'INFO', 'anew')['state']['bytes']

    for i in range(22):
        until(lambda i=i: is_taken(i), daemon.log)
    until(lambda: not log_of(daemon)['retelling'] and size() < 100e6, lambda: log_of(daemon))
    for i in range(3):
        daemon.kill()
        before = size()
        daemon.start(wait=False)  # it may have told all, and purged what was before, until it says that it runs
        if i < 2:
            until(lambda: size() > before + (40e6, 20e6)[i], daemon.log)  # of 92e6, and of the 52e6 that are left
        else:
            wait_open(daemon)
        assert i == 0 or 'that goes on where it ended' in daemon.log()
    until(lambda: refusal(daemon) is None and size() < 130e6 and not log_of(daemon)['retelling'], lambda: log_of(daemon))
    lose_spool(daemon)
    assert restore(daemon, 'anew') == 22


def test_events_of_a_batch_that_failed(nats, place):
    """What a batch changes stands in the event log once, however often it is written."""
    receiver = place.receiver(answers=lambda verb, argument, session: '550 5.1.1 No such user' if verb == 'RCPT' else None)
    daemon = place.sluice(cluster=log_section('events', nats), routes={'*': ('smtp', receiver.nexthop)},
                          suppressions={'*': {'hard_bounce': '1'}})
    wait_open(daemon)
    daemon.command('suspend', '--all', '--reason', 'x', '--here')
    for i in range(3):
        submit(daemon, 'a@a.test', [f'r{i}@x.test'], message())
    for server in nats.servers:
        server.signal(signal.SIGSTOP)
    daemon.command('resume', '--all')
    daemon.wait_log('log: it does not work')
    for server in nats.servers:
        server.signal(signal.SIGCONT)
    daemon.wait_empty()  # the notices come back to nobody
    for kind in ('SuppressionAdded', 'Bounce'):
        assert sorted(e['recipient'] for e in daemon.of(kind)) == ['a@a.test'] * (3 if kind == 'Bounce' else 1) + [
            f'r{i}@x.test' for i in range(3)], kind


@pytest.mark.parametrize('what', ['DELETE', 'PURGE'])
def test_log_is_lost(nats, place, what):
    """All mail is told to the servers anew when they lost the log, or somebody emptied it."""
    receiver = place.receiver()
    daemon = place.sluice(cluster=log_section('gone', nats), routes={'*': ('smtp', receiver.nexthop)})
    wait_open(daemon)
    daemon.command('suspend', '--domain', 'x.test', '--reason', 'x', '--here')
    for i in range(30):
        submit(daemon, 'a@a.test', [f'r{i}@x.test'], message())
    wait_told(daemon, 0)
    before = retellings(daemon)
    assert stream_request(nats, what, 'gone')['success'] is True
    daemon.wait_log('the servers have lost it')
    wait_told(daemon, before)
    submit(daemon, 'a@a.test', ['r30@x.test'], message())
    lose_spool(daemon)
    assert restore(daemon, 'gone') == 31


def packed(size, blocks):
    """A frame of zstd (RFC 8878) that says that it has so many bytes."""
    return b'\x28\xb5\x2f\xfd\xe0' + size.to_bytes(8, 'little') + blocks


def test_strange_messages_in_the_log(nats, place):
    """What is no frame counts for nobody, whatever it claims to be: the node writes on behind it, and a reader passes
    it over."""
    receiver = place.receiver()
    daemon = place.sluice(cluster=log_section('strange', nats), routes={'*': ('smtp', receiver.nexthop)})
    wait_open(daemon)
    daemon.command('suspend', '--domain', 'x.test', '--reason', 'x', '--here')
    raw = (1000 << 3 | 1).to_bytes(3, 'little') + b'x' * 1000
    hostile = [b'', b'x', bytes(2000), packed(1000, raw), packed(1000, raw[:500]), packed(999, raw), packed(1 << 60, raw),
               packed(512 * 1024, raw), packed(0, b''), b'\x28\xb5\x2f\xfd', os.urandom(3000)]
    client = NatsClient(nats.servers[0])
    for i, data in enumerate(hostile):
        for headers in ('', 'Sluice-Encoding: zstd\r\n', 'Sluice-Encoding: other\r\n'):
            client.publish(f'sluice.log.{number_of(client, "strange")}', data, headers)
        client.settle()
        submit(daemon, 'a@a.test', [f'r{i}@x.test'], message(text='text that is worth compressing\r\n' * 100))
    client.close()
    lose_spool(daemon)
    assert restore(daemon, 'strange') == len(hostile)
    daemon.start()
    wait_open(daemon)
    daemon.command('resume', '--all')
    for i in range(len(hostile)):
        daemon.wait_event('Delivery', f'r{i}@x.test')


def test_servers_go_back(place):
    """They come back with what they had some time ago, as after a power cut without a sync."""
    one = NatsCluster(place.subfolder('nats'), 1)
    place.keep(one)
    daemon = place.sluice(cluster=log_section('back', one))
    wait_open(daemon)
    daemon.command('suspend', '--all', '--reason', 'x', '--here')
    server, = one.servers
    for i in range(6):
        submit(daemon, 'a@a.test', [f'r{i}@x.test'], message())
        if i == 2:
            server.kill()
            shutil.copytree(server.folder / 'store', server.folder / 'before')
            server.start()
            one.wait_ready()
            until(lambda: refusal(daemon) is None, daemon.log)
    wait_told(daemon, 0)
    before = retellings(daemon)
    server.kill()
    shutil.rmtree(server.folder / 'store')
    os.rename(server.folder / 'before', server.folder / 'store')
    server.start()
    one.wait_ready()
    daemon.wait_log('the servers have lost it')
    wait_told(daemon, before)
    lose_spool(daemon)
    assert restore(daemon, 'back') == 6


def test_disk_is_full_for_long(nats, place):
    """Results that cannot be committed wait; the log does not get them again and again."""
    is_full = threading.Event()
    receiver = place.receiver(answers=lambda verb, argument, session: '451 4.3.0 ' + 'later ' * 100
                              if verb == '.' and is_full.wait(3 * PATIENCE) else None)
    daemon = place.sluice(cluster=log_section('disk-full', nats), routes={'*': ('smtp', receiver.nexthop)},
                          options={'minimal_backoff_time': '300s', 'maximal_backoff_time': '300s'},
                          transports={'smtp': {'destination_recipient_limit': 100}})
    wait_open(daemon)
    submit(daemon, '', [f'r{i}@x.test' for i in range(1000)], message())
    until(lambda: not log_of(daemon)['retelling'], lambda: log_of(daemon))
    settled_place(nats, 'disk-full')
    size, limit = os.path.getsize(os.path.join(daemon.spool, 'data.mdb')), resource.RLIMIT_FSIZE
    _, hard = resource.prlimit(daemon.process.pid, limit)
    resource.prlimit(daemon.process.pid, limit, (size, hard))
    is_full.set()
    daemon.wait_log('commit failed')
    settled_place(nats, 'disk-full', 2.2)  # four trials
    resource.prlimit(daemon.process.pid, limit, (hard, hard))
    until(lambda: [m['state'] for m in daemon.query('messages')] == ['deferred'], lambda: daemon.query('messages'))
    until(lambda: not log_of(daemon)['retelling'], lambda: log_of(daemon))
    lose_spool(daemon)
    assert restore(daemon, 'disk-full') == 1
    daemon.start()
    assert daemon.query('messages')[0]['attempts'] == 1


def test_replies_to_many_recipients(nats, place, report_table):
    """The reply to each recipient is told whole; what the servers keep of them is little."""
    chance = random.Random(SEED)
    to = [f'{"".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=9))}@x.test' for _ in range(1000)]
    said = 'is over quota, and this mailbox takes no further messages until its owner has made room. Please try again later. x12'
    receiver = place.receiver(answers=lambda verb, argument, session: f'452 4.2.2 {argument} {said}' if verb == 'RCPT' else None)
    daemon = place.sluice(cluster=log_section('replies', nats), routes={'*': ('smtp', receiver.nexthop)},
                          transports={'smtp': {'destination_recipient_limit': 1000}})
    wait_open(daemon)
    daemon.command('suspend', '--all', '--reason', 'x', '--here')

    def figures():
        until(lambda: not log_of(daemon)['retelling'], lambda: log_of(daemon))
        written = exposition.value(exposition.parse(api.get(daemon, '/metrics').body), 'sluice_log_written_bytes_total')
        return written, stream_request(nats, 'INFO', 'replies')['state']['bytes']

    at = [figures()]
    submit(daemon, '', to, message())
    at.append(figures())
    assert daemon.command('resume', '--all').returncode == 0
    until(lambda: figures()[0] > at[1][0] + 200 * len(to), lambda: figures())  # all of them; each alone has more than that
    at.append(figures())
    (address, kept_address), (reply, kept_reply) = ([(b - a) / len(to) for a, b in zip(*two)] for two in zip(at, at[1:]))
    report_table('bytes in the log', f'a recipient {address:.1f}, kept {kept_address:.1f}; the reply {reply:.1f}, kept {kept_reply:.1f}')
    assert kept_reply < reply / 4


def test_servers_that_take_no_long_frames(place):
    """Said at once, and not when a batch is long for the first time."""
    one = NatsCluster(place.subfolder('nats'), 1)
    place.keep(one)
    server, = one.servers
    server.kill()
    server.options = 'max_payload: 200000\n'
    server.start()
    one.wait_ready()
    daemon = place.sluice(cluster=log_section('short', one))
    daemon.wait_log('log: it cannot be opened: max_payload of the servers must be 1 MB')
    assert refusal(daemon).startswith('451 '), refusal(daemon)
    server.kill()
    server.options = ''
    server.start()
    wait_open(daemon)


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
    until(lambda: sum(line['event'] == 'acked' for line in source.lines()) > 100, daemon.log)
    restored = restore(other, 'taken')
    daemon.wait_log('another process writes the log of node taken')
    assert refusal(daemon).startswith('451 '), refusal(daemon)
    source.end()
    accepted = [line for line in source.lines() if line['event'] == 'acked']
    assert len(accepted) > 100 and len(accepted) <= restored <= len(accepted) + 20, (len(accepted), restored)
    assert restore_fails(other) == 'there is a spool in'


def test_interrupted_restore(nats, place):
    """What it left, of another node even, is not in the spool that is made next."""
    daemons = [place.sluice(cluster=log_section(name, nats)) for name in ('one', 'two')]
    for count, daemon in enumerate(daemons, 2):
        wait_open(daemon)
        daemon.command('suspend', '--all', '--reason', 'x', '--here')
        for i in range(count):
            submit(daemon, f'{daemon.cluster["node"]}@a.test', [f'r{i}@x.test'], message())
        lose_spool(daemon)
    assert restore(daemons[0], 'two') == 3
    folder = os.path.join(daemons[0].spool, 'from-log')
    os.mkdir(folder)
    os.rename(os.path.join(daemons[0].spool, 'data.mdb'), os.path.join(folder, 'data.mdb'))
    assert restore(daemons[0], 'one') == 2
    assert not os.path.exists(folder)
    daemons[0].start()
    assert [m['sender'] for m in daemons[0].query('messages')] == ['one@a.test'] * 2


def number_of(client, node):
    """By which its log goes."""
    answer = client.request('$JS.API.STREAM.MSG.GET.KV_sluice_nodes',
                            json.dumps({'last_by_subj': '$KV.sluice_nodes.all/numbers'}).encode())
    return json.loads(base64.b64decode(answer['message']['data']))['nodes'][node]


def stream_request(nats, what, node, **data):
    """Of the servers, about a node's log."""
    client = NatsClient(nats.servers[0])
    answer = client.request(f'$JS.API.STREAM.{what}.SLUICE_LOG_{number_of(client, node)}', json.dumps(data).encode() if data else b'')
    client.close()
    assert 'error' not in answer, answer
    return answer


def last_place(nats, node):
    return stream_request(nats, 'INFO', node)['state']['last_seq']


def settled_place(nats, node, span=1.0):
    """When nothing more has come to the log for so long."""
    def place():
        before = last_place(nats, node)
        time.sleep(span)
        return before if last_place(nats, node) == before else None
    return until(place, lambda: f'nothing new in the log for {span} s: place {last_place(nats, node)}')


def test_purge_during_restore(nats, place):
    """Who was fenced may still purge what a retelling had told anew just before."""
    receiver = place.receiver()
    daemon = place.sluice(cluster=log_section('purge', nats), routes={'*': ('smtp', receiver.nexthop)})
    wait_open(daemon)
    with Client(daemon) as client:
        client.ehlo()
        for i in range(300):
            client.mail('a@a.test', [f'gone{i}@x.test'])
            client.data(message())
    daemon.wait_empty()
    daemon.command('suspend', '--all', '--reason', 'x', '--here')
    needed = settled_place(nats, 'purge') + 1
    for i in range(3):
        submit(daemon, 'a@a.test', [f'held{i}@x.test'], message())
    lose_spool(daemon)
    repair = subprocess.Popen([PROGRAM, 'repair', '-c', daemon.config_path, '--from-log', 'purge'], stderr=subprocess.PIPE,
                              text=True)
    until(lambda: os.path.exists(daemon.spool + '/from-log/data.mdb'), lambda: 'no spool')
    time.sleep(0.05)  # it reads
    repair.send_signal(signal.SIGSTOP)
    stream_request(nats, 'PURGE', 'purge', seq=needed)
    repair.send_signal(signal.SIGCONT)
    assert repair.communicate()[1].startswith('3 messages in')


def test_foreign_bytes_in_the_log(nats, place):
    """Also in the first place that it has: they are passed over, by the node and by the reader."""
    daemon = place.sluice(cluster=log_section('bytes', nats))
    wait_open(daemon)
    daemon.command('suspend', '--all', '--reason', 'x', '--here')
    client = NatsClient(nats.servers[0])
    for data in (b'hello', b'', bytes(600000)):
        client.publish(f'sluice.log.{number_of(client, "bytes")}', data)
    client.settle()
    until(lambda: last_place(nats, 'bytes') >= 4, lambda: last_place(nats, 'bytes'))
    first = last_place(nats, 'bytes')
    for i in range(3):
        submit(daemon, 'a@a.test', [f'r{i}@x.test'], message())
    stream_request(nats, 'PURGE', 'bytes', seq=first)
    client.close()
    lose_spool(daemon)
    assert restore(daemon, 'bytes') == 3


def test_owner_is_lost(nats, place):
    """The next epoch is greater than what the log has, also when the key that counts them is gone: else all that is
    accepted until the log was told anew would be void."""
    daemon = place.sluice(cluster=log_section('owner', nats))
    wait_open(daemon)
    daemon.command('suspend', '--all', '--reason', 'x', '--here')
    for i in range(40):
        submit(daemon, 'a@a.test', [f'r{i}@x.test'], message(text=('x' * 70 + '\r\n') * 9000))
    more = 0

    def accept():
        """Whether it was accepted while all was told anew, which does not take long."""
        nonlocal more
        assert daemon.stop() == 0
        client = NatsClient(nats.servers[0])
        client.request('$JS.API.STREAM.PURGE.KV_sluice_owner',
                       json.dumps({'filter': f'$KV.sluice_owner.{number_of(client, "owner")}'}).encode())
        client.close()
        daemon.start()
        wait_open(daemon)
        submit(daemon, 'a@a.test', [f'more{more}@x.test'], message())
        more += 1
        return log_of(daemon)['retelling']
    assert best_of(5, accept, bool)
    lose_spool(daemon)
    assert restore(daemon, 'owner') == 40 + more


def restore_fails(daemon):
    done = subprocess.run([PROGRAM, 'repair', '-c', daemon.config_path, '--from-log', 'taken'], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode != 0, done
    return re.match(r'sluice repair: (there is a spool in)', done.stderr).group(1)


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
        assert self.daemon.stop() == 0
        self.lose('stop, then disk lost')


def story(daemon, wrong):
    """What a receiver should not have got, and all events of those messages, whose ids tell which was taken for which."""
    people = {recipient for line in wrong if isinstance(line, dict) for recipient in line['recipients']}
    ids = {e['id'] for e in daemon.of() if e.get('recipient') in people and 'id' in e}
    return json.dumps({'wrong': wrong, 'events': [e for e in daemon.of() if e.get('id') in ids]})


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
    daemon.wait_empty()
    assert daemon.stop() == 0
    account = Account(sources, sink)
    duplicates = account.duplicates()
    counts = per_crash(loser.times, duplicates)
    with capsys.disabled():
        print(f'\nseed {SEED}: {len(loser.restored)} disks lost in {time.monotonic() - begin:.0f} s ({loser.kinds}), '
              f'{sum(loser.restored)} messages restored; {len(account.acked)} accepted, {len(account.lost())} lost, '
              f'{len(duplicates)} repeated, at most {max(counts)} by one crash; bound '
              f'{max(b for b in loser.bounds if b is not None)} a crash')
    assert not account.lost(), account.lost()[:10]
    assert not account.unexpected(), story(daemon, account.unexpected())
    twice = [id for id, times in collections.Counter(e['id'] for e in daemon.of('Reception')).items() if times > 1]
    assert not twice, json.dumps([e for e in daemon.of() if e.get('id') in twice[:3]])
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
        daemon.wait_empty()
        seconds = time.monotonic() - begin
        used = [processor_seconds(pid) - b for pid, b in zip(pids, before)]
        folder = place.subfolder('tools')
        steady = place.keep(Source(folder, 'steady', f'127.0.0.1:{daemon.port}', '--messages', str(count // 4),
                                   '--connections', '100', '--size', '4096', '--rate', '1000', '--json',
                                   os.path.join(folder, 'numbers')))
        steady.wait(300)
        with open(os.path.join(folder, 'numbers'), encoding='ascii') as numbers:
            latency = json.load(numbers)
        daemon.wait_empty()
        assert len({line['id'] for line in sink.lines()}) == count + count // 4
        lines.append(f'{name:8} {count / seconds:8.0f} messages/s  {used[0] / count * 1e6:6.1f} us of the node, '
                     f'{sum(used[1:]) / count * 1e6:6.1f} us of the servers a message; at 1,000/s {latency_text(latency)}')
        assert daemon.stop() == 0
    report_table('what the log costs', '\n'.join(lines))


def latency_text(numbers):
    return ', '.join(f'{name} {numbers["answer"][name] * 1000:.1f} ms' for name in ('p50', 'p90', 'p99'))
