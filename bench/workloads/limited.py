"""Receivers that limit a client's connections: the tables of Postfix's SCHEDULER_README.

One message with 2,000 recipients, two a delivery, goes to a receiver that takes 1 s for a
recipient. Table 3: the receiver answers 421 to more than five connections of a client; the window
begins at 5 and may grow to 20. Table 1: five processes serve, a few more connections fit into the
queue of the kernel, which drops the rest, and the client gives up on those after 30 s; the window
begins at 20. The receiver is a Postfix of its own (smtpd), or for table 3 sluice-sink, whose time
can be scaled. Only first attempts count. The share of deferred recipients is that of the relay's
log, the average and the deviation are those of the window after each feedback, as it logs them."""
import argparse
import collections
import concurrent.futures
import json
import math
import os
import random
import re
import socketserver
import statistics
import threading
import time

from load import Sink, busy_seconds, free_port, inject
from private_postfix import RELAY, PrivatePostfix
from relay import Failure, Postfix, Sluice, postfix_version, running, wait_for_port

DOMAIN = 'limited.test'
PER_RECIPIENT = 1   # seconds
TOGETHER = 2        # recipients of a delivery
LIMIT = 20          # of the client's window
SERVED = 5          # connections, of whichever limit
POINTS = 2          # that a share may be off
FEEDBACKS = {'1/N': '1/concurrency', '1/sqrt(N)': '1/sqrt_concurrency', '1': '1'}
RULES = ('readme', 'postfix3')
CACHING = {'no': False, 'yes': True}
RECEIVERS = ('smtpd', 'sink')
RELAYS = ('sluice', 'postfix')
NEEDED = ('build', 'dir', 'folder', 'size', 'recipients', 'overhead')  # of args, by a run

Table = collections.namedtuple('Table', 'initial processes per_client published')
# published: (feedback, caching): deferred %, average, deviation; the third table's are targets.
TABLES = {
    1: Table(20, 5, 0, {
        ('1/N', 'no'): (9.9, 19.4, 0.49), ('1/N', 'yes'): (10.3, 19.4, 0.49),
        ('1/sqrt(N)', 'no'): (10.4, 19.6, 0.59), ('1/sqrt(N)', 'yes'): (10.6, 19.6, 0.61),
        ('1', 'no'): (10.1, 19.5, 1.29), ('1', 'yes'): (10.8, 19.3, 1.57)}),
    3: Table(5, 10, 5, {
        ('1/N', 'no'): (16.5, 5.17, 0.38), ('1/N', 'yes'): (16.5, 5.17, 0.38),
        ('1/sqrt(N)', 'no'): (24.5, 5.28, 0.45), ('1/sqrt(N)', 'yes'): (24.3, 5.28, 0.46),
        ('1', 'no'): (49.7, 5.63, 0.67), ('1', 'yes'): (49.7, 5.68, 0.70)}),
}

FIGURES = [
    {'key': 'deferred', 'title': 'deferred %', 'better': None, 'digits': 1},
    {'key': 'published', 'title': 'published %', 'better': None, 'digits': 1},
    {'key': 'average', 'title': 'window', 'better': None, 'digits': 2},
    {'key': 'deviation', 'title': 'deviation', 'better': None, 'digits': 2},
    {'key': 'refused', 'title': 'refused connections', 'better': None, 'digits': 0},
    {'key': 'seconds', 'title': 'seconds', 'better': None, 'digits': 0},
]

RECEIVER_SERVICES = '''\
127.0.0.1:{port} inet n - n - {processes} smtpd
pickup unix n - n 60 1 pickup
qmgr unix n - n 300 1 qmgr
discard unix - - n - - discard
'''

# The lines of the relay's log that count.
SLUICE_FEEDBACK = re.compile(r'feedback \S+ (?:positive|negative): limit \d+ window (\d+) ')
POSTFIX_FEEDBACK = re.compile(r'qmgr_queue_(?:un)?throttle: queue \S+ limit \d+ window (\d+) ')
POSTFIX_STATUS = re.compile(r' status=(\w+) (.*)')

Case = collections.namedtuple('Case', 'relay receiver table rule feedback caching scale')


def choice(*known):
    """The type of an argument: names of `known`, separated by commas."""
    def read(text):
        names = text.split(',')
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not of {', '.join(known)}")
        return names
    return read


def interval(text):
    """Seconds from "MS-MS"."""
    least, most = (float(part) / 1000 for part in text.split('-'))
    if not 0 <= least <= most:
        raise ValueError(text)
    return least, most


