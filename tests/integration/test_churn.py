"""Receivers that lose connections in every way, destinations that come and go, and everybody asking:
nothing that was accepted is lost, and the daemon ends in order. Made for a build with the thread
sanitizer, whose reports fail it (tests/stress/meson.build); CHURN_SECONDS: how long."""
import os
import random
import socket
import subprocess
import threading
import time

from support.address import free_port, fresh_address
from support.tools import Account, Sink, Source, Zone

SECONDS = float(os.environ.get('CHURN_SECONDS', '20'))
SEED = int(os.environ.get('SLUICE_SEED', '0')) or random.SystemRandom().randrange(1 << 30)
ROUND = 4    # seconds that a set of destinations is sent to
STALL = 330  # seconds in which fewer and fewer are left at the end, with the faults going on

FAULTS = [f'--fault={kind}:{share}' for kind, share in
          (('reset', 0.01), ('stall', 0.002), ('421', 0.01), ('close', 0.05))]
SMTP = {**{f'smtp_{name}_timeout': '2s' for name in
           ('connect', 'helo', 'starttls', 'mail', 'rcpt', 'data_init', 'data_xfer', 'data_done',
            'rset', 'quit')},
        'smtp_connection_cache_time_limit': '1s', 'smtp_connection_reuse_time_limit': '5s',
        'smtp_connection_reuse_count_limit': 50, 'initial_destination_concurrency': 3,
        'destination_concurrency_limit': 10, 'process_limit': 40}
LOAD = (  # of each round; the names of its domains follow from its number
    ('c', ['--rate', '80', '--connections', '3'], 30),
    ('d', ['--rate', '20', '--connections', '2', '--recipients', '7', '--pipelining'], 10),
    ('e', ['--rate', '3', '--connections', '1', '--size', '300000'], 3),
)
REQUESTS = tuple(f'GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'.encode()
                 for path in ('/v1/destinations', '/v1/status', '/v1/messages?limit=100',
                              '/v1/trace?destination=c100.test&limit=100',
                              '/v1/trace?destination=d100.test&limit=100&after=1')
                 ) + (b'SMTP\r\n',)


def zone_rules(plain, tls):
    """Domains c1 and so on at two plain hosts, d at a plain one and one with TLS, e at that one
    behind a host where nobody listens."""
    rules = [f'{domain}#.test MX {preference} {host}.test' for domain, hosts in
             (('c', ('one', 'two')), ('d', ('two', 'tls')), ('e', ('absent', 'tls')))
             for preference, host in enumerate(hosts, 10)]
    return rules + [f'{name}.test A {address}' for name, address in
                    (('one', plain[0]), ('two', plain[1]), ('tls', tls),
                     ('absent', fresh_address()))]


class Asker(threading.Thread):
    """Puts questions to the control socket, now and then leaving in the middle of an answer."""

    def __init__(self, path, seed):
        super().__init__(daemon=True)
        self.path, self.chance = path, random.Random(seed)
        self.ended = threading.Event()
        self.answers = 0
        self.failure = None

    def run(self):
        try:
            while not self.ended.wait(self.chance.uniform(0, 0.05)):
                self.ask(self.chance.choice(REQUESTS), self.chance.random() < 0.2)
        except (OSError, AssertionError) as error:
            self.failure = error

    def ask(self, request, is_hasty):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(60)
            sock.connect(self.path)
            sock.sendall(request)
            if is_hasty or request == b'SMTP\r\n':
                sock.recv(10)
                return
            answer = b''
            while data := sock.recv(1 << 16):
                answer += data
            assert answer.endswith(b'}\n'), answer
            self.answers += 1


def start_sinks(place, folder):
    certificate, key = (os.path.join(folder, name) for name in ('cert.pem', 'key.pem'))
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
                    'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=tls.test',
                    '-keyout', key, '-out', certificate], check=True, capture_output=True)
    plain, tls, port = [fresh_address(), fresh_address()], fresh_address(), free_port()
    common = [*FAULTS, '--seed', str(SEED), '--delay-dot', '5', '--round-trip', '3',
              '--extensions', 'pipelining,chunking,8bitmime,size']
    sinks = [place.keep(Sink(place.subfolder('plain'), *common, '--listen', f'{plain[1]}:{port}',
                             address=plain[0], port=port)),
             place.keep(Sink(place.subfolder('tls'), *common, '--tls-cert', certificate,
                             '--tls-key', key, address=tls, port=port))]
    zone = place.keep(Zone(folder, zone_rules(plain, tls), ttl=2))
    return sinks, zone, port


def send_round(place, folder, daemon, number):
    return [place.keep(Source(folder, f'{letter}{number}', f'127.0.0.1:{daemon.port}',
                              '--messages', '0', '--seconds', str(ROUND), '--retry', *options,
                              '--domains', f'{letter}{number}0%d.test:{domains}'))
            for letter, options, domains in LOAD]


def drain(daemon):
    """This is about what is lost or stuck, not about how long receivers that refuse at random make it
    take: only a queue that stands still for longer than any pause of a lane (5 min) is stuck."""
    least, since = float('inf'), time.monotonic()
    while left := daemon.totals()['messages']:
        if left < least:
            least, since = left, time.monotonic()
        assert time.monotonic() - since < STALL, f'stuck: {daemon.query("messages")[:5]}'
        time.sleep(0.1)


def test_churn(place):
    print(f'seed {SEED}')
    folder = place.subfolder('tools')
    sinks, zone, port = start_sinks(place, folder)
    daemon = place.sluice(options={'allow_loopback': True},
                          dns={'servers': [zone.name]},
                          transports={'smtp': {'smtp_tcp_port': port, **SMTP}})
    askers = [Asker(os.path.join(daemon.spool, 'control'), SEED + n) for n in range(2)]
    for asker in askers:
        asker.start()
    sources, end = [], time.monotonic() + SECONDS
    while time.monotonic() < end:
        begun = send_round(place, folder, daemon, len(sources) // len(LOAD) + 1)
        sources += begun
        for source in begun:
            source.wait(ROUND + 60)
        assert daemon.is_alive(), daemon.log()
    begun = time.monotonic()
    drain(daemon)
    print(f'drained in {time.monotonic() - begun:.1f} s')
    for asker in askers:
        asker.ended.set()
        asker.join(60)
        assert asker.failure is None and asker.answers > 0
    assert daemon.stop() == 0
    assert 'ThreadSanitizer' not in daemon.log()
    for sink in sinks:
        assert sink.end() == 0
    account = Account(sources, *sinks)
    assert not account.lost() and not account.unexpected()
    print(f'{len(account.acked)} messages in {len(sources)} loads, '
          f'{len(account.duplicates())} copies too many, '
          f"{len(daemon.of('TransientFailure'))} deferrals")
    assert len(account.acked) >= 100  # something went on
