"""A tenth of the destinations refuses connections or is silent: the rest must not suffer.

Of those dead ones, half refuse and half (one at least) never answer a connection. Latency of the
others' mail, without and with theirs beside it; what is for the dead stays in the queue."""
import beside
from relay import Failure

TITLE = 'A tenth of the destinations dead'
QUICK = beside.QUICK


def add_arguments(parser):
    beside.add_arguments(parser)


def run(args):
    dead = args.domains // 10
    if dead < 2:
        raise Failure('--domains: at least 20, so that one refuses and one is silent')
    return beside.run(args, (TITLE, __doc__), {'refusing': dead // 2, 'silent': dead - dead // 2})
