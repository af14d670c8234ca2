"""Nodes take over the mail of one that is gone: what it accepted is delivered by others, and it begins anew when it returns.
The clock by which nodes judge each other runs HASTE times as fast as time."""
import json
import os
import random
import shutil
import signal
import time

import pytest

from support import api
from support.client import message, submit
from support.nats import NatsClient, NatsCluster, section
from support.tools import Account, Sink, Source
from support.wait import until
from test_crash import FLOWS, LISTENER, LOAD, SEED, TENANTS
from test_log import lose_spool, refusal, wait_open

HASTE = 10
TAKEOVERS = int(os.environ.get('TAKEOVERS', '2'))


@pytest.fixture(scope='module')
def servers(tmp_path_factory):
    cluster = NatsCluster(tmp_path_factory.mktemp('nats'))
    yield cluster
    cluster.close()


@pytest.fixture
def nats(servers, monkeypatch):
    monkeypatch.setenv('SLUICE_CLUSTER_HASTE', str(HASTE))
    servers.mend()
    client = NatsClient(servers.servers[0])  # what the last test left is nobody's any more
    for stream in client.request('$JS.API.STREAM.NAMES')['streams'] or []:
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


def start_all(*daemons):
    for daemon in daemons:
        daemon.start(wait=False)
    for daemon in daemons:
        wait_open(daemon)


def hold(daemon):
    assert daemon.command('suspend', '--all', '--reason', 'x', '--here').returncode == 0


def wait_received(daemon, expected, patience=30):
    until(lambda: len(received(daemon)) >= len(expected), lambda: f'{received(daemon)}\n{daemon.log()[-3000:]}', patience)
    assert received(daemon) == sorted(expected)


def test_disk_lost(nodes):
    """kill -9 and the spool deleted: all that was accepted is delivered by the other node, under the same ids."""
    a, b = nodes('a'), nodes('b')
    start_all(a, b)
    hold(a)
    for i in range(30):
        submit(a, 'a@a.test', [f'r{i}@x.test', f's{i}@x.test'], message(text=('x' * 70 + '\r\n') * (3000 if i % 10 == 0 else 20)))
    ids = sorted(m['id'] for m in a.query('messages'))
    lose_spool(a)
    begin = time.monotonic()
    wait_received(b, [f'{c}{i}@x.test' for c in 'rs' for i in range(30)])
    assert 5 < time.monotonic() - begin < 20
    assert 'is taken over: 30 messages' in b.log()
    assert sorted({e['id'] for e in b.wait_events('Delivery', count=60)}) == ids
    assert len({i[:4] for i in ids}) == 1 and ids[0][:4] != '0000'


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


def test_taker_killed(nodes):
    """The taker dies again and again in the middle, and loses its disk at last: others go on where it stopped."""
    a, b, c = nodes('a'), nodes('b'), nodes('c')
    start_all(a, b)
    hold(a)
    for i in range(1200):
        submit(a, 'a@a.test', [f'r{i}@x.test'], message(text=('x' * 70 + '\r\n') * 60))
    hold(b)
    lose_spool(a)
    for kill in range(3):
        b.wait_log('is ours, from epoch', 30)
        until(lambda: len(b.query('messages', '--limit', '2000')) > 100 * (kill + 1), b.log, 20)
        b.kill()
        if kill < 2:
            b.start()
    shutil.rmtree(b.spool)
    c.start()
    wait_received(c, [f'r{i}@x.test' for i in range(1200)], 60)
