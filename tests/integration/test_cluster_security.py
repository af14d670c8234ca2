"""The way to the servers of a cluster: encrypted, with a certificate on both sides, and a user's credentials."""
import pathlib
import re

import pytest

from support.certificates import Authority
from support.nats import NatsCluster, section
from support.nats_account import Account
from support.wait import until


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
        self.nats = NatsCluster(self.folder / 'nats', count=1, extra=f'''{self.account.server_section}
tls {{ cert_file: "{server.cert}", key_file: "{server.key}", ca_file: "{self.authority.cert}", verify: true }}''')

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
              daemon.log, 20)
    assert daemons[0].command('check').returncode == 0
    assert all(daemon.stop() == 0 for daemon in daemons)


@pytest.mark.parametrize('what', sorted(REFUSALS))
def test_who_lacks_some_of_it_stays_alone(place, world, what):
    """It is one side's certificate that the other one does not know, or no user of the account."""
    log = world.nats.servers[0].folder / 'log'
    begin = log.stat().st_size
    daemon = place.sluice(cluster=section('unsafe', world.nats, **world.changed(what)))
    until(lambda: re.search(REFUSALS[what], log.read_text('utf-8')[begin:]), lambda: log.read_text('utf-8')[begin:], 20)
    assert daemon.query('cluster') == []  # who joins sees himself
