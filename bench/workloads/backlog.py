"""A long queue: memory, the time to the first delivery after a start, and intake meanwhile.

Messages are queued while the receivers hold their greetings (new: never tried) or answer 451 (old:
tried once each, deferred and due again). Then, for each of both:

first       the engine is started twice, the file of the spool out of the page cache (cold) and in
            it (warm): from exec to the first message that the receiver accepts
restarted   started again with the receivers holding their greetings until as many messages are
            active as may be
drained     the greetings come, and the whole queue is delivered. Meanwhile a few new messages a
            second are offered, and `sluice status` is asked once a second
idle        the same offers when all of it is delivered: what they take anyway

Memory is RssAnon: what is queued, restarted, at most while it is drained, and when it is empty."""
import contextlib
import json
import math
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from load import Sink, free_port, inject
from relay import Failure, Sluice, anonymous_bytes, new_account, show_logs

TITLE = 'A long queue'
QUICK = {'messages': 100000}
NETWORK = '127.0.1.'
KINDS = ['new', 'old']
LIMITS = {'memory_mb': 150, 'first_s': 2}
FIGURES = [
    {'key': 'first_cold_s', 'title': 'first, cold s', 'better': 'lower', 'digits': 2},
    {'key': 'first_warm_s', 'title': 'first, warm s', 'better': 'lower', 'digits': 2},
    {'key': 'queued_mb', 'title': 'queued MB', 'better': 'lower', 'digits': 0},
    {'key': 'restarted_mb', 'title': 'restarted MB', 'better': 'lower', 'digits': 0},
    {'key': 'drained_mb', 'title': 'drained, peak MB', 'better': 'lower', 'digits': 0},
    {'key': 'empty_mb', 'title': 'empty MB', 'better': 'lower', 'digits': 0},
    {'key': 'rate', 'title': 'drained/s', 'better': 'higher', 'digits': 0},
    {'key': 'cpu_us', 'title': 'drained, CPU us a message', 'better': 'lower', 'digits': 1},
    {'key': 'accept_p50_ms', 'title': 'accept p50 ms', 'better': 'lower', 'digits': 1},
    {'key': 'accept_p99_ms', 'title': 'accept p99 ms', 'better': 'lower', 'digits': 1},
    {'key': 'accept_max_ms', 'title': 'accept max ms', 'better': 'lower', 'digits': 1},
    {'key': 'idle_p99_ms', 'title': 'idle p99 ms', 'better': 'lower', 'digits': 1},
    {'key': 'counts_p50_ms', 'title': 'counts p50 ms', 'better': 'lower', 'digits': 1},
    {'key': 'counts_max_ms', 'title': 'counts max ms', 'better': 'lower', 'digits': 1},
]


def add_arguments(parser):
    parser.add_argument('--messages', type=int, default=1000000, help='queued (1,000,000)')
    parser.add_argument('--kinds', type=lambda text: text.split(','), default=KINDS,
                        metavar='KIND,...', help='of new, old')
    parser.add_argument('--active', type=int, default=20000, help='message_active_limit')
    parser.add_argument('--destinations', type=int, default=20, metavar='N', help='at most 250')
    parser.add_argument('--tenants', type=int, default=1, metavar='N',
                        help='whose mail it is, alike; more than one: named by a header')
    parser.add_argument('--queue-limit', type=int, default=0, metavar='N',
                        help='of each tenant, so that queued mail is counted at the start; 0: none')
    parser.add_argument('--trickle', type=float, default=50, metavar='RATE',
                        help='new messages a second meanwhile')
    parser.add_argument('--settle', type=float, default=12, metavar='SECONDS',
                        help='before memory at rest is looked at: jemalloc gives pages back 10 s '
                             'after they were freed')
    parser.add_argument('--idle-seconds', type=float, default=20, metavar='SECONDS')
    parser.add_argument('--timeout', type=float, default=1800, metavar='SECONDS',
                        help='to be queued, and to be drained')


