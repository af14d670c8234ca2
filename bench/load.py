"""The two ends of a load: sluice-sink as the receiver, sluice-source as the sender."""
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import time

from relay import Failure


def free_port(address='127.0.0.1'):
    """Below those that the system gives out by itself, or a connection could take it meanwhile."""
    for port in random.sample(range(10000, 32000), 1000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((address, port))
            return port
    raise Failure(f'no free port at {address}')


class Sink:
    """Listens from its creation on. hosts: an address or a range of them"""

    def __init__(self, build, folder, *options, hosts='127.0.1.1'):
        self.address = hosts.split('-')[0]
        self.port = free_port(self.address)
        self.counts = folder / 'sink.json'
        self.counts.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [build / 'bench/sluice-sink', '--listen', f'{hosts}:{self.port}', '--json',
             self.counts, *map(str, options)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        if b'listening' not in self.process.stderr.readline():
            raise Failure(f'the receiver does not start: {self.process.stderr.read()}')

    def nexthop(self, address=None):
        return f'[{address or self.address}]:{self.port}'

    def release(self):
        """With --hold: greet from now on. Returns the wall clock."""
        now = time.time()
        self.process.send_signal(signal.SIGUSR2)
        return now

    def read(self):
        """The numbers of at most a second ago; {} before the first."""
        try:
            return json.loads(self.counts.read_text())
        except OSError:
            return {}

    def wait(self, is_enough, seconds, what):
        """Until is_enough(numbers); returns them."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            numbers = self.read()
            if numbers and is_enough(numbers):
                return numbers
            time.sleep(0.1)
        raise Failure(f'{what} did not come within {seconds} s: {self.read()}')

    def end(self):
        """Stops it; returns the numbers at the end."""
        self.process.terminate()
        output, _ = self.process.communicate(timeout=30)
        return json.loads(output)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def inject(build, port, messages, size, domains, connections=20, recipients=1):
    """Offer messages to a relay until all are accepted; returns the source's numbers."""
    done = subprocess.run(
        [build / 'bench/sluice-source', '--to', f'127.0.0.1:{port}', '--messages', str(messages),
         '--connections', str(connections), '--size', str(size), '--domains', domains,
         '--recipients', str(recipients)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=False)
    offered = json.loads(done.stdout)
    if done.returncode != 0:
        raise Failure(f"{offered['acked']} of {messages} accepted; {offered['last_problem']}")
    return offered


def busy_seconds():
    """CPU time that the whole machine used."""
    with open('/proc/stat', encoding='utf-8') as stat:
        user, nice, system, _, _, irq, softirq = map(int, stat.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf('SC_CLK_TCK')
