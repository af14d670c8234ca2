"""Fifty destinations at fifty addresses (w2): messages of 4 KB with one recipient.

As single, with at most 20 connections to each destination and 100 together."""
import configured
import measure
from flow import Setting, flow
from workloads.single import targets_of

TITLE = 'Fifty destinations'
QUICK = measure.QUICK


def add_arguments(parser):
    measure.add_arguments(parser, measure.ALL, (100000, 10000))
    configured.add_arguments(parser)
    parser.add_argument('--domains', type=int, default=50, help='destinations, each at an address')


def run(args):
    configured.relays(args)
    measure.check(args)
    setting = Setting.of(args, **configured.setting(args, args.domains))
    runs = measure.rounds(args, [setting], measure.THROUGHPUT, flow)
    return measure.result(args, (TITLE, __doc__), measure.THROUGHPUT, runs,
                          targets_of(args, TITLE))
