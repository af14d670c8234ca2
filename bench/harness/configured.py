"""What limits and rules cost that are in force and never bind: --configured of a workload.

The system sluice+configured is sluice with the shipped providers.conf, a provider for each receiver, a
domain section for each domain, sources, all of them with rates far above what goes through, and rules of an operator in front of the shipped ones. The workload compares it with sluice
without all that. Both ask the same name server, as providers are about MX hosts; so it needs root."""
import pathlib

import measure

SUFFIX = '+configured'
PROVIDERS = pathlib.Path(__file__).resolve().parents[2] / 'engine/config/providers.conf'
RATE = '"1000000/s"'
RULES = 50  # of the operator
MOST = 1.05  # times the CPU time without them


def add_arguments(parser):
    parser.add_argument('--configured', action='store_true',
                        help='sluice without and with providers, domains, sources, rates and rules')
    parser.add_argument('--sources', type=int, default=1, metavar='N',
                        help='of sluice+configured, in one pool (with --configured)')


def relays(args):
    """To be called before measure.check: who is measured."""
    if args.configured:
        args.relays = ['sluice', 'sluice' + SUFFIX]


def setting(args, domains):
    """What a flow.Setting needs: each domain has an MX host of its own."""
    return {'domains': domains, **({'sites': domains} if args.configured else {})}


def is_wanted(name):
    return name.split('@')[0].endswith(SUFFIX)


def rates(*names):
    return '\n'.join(f'    {name} = {RATE}' for name in names)


def sections(args, wanted, folder):
    """The sections of the configuration, and {option of the transport: value}."""
    rules = folder / 'operator.replies'
    rules.write_text(''.join(
        f'rule "own{i}" {{\n    code = 550\n    text = "no such thing as {i}$"\n    class = content\n}}\n'
        for i in range(RULES)))
    sources = [f's{i}' for i in range(args.sources)]
    names = ', '.join(f'"{name}"' for name in sources)
    of_lane = ('max_message_rate', 'max_recipient_rate', 'max_connection_rate')
    parts = [f'include("{PROVIDERS}")', f'replies {{ files = {{"{rules}"}} }}']
    parts += [f'provider "bench{i}" {{\n    mx = {{"mx.s{i}.test"}}\n'
              f'{rates(*of_lane, "site_message_rate")}\n}}' for i in range(wanted.sites)]
    parts += [f'domain "d{i}.test" {{\n{rates("max_message_rate", "max_recipient_rate")}\n}}'
              for i in range(1, wanted.domains + 1)]
    parts += [f'source "{name}" {{\n    address = "127.0.0.{i}"\n{rates(*of_lane)}\n}}'
              for i, name in enumerate(sources, 1)]
    parts.append(f'pool "all" {{ sources = {{{names}}} }}')
    return '\n'.join(parts) + '\n', {'source_pool': '"all"'}


def targets(rows):
    found = []
    for case in dict.fromkeys(row['case'] for row in rows):
        ratio = measure.ratio_of(rows, 'sluice' + SUFFIX, 'sluice', 'cpu_us', case)
        if ratio is not None:
            found.append(measure.target(f"{case}{': ' if case else ''}CPU a message with limits and "
                                        'rules in force, times that without', f'<= {MOST}', ratio,
                                        ratio <= MOST, digits=3))
    return found
