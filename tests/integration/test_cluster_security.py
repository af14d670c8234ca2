"""The way to the servers of a cluster: encrypted, with a certificate on both sides, and a user's credentials."""
import json
import pathlib
import re
import shutil
import time

import pytest

from support import api
from support.certificates import Authority
from support.client import message, submit
from support.listening_server import ListeningServer
from support.nats import NatsCluster, section
from support.nats_account import Account
from support.wait import PATIENCE, until


UNKNOWN = 'TLS handshake error: (?!EOF)'  # the question for its version ends the connection before it begins
REFUSALS = {'credentials': 'authentication error', 'no credentials': 'authentication error', 'authority': UNKNOWN,
            'certificate': 'failed to verify certificate', 'no TLS': UNKNOWN}


class World:
    """A server that lets in who shows a certificate of its authority and a token of its account."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        for name in ('ours', 'other'):
            (self.folder / name).mkdir()
        self.authority, self.other = Authority(str(self.folder / 'ours')), Authority(str(self.folder / 'other'))
        self.account = Account(self.folder)
        server, client = self.authority.leaf('127.0.0.1'), self.authority.leaf(common_name='node')
        self.right = {'tls_ca_file': self.authority.cert, 'tls_certificate': client.cert, 'tls_key': client.key,
                      'credentials': self.account.credentials('user')}
        self.server_leaf = server
        self.nats = NatsCluster(self.folder / 'nats', count=1, extra=self.extra(self.account, self.authority))

    def extra(self, account, authority):
        """Of a server that believes these two."""
        leaf = self.server_leaf
        return (f'{account.server_section}\ntls {{ cert_file: "{leaf.cert}", key_file: "{leaf.key}", ca_file: '
                f'"{authority.cert}", verify: true }}')

    def restart(self, account, authority):
        """Returns what the server says from here on."""
        server, self.nats.extra = self.nats.servers[0], self.extra(account, authority)
        server.kill()
        log = server.folder / 'log'
        begin = log.stat().st_size
        server.start()
        return lambda: log.read_text('utf-8', 'replace')[begin:]

    def changed(self, what):
        stranger = Account(self.folder / 'other')
        leaf = self.other.leaf(common_name='node')
        wrong = {'credentials': {'credentials': stranger.credentials('stranger')},
                 'no credentials': {'credentials': None},
                 'authority': {'tls_ca_file': self.other.cert},
                 'certificate': {'tls_certificate': leaf.cert, 'tls_key': leaf.key},
                 'no TLS': {'tls_ca_file': None, 'tls_certificate': None, 'tls_key': None}}[what]
        return {key: value for key, value in {**self.right, **wrong}.items() if value is not None}


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp('security'))
    yield made
    made.nats.close()


def test_who_has_all_of_it_joins(place, world):
    daemons = [place.sluice(cluster=section(name, world.nats, **world.right)) for name in ('safe-a', 'safe-b')]
    for daemon in daemons:
        until(lambda: {row['node'] for row in daemon.query('cluster') if row.get('state') == 'alive'} == {'safe-a', 'safe-b'},
              daemon.log)
    assert daemons[0].command('check').returncode == 0
    assert all(daemon.stop() == 0 for daemon in daemons)


@pytest.mark.parametrize('what', sorted(REFUSALS))
def test_who_lacks_some_of_it_stays_alone(place, world, what):
    """It is one side's certificate that the other one does not know, or no user of the account."""
    log = world.nats.servers[0].folder / 'log'
    begin = log.stat().st_size
    daemon = place.sluice(cluster=section('unsafe', world.nats, **world.changed(what)))
    until(lambda: re.search(REFUSALS[what], log.read_text('utf-8')[begin:]), lambda: log.read_text('utf-8')[begin:])
    assert daemon.query('cluster') == []  # who joins sees himself


def copied(leaf, folder):
    """The certificate of the node in a place of its own, where another one may be put in its stead."""
    folder.mkdir(exist_ok=True)
    return {'tls_certificate': shutil.copy(leaf['tls_certificate'], folder / 'node.pem'),
            'tls_key': shutil.copy(leaf['tls_key'], folder / 'node.key')}


