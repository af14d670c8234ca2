"""The relays that benchmarks measure, each started from a folder of its own with an empty queue,
and the CPU time and memory of all their processes."""
import contextlib
import itertools
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from private_postfix import RELAY, PrivatePostfix

SLUICE_CONF = '''\
hostname = "relay.test"
allow_loopback = yes
{options}spool {{ path = "{folder}/spool" }}
listener "127.0.0.1:{port}" {{ relay_from = {{"127.0.0.0/8"}} smtpd_recipient_limit = 0{listener} }}
event_log {{ path = "{folder}/events.jsonl" }}
transport smtp {{
{transport}}}
{sections}{routes}'''

# peers are exempt from every rate limit
POSTFIX_SETTINGS = {
    **RELAY, 'smtpd_recipient_restrictions': 'permit_mynetworks, reject',
    'default_process_limit': '100', 'smtpd_recipient_limit': '200000',
    'message_size_limit': '100000000', 'smtpd_client_event_limit_exceptions': 'static:all'}

POSTFIX_SERVICES = '''\
127.0.0.1:{port} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
qmgr unix n - n 300 1 qmgr
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxywrite unix - - n - 1 proxymap
smtp unix - - n - - smtp
relay unix - - n - - smtp
showq unix n - n - - showq
discard unix - - n - - discard
local unix - n n - - local
virtual unix - n n - - virtual
lmtp unix - - n - - lmtp
scache unix - - n - 1 scache
urgent unix - - n - - smtp
tlsmgr unix - - n 1000? 1 tlsmgr
'''


class Failure(Exception):
    pass


def lines(settings):
    return ''.join(f'{name} = {value}\n' for name, value in settings.items())


