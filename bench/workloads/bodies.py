"""Large messages: bodies of 100 KB to one destination, where bytes cost more than messages."""
import measure
from flow import Setting, flow

TITLE = 'Bodies of 100 KB'
QUICK = {'pairs': 1, 'messages': 2000, 'messages_postfix': 500}
FIGURES = [*measure.THROUGHPUT[:1],
           {'key': 'mb_rate', 'title': 'MB/s', 'better': 'higher', 'digits': 1},
           *measure.THROUGHPUT[1:]]


def add_arguments(parser):
    measure.add_arguments(parser, measure.ALL, (20000, 4000))
    parser.set_defaults(size=102400)


def bytes_flow(args, name, setting):
    found = flow(args, name, setting)
    found['figures']['mb_rate'] = found['figures']['rate'] * setting.size / 1e6
    return found


def run(args):
    measure.check(args)
    runs = measure.rounds(args, [Setting.of(args)], FIGURES, bytes_flow)
    return measure.result(args, (TITLE, __doc__), FIGURES, runs)
