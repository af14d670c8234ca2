"""One connection to a receiver far away: messages a second, beside Postfix with one connection.

The receiver's replies take a round trip, in order; what is sent to it is read and processed at
once (sluice-sink --round-trip). Greetings are held back until the relay has accepted a backlog, so
that nothing is measured but the delivery. A cell is the rate from the first acceptance to the last
one within its time; `raw` is a client without a queue, that is, the receiver's own limit."""
import math
import time

import measure as repeats
from load import Sink, busy_seconds, free_port, inject
from raw_client import MODES, RawClient
from relay import Failure, Postfix, Sluice, running

TITLE = 'One connection over a distance'
QUICK = {'round_trips': [0, 100], 'seconds': 2, 'backlog': 10000, 'relays': ['raw', 'sluice']}
FIGURES = [repeats.RATE,
           {'key': 'max_in_flight', 'title': 'in flight', 'better': None, 'digits': 0}]
USUAL = '8bitmime,smtputf8,enhancedstatuscodes,size'
EXTENSIONS = {'lockstep': USUAL, 'pipelining': f'{USUAL},pipelining',
              'chunking': f'{USUAL},pipelining,chunking'}
DOMAIN = 'd1.test'
# The best of what was tried for one connection: docs/benchmarks.md.
POSTFIX = {'smtp_destination_concurrency_limit': 1, 'initial_destination_concurrency': 1,
           'smtp_connection_cache_on_demand': 'no',
           'smtp_connection_cache_destinations': 'static:all',
           'smtp_connection_reuse_time_limit': '3600s',
           'smtp_connection_cache_time_limit': '60s', 'connection_cache_ttl_limit': '60s'}
TARGETS = {('chunking', 100): {'ratio': 50}, ('pipelining', 100): {'rate': 9, 'ratio': 2.5}}


def add_arguments(parser):
    parser.add_argument('--round-trips', type=repeats.numbers,
                        default=[0, 30, 100, 300], metavar='MS,...')
    parser.add_argument('--modes', type=repeats.choice(*MODES), default=list(MODES),
                        metavar='MODE,...', help=f'of {", ".join(MODES)}')
    parser.add_argument('--seconds', type=float, default=5,
                        help='of a cell; at least 40 round trips')
    parser.add_argument('--pipeline-depth', type=int, default=1000, help='of sluice')
    parser.add_argument('--backlog', type=int, default=60000,
                        help='messages at most; a cell ends when they are delivered')
    parser.add_argument('--relays', type=repeats.choice('raw', 'sluice', 'postfix'),
                        default=['raw', 'sluice', 'postfix'], metavar='RELAY,...')
    parser.add_argument('--postfix-setting', action='append', default=[], metavar='NAME=VALUE',
                        help='instead of the ones used, or beside them')


def make_relay(args, relay, port, nexthop):
    routes = [(DOMAIN, nexthop)]
    if relay == 'sluice':
        transport = {'destination_concurrency_limit': 1, 'initial_destination_concurrency': 1,
                     'process_limit': 1, 'pipeline_depth': args.pipeline_depth,
                     'smtp_connection_reuse_time_limit': '3600s'}
        return lambda folder: Sluice(args.build, folder, port, routes, transport)
    settings = {**POSTFIX, **dict(text.split('=', 1) for text in args.postfix_setting)}
    return lambda folder: Postfix(folder, port, routes, settings)


def backlog(args, relay, mode, round_trip, seconds):
    """More than can be delivered in the time, where that is known."""
    if round_trip > 0 and (mode != 'chunking' or relay == 'postfix'):
        return min(args.backlog, math.ceil(1.5 * seconds / round_trip) + 10)
    return min(args.backlog, {'postfix': 5000, 'sluice': args.backlog}[relay])


def measure_raw(args, mode, round_trip, seconds, folder):
    with make_sink(args, mode, round_trip, folder) as sink:
        RawClient(sink.address, sink.port, args.size).run(mode, seconds)
        return sink.end()


def make_sink(args, mode, round_trip, folder, *options):
    return Sink(args.build, folder, '--round-trip', round(round_trip * 1000), '--extensions',
                EXTENSIONS[mode], *options)


def measure_relay(args, relay, mode, round_trip, seconds, folder):
    count, port = backlog(args, relay, mode, round_trip, seconds), free_port()
    with make_sink(args, mode, round_trip, folder, '--hold', '--messages', count) as sink, \
            running(make_relay(args, relay, port, sink.nexthop()), args.dir):
        inject(args.build, port, count, args.size, DOMAIN)
        sink.wait(lambda numbers: numbers['open'] == 1, 30, 'the connection')
        sink.release()
        end = time.monotonic() + seconds
        while sink.process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        return sink.end()  # ends by itself once it has everything


