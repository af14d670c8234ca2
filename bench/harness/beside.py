"""Good destinations with bad ones beside them: what the good ones notice. Mail arrives at random at
a rate that every relay can keep up with; first the good destinations get theirs alone, then as much
again with the bad ones' beside it. Connections are limited by destination only, so that nobody's
window is full because of another destination."""
import measure
from flow import Setting, flow

FIGURES = [measure.P50, {'key': 'p90_ms', 'title': 'p90 ms', 'better': 'lower', 'digits': 1},
           measure.P99, measure.MAX, measure.RATE, measure.CPU]
RELAYS = ['sluice', 'postfix']
QUICK = {'pairs': 1, 'seconds': 5}
ALLOWED_MS = 10  # more than 1.5 times: the noise of a machine that does much else


def add_arguments(parser):
    measure.add_arguments(parser, RELAYS)
    parser.add_argument('--domains', type=int, default=20, help='destinations, bad ones included')
    parser.add_argument('--rate', type=float, default=8, help='messages a second to each')
    parser.add_argument('--seconds', type=float, default=15, help='that mail arrives')
    parser.set_defaults(process_limit=1000)


def cases(args, bad, slow_sink=()):
    """bad: {kind: how many}, as in flow.Setting"""
    good = args.domains - sum(bad.values())
    found = []
    for case, beside in (('alone', {}), ('beside', bad)):
        count = good + sum(beside.values())
        rate = args.rate * count
        found.append(Setting.of(args, case=case, domains=good, beside=beside,
                                messages=round(rate * args.seconds), source=('--rate', rate),
                                options={'shutdown_timeout': '1s'}, slow_sink=slow_sink))
    return found


def run(args, module, bad, slow_sink=()):
    measure.check(args, without=('raw',))
    runs = measure.rounds(args, cases(args, bad, slow_sink), FIGURES, flow)
    return measure.result(args, module, FIGURES, runs, targets)


def targets(rows):
    alone, beside = (measure.figure_of(rows, 'sluice', 'p99_ms', case)
                     for case in ('alone', 'beside'))
    if alone is None or beside is None:
        return []
    most = 1.5 * alone + ALLOWED_MS
    return [measure.target('p99 of the good ones beside the bad, ms',
                           f'<= {most:.1f} (1.5 x alone + {ALLOWED_MS} ms)', beside,
                           beside <= most)]