class Queue:
    """A relay that is started several times, each time towards receivers of their own."""

    def __init__(self, args, folder):
        self.args = args
        self.hosts = [f'{NETWORK}{i}' for i in range(1, args.destinations + 1)]
        self.domains = f'd%d.test:{len(self.hosts)}'
        routes = [(f'd{i}.test', f'@{i}@') for i in range(1, len(self.hosts) + 1)]
        transport = {'smtp_helo_timeout': '3600s', 'process_limit': 20 * len(self.hosts)}
        options = {'message_active_limit': args.active, 'minimal_backoff_time': '1s',
                   'queue_run_delay': '3600s'}
        self.tenants = ['--tenants', str(args.tenants)] if args.tenants > 1 else []
        listener = {'tenant_header': '"X-Tenant"'} if self.tenants else {}
        sections = f'tenant "*" {{ queue_limit = {args.queue_limit} }}' if args.queue_limit else ''
        self.relay = Sluice(args.build, folder, free_port(), routes, transport, options, sections,
                            listener)
        self.template = self.relay.config.read_text()
        self.account = None

    @contextlib.contextmanager
    def receivers(self, *options):
        span = f'{self.hosts[0]}-{self.hosts[-1]}'
        with Sink(self.args.build, self.args.folder, *options, hosts=span) as sink:
            text = self.template
            for i, host in enumerate(self.hosts, 1):
                text = text.replace(f'@{i}@', sink.nexthop(host))
            self.relay.config.write_text(text)
            yield sink

    @contextlib.contextmanager
    def running(self):
        self.account = new_account()
        try:
            self.relay.start(self.account)
            yield
        finally:
            self.relay.stop()
            self.account.remove()

    def memory_mb(self):
        return anonymous_bytes(self.account) / 1e6

    def totals(self):
        """Of `sluice status`, and the seconds that it took."""
        begin = time.monotonic()
        done = subprocess.run([self.relay.program, 'status', '--json', '-c',
                               self.relay.config], capture_output=True, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1]), time.monotonic() - begin

    def wait(self, is_enough, what):
        """Until is_enough(totals); returns the most memory meanwhile."""
        peak, end = 0, time.monotonic() + self.args.timeout
        while time.monotonic() < end:
            peak = max(peak, self.memory_mb())
            totals, _ = self.totals()
            if is_enough(totals):
                return peak
            time.sleep(0.2)
        raise Failure(f'{what} did not come within {self.args.timeout} s: {totals}')

    def evict(self):
        """Its file out of the page cache."""
        descriptor = os.open(self.relay.folder / 'spool/data.mdb', os.O_RDWR)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


class Trickle:
    """New messages at a steady rate, from its creation to end()."""

    def __init__(self, queue):
        args = queue.args
        self.process = subprocess.Popen(
            [args.build / 'bench/sluice-source', '--to', f'127.0.0.1:{queue.relay.port}',
             '--messages', '0', '--seconds', '100000', '--rate', str(args.trickle),
             '--connections', '100', '--size', str(args.size), '--domains', queue.domains,
             *queue.tenants],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def end(self):
        """Stops it; returns the source's numbers."""
        self.process.send_signal(signal.SIGTERM)
        output, _ = self.process.communicate(timeout=60)
        numbers = json.loads(output)
        if numbers['acked'] < numbers['offered'] - numbers['unsent'] or numbers['acked'] == 0:
            raise Failure(f"{numbers['acked']} of {numbers['offered']} new messages were "
                          f"accepted meanwhile; {numbers['last_problem']}")
        return numbers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def fill(queue, kind):
    """Returns the memory once all of it is queued, and what it was meanwhile at most."""
    count = queue.args.messages
    with queue.receivers(*(['--hold'] if kind == 'new' else ['--defer', '1'])), queue.running():
        inject(queue.args.build, queue.relay.port, count, queue.args.size, queue.domains, 100,
               more=queue.tenants)
        peak = queue.wait(lambda totals: totals['deferred' if kind == 'old' else 'messages'] ==
                          count, 'the queue')
        time.sleep(queue.args.settle)
        return queue.memory_mb(), peak


def first_delivery(queue):
    """Seconds from exec, and how many messages are gone. The ledger tells at once that there is
    one, so that few of them go."""
    ledger, end = queue.args.folder / 'ledger', time.monotonic() + 60
    ledger.write_bytes(b'')
    with queue.receivers('--ledger', ledger) as sink:
        begin = time.time()
        with queue.running():
            while ledger.stat().st_size == 0:
                if time.monotonic() > end:
                    raise Failure('nothing was delivered within 60 s of the start')
                time.sleep(0.005)
        numbers = sink.end()
    return numbers['first'] - begin, numbers['messages']


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, math.ceil(share * len(values)) - 1)]


