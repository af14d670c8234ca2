"""What the soak's daemon talks to: receivers of every kind, name servers, and its configuration."""
import os
import signal
import subprocess

from support.address import fresh_address, free_port
from support.daemon import Sluice
from support.tools import Sink, Zone

FAULTS = '{"reset:0.005", "stall:0.001", "421:0.01", "close:0.05"}'
# What each receiver is like: lines of a behaviour file.
KINDS = {
    'chunks': 'extensions = {pipelining, chunking, 8bitmime, size, enhancedstatuscodes} '
              'delay_dot = "2-20"',
    'pipes': 'extensions = {pipelining, 8bitmime, size} round_trip = 5',
    'plain': 'extensions = {size} delay_rcpt = 1',
    'badchunks': 'extensions = {pipelining, chunking, size} fault = ' + FAULTS,
    'badpipes': 'extensions = {pipelining, enhancedstatuscodes} round_trip = 3 fault = ' + FAULTS,
    'badplain': 'extensions = {none} fault = ' + FAULTS,
    'defers': 'reject = {"rcpt:0.3:451 4.7.1 try again", "rcpt:0.03:550 5.1.1 no such user", '
              '"dot:0.05:451 4.3.0 not now", "dot:0.01:554 5.6.0 never"}',
    'limits': 'connections = 4 messages_per_connection = 20 recipients_per_message = 7 '
              'rate = "20/s" rate_reply = "421 4.7.0 too many" greylist = 3 '
              'reject = {"banner:0.02:421 4.3.2 closing", "mail:0.02:451 4.3.0 later"}',
    'slowname': 'extensions = {pipelining, chunking}',
    'silent': 'silent = yes',
    'down': 'extensions = {pipelining, chunking}',
}
APART = ('down',)  # has a program of its own, which dies and comes back
UNREACHED = {'servfail': 'SERVFAIL', 'nowhere': 'NXDOMAIN', 'dropped': 'DROP'}
BACK = 'back.test'  # where notices go: to a receiver whose copies nobody counts
WEIGHTS = {'silent': 0.02, 'servfail': 0.02, 'nowhere': 0.03, 'dropped': 0.02}
TIMEOUTS = {f'smtp_{name}_timeout': '8s' for name in
            ('connect', 'helo', 'starttls', 'mail', 'rcpt', 'data_init', 'data_xfer', 'data_done',
             'rset', 'quit')}


class Receivers:
    """The receivers, one program but for those that die, and the zone that leads to them."""

    def __init__(self, place, seed, sources):
        self.folder = place.subfolder('receivers')
        self.place, self.seed, self.port = place, seed, free_port()
        self.addresses = {kind: fresh_address() for kind in KINDS}
        self.behaviours = os.path.join(self.folder, 'behaviours')
        with open(self.behaviours, 'w', encoding='ascii') as file:
            for kind, lines in KINDS.items():
                file.write(f'destination "{self.addresses[kind]}" {{ {lines} }}\n')
        steady = [kind for kind in KINDS if kind not in APART]
        self.steady = place.keep(self.start('steady', steady))
        self.down = place.keep(self.start('down', APART))
        back = place.subfolder('back')
        self.back = place.keep(Sink(back))
        self.zone = place.keep(Zone(self.folder, self.rules(sources), ttl=20))

    def start(self, name, kinds):
        folder = os.path.join(self.folder, name)
        os.makedirs(folder, exist_ok=True)
        first, *others = [self.addresses[kind] for kind in kinds]
        return Sink(folder, '--behaviour', self.behaviours, '--seed', str(self.seed),
                    *(part for address in others for part in ('--listen', f'{address}:{self.port}')),
                    address=first, port=self.port)

    def rules(self, sources):
        rules = [f'{kind}.hosts.test A {address}' for kind, address in self.addresses.items()]
        rules.append('slow.hosts.test A ' + self.addresses['slowname'])
        for source in sources:
            for kind in KINDS:
                host = 'slow' if kind == 'slowname' else kind
                rules.append(f'{kind}.{source}.test MX 10 {host}.hosts.test')
            rules.append(f'slowname.{source}.test DELAY 1500')
            rules += [f'{kind}.{source}.test {fault}' for kind, fault in UNREACHED.items()]
        return rules

    def take_down(self):
        self.down.process.send_signal(signal.SIGKILL)
        self.down.process.wait()

    def bring_up(self):
        if self.down.process.poll() is not None:
            self.down = self.place.keep(self.start('down', APART))

    def ledgers(self):
        return [self.steady.ledger, self.down.ledger]


def domains(source):
    """{domain: weight} of a source's mail"""
    return {f'{kind}.{source}.test': WEIGHTS.get(kind, 1) for kind in (*KINDS, *UNREACHED)}


class Disk:
    """A file system of its own for the spool, which can be filled; only for root."""

    def __init__(self, path, size):
        self.filler = os.path.join(path, 'filler')
        self.path = path
        os.makedirs(path, exist_ok=True)
        self.is_own = os.getuid() == 0 and subprocess.run(
            ['mount', '-t', 'tmpfs', '-o', f'size={size},mode=0700', 'tmpfs', path], check=False,
            capture_output=True).returncode == 0

    def fill(self, left):
        """Until only so many bytes are left."""
        state = os.statvfs(self.path)
        free = state.f_bavail * state.f_frsize - left
        if not self.is_own:
            return
        with open(self.filler, 'ab') as file:
            step = 16 << 20
            while free > 0 and step >= 1 << 16:
                size = min(step, free)
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)
                    free -= size
                except OSError:
                    step //= 4  # somebody else took it meanwhile

    def is_filled(self):
        return os.path.exists(self.filler)

    def free(self):
        if self.is_filled():
            os.unlink(self.filler)

    def close(self):
        if self.is_own:
            subprocess.run(['umount', '-l', self.path], check=False)


def make_daemon(place, receivers, lifetime, env):
    common = {'smtp_tcp_port': receivers.port, **TIMEOUTS, 'process_limit': 60,
              'smtp_connection_cache_time_limit': '2s', 'smtp_connection_reuse_time_limit': '60s',
              'smtp_connection_reuse_count_limit': 500, 'source_pool': 'both'}
    daemon = place.sluice(
        start=False, env=env,
        options={'allow_loopback': True, 'minimal_backoff_time': '2s',
                 'maximal_backoff_time': '15s', 'queue_run_delay': '2s',
                 'maximal_queue_lifetime': f'{lifetime}s', 'bounce_queue_lifetime': f'{lifetime}s',
                 'spool_reserve': '64M', 'spool_ballast': '16M', 'map_size': '8G',
                 'message_active_limit': 2000, 'message_recipient_limit': 4000},
        listener={'tenant_header': 'X-Tenant', 'campaign_header': 'X-Campaign'},
        sources={'one': {'address': '127.0.0.1'}, 'two': {'address': '127.0.0.2'}},
        pools={'both': {'sources': ['one', 'two']}},
        transports={'smtp': dict(common), 'bulk': {**common, 'destination_recipient_limit': 10},
                    'slow': {**common, 'destination_concurrency_limit': 3}, 'back': {}},
        routes={'*': ('smtp', None), BACK: ('back', receivers.back.nexthop),
                **{f'{kind}.many.test': ('bulk', None) for kind in (*KINDS, *UNREACHED)},
                **{f'{kind}.large.test': ('slow', None) for kind in (*KINDS, *UNREACHED)}},
        event_log={'rotate_size': '8M', 'rotate_keep': 0},
        dns={'servers': [receivers.zone.name], 'timeout': '1s', 'tries': 2})
    assert isinstance(daemon, Sluice)
    return daemon