def add_arguments(parser):
    parser.add_argument('--tables', type=choice('1', '3'), default=['3'], metavar='N,...',
                        help='1 and 3')
    parser.add_argument('--receivers', type=choice(*RECEIVERS), default=list(RECEIVERS),
                        metavar='RECEIVER,...', help=f'of {", ".join(RECEIVERS)}')
    parser.add_argument('--feedbacks', type=choice(*FEEDBACKS), default=list(FEEDBACKS),
                        metavar='F,...', help=f'of {", ".join(FEEDBACKS)}')
    parser.add_argument('--rules', type=choice(*RULES), default=list(RULES), metavar='RULE,...',
                        help=f'of {", ".join(RULES)}; the second knows no 1/sqrt(N)')
    parser.add_argument('--caching', type=choice(*CACHING), default=list(CACHING),
                        metavar='no,yes', help='of connections')
    parser.add_argument('--relays', type=choice(*RELAYS), default=['sluice'], metavar='RELAY,...',
                        help=f'of {", ".join(RELAYS)}')
    parser.add_argument('--recipients', type=int, default=2000, help='of the message')
    parser.add_argument('--time-scale', type=float, default=0.1, metavar='X',
                        help=f'of the sink: {PER_RECIPIENT} s times this for a recipient')
    parser.add_argument('--overhead', type=interval, default=(0.01, 0.05), metavar='MS-MS',
                        help='of smtpd for a message, at random: its disk and network in 2007 '
                             '(10-50); 0-0: none, and deliveries that began together stay together')
    parser.add_argument('--parallel', type=int, default=20, metavar='N', help='runs at a time')


def cases(args):
    """Every combination that there is: Postfix has one rule, that rule no square root."""
    found = [Case(relay, receiver, int(table), rule, feedback, caching,
                  args.time_scale if receiver == 'sink' else 1)
             for table in args.tables for receiver in args.receivers for relay in args.relays
             for rule in args.rules for feedback in args.feedbacks for caching in args.caching]
    return [c for c in found if not (c.rule == 'postfix3' and c.feedback == '1/sqrt(N)') and
            not (c.relay == 'postfix' and c.rule != 'postfix3') and
            not (c.table == 1 and c.receiver == 'sink')]