def drain(queue, left):
    """The rest of it, with new mail beside it."""
    args, counts, peak = queue.args, [], 0
    with queue.receivers('--hold') as sink, queue.running():
        # One flow leaves an eighth of the places to others; older builds left none.
        wanted = min(args.active - args.active // 8, left)
        queue.wait(lambda totals: totals['active'] >= wanted, f'{wanted} active messages')
        time.sleep(args.settle)
        restarted = queue.memory_mb()
        cpu = queue.account.cpu_seconds()
        began = sink.release()
        with Trickle(queue) as trickle:
            end, delivered = time.monotonic() + args.timeout, 0
            while delivered < left:
                if time.monotonic() > end:
                    raise Failure(f'{delivered} of {left} delivered in {args.timeout} s')
                time.sleep(1)
                peak = max(peak, queue.memory_mb())
                counts.append(queue.totals()[1])
                delivered = sink.read().get('messages', 0)
            seconds = time.time() - began
            cpu = queue.account.cpu_seconds() - cpu
            busy = trickle.end()
        queue.wait(lambda totals: totals['messages'] == 0, 'the end of the queue')
        time.sleep(args.settle)
        empty = queue.memory_mb()
        with Trickle(queue) as trickle:
            time.sleep(args.idle_seconds)
            idle = trickle.end()
        queue.wait(lambda totals: totals['messages'] == 0, 'the last new message')
        numbers = sink.end()
    if numbers['messages'] != left + busy['acked'] + idle['acked']:
        raise Failure(f"{numbers['messages']} delivered of {left} queued, {busy['acked']} and "
                      f"{idle['acked']} new ones")
    return {'restarted_mb': restarted, 'drained_mb': peak, 'empty_mb': empty,
            'rate': delivered / seconds, 'cpu_us': cpu / delivered * 1e6,
            'accept_p50_ms': busy['latency']['p50'] * 1e3,
            'accept_p99_ms': busy['latency']['p99'] * 1e3,
            'accept_max_ms': busy['latency']['max'] * 1e3,
            'idle_p99_ms': idle['latency']['p99'] * 1e3,
            'counts_p50_ms': quantile(counts, 0.5) * 1e3, 'counts_max_ms': max(counts) * 1e3}


def measure(args, kind):
    with tempfile.TemporaryDirectory(prefix='sluice-bench-', dir=args.dir) as name:
        folder = pathlib.Path(name)
        queue, left = Queue(args, folder), args.messages
        try:
            figures = dict(zip(('queued_mb', 'filled_mb'), fill(queue, kind)))
            for state in ('cold', 'warm'):
                if state == 'cold':
                    queue.evict()
                figures[f'first_{state}_s'], gone = first_delivery(queue)
                left -= gone
                if left <= 0:
                    raise Failure('all is delivered after a start: more --messages')
            figures.update(drain(queue, left))
        except (Failure, subprocess.CalledProcessError):
            show_logs(folder)
            raise
    print(f'{kind}: ' + ', '.join(f"{figure['title']} {figures[figure['key']]:.{figure['digits']}f}"
                                  for figure in FIGURES), flush=True)
    return {'relay': 'sluice', 'pair': 1, 'case': kind, 'is_clean': True, 'figures': figures}


def targets(runs):
    found = []
    for one in runs:
        figures = one['figures']
        memory = max(value for key, value in figures.items() if key.endswith('_mb'))
        first = max(figures['first_cold_s'], figures['first_warm_s'])
        for what, wanted, measured, unit in (('memory', LIMITS['memory_mb'], memory, 'MB'),
                                             ('first delivery', LIMITS['first_s'], first, 's')):
            found.append({'what': f"{one['case']}: {what}", 'wanted': f'<= {wanted} {unit}',
                          'measured': f'{measured:.3g} {unit}', 'is_met': measured <= wanted})
    return found


def run(args):
    for kind in args.kinds:
        if kind not in KINDS:
            raise Failure(f'--kinds {kind}: of {", ".join(KINDS)}')
    runs = [measure(args, kind) for kind in args.kinds]
    found = targets(runs)
    for target in found:
        print(f"{target['what']}: {target['measured']}, target {target['wanted']}: "
              f"{'met' if target['is_met'] else 'MISSED'}")
    return {'title': TITLE, 'description': __doc__, 'figures': FIGURES, 'runs': runs,
            'summary': [{'case': one['case'], 'relay': 'sluice', 'figures': one['figures'],
                         'ratios': {}} for one in runs],
            'targets': found}
