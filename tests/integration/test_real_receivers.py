"""Postfix, Exim and OpenSMTPD as receivers, in clear and in TLS, with what they offer of PIPELINING
and CHUNKING and without it, at several depths, all at once. Every message must come once to each
of them, with the bytes that it had.

SLUICE_RECEIVER_MESSAGES: how many messages; 5000 is a full run."""
import hashlib
import os
import random
import subprocess

import pytest

from support.address import free_port
from support.certificate import make_certificate
from support.client import Client
from support.mailbox_postfix import MailboxPostfix
from support.unpacked_server import Exim, OpenSmtpd, unpack
from support.wait import until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason='mail servers must be started by root')

MESSAGES = int(os.environ.get('SLUICE_RECEIVER_MESSAGES', '300'))
DEPTHS = (1, 4, 16)
OFFERS = {'lockstep': (), 'pipelining': ('pipelining',), 'chunking': ('pipelining', 'chunking')}
# Debian's OpenSMTPD 6.8 offers STARTTLS and then fails every handshake ("missing private key", with
# OpenSSL 3 and any client): a server for which level "may" must go on in clear.
WAYS = {'clear': 'none', 'tls': 'encrypt', 'brokentls': 'may'}
SERVERS = {'postfix': (tuple(OFFERS), ('clear', 'tls')), 'exim': (tuple(OFFERS), ('clear', 'tls')),
           'opensmtpd': (('lockstep',), ('clear', 'brokentls'))}
CASES = [(server, offer, way, depth) for server, (offers, ways) in SERVERS.items()
         for offer in offers for way in ways for depth in DEPTHS]
PATIENCE = 60 + MESSAGES / 5  # seconds
MEMORY_PLACE = MESSAGES * len(CASES) * 40000  # bytes


def domain_of(case):
    return '-'.join(map(str, case)) + '.test'


def body_of(number):
    """Of all sizes, with what breaks: leading dots, long lines, 8-bit, an empty one, empty lines."""
    chance = random.Random(number)
    size = chance.choice((0, 20, 500, 2000, 8000, 8000, 40000))
    lines, total = [], 0
    while total < size:
        line = chance.choice((
            b'', b'.', b'..', b'. dot', b'.' * chance.randrange(1, 80), b'x' * 998,
            b'y' * chance.randrange(1, 1900), 'grün'.encode() * 9,
            bytes(chance.choices(range(32, 127), k=chance.randrange(1, 100))), b'QUIT', b'From x'))
        lines.append(line + b'\r\n')
        total += len(line) + 2
    return b''.join(lines)


def digest(body):
    return hashlib.sha256(body.replace(b'\r\n', b'\n')).hexdigest()


def message_of(number):
    body = body_of(number)
    return (f'Subject: {number}\r\nX-Number: {number}\r\nX-Digest: {digest(body)}\r\n\r\n'.encode() +
            body)


def ports_of(server):
    """{(offer, way): what the port offers}"""
    offers, ways = SERVERS[server]
    return {(offer, way): OFFERS[offer] + (() if way == 'clear' else ('tls',))
            for offer in offers for way in ways}


def start_postfix(folder, cert, key):
    modes = ports_of('postfix')
    ports = {mode: free_port() for mode in modes}
    options = {ports[mode]: {
        'smtpd_discard_ehlo_keywords': ','.join({'pipelining', 'chunking'} - set(offered)) or 'dsn',
        'smtpd_tls_security_level': 'may' if 'tls' in offered else 'none',
    } for mode, offered in modes.items()}
    server = MailboxPostfix(folder, ports=options, smtpd_tls_cert_file=cert,
                            smtpd_tls_key_file=key)
    server.ports = ports
    return server


class Stage:
    def __init__(self, place, servers_place):
        self.servers = {}
        for name in SERVERS:
            folder = servers_place.subfolder(name)
            cert, key = make_certificate(folder, 'peer.test')
            start = {'exim': Exim, 'opensmtpd': OpenSmtpd}.get(name)
            self.servers[name] = servers_place.keep(
                start(folder, ports_of(name)) if start else start_postfix(folder, cert, key))
        routes = {}
        for case in CASES:
            server, offer, way, depth = case
            port = self.servers[server].ports[offer, way]
            routes[domain_of(case)] = (f'{way}_{depth}', f'[127.0.0.1]:{port}')
        # Two connections, so that deliveries share them where the depth allows it.
        transports = {f'{way}_{depth}': {
            'pipeline_depth': depth, 'initial_destination_concurrency': 2,
            'destination_concurrency_limit': 2,
            'smtp_tls_security_level': level}
            for way, level in WAYS.items() for depth in DEPTHS}
        self.daemon = place.sluice(routes=routes, transports=transports)
        self.submit()
        self.came = {domain_of(case): {} for case in CASES}
        until(lambda: len(self.daemon.events()) >= MESSAGES * (len(CASES) + 1),
              lambda: f'results of {MESSAGES} messages to {len(CASES)} recipients: '
              f'{self.daemon.events()[-2:]} {self.daemon.log()[-2000:]}', PATIENCE)
        self.daemon.wait_empty()
        self.wait_kept()

    def submit(self):
        recipients = [f'x@{domain_of(case)}' for case in CASES]
        with Client(self.daemon) as client:
            client.ehlo()
            for number in range(MESSAGES):
                client.mail('', recipients, ' BODY=8BITMIME')
                client.data(message_of(number))

    def wait_kept(self):
        """Postfix says 250 before it has moved a message to its mailbox."""
        postfix = self.servers['postfix']
        wanted = MESSAGES * sum(case[0] == 'postfix' for case in CASES)
        until(lambda: postfix.count() >= wanted,
              lambda: f'{wanted} in mailboxes, {postfix.count()} are there', PATIENCE)
        for server in self.servers.values():
            for recipient, message in server.kept():
                head, _, body = message.partition(b'\n\n')
                fields = dict(line.split(b': ', 1) for line in head.split(b'\n')
                              if line.startswith(b'X-'))
                copies = self.came[recipient.partition('@')[2]]
                copies.setdefault(int(fields[b'X-Number']), []).append(
                    hashlib.sha256(body).hexdigest() == fields[b'X-Digest'].decode())


@pytest.fixture(scope='module')
def stage(module_place, memory_place):
    try:
        unpack()
    except subprocess.CalledProcessError:
        pytest.skip('the packages cannot be fetched')
    return Stage(module_place, memory_place)


@pytest.mark.parametrize('case', CASES, ids=lambda case: '-'.join(map(str, case)))
def test_every_message_came_once_and_whole(stage, case):
    came = stage.came[domain_of(case)]
    assert sorted(came) == list(range(MESSAGES)), 'lost'
    assert not [number for number, copies in came.items() if len(copies) != 1], 'duplicates'
    assert not [number for number, copies in came.items() if copies != [True]], 'not the same bytes'
    events = stage.daemon.results(f'x@{domain_of(case)}')
    assert not [e for e in events if e['type'] != 'Delivery'] and len(events) == MESSAGES
    assert all(('tls_cipher' in e) == (case[2] == 'tls') for e in events)
