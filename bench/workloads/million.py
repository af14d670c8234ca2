"""One message with 1,000,000 recipients at one destination, 50 a transaction; Postfix: 20,000.

From the first byte offered to the last delivery; the rates are recipients a second, and CPU time
and memory are those of one recipient and of the whole. raw sends the transactions themselves."""
import measure
from flow import Setting, flow

TITLE = 'A million recipients'
QUICK = {'pairs': 1, 'recipients': 100000, 'recipients_postfix': 5000}
FIGURES = [{**measure.RATE, 'title': 'recipients/s'}, measure.ACCEPTED, measure.CPU,
           measure.MEMORY]


def add_arguments(parser):
    measure.add_arguments(parser, measure.ALL)
    parser.add_argument('--recipients', type=int, default=1000000, help='for sluice and raw')
    parser.add_argument('--recipients-postfix', type=int, default=20000, help='for everybody else')
    parser.add_argument('--batch', type=int, default=50, help='recipients of a transaction')
    parser.add_argument('--domains', type=int, default=1, help='destinations')


def targets(rows):
    ratio = measure.ratio_of(rows, 'sluice', 'postfix-nocache', 'rate')
    return [] if ratio is None else [
        measure.target("times Postfix's fastest rate", '>= 10', ratio, ratio >= 10)]


def run(args):
    measure.check(args)
    setting = Setting.of(args, domains=args.domains, messages=1, recipients=args.recipients,
                         recipients_postfix=args.recipients_postfix, batch=args.batch,
                         source=('--pipelining',))
    runs = measure.rounds(args, [setting], FIGURES, flow)
    return measure.result(args, (TITLE, __doc__), FIGURES, runs, targets)
