"""10,000 destinations by Zipf: a few get most of the mail, most get hardly any.

Each destination has an address of its own; the k-th most popular gets mail in proportion to 1/k^S.
Where the mail goes is random but the same for every system, so what must arrive is known by its
number only. raw sends all to one address.

With --sites N they share N receivers: each is the only MX of every N-th domain, and all systems ask
the same name server for it. That needs root; Postfix gets a resolv.conf of its own."""
import measure
import systems
from flow import Setting, flow

TITLE = 'Ten thousand destinations'
QUICK = {'pairs': 1, 'messages': 20000, 'messages_postfix': 2000}
HOST_OPEN = {'key': 'host_open', 'title': 'host open', 'better': None, 'digits': 0}
WANTED = 20  # times Postfix's rate, with --sites


def add_arguments(parser):
    measure.add_arguments(parser, measure.ALL, (100000, 10000))
    parser.add_argument('--domains', type=int, default=10000, help='destinations')
    parser.add_argument('--exponent', type=float, default=1.0, metavar='S', help='of Zipf')
    parser.add_argument('--sites', type=int, default=0, metavar='N',
                        help='receivers that they share (0: none; the systems are told by a table)')


def run(args):
    measure.check(args)
    setting = Setting.of(args, domains=args.domains, is_even=False, sites=args.sites,
                         source=('--zipf', args.exponent))
    runs = measure.rounds(args, [setting], measure.THROUGHPUT, flow)
    for one in runs:
        one['figures']['host_open'] = one['max_open']
    return measure.result(args, (TITLE, __doc__), [*measure.THROUGHPUT, HOST_OPEN], runs,
                          lambda rows: targets(args, rows))


def targets(args, rows):
    """Beside the faster Postfix, where receivers are shared."""
    ratios = [measure.ratio_of(rows, 'sluice', name, 'rate') for name in systems.POSTFIX]
    known = [ratio for ratio in ratios if ratio is not None]
    if not args.sites or not known:
        return []
    return [measure.target("times Postfix's rate, domains that share MX sets", f'>= {WANTED}',
                           min(known), min(known) >= WANTED)]
