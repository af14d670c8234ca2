"""Many connections at once: CPU time a message, and memory of an idle connection.

One engine opens 10, 100, 1,000 and 10,000 connections to receivers at 100 addresses: greetings are
held back until all are open. Each carries one message and is idle then: its memory is the growth
of RssAnon since the start. Then messages come that keep all of them busy: the receiver's time for
a message is chosen so that the whole takes them at the same rate whatever their number, so the CPU
time of the engine for a message, intake included, differs by the number of connections only."""
import subprocess
import time

import measure as repeats
from load import Sink, busy_seconds, free_port, inject, make_certificate
from relay import Failure, Sluice, anonymous_bytes, running

TITLE = 'Many connections at once'
QUICK = {'counts': [10, 1000], 'messages': 10000}
FIGURES = [repeats.CPU, {'key': 'idle_bytes', 'title': 'bytes an idle one', 'better': 'lower',
                         'digits': 0},
           repeats.RATE]
NETWORK = '127.1.0.'
HOSTS_MAX = 250
LIMITS = {'plain': 4096, 'tls': 24576}  # bytes of an idle connection: the design's targets


def add_arguments(parser):
    parser.add_argument('--counts', type=repeats.numbers,
                        default=[10, 100, 1000, 10000], metavar='N,...')
    parser.add_argument('--transports', type=repeats.choice(*LIMITS), default=list(LIMITS),
                        metavar='KIND,...', help='of plain, tls')
    parser.add_argument('--hosts', type=int, default=100, metavar='N',
                        help=f'at most {HOSTS_MAX}; the connections are shared out among them')
    parser.add_argument('--messages', type=int, default=40000, help='of the busy phase')
    parser.add_argument('--rate', type=float, default=4000,
                        help='messages a second that the receiver takes')
    parser.add_argument('--settle', type=float, default=12, metavar='SECONDS',
                        help='before memory is looked at: jemalloc gives pages back 10 s after '
                             'they were freed')
    parser.add_argument('--pipeline-depth', type=int, default=1, help='of the engine')
    parser.add_argument('--perf', metavar='FILE',
                        help='record a profile of each busy phase to FILE.KIND.N')


def make_relay(args, kind, count, hosts, sink, port):
    transport = {'destination_concurrency_limit': count // hosts,
                 'initial_destination_concurrency': count // hosts, 'process_limit': count,
                 'pipeline_depth': args.pipeline_depth,
                 'smtp_tls_security_level': '"encrypt"' if kind == 'tls' else '"none"',
                 'smtp_helo_timeout': '3600s', 'smtp_connection_cache_time_limit': '3600s',
                 'smtp_connection_reuse_time_limit': '36000s'}
    routes = [(f'd{i}.test', sink.nexthop(f'{NETWORK}{i}')) for i in range(1, hosts + 1)]
    return lambda folder: Sluice(args.build, folder, port, routes, transport,
                                 {'message_active_limit': 50000})


def open_all(args, sink, port, count, domains):
    """Every connection is made, carries a message and is idle."""
    inject(args.build, port, count, args.size, domains)
    sink.wait(lambda numbers: numbers['open'] == count, 120, f'{count} connections')
    sink.release()
    sink.wait(lambda numbers: numbers['messages'] == count, 120, f'{count} messages')


def busy_phase(args, sink, port, account, domains, profile):
    """Returns (CPU seconds of the engine, seconds, share of the CPUs that others used)."""
    before = sink.read()['messages']
    cpu, busy, begin = account.cpu_seconds(), busy_seconds(), time.monotonic()
    perf = profile and subprocess.Popen(
        ['perf', 'record', '-q', '-g', '-o', profile, '-p', str(account.root)],
        stdin=subprocess.DEVNULL)
    inject(args.build, port, args.messages, args.size, domains)
    sink.wait(lambda numbers: numbers['messages'] == before + args.messages, 600, 'all messages')
    cpu, elapsed = account.cpu_seconds() - cpu, time.monotonic() - begin
    if perf:
        perf.terminate()
        perf.wait()
    return cpu, elapsed, busy_seconds() - busy


