"""The two ends of a load: sluice-sink as the receiver, sluice-source as the sender."""
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import time

from relay import Failure


def free_port(address='127.0.0.1'):
    """Below those that the system gives out by itself, or a connection could take it meanwhile."""
    for port in random.sample(range(10000, 32000), 1000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((address, port))
            return port
    raise Failure(f'no free port at {address}')


def make_certificate(folder):
    """Options of a sink that speaks TLS."""
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
                    'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=sink.test',
                    '-keyout', folder / 'key.pem', '-out', folder / 'cert.pem'],
                   check=True, capture_output=True)
    return ['--tls-cert', folder / 'cert.pem', '--tls-key', folder / 'key.pem']


class Sink:
    """Listens from its creation on. hosts: an address or a range of them; port: by default a free
    one; environment: variables beside those of this process"""

    def __init__(self, build, folder, *options, hosts='127.0.1.1', port=None, environment=None):
        del folder  # it keeps nothing there
        self.address = hosts.split('-')[0]
        self.port = port or free_port(self.address)
        self.read_seconds = 0
        self.process = subprocess.Popen(
            [build / 'bench/sluice-sink', '--listen', f'{hosts}:{self.port}', *map(str, options)],
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        first = self.process.stderr.readline()
        if b'listening' not in first:
            raise Failure('the receiver does not start: '
                          f'{(first + self.process.stderr.read()).decode(errors="replace")}')

    def nexthop(self, address=None):
        return f'[{address or self.address}]:{self.port}'

    def release(self):
        """With --hold: greet from now on. Returns the wall clock."""
        now = time.time()
        self.process.send_signal(signal.SIGUSR2)
        return now

    def read(self):
        """The numbers of this moment; {} once it has ended."""
        begin = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGUSR1)
        lines = []
        for line in self.process.stderr:
            if lines or line.startswith(b'{'):
                lines.append(line)
                if line.endswith(b'}\n'):  # of the last one
                    numbers = json.loads(b''.join(lines))
                    self.read_seconds = time.monotonic() - begin
                    return numbers
        return {}

    def pause(self):
        """Between two looks, which take time where there are many addresses."""
        time.sleep(min(5, max(0.1, 10 * self.read_seconds)))

    def wait(self, is_enough, seconds, what):
        """Until is_enough(numbers); returns them."""
        end = time.monotonic() + seconds
        numbers = {}
        while time.monotonic() < end:
            numbers = self.read()
            if numbers and is_enough(numbers):
                return numbers
            self.pause()
        numbers = {name: value for name, value in numbers.items() if not isinstance(value, list)}
        raise Failure(f'{what} did not come within {seconds} s: {numbers}')

    def end(self):
        """Stops it; returns the numbers at the end."""
        self.process.terminate()
        output, _ = self.process.communicate(timeout=60)
        return json.loads(output)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Zone:
    """A name server on port 53, where also the resolver of the system may ask; needs root. rules: of
    bench/zone/zone_rule.h"""

    def __init__(self, build, rules):
        for number in range(1, 251):
            self.address = f'127.0.53.{number}'
            self.process = subprocess.Popen(
                [build / 'bench/sluice-zone', '--listen', f'{self.address}:53', '--ttl', '3600',
                 *rules], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
            said = self.process.stderr.readline()
            if b'answering' in said:
                return
            self.__exit__()
            if b'in use' not in said:
                break
        raise Failure(f'the name server does not start: {said.decode(errors="replace")}')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()


class Source:
    """Offers messages from its creation on. to: "ADDR:PORT"; options: of sluice-source"""

    def __init__(self, build, to, *options):
        self.output = tempfile.TemporaryFile()  # a pipe could be too small for it
        self.process = subprocess.Popen(
            [build / 'bench/sluice-source', '--to', to, *map(str, options)],
            stdout=self.output, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)

    def is_running(self):
        return self.process.poll() is None

    def wait(self, seconds):
        """Until it has ended, so long at most."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)

    def finish(self, what='the source'):
        """Until all is accepted; returns its numbers."""
        _, said = self.process.communicate()
        self.output.seek(0)
        text = self.output.read()
        self.output.close()
        if not text:
            raise Failure(f'{what}: {said.decode(errors="replace").strip()}')
        offered = json.loads(text)
        if self.process.returncode != 0:
            raise Failure(f"{what}: {offered['acked']} accepted of {offered['offered']}; "
                          f"{offered['last_problem']}")
        return offered

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.is_running():
            self.process.kill()
            self.process.wait()
        self.output.close()


def inject(build, port, messages, size, domains, connections=20, recipients=1, more=()):
    """Offer messages to a relay until all are accepted; returns the source's numbers."""
    with Source(build, f'127.0.0.1:{port}', '--messages', messages, '--connections', connections,
                '--size', size, '--domains', domains, '--recipients', recipients, *more) as source:
        return source.finish()


def busy_seconds():
    """CPU time that the whole machine used."""
    with open('/proc/stat', encoding='utf-8') as stat:
        user, nice, system, _, _, irq, softirq = map(int, stat.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf('SC_CLK_TCK')
