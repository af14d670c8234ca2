"""Repeats, and what they come to. Systems take turns, forwards and backwards, and a ratio is that of two neighbouring runs;
rounds that other work on the machine disturbed are made again, up to a point. Rates and CPU times
move with the machine: the ratios within a round are what counts."""
import argparse
import os
import statistics
import subprocess
import time

import systems
from load import busy_seconds
from relay import Failure

RATE = {'key': 'rate', 'title': 'messages/s', 'better': 'higher', 'digits': 0}
ACCEPTED = {'key': 'in_rate', 'title': 'accepted/s', 'better': 'higher', 'digits': 0}
CPU = {'key': 'cpu_us', 'title': 'CPU us each', 'better': 'lower', 'digits': 1}
P50 = {'key': 'p50_ms', 'title': 'p50 ms', 'better': 'lower', 'digits': 1}
P99 = {'key': 'p99_ms', 'title': 'p99 ms', 'better': 'lower', 'digits': 1}
MAX = {'key': 'max_ms', 'title': 'max ms', 'better': 'lower', 'digits': 1}
MEMORY = {'key': 'memory_mb', 'title': 'peak MB', 'better': 'lower', 'digits': 1}
THROUGHPUT = [RATE, ACCEPTED, CPU, P50, P99, MEMORY]

ALL = ['raw', 'sluice', 'postfix-nocache', 'postfix']
QUICK = {'pairs': 1, 'messages': 10000, 'messages_postfix': 1000}


def names(text):
    return text.split(',')