def measure(args, kind, count):
    port, hosts = free_port(), min(args.hosts, count, HOSTS_MAX)
    if count % hosts != 0:
        raise Failure(f'{count} connections cannot be shared out among {hosts} destinations')
    domains = f'd%d.test:{hosts}'
    options = ['--hold', '--delay-dot', max(1, round(count / args.rate * 1000))]
    options += make_certificate(args.folder) if kind == 'tls' else []
    with Sink(args.build, args.folder, *options, hosts=f'{NETWORK}1-{NETWORK}{hosts}') as sink, \
            running(make_relay(args, kind, count, hosts, sink, port), args.dir) as (_, account):
        fresh = anonymous_bytes(account)
        open_all(args, sink, port, count, domains)
        time.sleep(args.settle)
        idle, idle_cpu = anonymous_bytes(account), account.cpu_seconds()
        time.sleep(2)
        idle_cpu = (account.cpu_seconds() - idle_cpu) / 2
        profile = f'{args.perf}.{kind}.{count}' if args.perf else None
        cpu, elapsed, busy = busy_phase(args, sink, port, account, domains, profile)
        numbers = sink.end()
    cell = {'kind': kind, 'connections': count, 'destinations': hosts,
            'opened': numbers['connections'], 'messages': args.messages,
            'rate': args.messages / elapsed, 'cpu_us': cpu / args.messages * 1e6,
            'idle_total': idle - fresh, 'idle_bytes': (idle - fresh) / count, 'idle_cpu': idle_cpu,
            'cpus_busy': round(busy / elapsed, 2)}
    print(f"{kind:5} {count:6} connections ({cell['opened']} made, {hosts} destinations)  "
          f"{cell['rate']:7.0f} /s  CPU {cell['cpu_us']:6.1f} us a message  "
          f"idle: {cell['idle_bytes']:8.0f} bytes each, CPU {idle_cpu * 100:.1f} %  "
          f"(all work: {cell['cpus_busy']:.2f} CPUs)", flush=True)
    return cell


def summarise(cells):
    """Growth from the fewest connections to the most; what the engine holds anyway, once it has
    carried mail, is in both."""
    rows = []
    for kind in LIMITS:
        mine = sorted((c for c in cells if c['kind'] == kind), key=lambda c: c['connections'])
        if len(mine) > 1:
            rows.append({'kind': kind, 'from': mine[0]['connections'],
                         'to': mine[-1]['connections'],
                         'cpu_growth': mine[-1]['cpu_us'] / mine[0]['cpu_us'],
                         'idle_bytes': (mine[-1]['idle_total'] - mine[0]['idle_total']) /
                                       (mine[-1]['connections'] - mine[0]['connections']),
                         'limit_bytes': LIMITS[kind]})
    return rows


def targets(rows):
    return [repeats.target(f"{row['kind']}: bytes of an idle connection",
                           f"<= {row['limit_bytes']:,}", row['idle_bytes'],
                           row['idle_bytes'] <= row['limit_bytes'], digits=0)
            for row in rows]


def run(args):
    cells = [measure(args, kind, count) for kind in args.transports for count in args.counts]
    rows = summarise(cells)
    for row in rows:
        print(f"{row['kind']}: CPU a message with {row['to']:,} connections is "
              f"{row['cpu_growth']:.2f} times that with {row['from']:,}")
    found = targets(rows)
    repeats.print_targets(found)
    runs = [{'relay': 'sluice', 'pair': 1, 'case': f"{c['kind']}, {c['connections']:,}",
             'is_clean': True, 'foreign': None, 'destinations': [],
             'figures': {key: c[key] for key in ('cpu_us', 'idle_bytes', 'rate')}} for c in cells]
    return {'title': TITLE, 'description': __doc__, 'figures': FIGURES, 'runs': runs,
            'summary': repeats.summarise(runs, FIGURES), 'targets': found, 'cells': cells,
            'rows': rows}
