"""10,000 destinations by Zipf: a few get most of the mail, most get hardly any.

Each destination has an address of its own; the k-th most popular gets mail in proportion to 1/k^S.
Where the mail goes is random but the same for every system, so what must arrive is known by its
number only. raw sends all to one address."""
import measure
from flow import Setting, flow

TITLE = 'Ten thousand destinations'
QUICK = {'pairs': 1, 'messages': 20000, 'messages_postfix': 2000}


def add_arguments(parser):
    measure.add_arguments(parser, measure.ALL, (100000, 10000))
    parser.add_argument('--domains', type=int, default=10000, help='destinations')
    parser.add_argument('--exponent', type=float, default=1.0, metavar='S', help='of Zipf')


def run(args):
    measure.check(args)
    setting = Setting.of(args, domains=args.domains, is_even=False,
                         source=('--zipf', args.exponent))
    runs = measure.rounds(args, [setting], measure.THROUGHPUT, flow)
    return measure.result(args, (TITLE, __doc__), measure.THROUGHPUT, runs)
