"""100 ms round trip: 20 connections to each of 1, 5 and 20 destinations far away.

The receiver's replies take a round trip, in order (sluice-sink --round-trip); it offers PIPELINING,
or CHUNKING as well. rtt measures the same for a single connection."""
import measure
from flow import Setting, flow

TITLE = 'Over a distance'
QUICK = {'pairs': 1, 'messages': 4000, 'messages_postfix': 200, 'domains': [1, 5]}
EXTENSIONS = '8bitmime,smtputf8,enhancedstatuscodes,size'
MODES = {'pipelining': f'{EXTENSIONS},pipelining',
         'chunking': f'{EXTENSIONS},pipelining,chunking'}


def add_arguments(parser):
    measure.add_arguments(parser, ['sluice', 'postfix'])
    parser.add_argument('--messages', type=int, default=20000,
                        help='for sluice to each destination with CHUNKING; a tenth without')
    parser.add_argument('--messages-postfix', type=int, default=1000,
                        help='for everybody else to each destination')
    parser.add_argument('--most', type=int, default=100000, help='messages of a run')
    parser.add_argument('--domains', type=measure.numbers, default=[1, 5, 20], metavar='N,...',
                        help='destinations')
    parser.add_argument('--round-trip', type=int, default=100, metavar='MS')
    parser.add_argument('--modes', type=measure.choice(*MODES), default=list(MODES),
                        metavar='MODE,...', help=f'of {", ".join(MODES)}')


def setting(args, mode, count):
    each = args.messages if mode == 'chunking' else args.messages // 10
    return Setting.of(args, case=f'{mode}, {count}', domains=count,
                      process_limit=max(args.process_limit, args.window * count),
                      messages=min(args.most, each * count),
                      messages_postfix=min(args.most // 10, args.messages_postfix * count),
                      sink=('--round-trip', args.round_trip, '--extensions', MODES[mode]))


def run(args):
    measure.check(args)
    cases = [setting(args, mode, count) for mode in args.modes for count in args.domains]
    runs = measure.rounds(args, cases, measure.THROUGHPUT, flow)
    return measure.result(args, (TITLE, __doc__), measure.THROUGHPUT, runs)
