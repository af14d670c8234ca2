"""What receivers do not publish: who finds their limits, and how often it knocks in vain.

A backlog waits in the relay while the receiver holds its greetings. From its release on the receiver
keeps a limit of each address that connects and tells nobody what it is:

rate            R messages a second, a token bucket that holds max(1, R/10); 421 to MAIL beyond
halved, doubled R is another from the middle of the run on
connections     five at a time; connection-rate: 30 a minute, ten messages on each
messages        ten of a connection; 421 to the MAIL behind them
recipients      36,000 an hour; 452 to RCPT beyond, with a text that says what is counted
addresses       two source addresses with different R (sluice has a pool of them; Postfix has none)
one-of-four     R of one domain of four with the same MX; the others get new mail all the time

Accepted is a share of what the limit allows: from --settle seconds on, after a change of R from --again
seconds behind it on. Refused are MAILs (all that were pipelined with a refused one), recipients and
connections, in all of the run but those --again seconds.

postfix has its defaults. postfix-static is told beforehand what suits the receiver: a concurrency
that makes R with the time that the receiver takes, or a rate delay, whose least is one second."""
import argparse
import collections
import concurrent.futures
import contextlib
import json
import math
import os
import pathlib
import time

from load import Sink, Source, Zone, free_port
from relay import Failure, Postfix, Sluice, postfix_version, running

TITLE = 'Limits that nobody publishes'
QUICK = {'seconds': 12, 'settle': 4, 'again': 4, 'rates': [20, 200],
         'relays': ['sluice'], 'cases': ['rate', 'halved', 'connections', 'messages', 'one-of-four']}
CASES = ['rate', 'halved', 'doubled', 'connections', 'connection-rate', 'messages', 'recipients',
         'addresses', 'one-of-four']
RELAYS = ['sluice', 'postfix-static', 'postfix']
ADDRESSES = ('127.0.0.2', '127.0.0.3')
REPLY = '421 4.7.28 Our system has detected an unusual rate of mail originating from {client}'
CONNECT_REPLY = '421 4.7.0 connection rate limit exceeded'
RECIPIENT_REPLY = '452 4.5.3 Too many recipients received this hour'
FIGURES = [
    {'key': 'accepted', 'title': 'accepted %', 'better': 'higher', 'digits': 1},
    {'key': 'rate', 'title': 'accepted/s', 'better': None, 'digits': 1},
    {'key': 'refused', 'title': 'refused', 'better': 'lower', 'digits': 0},
    {'key': 'allowed', 'title': 'allowed', 'better': None, 'digits': 0},
    {'key': 'refused_share', 'title': 'refused %', 'better': 'lower', 'digits': 1},
]
SERIES = ('messages', 'refused', 'refused_recipients', 'connections', 'refused_connections')

# What a case needs to be run.
# behaviour: of the receiver; service: seconds that it takes for a message; backlog: {domain: messages
# a second that are surely enough}; fresh: the same of mail that comes meanwhile; fixed, fixed_sections:
# of both relays' settings, sluice's sections; static: Postfix's that suit it; parts: what is judged
Case = collections.namedtuple('Case', 'name behaviour service backlog fresh sluice sections postfix '
                              'static is_for_postfix by_mx parts')
# One line of the table. key: (section or domain, client) in the sink's report, None: all of them;
# less: (key of what is taken off); capacity: messages a second where the report has no limit; change:
# seconds; bound: least % accepted; share: most % refused; spare: refusals a minute beside it
Part = collections.namedtuple('Part', 'name key less capacity change bound share spare')
ALONE = ('', '127.0.0.1')


