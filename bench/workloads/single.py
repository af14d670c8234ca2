"""One destination (w1): messages of 4 KB with one recipient, at most 20 connections.

From the first offer to the last delivery; intake, queue and delivery compete for the CPUs."""
import configured
import measure
import signed
from flow import Setting, flow

TITLE = 'One destination'
QUICK = measure.QUICK


def add_arguments(parser):
    measure.add_arguments(parser, measure.ALL, (100000, 10000))
    configured.add_arguments(parser)
    signed.add_arguments(parser)


def targets_of(args, title, runs=()):
    def targets(rows):
        found = []
        cpu = measure.figure_of(rows, 'sluice', 'cpu_us')
        ratio = measure.ratio_of(rows, 'sluice', 'postfix-nocache', 'rate')
        if cpu is not None and args.size == 4096:
            found.append(measure.target(f'{title}: CPU us a message', '<= 80', cpu, cpu <= 80))
        if ratio is not None:
            found.append(measure.target(f"{title}: times Postfix's fastest rate", '>= 15', ratio,
                                        ratio >= 15))
        return found + configured.targets(rows) + signed.targets(args, rows, runs)
    return targets


def run(args):
    configured.relays(args)
    signed.relays(args)
    measure.check(args)
    figures = signed.figures(args)
    runs = measure.rounds(args, [Setting.of(args, **configured.setting(args, 1))], figures, signed.measured(flow))
    return measure.result(args, (TITLE, __doc__), figures, runs, targets_of(args, TITLE, runs))
