"""Half of the destinations take 2 s for a message: the fast half must not suffer.

Latency of the fast half's mail, without and with the slow half's beside it."""
import beside

TITLE = 'Half of the destinations slow'
QUICK = beside.QUICK


def add_arguments(parser):
    beside.add_arguments(parser)
    parser.add_argument('--slow', type=int, default=2000, metavar='MS',
                        help='what a slow destination takes for a message')


def run(args):
    return beside.run(args, (TITLE, __doc__), {'slow': args.domains // 2},
                      ('--delay-dot', args.slow))