def names(known):
    """The type of an argument: some of the known names, separated by commas."""
    def read(text):
        unknown = [name for name in text.split(',') if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not of {', '.join(known)}")
        return text.split(',')
    return read


def add_arguments(parser):
    parser.add_argument('--relays', type=names(RELAYS), default=RELAYS, metavar='NAME,...',
                        help=f'of {", ".join(RELAYS)}')
    parser.add_argument('--cases', type=names(CASES), default=CASES, metavar='CASE,...',
                        help=f'of {", ".join(CASES)}')
    parser.add_argument('--rates', type=lambda text: [int(one) for one in text.split(',')],
                        default=[2, 20, 200, 2000], metavar='R,...', help='of the case rate')
    parser.add_argument('--seconds', type=int, default=80, help='of a run (twice that where R changes)')
    parser.add_argument('--settle', type=int, default=20, metavar='SECONDS',
                        help='before acceptance counts')
    parser.add_argument('--again', type=int, default=30, metavar='SECONDS',
                        help='the same after a change of R')
    parser.add_argument('--stage', choices=('mail', 'rcpt', 'dot'), default='mail',
                        help='where the rates refuse')
    parser.add_argument('--reply', default=REPLY, help='what they say')
    parser.add_argument('--round-trip', default='0', metavar='MS', help='of every reply, also 10-30')
    parser.add_argument('--parallel', type=int, default=1, metavar='N',
                        help='runs at a time, but those of more than 500 messages a second alone')
    parser.set_defaults(size=2048)


# ---- the cases

def rate_of(args, rates):
    """Keys of a behaviour file. rates: as in the file"""
    return (f'rate_per_client = {{{", ".join(json.dumps(rate) for rate in rates)}}} '
            f'rate_stage = {args.stage} rate_reply = {json.dumps(args.reply)}')


def service_of(rate):
    """So that 20 connections do more than twice R, without a message that takes no time."""
    return 0.05 if rate <= 100 else 10 / rate if rate <= 1000 else 0.005


def static_of(rate, service):
    """What Postfix would have to be told."""
    together = int(rate * service + 1e-9)
    return ({'smtp_destination_concurrency_limit': together,
             'initial_destination_concurrency': together} if together > 0 else
            {'smtp_destination_rate_delay': '1s'})


def case_of(name, behaviour, service, backlog, parts, **more):
    return Case(**{'fresh': {}, 'sluice': {}, 'sections': '', 'postfix': {}, 'static': {},
                   'is_for_postfix': True, 'by_mx': False,
                   **dict(name=name, behaviour=behaviour, service=service, backlog=backlog,
                          parts=parts), **more})


def rate_case(args, name, rates, change=None):
    """rates: (R at first, R after the change)"""
    service = service_of(max(rates))
    steps = [f'{rates[0]}/s'] + ([f'{rates[1]}/s from {change}'] if change else [])
    return case_of(name, f'default {{ {rate_of(args, steps)} }}', service, {'d1.test': max(rates)},
                   [Part(name, ALONE, None, None, change, 95, 1, 5)],
                   static=static_of(rates[0], service))


def limit_case(name, keys, service, capacity, **more):
    return case_of(name, f'default {{ {keys} }}', service, {'d1.test': capacity},
                   [Part(name, ALONE, None, capacity, None, 90, 2, 0)], **more)


def window_of(count):
    """(sluice's settings, Postfix's) for so many connections from the start."""
    return ({'destination_concurrency_limit': count, 'initial_destination_concurrency': count},
            {'smtp_destination_concurrency_limit': count, 'initial_destination_concurrency': count})


def messages_case():
    sluice, postfix = window_of(5)
    return limit_case('messages', 'messages_per_connection = 10', 0.5, 10, sluice=sluice,
                      postfix=postfix, static={'smtp_connection_reuse_count_limit': 9})


def connection_rate_case():
    return limit_case('connection-rate', 'connection_rate_per_client = "30/m, burst 5" '
                      f'connection_reply = {json.dumps(CONNECT_REPLY)}', 0.5, 5,
                      sluice={'smtp_connection_reuse_count_limit': 10},
                      postfix={'smtp_connection_reuse_count_limit': 9}, static=window_of(2)[1])


def addresses_case(args):
    rates = (20, 50)
    sections = ''.join(f'client "{client}" {{ {rate_of(args, [f"{rate}/s"])} }}\n'
                       for client, rate in zip(ADDRESSES, rates))
    sources = ''.join(f'source "s{i}" {{ address = "{client}" }}\n'
                      for i, client in enumerate(ADDRESSES, 1))
    return case_of('addresses', sections, 0.05, {'d1.test': sum(rates)},
                   [Part(f'addresses, R = {rate}', ('', client), None, None, None, 95, 1, 5)
                    for client, rate in zip(ADDRESSES, rates)],
                   sluice={'source_pool': '"both"'}, is_for_postfix=False,
                   sections=sources + 'pool "both" { sources = {"s1", "s2"} }\n')


def one_of_four_case():
    text = '"450 4.7.1 too much mail for {domain}"'
    behaviour = f'domain "d4.test" {{ rate_per_client = "5/s" rate_reply = {text} }}\n'
    fresh = {f'd{i}.test': 10 for i in (1, 2, 3)}
    throttled = ('d4.test', '127.0.0.1')
    return case_of('one-of-four', behaviour, 0.05, {'d4.test': 5},
                   [Part('one-of-four, R = 5', throttled, None, None, None, 95, 1, 5),
                    Part('one-of-four, others', ALONE, throttled, sum(fresh.values()), None, 95, 1,
                         5)], fresh=fresh, by_mx=True)


def cases(args):
    makers = {
        'rate': lambda: [rate_case(args, f'rate, R = {rate}', (rate,)) for rate in args.rates],
        'halved': lambda: [rate_case(args, 'halved, R = 200', (200, 100), args.seconds)],
        'doubled': lambda: [rate_case(args, 'doubled, R = 100', (100, 200), args.seconds)],
        'connections': lambda: [limit_case('connections', 'connections_per_client = 5', 0.5, 10,
                                           static=window_of(5)[1])],
        'connection-rate': lambda: [connection_rate_case()], 'messages': lambda: [messages_case()],
        'recipients': lambda: [limit_case('recipients', 'recipient_rate_per_client = "36000/h" '
                                          f'recipient_reply = {json.dumps(RECIPIENT_REPLY)}', 0.1,
                                          10, static=static_of(10, 0.1))],
        'addresses': lambda: [addresses_case(args)], 'one-of-four': lambda: [one_of_four_case()]}
    return [case for name in args.cases for case in makers[name]()]


def seconds_of(args, case):
    return args.seconds * (2 if any(part.change for part in case.parts) else 1)


# ---- one run

def make_relay(args, relay, case, port, sink, zone):
    """The engine finds limits by itself: it is told none of them, and its window is its default
    where the case does not fix it."""
    domains = sorted({*case.backlog, *case.fresh})
    routes = [(domain, f'{domain}:{sink.port}' if zone else sink.nexthop()) for domain in domains]
    if zone and relay == 'sluice':
        sections = case.sections + f'dns {{ servers = {{"{zone.address}:53"}} }}\n'
        return lambda folder: Sluice(args.build, folder, port, routes, case.sluice,
                                     {'shutdown_timeout': '1s'}, sections)
    if relay == 'sluice':
        return lambda folder: Sluice(args.build, folder, port, routes, case.sluice,
                                     {'shutdown_timeout': '1s'}, case.sections)
    told = case.static if relay == 'postfix-static' else {}
    if zone:
        told = {**told, 'smtp_dns_support_level': 'enabled', 'smtp_host_lookup': 'dns'}
    return lambda folder: Postfix(folder, port, routes, {**case.postfix, **told},
                                  zone.address if zone else None)


def zone_of(args, case):
    """The domains have one MX set; or none of them is asked for."""
    if not case.by_mx:
        return contextlib.nullcontext()
    return Zone(args.build, ['d#.test MX 10 mx.test', 'mx.test A 127.0.1.1'])


def backlog_of(args, case):
    """Enough for the whole run and some that wait at its end: [(domain, messages)]"""
    return [(domain, math.ceil(1.1 * rate * seconds_of(args, case)) + 200)
            for domain, rate in case.backlog.items()]


def measure(args, relay, case):
    """Returns the rows of the table that the case makes, the first with the course over time."""
    folder = args.folder / f'pace-{free_port()}'
    folder.mkdir()
    behaviour = folder / 'behaviour.conf'
    behaviour.write_text(case.behaviour)
    seconds, port = seconds_of(args, case), free_port()
    with Sink(args.build, folder, '--behaviour', behaviour, '--hold', '--timeline', 1000,
              '--delay-dot', round(1000 * case.service), '--round-trip', args.round_trip) as sink, \
            zone_of(args, case) as zone, \
            running(make_relay(args, relay, case, port, sink, zone), args.dir):
        for domain, messages in backlog_of(args, case):
            with Source(args.build, f'127.0.0.1:{port}', '--messages', messages, '--connections',
                        min(20, messages), '--size', args.size, '--domains', domain) as source:
                source.finish()
        released = sink.release()
        if case.fresh:
            rate = sum(case.fresh.values())
            with Source(args.build, f'127.0.0.1:{port}', '--messages', rate * seconds, '--rate', rate,
                        '--arrivals', 'even', '--size', args.size, '--domains', ','.join(case.fresh)) as source:
                source.finish()
        time.sleep(max(0, released + seconds + 1 - time.time()))
        numbers = sink.end()
    return judge(args, relay, case, numbers, released)


def course_of(numbers, key):
    """{series: list}; empty where that client never came."""
    for one in numbers['timeline']['clients']:
        if (one.get('destination', one.get('domain')), one['client']) == key:
            return one
    return {}


def added(course, name, sign=1):
    return collections.Counter({i: sign * value for i, value in enumerate(course.get(name, ()))})


def series_of(numbers, part, count):
    """Accepted and refused by interval, without those of `less`."""
    course, off = course_of(numbers, part.key), course_of(numbers, part.less)
    accepted = [course.get('messages', [0] * count)[i] - off.get('messages', [0] * count)[i]
                for i in range(count)]
    refused = [sum(course.get(name, [0] * count)[i] - off.get(name, [0] * count)[i]
                   for name in ('refused', 'refused_recipients', 'refused_connections'))
               for i in range(count)]
    limit = [part.capacity] * count if part.capacity else course.get('limit', [None] * count)
    return accepted, refused, limit


def judge(args, relay, case, numbers, released):
    course = numbers['timeline']
    count = int(numbers['uptime'] / course['interval']) + 1
    begin = int((released - course['start']) / course['interval'])
    end = min(count, begin + seconds_of(args, case))
    rows, destinations = [], {}
    for part in case.parts:
        accepted, refused, limit = series_of(numbers, part, count)
        first = begin + (part.change + args.again if part.change else args.settle)
        judged = [i for i in range(begin, end)
                  if not part.change or not begin + part.change <= i < first]
        allowed_rate = sum(one or 0 for one in limit[first:end]) / (end - first)
        rate = sum(accepted[first:end]) / (end - first)
        whole = sum(accepted[i] for i in judged)
        count_refused = sum(refused[i] for i in judged)
        figures = {'accepted': 100 * rate / allowed_rate if allowed_rate else 0, 'rate': rate,
                   'refused': count_refused,
                   'allowed': math.floor(part.share / 100 * whole + part.spare * len(judged) / 60),
                   'refused_share': 100 * count_refused / max(1, whole)}
        destinations[part.name] = {'messages': accepted[begin:end], 'refused': refused[begin:end],
                                   'limit': limit[begin:end]}
        rows.append({'relay': relay, 'pair': 1, 'case': part.name, 'is_clean': True, 'foreign': None,
                     'figures': figures})
    rows[0]['timeline'] = {'interval': course['interval'], 'start': released,
                           'destinations': destinations}
    return rows


# ---- all of them

def is_heavy(case):
    return max(case.backlog.values()) > 500


def run_all(args):
    todo = [(relay, case) for case in cases(args) for relay in args.relays
            if relay == 'sluice' or case.is_for_postfix and (case.static or relay == 'postfix')]
    mine = argparse.Namespace(**{name: getattr(args, name) for name in (
        'build', 'dir', 'folder', 'size', 'seconds', 'settle', 'again', 'round_trip')})
    runs = {}
    with concurrent.futures.ProcessPoolExecutor(args.parallel) as pool:
        light = {(relay, case.name): pool.submit(measure, mine, relay, case)
                 for relay, case in todo if not is_heavy(case)}
        for key, future in light.items():
            runs[key] = future.result()
            for row in runs[key]:
                print_row(row)
    for relay, case in todo:
        if is_heavy(case):
            runs[relay, case.name] = measure(mine, relay, case)
            for row in runs[relay, case.name]:
                print_row(row)
    return [row for relay, case in todo for row in runs[relay, case.name]]


def print_row(row):
    f = row['figures']
    print(f"{row['relay']:15} {row['case']:24} accepted {f['accepted']:6.1f} % ({f['rate']:,.1f}/s), "
          f"{f['refused']:,} refused ({f['allowed']:,} allowed)", flush=True)


def targets(args, runs):
    """Of sluice, in the order of the table of the design."""
    bounds = {part.name: part for case in cases(args) for part in case.parts}
    found = []
    for row in runs:
        part, figures = bounds[row['case']], row['figures']
        if row['relay'] != 'sluice':
            continue
        found.append({'what': f"accepted, % of the limit: {row['case']}", 'wanted': f'>= {part.bound}',
                      'measured': f"{figures['accepted']:.1f}",
                      'is_met': figures['accepted'] >= part.bound})
        spare = f' + {part.spare} a minute' if part.spare else ''
        found.append({'what': f"refused: {row['case']}",
                      'wanted': f"<= {part.share} %{spare} ({figures['allowed']:,})",
                      'measured': f"{figures['refused']:,}",
                      'is_met': figures['refused'] <= figures['allowed']})
    return found


def print_table(args, runs):
    """A line for each case: what is wanted, and what everybody made of it."""
    wide = max(len(row['case']) for row in runs)
    print(f"\n{'':{wide}}  {'wanted':>18}" + ''.join(f'{name:>26}' for name in args.relays))
    print(f"{'':{wide}}  {'accepted  refused':>18}" +
          ''.join(f"{'accepted      refused':>26}" for _ in args.relays))
    bounds = {part.name: part for case in cases(args) for part in case.parts}
    found = {(row['case'], row['relay']): row['figures'] for row in runs}
    for name in dict.fromkeys(row['case'] for row in runs):
        part = bounds[name]
        line = f"{name:{wide}}  {f'{part.bound} %':>9}{f'{part.share} %' + (' + 5' if part.spare else ''):>9}"
        for relay in args.relays:
            f = found.get((name, relay))
            line += f"{f['accepted']:12.1f} %{f['refused']:12,}" if f else f"{'':26}"
        print(line)
    print()


def run(args):
    if set(args.relays) - {'sluice'} and (os.geteuid() != 0 or not postfix_version()):
        raise Failure('Postfix must be installed and this run as root; or leave it out: '
                      '--relays sluice')
    if args.seconds <= max(args.settle, args.again):
        raise Failure('--seconds must be more than --settle and --again')
    args.folder = pathlib.Path(args.folder)
    runs = run_all(args)
    print_table(args, runs)
    found = targets(args, runs)
    for target in found:
        print(f"{target['what']}: {target['measured']}, target {target['wanted']}: "
              f"{'met' if target['is_met'] else 'MISSED'}")
    return {'title': TITLE, 'description': __doc__, 'figures': FIGURES, 'runs': runs,
            'summary': [{'case': row['case'], 'relay': row['relay'], 'figures': row['figures'],
                         'ratios': {}} for row in runs], 'targets': found}
