"""Delivery alone: a backlog is accepted while the receiver greets nobody, then released.

From the release to the last delivery, to --domains destinations. raw begins to send at the
release: its rate is what sockets alone can do, and a relay's share of it is in the table."""
import configured
import measure
from flow import Setting, drain

TITLE = 'Delivery alone'
QUICK = measure.QUICK
FIGURES = [{**measure.RATE, 'title': 'delivered/s'}, measure.ACCEPTED, measure.CPU, measure.MEMORY]


def add_arguments(parser):
    measure.add_arguments(parser, measure.ALL, (100000, 10000))
    configured.add_arguments(parser)
    parser.add_argument('--domains', type=measure.numbers, default=[1, 50], metavar='N,...',
                        help='destinations')


def targets(rows):
    found = []
    for case in dict.fromkeys(row['case'] for row in rows):
        ratio = measure.ratio_of(rows, 'sluice', 'postfix-nocache', 'rate', case)
        share = measure.ratio_of(rows, 'sluice', 'raw', 'rate', case)
        if ratio is not None:
            found.append(measure.target(f"{case}: times Postfix's fastest rate", '>= 15', ratio,
                                        ratio >= 15))
        if share is not None and case == '1 destination':
            found.append(measure.target(f'{case}: share of raw, %', '>= 60', share * 100,
                                        share >= 0.6))
    return found + configured.targets(rows)


def run(args):
    configured.relays(args)
    measure.check(args)
    cases = [Setting.of(args, case=f"{count} destination{'s' if count > 1 else ''}",
                        **configured.setting(args, count))
             for count in args.domains]
    runs = measure.rounds(args, cases, FIGURES, drain)
    return measure.result(args, (TITLE, __doc__), FIGURES, runs, targets)