def is_whole(daemon):
    """Both nodes are there, the other one answers, and the log works: that is all connections of a node."""
    *rows, last = [json.loads(line) for line in api.get(daemon, '/v1/cluster').body.splitlines()]
    return (sum(row.get('state') == 'alive' for row in rows) == 2 and last['log']['open'] and
            daemon.command('counts', '--all-nodes').returncode == 0)


@pytest.mark.parametrize('what', ['credentials', 'certificate'])
def test_who_was_refused_for_a_while_comes_back(place, world, what):
    """The servers know other accounts for a while, which ends libnats's connections for good, or believe another authority from
    now on, and the certificate of the nodes is renewed when they have been refused. All of a node's connections come back."""
    files = copied(world.right, world.folder / what)
    receiver = place.receiver()
    daemons = [place.sluice(cluster=section(f'{what}-{name}', world.nats, **{**world.right, **files}, log=True),
                            routes={'*': ('smtp', receiver.nexthop)}) for name in 'ab']
    for daemon in daemons:
        until(lambda: is_whole(daemon), daemon.log)
    wrong = (Account(world.folder / 'other'), world.authority) if what == 'credentials' else (world.account, world.other)
    said = world.restart(*wrong)
    until(lambda: len(re.findall(REFUSALS[what], said())) >= 30, said)
    if what == 'credentials':
        world.restart(world.account, world.authority)
    else:
        leaf = world.other.leaf(common_name='node')
        shutil.copy(leaf.key, files['tls_key'])
        shutil.copy(leaf.cert, files['tls_certificate'])
    for i, daemon in enumerate(daemons):
        until(lambda: is_whole(daemon), daemon.log)
        submit(daemon, 'a@a.test', [f'{what}{i}@back.test'], message())
        daemon.wait_event('Delivery', f'{what}{i}@back.test')
    assert all(daemon.stop() == 0 for daemon in daemons)
    world.restart(world.account, world.authority)


class Mute(ListeningServer):
    """A server that asks for TLS, and then reads all and says nothing any more, or, with `drips`, a byte now and then, of an
    answer that would take hours. kept: how often it heard a greeting"""

    INFO = {'server_id': 'mute', 'server_name': 'mute', 'version': '2.12.0', 'proto': 1, 'headers': True, 'jetstream': True,
            'max_payload': 1 << 20, 'tls_required': True}

    def __init__(self, port=0, drips=False):
        self.kept, self.drips = 0, drips
        super().__init__(port=port)

    def _serve(self, sock, peer):
        try:
            sock.sendall(b'INFO ' + json.dumps(self.INFO).encode() + b'\r\n')
            self.kept += bool(sock.recv(65536))  # a greeting
            if self.drips:
                sock.sendall(b'\x16\x03\x03\x40\x00')  # so many bytes follow
            while self.drips:
                sock.sendall(b'\x02')
                time.sleep(0.3)
            while sock.recv(65536):
                pass
        except OSError:
            pass
        sock.close()


@pytest.mark.parametrize('tls, drips', [(True, False), (False, False), (True, True)])
def test_server_that_is_silent_after_it_asked_for_tls(place, world, tls, drips):
    """Neither `check` nor the daemon's end waits for it, also where the node was in the cluster before."""
    mute = Mute(drips=drips)
    place.keep(mute)
    way = world.right if tls else {'credentials': world.right['credentials']}
    daemon = place.sluice(cluster=section('waits', world.nats, **way, servers=[f'nats://127.0.0.1:{mute.port}'], log=True))
    until(lambda: mute.kept > 0, daemon.log)
    done = daemon.command('check', timeout=PATIENCE)
    assert done.returncode != 0 and b'does not let this node in' in done.stdout + done.stderr
    assert daemon.command('cluster', timeout=10).returncode == 0
    assert daemon.stop() == 0


def test_server_that_becomes_silent_when_it_asked_for_tls(place, world):
    daemon = place.sluice(cluster=section('waits-later', world.nats, **world.right, log=True))
    server = world.nats.servers[0]
    until(lambda: 'log: it works' in daemon.log(), daemon.log)
    server.kill()
    mute = Mute(server.port)
    try:
        until(lambda: mute.kept > 3, daemon.log)
        assert daemon.stop() == 0
    finally:
        mute.close()
        server.start()
        world.nats.wait_ready()