def measure(args, relay, mode, round_trip):
    seconds = max(args.seconds, 40 * round_trip)
    busy, begin = busy_seconds(), time.monotonic()
    if relay == 'raw':
        numbers = measure_raw(args, mode, round_trip, seconds, args.folder)
    else:
        numbers = measure_relay(args, relay, mode, round_trip, seconds, args.folder)
    load = (busy_seconds() - busy) / (time.monotonic() - begin)
    if numbers['messages'] < 2:
        raise Failure(f"{relay}, {mode}, {round_trip}: {numbers['messages']} messages delivered")
    cell = {'relay': relay, 'mode': mode, 'round_trip_ms': round(round_trip * 1000),
            'messages': numbers['messages'], 'elapsed': numbers['elapsed'],
            'rate': (numbers['messages'] - 1) / numbers['elapsed'],
            'connections': numbers['connections'],
            'max_open': numbers['listeners'][0]['max_open'],
            'max_in_flight': numbers['max_in_flight'], 'cpus_busy': round(load, 2)}
    # A burst of one round trip is within; in so short a time it would count.
    cell['is_short'] = numbers['elapsed'] < 20 * round_trip
    print(f"{relay:8} {mode:10} {cell['round_trip_ms']:4} ms  {cell['rate']:10.1f} /s  "
          f"{cell['messages']:6} in {cell['elapsed']:.2f} s, {cell['max_in_flight']} in flight"
          f"{connections_text(cell)}"
          f"{'  TOO SHORT: a larger --backlog' if cell['is_short'] else ''}", flush=True)
    return cell


def connections_text(cell):
    """Whoever ends one by QUIT may begin the next before the answer."""
    if cell['connections'] == 1:
        return ''
    return f", {cell['connections']} connections, at most {cell['max_open']} at once"


def summarise(cells):
    """One row for each mode and round trip."""
    found = {(c['relay'], c['mode'], c['round_trip_ms']): c for c in cells}
    rows = []
    for mode, trip in sorted({(c['mode'], c['round_trip_ms']) for c in cells},
                             key=lambda key: (MODES.index(key[0]), key[1])):
        row = {'mode': mode, 'round_trip_ms': trip, 'missed': []}
        for relay in ('raw', 'sluice', 'postfix'):
            if (relay, mode, trip) in found:
                row[relay] = found[relay, mode, trip]['rate']
        if 'sluice' in row:
            row['in_flight'] = found['sluice', mode, trip]['max_in_flight']
            row['rate'] = row['sluice']
        if 'sluice' in row and 'postfix' in row:
            row['ratio'] = row['sluice'] / row['postfix']
        row['missed'] = [name for name, least in TARGETS.get((mode, trip), {}).items()
                         if name in row and row[name] < least]
        rows.append(row)
    return rows


def print_table(rows):
    print('\nmode        round trip   raw/s      sluice/s   in flight  postfix/s  ratio')
    for row in rows:
        cells = [f'{row[name]:10.1f}' if name in row else f'{"":10}'
                 for name in ('raw', 'sluice', 'postfix')]
        target = TARGETS.get((row['mode'], row['round_trip_ms']))
        wanted = '' if target is None else '  target ' + ', '.join(
            f'{name} >= {least}' for name, least in target.items()) + (
                ': MISSED' if row['missed'] else ': met' if 'ratio' in row else '')
        print(f"{row['mode']:10}  {row['round_trip_ms']:7} ms  {cells[0]} {cells[1]}  "
              f"{row.get('in_flight', ''):9}  {cells[2]} "
              f"{format(row['ratio'], '6.1f') if 'ratio' in row else ''}{wanted}")


def run(args):
    cells = []
    for trip in args.round_trips:
        for mode in args.modes:
            cells += [measure(args, relay, mode, trip / 1000) for relay in args.relays]
    rows = summarise(cells)
    print_table(rows)
    runs = [{'relay': c['relay'], 'pair': 1, 'case': f"{c['mode']}, {c['round_trip_ms']} ms",
             'is_clean': True, 'foreign': None, 'destinations': [],
             'figures': {key: c[key] for key in ('rate', 'max_in_flight')}} for c in cells]
    return {'title': TITLE, 'description': __doc__, 'figures': FIGURES, 'runs': runs,
            'summary': repeats.summarise(runs, FIGURES), 'targets': targets(rows), 'cells': cells,
            'rows': rows}


def targets(rows):
    return [repeats.target(f"{row['mode']}, {row['round_trip_ms']} ms: {what}", f'>= {least}',
                           row[name], name not in row['missed'])
            for row in rows
            for name, least in TARGETS.get((row['mode'], row['round_trip_ms']), {}).items()
            if name in row
            for what in [{'rate': 'messages/s', 'ratio': 'times Postfix'}[name]]]