def choice(*known):
    """The type of an argument: some of the known names, separated by commas."""
    def read(text):
        unknown = [name for name in names(text) if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not of {', '.join(known)}")
        return names(text)
    return read


def numbers(text):
    return [int(number) for number in text.split(',')]


def add_arguments(parser, relays, messages=None):
    """What every workload with runs takes. messages: (of sluice and raw, of the others)"""
    parser.add_argument('--relays', type=names, default=relays, metavar='NAME,...',
                        help='of sluice, sluice@FOLDER (another build), postfix, postfix-nocache, '
                             f'HOST:PORT, raw (no relay); {",".join(relays)}')
    parser.add_argument('--pairs', type=int, default=3, help='times that each has its turn')
    if messages is not None:
        parser.add_argument('--messages', type=int, default=messages[0],
                            help=f'for sluice and raw ({messages[0]:,})')
        parser.add_argument('--messages-postfix', type=int, default=messages[1],
                            help=f'for everybody else ({messages[1]:,})')
    parser.add_argument('--connections', type=int, default=20, help='into the relay')
    parser.add_argument('--window', type=int, default=20, help='connections to a destination')
    parser.add_argument('--process-limit', type=int, default=100,
                        help='connections of a relay to all destinations together')
    parser.add_argument('--timeout', type=int, default=300, metavar='SECONDS',
                        help='an error when nothing more is delivered for so long')
    parser.add_argument('--max-foreign', type=float, default=1, metavar='SHARE',
                        help='leave rounds out in which others used more of the CPUs')
    parser.add_argument('--patience', type=float, default=0, metavar='SECONDS',
                        help='wait so long for others to use less, before each round')
    parser.add_argument('--timeline', type=int, default=1000, metavar='MS',
                        help='intervals of the course over time that --json keeps; 0: none')
    parser.add_argument('--exact', action='store_true',
                        help='keep ledgers and compare every recipient, not only their numbers; '
                             'costs the receiver time')
    parser.add_argument('--calls', action='store_true',
                        help='count what each thread of sluice asks of the kernel, a message')
    parser.add_argument('--sink-port', type=int, metavar='PORT',
                        help='of the receiver; for HOST:PORT, which must know it')


def check(args, without=()):
    systems.check(args, args.relays)
    for name in without:
        if name in args.relays:
            raise Failure(f'{name} has no part in this workload; leave it out of --relays')


def wait_for_quiet(args):
    """Until others leave the machine alone for two seconds, at most --patience seconds."""
    end = time.monotonic() + args.patience
    while time.monotonic() < end:
        busy = busy_seconds()
        time.sleep(2)
        if (busy_seconds() - busy) / 2 / os.cpu_count() <= args.max_foreign:
            return


def rounds(args, cases, figures, run_one):
    """run_one(args, name, case) for every case and system; returns the "runs" of the result."""
    runs = []
    for case in cases:
        clean = 0
        for pair in range(1, 3 * args.pairs + 1):
            wait_for_quiet(args)
            order = args.relays if pair % 2 == 1 else args.relays[::-1]
            turn = [one_run(args, name, case, pair, figures, run_one) for name in order]
            is_clean = all((run['foreign'] or 0) <= args.max_foreign for run in turn)
            for run in turn:
                run['is_clean'] = is_clean
            if not is_clean:
                print('    others used too much: this round is left out', flush=True)
            runs += turn
            clean += is_clean
            if clean == args.pairs:
                break
        else:
            print(f'{case.case or args.workload}: only {clean} of {args.pairs} rounds were '
                  'undisturbed', flush=True)
    return runs


def one_run(args, name, case, pair, figures, run_one):
    try:
        run = {**run_one(args, name, case), 'pair': pair}
    except (Failure, subprocess.CalledProcessError) as error:
        raise Failure(f'{name} {case.case}: {error}') from error
    print_run(run, figures)
    return run


def text_of(figure, value):
    return '' if value is None else f"{value:,.{figure['digits']}f}"


def print_run(run, figures):
    values = ', '.join(f"{f['title']} {text_of(f, run['figures'][f['key']])}" for f in figures
                       if run['figures'].get(f['key']) is not None)
    foreign = '' if run['foreign'] is None else f", others' CPU {run['foreign'] * 100:.1f} %"
    print(f"{run['pair']}  {run['case']}{'  ' if run['case'] else ''}{run['relay']:16} "
          f'{values}{foreign}', flush=True)


def median_of(runs, key):
    values = [run['figures'][key] for run in runs if run['figures'].get(key) is not None]
    return statistics.median(values) if values else None


def ratios_of(mine, theirs, figures):
    """My figures divided by the other's, pair by pair."""
    found = {}
    others = {run['pair']: run['figures'] for run in theirs}
    for key in (figure['key'] for figure in figures if figure['better']):
        pairs = [(run['figures'].get(key), others[run['pair']].get(key)) for run in mine
                 if run['pair'] in others]
        ratios = [a / b for a, b in pairs if a and b]
        if ratios:
            found[key] = {'median': statistics.median(ratios), 'least': min(ratios),
                          'most': max(ratios)}
    return found


def summarise(runs, figures):
    """The "summary" of the result: of the undisturbed runs."""
    rows, groups = [], {}
    for run in runs:
        if run['is_clean']:
            groups.setdefault(run['case'], {}).setdefault(run['relay'], []).append(run)
    for case, relays in groups.items():
        for name, mine in relays.items():
            medians = {f['key']: median_of(mine, f['key']) for f in figures}
            rows.append({
                'case': case, 'relay': name, 'pairs': len(mine),
                'figures': {key: value for key, value in medians.items() if value is not None},
                'ratios': {other: ratios_of(mine, theirs, figures)
                           for other, theirs in relays.items() if other != name}})
    return rows


def print_table(rows, figures):
    """Medians, then what sluice makes of the others, and everybody's share of the ceiling."""
    if not rows:  # it was said that all were left out
        return
    shown = [f for f in figures if any(f['key'] in row['figures'] for row in rows)]
    case = max((len(row['case']) for row in rows), default=0)
    width = max((len(row['relay']) for row in rows), default=0)
    print(f'\n{"":{case}}  {"":{width}}  rounds' +
          ''.join(f"{f['title']:>14}" for f in shown) + share_title(rows))
    for row in rows:
        print(f"{row['case']:{case}}  {row['relay']:{width}}  {row['pairs']:6}" + ''.join(
            f"{text_of(f, row['figures'].get(f['key'])):>14}" for f in shown) + share_of(row))
    print()
    for row in rows:
        if systems.is_sluice(row['relay']):
            print_ratios(row, figures)


def share_title(rows):
    return '  share of raw' if any('rate' in row['ratios'].get('raw', {}) for row in rows) else ''


def share_of(row):
    share = row['ratios'].get('raw', {}).get('rate')
    return f"{share['median'] * 100:12.1f} %" if share else ''


def times_better(figure, ratio):
    """(median, least, most) so that more than 1 is better, whatever the figure."""
    if figure['better'] == 'higher':
        return ratio['median'], ratio['least'], ratio['most']
    return 1 / ratio['median'], 1 / ratio['most'], 1 / ratio['least']


def print_ratios(row, figures):
    """How many times better, in parentheses the least and the most of a pair."""
    for other, ratios in row['ratios'].items():
        found = [(f, times_better(f, ratios[f['key']])) for f in figures if f['key'] in ratios]
        if other != systems.RAW and found:
            text = ', '.join(f"{f['title']} {median:.1f} ({least:.1f}-{most:.1f})"
                             for f, (median, least, most) in found)
            print(f"{row['case']}{' ' if row['case'] else ''}{row['relay']} beside {other}, times "
                  f'better: {text}')


def print_threads(runs):
    """CPU time of each thread of sluice for what it delivered."""
    for case in dict.fromkeys(run['case'] for run in runs):
        for name in dict.fromkeys(r['relay'] for r in runs if 'threads' in r and r['is_clean']):
            mine = [r for r in runs if (r['relay'], r['case']) == (name, case) and r['is_clean']]
            each = {thread: statistics.median(r['threads'].get(thread, 0) / r['recipients'] * 1e6
                                              for r in mine)
                    for thread in dict.fromkeys(t for r in mine for t in r['threads'])}
            busy = ', '.join(f'{thread} {us:.1f}' for thread, us in
                             sorted(each.items(), key=lambda item: -item[1]) if us >= 0.05)
            if busy:
                print(f'{case}{" " if case else ""}{name}, CPU us each by thread: {busy}')


def print_calls(runs):
    """What each thread of sluice asks of the kernel for what it delivered, and how often it was switched from."""
    for run in runs:
        for thread, counts in sorted(run.get('calls', {}).items()):
            each = {name: count / run['recipients'] for name, count in counts.items()}
            text = ', '.join(f'{name} {value:.{0 if value >= 100 else 3}f}' for name, value in
                             sorted(each.items(), key=lambda item: -item[1]) if value >= 0.001)
            total = sum(value for name, value in each.items()
                        if not name.endswith(' bytes') and not name.startswith('switch'))
            if text:
                print(f"{run['case']}{' ' if run['case'] else ''}{run['relay']}, {thread}: {total:.2f} calls each: {text}")


def print_destinations(runs):
    """Of the last round of each case."""
    last = {(run['case'], run['relay']): run for run in runs}
    for (case, name), run in last.items():
        print(f'\n{case}{" " if case else ""}{name}\n{"destination":24}{"messages":>10}'
              f'{"recipients":>12}{"per second":>12}{"p50 ms":>10}{"p99 ms":>10}{"max ms":>10}'
              f'{"connections":>13}{"at once":>9}{"deferred":>10}{"refused":>9}')
        for one in run['destinations']:
            times = ''.join(f"{one['latency'][key] * 1000:10,.1f}" for key in ('p50', 'p99', 'max'))
            ends = ''.join(f"{'' if one[key] is None else one[key]:>{wide}}"
                           for key, wide in (('connections', 13), ('max_open', 9),
                                             ('deferred', 10), ('refused', 9)))
            print(f"{one['name']:24}{one['messages']:10,}{one['recipients']:12,}"
                  f"{one['rate']:12,.1f}{times}{ends}")


def target(what, wanted, value, is_met, digits=1):
    return {'what': what, 'wanted': wanted, 'measured': f'{value:,.{digits}f}', 'is_met': is_met}


def print_targets(found):
    for one in found:
        print(f"{one['what']}: {one['measured']}, target {one['wanted']}: "
              f"{'met' if one['is_met'] else 'MISSED'}")


def figure_of(rows, relay, key, case=''):
    """A median; None where that was not measured."""
    return next((row['figures'].get(key) for row in rows
                 if (row['case'], row['relay']) == (case, relay)), None)


def ratio_of(rows, relay, other, key, case=''):
    return next((row['ratios'].get(other, {}).get(key, {}).get('median') for row in rows
                 if (row['case'], row['relay']) == (case, relay)), None)


def result(args, module, figures, runs, targets_of=None):
    """Prints the tables and returns what --json writes. module: (title, doc string);
    targets_of(summary) -> targets"""
    rows = summarise(runs, figures)
    print_table(rows, figures)
    print_threads(runs)
    print_calls(runs)
    if args.destinations:
        print_destinations(runs)
    targets = targets_of(rows) if targets_of else []
    print_targets(targets)
    return {'title': module[0], 'description': module[1], 'figures': figures, 'runs': runs,
            'summary': rows, 'targets': targets}
