"""The daemon under test: its configuration, its life, its event log, its commands. With SLUICE_STUTTER=SEED it stands
still again and again (support/stutter.py)."""
import json
import os
import signal
import subprocess

from support.address import free_port
from support.stutter import Process
from support.wait import PATIENCE, until

BUILD = os.path.abspath(os.environ.get('SLUICE_BUILD') or os.path.join(
    os.path.dirname(__file__), '..', '..', '..', 'build', 'release'))
PROGRAM = os.path.join(BUILD, 'engine', 'sluice')


def quoted(value):
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    if isinstance(value, int):
        return str(value)
    if isinstance(value, (list, tuple)):
        return '{' + ', '.join(quoted(v) for v in value) + '}'
    return '"' + str(value).replace('\\', '\\\\').replace('"', '\\"') + '"'


def section(head, options):
    lines = ''.join(f'    {key} = {quoted(value)}\n' for key, value in options.items())
    return f'{head} {{\n{lines}}}\n'


def status_of(event):
    """"5.1.1", or None"""
    code = event['response'].get('enhanced_code')
    return f'{code["class"]}.{code["subject"]}.{code["detail"]}' if code else None


class Sluice:
    """One spool folder with one configuration; may be started more than once.

    options    top level; over quick defaults (short backoff, short queue runs)
    listener   options of the one listener
    tenants    {name: options}
    dkims      {name in the DNS: options}
    providers, domains  {name: options}
    transports {name: options}
    sources, pools  {name: options}
    event_log  options beside its path
    webhooks, csvs  {URL or path: options}
    routes     {pattern: (transport, nexthop or None[, {other options}])}
    http       options of a door for HTTP at address:http_port; None: there is none
    """

    def __init__(self, folder, *, options=None, listener=None, transports=None, routes=None,
                 sources=None, pools=None, dns=None, env=None, address='127.0.0.1',
                 http=None, event_log=None, tenants=None,
                 webhooks=None, csvs=None, replies=None, providers=None, domains=None, dkims=None,
                 tls_report=None, suppressions=None, cluster=None):
        self.folder = str(folder)
        self.address = address
        self.port = free_port(address)
        self.http = http
        self.http_port = free_port(address) if http is not None else None
        self.spool = os.path.join(self.folder, 'spool')
        self.config_path = os.path.join(self.folder, 'sluice.conf')
        self.log_path = os.path.join(self.folder, 'log')
        self.events_path = os.path.join(self.folder, 'events.jsonl')
        self.process = None
        self.env = env or {}
        self._read = 0
        self._events = []
        self._by_recipient = {}
        self._log_start = 0
        self.kills = self.torn = 0  # how often killed; lines of the event log cut off by that
        self.options = {'workers': 2, 'hostname': 'relay.test', 'minimal_backoff_time': '1s',
                        'maximal_backoff_time': '2s', 'queue_run_delay': '1s', 'map_size': '4G',
                        'spool_reserve': '0', 'spool_ballast': '0', **(options or {})}
        self.listener = {'relay_from': ['127.0.0.0/8'], **(listener or {})}
        self.tenants = tenants or {}
        self.transports = transports or {'smtp': {}}
        self.sources, self.pools = sources or {}, pools or {}
        self.event_log, self.webhooks, self.csvs = event_log or {}, webhooks or {}, csvs or {}
        self.replies, self.tls_report = replies or {}, tls_report or {}
        self.dkims, self.cluster = dkims or {}, cluster or {}
        self.suppressions = suppressions or {}
        self.providers, self.domains = providers or {}, domains or {}
        self.routes = routes or {'*': ('smtp', None)}
        # Nothing may leave the machine: without a server of its own a test resolves nothing. A server of a test answers, if
        # perhaps late.
        self.dns = {'servers': ['127.0.0.1:9'], 'timeout': '10s' if dns else '1s', 'tries': 1, **(dns or {})}
        self.write_config()

    # --- configuration -----------------------------------------------------------------------

    def config_text(self):
        text = ''.join(f'{key} = {quoted(value)}\n' for key, value in self.options.items())
        text += section('spool', {'path': self.spool})
        text += section('event_log', {'path': self.events_path, **self.event_log})
        for url, options in self.webhooks.items():
            text += section(f'webhook "{url}"', options)
        for path, options in self.csvs.items():
            text += section(f'csv "{path}"', options)
        text += section('replies', self.replies) if self.replies else ''
        text += section('tls_report', self.tls_report) if self.tls_report else ''
        text += section('cluster', self.cluster) if self.cluster else ''
        text += section('dns', self.dns)
        text += section(f'listener "{self.address}:{self.port}"', self.listener)
        if self.http is not None:
            text += section(f'http "{self.address}:{self.http_port}"', self.http)
        for kind, items in (('dkim', self.dkims), ('tenant', self.tenants),
                            ('suppression', self.suppressions), ('source', self.sources),
                            ('pool', self.pools), ('provider', self.providers),
                            ('domain', self.domains)):
            for name, options in items.items():
                text += section(f'{kind} "{name}"', options)
        for name, options in self.transports.items():
            text += section(f'transport "{name}"', options)
        for pattern, (transport, nexthop, *more) in self.routes.items():
            options = {'transport': transport, **(more[0] if more else {})}
            if nexthop:
                options['nexthop'] = nexthop
            text += section(f'route "{pattern}"', options)
        return text

    def write_config(self):
        with open(self.config_path, 'w', encoding='utf-8') as config:
            config.write(self.config_text())

    # --- life --------------------------------------------------------------------------------

    def start(self, wait=True):
        assert self.process is None
        with open(self.log_path, 'ab') as log:
            self._log_start = log.tell()
            self.process = Process(
                [PROGRAM, 'run', '-c', self.config_path], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, cwd=self.folder, env={**os.environ, **self.env})
        if wait:
            self.wait_log(' is running')
        return self

    def log(self):
        """What this start of the daemon printed."""
        with open(self.log_path, encoding='utf-8', errors='replace') as log:
            log.seek(self._log_start)
            return log.read()

    def wait_log(self, text, patience=PATIENCE):
        def seen():
            if text in self.log():
                return True
            assert self.is_alive(), f'the daemon ended with {self.process.poll()}:\n{self.log()}'
            return False
        until(seen, lambda: f'"{text}" in the log:\n{self.log()}', patience)

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self, patience=PATIENCE):
        """SIGTERM; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait_exit(patience)

    def wait_exit(self, patience=PATIENCE):
        try:
            code = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f'the daemon does not end:\n{self.log()}') from None
        self.process = None
        return code

    def kill(self):
        if self.process is not None:
            self.kills += 1
            self.process.kill()
            self.process.wait()
            self.process = None

    def peak_memory(self):
        """The most that was ever resident, bytes."""
        with open(f'/proc/{self.process.pid}/status', encoding='ascii') as status:
            [line] = [line for line in status if line.startswith('VmHWM:')]
        return int(line.split()[1]) << 10

    def memory(self):
        """What is resident and its own, without the spool's map; bytes."""
        with open(f'/proc/{self.process.pid}/status', encoding='ascii') as status:
            [line] = [line for line in status if line.startswith('RssAnon:')]
        return int(line.split()[1]) << 10

    # --- event log ---------------------------------------------------------------------------

    def events(self):
        """All complete lines so far, as objects."""
        try:
            with open(self.events_path, 'rb') as file:
                file.seek(self._read)
                data = file.read()
        except FileNotFoundError:
            return self._events
        end = data.rfind(b'\n') + 1
        for line in data[:end].split(b'\n'):
            if line:
                self._take_line(line)
        self._read += end
        return self._events

    def _take_line(self, line):
        try:
            event = json.loads(line)
            if event['type'] == 'Segment':
                return
            self._events.append(event)
            self._by_recipient.setdefault(event.get('recipient'), []).append(event)
        except ValueError:
            # Cut off by a kill; what it tells of was not committed and is told again.
            self.torn += 1
            if self.torn > self.kills:
                raise

    def forget_events(self):
        """After a rotation: read the file from its beginning."""
        self._read, self._events, self._by_recipient = 0, [], {}

    def of(self, kind=None, recipient=None, **fields):
        def fits(event):
            return ((kind is None or event['type'] == kind) and
                    (recipient is None or event.get('recipient') == recipient) and
                    all(event.get(k) == v for k, v in fields.items()))
        return [event for event in self.events() if fits(event)]

    def results(self, recipient):
        """What became of it so far, in order."""
        self.events()
        return [e for e in self._by_recipient.get(recipient, ()) if e['type'] != 'Reception']

    def wait_events(self, kind=None, recipient=None, count=1, patience=PATIENCE, **fields):
        def there():
            found = self.of(kind, recipient, **fields)
            if len(found) >= count:
                return found
            assert self.is_alive(), f'the daemon ended:\n{self.log()}'
            return None
        return until(there, lambda: (f'{count} x {kind} {recipient or ""} {fields or ""}; there '
                                     f'are {self.events()[-10:]}\n{self.log()[-3000:]}'), patience)

    def wait_event(self, kind=None, recipient=None, **fields):
        return self.wait_events(kind, recipient, **fields)[0]

    # --- commands ----------------------------------------------------------------------------

    def command(self, *args, stdin=b'', timeout=PATIENCE):
        return subprocess.run([PROGRAM, *args[:1], '-c', self.config_path, *args[1:]],
                              input=stdin, capture_output=True, timeout=timeout, check=False)

    def query(self, *args):
        done = self.command(*args, '--json')
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def totals(self):
        return self.query('status')[0]

    def wait_empty(self, patience=PATIENCE):
        until(lambda: self.totals()['messages'] == 0,
              lambda: f'an empty queue: {self.query("messages")[:5]}', patience)
