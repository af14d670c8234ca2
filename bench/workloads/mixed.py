"""What a large message does to the small ones behind it (w4, w4m), for the same destination.

The receiver takes 50 ms for a message and --window connections of a client. First 200
single-recipient messages arrive alone, at random, 20 a second; then one message with very many
recipients is offered, and two seconds after it was accepted the same singles arrive once more,
while it still goes out. In w4 it has 20,000 recipients, two a transaction; in w4m 1,000,000, fifty
a transaction, for Postfix 200,000. Latency goes from the moment a message was due to its acceptance
by the receiver. The demand: with bulk the singles' p99 is at most 1.5 times that without, plus one
receiver delay."""
import time

import measure
import systems
from flow import Meter, Receivers, Setting, check, ledger, outcome, title_of, wait_for_all
from load import Source

TITLE = 'Small mail beside bulk mail'
QUICK = {'pairs': 1, 'cases': ['w4'], 'singles': 100, 'bulk': [4000, 20000],
         'bulk_postfix': [4000, 4000]}
CASES = {'w4': 2, 'w4m': 50}  # recipients of a transaction
NAMES = ('alone.test', 'bulk.test', 'beside.test')
DELAY_MS = 50
FIGURES = [{'key': f'{when}_{what}', 'title': f'{when} {what}', 'better': 'lower', 'digits': 0}
           for when, what in (('alone', 'p50'), ('alone', 'p99'), ('beside', 'p50'),
                              ('beside', 'p99'), ('beside', 'max'))] + [
    {'key': 'demand', 'title': 'demand p99', 'better': None, 'digits': 0},
    {**measure.RATE, 'title': 'recipients/s'}, measure.ACCEPTED,
    {'key': 'bulk_seconds', 'title': 'bulk s', 'better': None, 'digits': 1},
    measure.CPU, measure.MEMORY]


def add_arguments(parser):
    measure.add_arguments(parser, ['sluice', 'postfix'])
    parser.add_argument('--cases', type=measure.choice(*CASES), default=list(CASES),
                        metavar='CASE,...', help=f'of {", ".join(CASES)}')
    parser.add_argument('--singles', type=int, default=200, help='each time')
    parser.add_argument('--rate', type=float, default=20, help='singles a second')
    parser.add_argument('--lead', type=float, default=2, metavar='SECONDS',
                        help='from the acceptance of bulk to the first single beside it')
    parser.add_argument('--bulk', type=measure.numbers, default=[20000, 1000000],
                        metavar='N,N', help='recipients in w4 and w4m, for sluice')
    parser.add_argument('--bulk-postfix', type=measure.numbers, default=[20000, 200000],
                        metavar='N,N', help='for everybody else')
    parser.set_defaults(pairs=1)


def setting(args, case):
    """With Postfix's defaults in memory: all recipients there would stop its queue manager."""
    bulk, bulk_postfix = (many[min(list(CASES).index(case), len(many) - 1)]
                          for many in (args.bulk, args.bulk_postfix))
    return Setting.of(args, case=case, names=NAMES, batch=CASES[case], messages=1,
                      recipients=bulk, recipients_postfix=bulk_postfix,
                      postfix_messages=20000, postfix_recipients=20000,
                      sink=('--delay-dot', DELAY_MS, '--connections-per-client', args.window))


def offer(args, subject, case, domain, what, *options):
    with Source(args.build, subject.to, '--size', case.size, '--domains', domain, '--timeout',
                args.timeout, *options) as source:
        return source.finish(what)


def run_one(args, name, case):
    recipients = case.total_of(name)
    singles = ['--messages', args.singles, '--rate', args.rate, '--connections', 8,
               *ledger(args, 'offered')]
    bulk = ['--messages', 1, '--recipients', recipients, '--pipelining', *singles[6:]]
    wanted = dict(zip(NAMES, (args.singles, recipients, args.singles)))
    title = title_of(name, case)
    with Receivers(args, case, *ledger(args, 'received')) as ends:
        with systems.started(args, name, case, ends) as subject:
            offer(args, subject, case, NAMES[0], 'singles alone', *singles)
            wait_for_all(args, ends.sink, None, {NAMES[0]: args.singles}, args.singles, title)
            with Meter(subject, ends) as meter:
                offered = offer(args, subject, case, NAMES[1], 'bulk', *bulk)
                time.sleep(args.lead)
                offer(args, subject, case, NAMES[2], 'singles beside bulk', *singles)
                wait_for_all(args, ends.sink, None, wanted, sum(wanted.values()), title)
                used = meter.used(recipients + args.singles)
        numbers = ends.sink.end()
    check(args, case, wanted, sum(wanted.values()), numbers)
    return outcome(name, case, figures_of(numbers, offered, recipients), used, numbers, [], meter)


def figures_of(numbers, offered, recipients):
    alone, bulk, beside = (next(d for d in numbers['domains'] if d['domain'] == name)
                           for name in NAMES)
    if beside['last'] > bulk['last']:  # the last single must be accepted while bulk goes out
        print('    bulk was over before the singles: more recipients (--bulk)', flush=True)
    figures = {f'{when}_{what}': one['latency'][what] * 1000
               for when, one in (('alone', alone), ('beside', beside))
               for what in ('p50', 'p99', 'max')}
    return {**figures, 'demand': 1.5 * figures['alone_p99'] + DELAY_MS,
            'rate': recipients / (bulk['last'] - offered['first_offer']),
            'in_rate': recipients / (offered['last_ack'] - offered['first_offer']),
            'bulk_seconds': bulk['last'] - bulk['first'], 'transactions': bulk['messages']}


def targets(rows):
    found = []
    for row in rows:
        if systems.is_sluice(row['relay']):
            p99, most = row['figures']['beside_p99'], row['figures']['demand']
            found.append(measure.target(f"{row['case']} {row['relay']}: p99 of singles, ms",
                                        f'<= {most:.0f}', p99, p99 <= most, digits=0))
    return found


def run(args):
    measure.check(args, without=('raw',))
    cases = [setting(args, case) for case in args.cases]
    runs = measure.rounds(args, cases, FIGURES, run_one)
    return measure.result(args, (TITLE, __doc__), FIGURES, runs, targets)