def wait_for_port(port, process=None, host='127.0.0.1', seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection((host, port), 1) as s:
            s.recv(100)
            return
        if process is not None and process.poll() is not None:
            break
        time.sleep(0.05)
    raise Failure(f'nothing answers on {host}:{port}')


class Cgroup:
    """CPU time of every process started inside, dead ones included."""

    numbers = itertools.count()

    def __init__(self):
        self.path = None
        with open('/proc/self/mounts', encoding='utf-8') as mounts:
            roots = [line.split()[1] for line in mounts if line.split()[2] == 'cgroup2']
        for root in roots:
            path = pathlib.Path(root, f'sluice-bench-{os.getpid()}-{next(self.numbers)}')
            with contextlib.suppress(OSError):
                path.mkdir()
                (path / 'cpu.stat').read_text()
                self.path = path
                return

    def enter(self):
        """In the child, before exec."""
        (self.path / 'cgroup.procs').write_text('0')

    def cpu_seconds(self):
        for line in (self.path / 'cpu.stat').read_text().splitlines():
            name, value = line.split()
            if name == 'usage_usec':
                return int(value) / 1e6
        raise Failure('no usage_usec in cpu.stat')

    def processes(self):
        return [int(line) for line in (self.path / 'cgroup.procs').read_text().split()]

    def remove(self):
        for _ in range(100):
            with contextlib.suppress(OSError):
                self.path.rmdir()
                return
            time.sleep(0.05)


class ProcessTree:
    """The same from /proc: live processes, and dead ones that their parents waited for."""

    def __init__(self):
        self.root = None

    def enter(self):
        pass

    def scan(self):
        """The processes of the tree, and the CPU ticks of all processes."""
        children, ticks = {}, {}
        for name in os.listdir('/proc'):
            if name.isdigit():
                with contextlib.suppress(OSError):
                    text = pathlib.Path('/proc', name, 'stat').read_text()
                    fields = text.rsplit(')', 1)[1].split()
                    children.setdefault(int(fields[1]), []).append(int(name))
                    ticks[int(name)] = sum(map(int, fields[11:15]))
        found, waiting = [], [self.root]
        while waiting:
            pid = waiting.pop()
            found.append(pid)
            waiting += children.get(pid, [])
        return found, ticks

    def cpu_seconds(self):
        found, ticks = self.scan()
        return sum(ticks.get(pid, 0) for pid in found) / os.sysconf('SC_CLK_TCK')

    def processes(self):
        return self.scan()[0]

    def remove(self):
        pass


def new_account():
    group = Cgroup()
    return group if group.path is not None else ProcessTree()


def anonymous_bytes(account):
    """Anonymous memory of all processes together. Pages of mapped files (the spool, programs) are
    the page cache's and do not count."""
    total = 0
    for pid in account.processes():
        with contextlib.suppress(OSError, StopIteration):
            text = pathlib.Path('/proc', str(pid), 'status').read_text().splitlines()
            line = next(line for line in text if line.startswith('RssAnon'))
            total += int(line.split()[1]) * 1024
    return total


class MemorySampler(threading.Thread):
    """Peak of the anonymous memory of a relay, looked at twice a second."""

    def __init__(self, account):
        super().__init__(daemon=True)
        self.account = account
        self.peak_bytes = 0
        self.ended = threading.Event()

    def run(self):
        while not self.ended.wait(0.5):
            self.look()

    def look(self):
        self.peak_bytes = max(self.peak_bytes, anonymous_bytes(self.account))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()


def stat_seconds(path):
    """(name, CPU seconds) from the stat file of a process or of a thread."""
    text = pathlib.Path(path).read_text()
    head, tail = text.rsplit(')', 1)
    fields = tail.split()
    return head.split('(', 1)[1], (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def thread_seconds(pid):
    """CPU seconds of the threads of a process by their names."""
    found = {}
    for task in pathlib.Path('/proc', str(pid), 'task').iterdir():
        with contextlib.suppress(OSError):
            name, seconds = stat_seconds(task / 'stat')
            found[name] = found.get(name, 0) + seconds
    return found


class Sluice:
    """routes: (domain, nexthop) pairs, nexthop None: by MX; transport, options: {name: value as in the file}; sections:
    further ones, as they stand in the file; listener: {name: value} of its listener"""

    def __init__(self, build, folder, port, routes, transport, options=None, sections='',
                 listener=None):
        self.folder, self.port = folder, port
        self.process = None
        self.environment = {}
        self.program = str(build / 'engine/sluice')
        # As in the configuration that the package ships; an older build has no such option.
        policy = {'thread_policy': 'batch'} if self.knows('thread_policy') else {}
        self.config = folder / 'sluice.conf'
        (folder / 'spool').mkdir()
        self.config.write_text(SLUICE_CONF.format(
            folder=folder, port=port, options=lines({**policy, **(options or {})}), transport=lines(transport),
            sections=sections,
            listener=''.join(f' {name} = {value}' for name, value in (listener or {}).items()),
            routes=''.join(f'route "{name}" {{ transport = "smtp"' +
                           (f' nexthop = "{nexthop}" }}\n' if nexthop else ' }\n')
                           for name, nexthop in routes)))

    def start(self, account):
        with open(self.folder / 'relay.log', 'wb') as log:
            self.process = subprocess.Popen([self.program, 'run', '-c', self.config], stderr=log,
                                            stdin=subprocess.DEVNULL, preexec_fn=account.enter,
                                            env={**os.environ, **self.environment})
        account.root = self.process.pid
        wait_for_port(self.port, self.process)

    def knows(self, option):
        reference = subprocess.run([self.program, 'check', '--reference'], capture_output=True, check=True, text=True)
        return f'\n### {option}\n' in reference.stdout

    def command(self, *arguments):
        """Of its command line."""
        return [self.program, *arguments, '-c', str(self.config)]

    def stop(self):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Postfix(PrivatePostfix):
    """routes: (domain, nexthop) pairs; settings: {name: value} for main.cf; resolver: the name server
    it asks, on port 53, by default that of the system; urgent: domains that take the transport of
    that name, which is another smtp"""

    def __init__(self, folder, port, routes, settings, resolver=None, urgent=()):
        self.port, self.resolver = port, resolver
        super().__init__(folder, {**POSTFIX_SETTINGS, 'transport_maps': f'hash:{folder}/transport',
                                  **settings}, POSTFIX_SERVICES.format(port=port))
        (folder / 'transport').write_text(
            ''.join(f'{name} {"urgent" if name in urgent else "smtp"}:{nexthop}\n'
                    for name, nexthop in routes))
        self.command('postmap', f'hash:{folder}/transport')

    def start(self, account):
        with open(self.folder / 'relay.log', 'wb') as log:
            self.launch(self.resolver, stdout=log, stderr=log, preexec_fn=account.enter)
        wait_for_port(self.port)
        account.root = self.master()

    def stop(self):
        if self.master() is not None:
            self.command('postfix', 'stop')


def postfix_version():
    """'' when it is not installed."""
    if shutil.which('postconf') is None:
        return ''
    return subprocess.run(['postconf', '-d', '-h', 'mail_version'], capture_output=True,
                          text=True, check=False).stdout.strip()


@contextlib.contextmanager
def running(make, where):
    """make(folder) -> relay. Yields (relay, account); ends with the relay stopped and its folder
    gone; after a failure its logs go to standard error."""
    account = new_account()
    with tempfile.TemporaryDirectory(prefix='sluice-bench-', dir=where) as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)  # Postfix works as another user in there
        relay = make(folder)
        try:
            relay.start(account)
            yield relay, account
        except (Failure, subprocess.CalledProcessError):
            show_logs(folder)
            raise
        finally:
            relay.stop()
            account.remove()


def show_logs(folder):
    for log in ('relay.log', 'mail.log'):
        if (folder / log).exists():
            print((folder / log).read_text(errors='replace')[-3000:], file=sys.stderr)