class Overhead(socketserver.ThreadingTCPServer):
    """Postfix asks it at the end of each message, and it takes its time. Use it with `with`."""
    allow_reuse_address = daemon_threads = True

    def __init__(self, least, most):
        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                for line in self.rfile:
                    if line == b'\n':  # the end of a question
                        time.sleep(random.uniform(least, most))
                        self.wfile.write(b'action=DUNNO\n\n')

        super().__init__(('127.0.0.1', 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *problem):
        self.shutdown()
        super().__exit__(*problem)

    def restrictions(self):
        return f'check_policy_service inet:127.0.0.1:{self.server_address[1]}'


class LimitedPostfix(PrivatePostfix):
    """The seed's server: slow at each recipient, few processes or few connections for a client,
    and nothing is kept."""

    def __init__(self, folder, table, end_of_data_restrictions):
        self.port = free_port()
        limiter = ({'smtpd_client_event_limit_exceptions': '',
                    'smtpd_client_connection_count_limit': table.per_client}
                   if table.per_client else {'smtpd_client_event_limit_exceptions': 'static:all'})
        super().__init__(folder, {
            **{name: RELAY[name] for name in ('smtpd_peername_lookup', 'smtpd_tls_security_level',
                                              'smtputf8_enable')},
            'myhostname': 'server.test', 'mydestination': DOMAIN,
            'local_recipient_maps': 'static:all', 'local_transport': 'discard',
            'smtpd_client_restrictions': f'sleep {PER_RECIPIENT}',
            'smtpd_end_of_data_restrictions': end_of_data_restrictions,
            'default_process_limit': table.processes, **limiter},
            RECEIVER_SERVICES.format(port=self.port, processes=table.processes))

    def nexthop(self):
        return f'[127.0.0.1]:{self.port}'

    def start(self, account):
        self.command('postfix', 'start', preexec_fn=account.enter)
        account.root = self.master()
        wait_for_port(self.port)

    def refused(self):
        return self.log().count('Connection concurrency limit exceeded')

    def stop(self):
        if self.master() is not None:
            self.command('postfix', 'abort', check=False)


def sluice_settings(case):
    """(of the transport, of the whole)"""
    feedback = f'"{FEEDBACKS[case.feedback]}"'
    table = TABLES[case.table]
    return ({'concurrency_feedback_rule': f'"{case.rule}"',
             'destination_concurrency_positive_feedback': feedback,
             'destination_concurrency_negative_feedback': feedback,
             'destination_concurrency_limit': LIMIT,
             'initial_destination_concurrency': table.initial,
             'destination_recipient_limit': TOGETHER, 'pipeline_depth': 1,
             'smtp_connection_reuse_count_limit': 0 if CACHING[case.caching] else 1},
            {'minimal_backoff_time': '"10h"', 'maximal_backoff_time': '"10h"',
             'destination_concurrency_feedback_debug': 'yes'})


def postfix_settings(case):
    feedback = FEEDBACKS[case.feedback]
    return {'default_destination_concurrency_positive_feedback': feedback,
            'default_destination_concurrency_negative_feedback': feedback,
            'destination_concurrency_feedback_debug': 'yes',
            'smtp_destination_concurrency_limit': LIMIT,
            'initial_destination_concurrency': TABLES[case.table].initial,
            'smtp_destination_recipient_limit': TOGETHER,
            'smtp_connection_cache_on_demand': case.caching,
            'minimal_backoff_time': '10h', 'maximal_backoff_time': '10h'}


def make_relay(args, case, port, nexthop):
    routes = [(DOMAIN, nexthop)]
    if case.relay == 'sluice':
        transport, options = sluice_settings(case)
        return lambda folder: Sluice(args.build, folder, port, routes, transport, options)
    return lambda folder: Postfix(folder, port, routes, postfix_settings(case))


def sluice_fates(folder):
    """How many recipients were delivered, and deferred; the codes of the replies to the latter."""
    delivered, codes = 0, collections.Counter()
    for line in (folder / 'events.jsonl').read_text().splitlines(keepends=True):
        event = json.loads(line) if line.endswith('\n') else {}
        if event.get('type') == 'Delivery':
            delivered += 1
        elif event.get('type') == 'TransientFailure':
            codes[event.get('response', {}).get('code', 0)] += 1
    return delivered, codes


def postfix_fates(folder):
    delivered, codes = 0, collections.Counter()
    for status, why in POSTFIX_STATUS.findall((folder / 'mail.log').read_text()):
        if status == 'sent':
            delivered += 1
        elif status == 'deferred':
            codes[421 if ': 421 ' in why else 0] += 1
    return delivered, codes


def windows(relay, folder):
    """After each feedback, in their order."""
    log, pattern = (('relay.log', SLUICE_FEEDBACK) if relay == 'sluice' else
                    ('mail.log', POSTFIX_FEEDBACK))
    return [int(window) for window in pattern.findall((folder / log).read_text())]


def wait_for_windows(args, case, folder):
    """The last one may be logged just behind its delivery; some may be missing for good."""
    for _ in range(30):
        found = windows(case.relay, folder)
        if len(found) >= deliveries_of(args):
            break
        time.sleep(0.1)
    return found


def deliveries_of(args):
    return math.ceil(args.recipients / TOGETHER)


def wait_for_all(args, case, folder):
    """Until every recipient has had its first attempt."""
    fates = sluice_fates if case.relay == 'sluice' else postfix_fates
    best = args.recipients * PER_RECIPIENT * case.scale / SERVED
    # Two connections of table 1, one after the other, may wait 300 s for a greeting.
    patience = 3 * best + (700 if case.table == 1 else 60)
    end = time.monotonic() + patience
    while time.monotonic() < end:
        delivered, codes = fates(folder)
        if delivered + sum(codes.values()) >= args.recipients:
            return delivered, codes
        time.sleep(min(1, best / 20))
    raise Failure(f'{name_of(case)}: {delivered} delivered, {dict(codes)} deferred of '
                  f'{args.recipients} in {patience:.0f} s')


def deliver(args, case, nexthop):
    """One run against a receiver that stands; returns its numbers."""
    port = free_port()
    with running(make_relay(args, case, port, nexthop), args.dir) as (relay, _):
        begin = time.monotonic()
        inject(args.build, port, 1, args.size, DOMAIN, connections=1, recipients=args.recipients)
        delivered, codes = wait_for_all(args, case, relay.folder)
        seconds = time.monotonic() - begin
        found = wait_for_windows(args, case, relay.folder)
    return {'delivered': delivered, 'deferred': sum(codes.values()), 'codes': dict(codes),
            'windows': found, 'seconds': seconds}


def measure_smtpd(args, case):
    with Overhead(*args.overhead) as overhead, running(
            lambda folder: LimitedPostfix(folder, TABLES[case.table], overhead.restrictions()
                                          if args.overhead[1] > 0 else ''),
            args.dir) as (server, _):
        return deliver(args, case, server.nexthop()), server.refused()


def measure_sink(args, case):
    folder = args.folder / f'sink-{free_port()}'
    folder.mkdir()
    with Sink(args.build, folder, '--connections-per-client', TABLES[case.table].per_client,
              '--delay-rcpt', round(PER_RECIPIENT * 1000 * case.scale),
              '--extensions', 'pipelining,8bitmime,enhancedstatuscodes,size') as sink:
        numbers = deliver(args, case, sink.nexthop())
        return numbers, sink.end()['refused']


def measure(args, case):
    busy, begin = busy_seconds(), time.monotonic()
    numbers, refused = (measure_smtpd if case.receiver == 'smtpd' else measure_sink)(args, case)
    load = (busy_seconds() - busy) / (time.monotonic() - begin)
    found = numbers.pop('windows')
    average = statistics.fmean(found) if found else 0
    run = {'relay': case.relay, 'pair': 1, 'case': name_of(case),
           # each delivery taught once, and nothing else went wrong
           'is_clean': len(found) == deliveries_of(args) and
                       set(numbers['codes']) <= ({421} if case.table == 3 else {0}),
           'figures': {'deferred': 100 * numbers['deferred'] / args.recipients,
                       'published': TABLES[case.table].published[case.feedback, case.caching][0],
                       'average': average, 'deviation': statistics.pstdev(found) if found else 0,
                       'refused': refused, 'seconds': numbers['seconds']},
           'receiver': case.receiver, 'table': case.table, 'rule': case.rule,
           'feedback': case.feedback, 'caching': case.caching, 'feedbacks': len(found),
           'codes': numbers['codes'], 'cpus_busy': round(load, 2)}
    print_run(run)
    return run


def name_of(case):
    scale = '' if case.scale == 1 else f' x {case.scale:g}'
    return (f'table {case.table}, {case.receiver}{scale}, {case.rule}, {case.feedback}, '
            f'{"" if CACHING[case.caching] else "not "}cached')


def print_run(run):
    f = run['figures']
    print(f"{run['relay']:8} {run['case']:52} deferred {f['deferred']:5.1f} % (published "
          f"{f['published']:.1f})  window {f['average']:5.2f} / {f['deviation']:.2f}  "
          f"{f['refused']} refused, {run['feedbacks']} feedbacks, {f['seconds']:.0f} s"
          f"{'' if run['is_clean'] else '  NOT CLEAN ' + str(run['codes'])}", flush=True)


def targets(runs):
    """The third table, under the rule and beside the kind of server that it was published for: the
    sink takes exactly the same time for all, so deliveries stay in step."""
    found = []
    for run in runs:
        if (run['relay'], run['receiver'], run['rule'], run['table']) != (
                'sluice', 'smtpd', 'readme', 3):
            continue
        share, wanted = run['figures']['deferred'], run['figures']['published']
        found.append({'what': f"deferred %, {run['case']}", 'wanted': f'{wanted} +- {POINTS}',
                      'measured': f'{share:.1f}', 'is_met': abs(share - wanted) <= POINTS})
    return found


def run(args):
    todo = cases(args)
    if ({'smtpd', 'postfix'} & {*args.receivers, *args.relays} and
            (os.geteuid() != 0 or not postfix_version())):
        raise Failure('Postfix must be installed and run as root; or leave it out: --receivers '
                      'sink --relays sluice')
    if not todo:
        raise Failure('no such combination: table 1 is measured with smtpd only, Postfix with the '
                      'rule postfix3 only, and that rule knows no 1/sqrt(N)')
    mine = argparse.Namespace(**{name: getattr(args, name) for name in NEEDED})
    with concurrent.futures.ProcessPoolExecutor(min(args.parallel, len(todo))) as pool:
        runs = list(pool.map(measure, [mine] * len(todo), todo))
    found = targets(runs)
    for target in found:
        print(f"{target['what']}: {target['measured']}, wanted {target['wanted']}: "
              f"{'met' if target['is_met'] else 'MISSED'}")
    return {'title': 'Limited receivers', 'description': __doc__, 'figures': FIGURES, 'runs': runs,
            'summary': [{'case': r['case'], 'relay': r['relay'], 'figures': r['figures'],
                         'ratios': {}} for r in runs],
            'targets': found}
