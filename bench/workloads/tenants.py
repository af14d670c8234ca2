"""Whose mail goes first: urgent mail, tenants and campaigns beside a great backlog of others, all for
one destination.

The receiver takes 50 ms for a message; each system uses --window connections to it. All bulk is personal
mail: many messages of one recipient.

urgent    urgent singles, 20 a second at random, alone; then a million messages of another tenant's bulk are
          offered, and the singles go on while that is accepted and behind it (--bulk)
alike     the same, all of class normal
idle      a thousand tenants have mail queued; singles of others, mostly of another one each
shares    three tenants with mail queued, weights 5, 3 and 1
campaign  a campaign of 10 messages behind a million of another of the same tenant
flood     urgent, normal and bulk mail queued
thousand  the CPU time of a message where a thousand tenants take turns, beside that where none is known

A run ends when its figures are known, not when the bulk is delivered; that every single arrives, and
once, is checked. Postfix knows no tenants: it takes part in the first two and in campaign, with less bulk. postfix-urgent
is its best practice, a transport of its own for the urgent domain with a tenth of the window."""
import dataclasses
import json
import math
import time

import measure
import systems
from flow import Meter, Receivers, Setting, flow, wait_for_all
from load import Source
from relay import Failure

TITLE = 'Urgent mail, tenants and campaigns beside a backlog'
CASES = ('urgent', 'alike', 'idle', 'shares', 'campaign', 'flood', 'thousand')
OF_POSTFIX = {'postfix': ('urgent', 'alike', 'campaign'), 'postfix-urgent': ('urgent',)}
QUICK = {'relays': ['sluice'], 'bulk': 20000, 'singles': 60, 'messages': 5000,
         'cases': ['urgent', 'shares', 'campaign', 'flood']}
DELAY_MS = 50
HEADERS = {'tenant_header': '"X-Tenant"', 'campaign_header': '"X-Campaign"',
           'class_header': '"X-Class"'}
WEIGHTS = {'five': 5, 'three': 3, 'one': 1}
CLASSES = ('urgent', 'normal', 'bulk')
HOLDING = ('shares', 'flood')  # the receiver greets nobody before all is queued
SMALL_CAMPAIGN, TURNS = 10, 12
TENANTS = 1000
MOST_CPU = 1.05  # times that without tenants
SINGLES = [f'{when}.test' for when in ('alone', 'during', 'beside')]
SERIES = ('messages', 'deferred', 'open', 'latency_p50', 'latency_p99')
FIGURES = [{'key': f'{when}_{what}', 'title': f'{when} {what}', 'better': 'lower', 'digits': 0}
           for when in ('alone', 'during', 'beside') for what in ('p50', 'p99', 'max')] + [
    {'key': 'demand', 'title': 'demand', 'better': None, 'digits': 0},
    {'key': 'queued', 'title': 'queued', 'better': None, 'digits': 0}, measure.ACCEPTED] + [
    {'key': f'share_{name}', 'title': f'{name} %', 'better': None, 'digits': 1}
    for name in (*WEIGHTS, *CLASSES)] + [
    {'key': 'last', 'title': 'last ms', 'better': 'lower', 'digits': 0},
    measure.RATE, measure.CPU, measure.MEMORY]


def add_arguments(parser):
    measure.add_arguments(parser, ['sluice', 'postfix', 'postfix-urgent'])
    parser.add_argument('--cases', type=measure.choice(*CASES), default=list(CASES),
                        metavar='CASE,...', help=f'of {", ".join(CASES)}')
    parser.add_argument('--singles', type=int, default=400, help='alone, and beside what is queued')
    parser.add_argument('--rate', type=float, default=20, help='singles a second')
    parser.add_argument('--bulk', type=int, default=1000000, metavar='N', help='messages, for sluice')
    parser.add_argument('--bulk-postfix', type=int, default=20000, metavar='N',
                        help='for everybody else')
    parser.add_argument('--messages', type=int, default=20000,
                        help='each, of shares and flood; all together, of idle and thousand')
    parser.set_defaults(pairs=1)


# ---- what is offered

def tenant_section(name, **options):
    return f'tenant "{name}" {{ ' + ' '.join(f'{key} = {value}' for key, value in options.items()) + \
        ' }\n'


def setting(args, case):
    sections = {
        'urgent': tenant_section('resets', **{'class': 'urgent'}) +
                  tenant_section('news', **{'class': 'bulk'}),
        'shares': ''.join(tenant_section(name, weight=weight) for name, weight in WEIGHTS.items()),
        'flood': ''.join(tenant_section(name, **{'class': name}) for name in CLASSES)}
    names = {'shares': WEIGHTS, 'flood': CLASSES}.get(case, (*SINGLES, 'bulk'))
    tenth = max(1, args.window // 10)
    postfix = {'urgent_destination_concurrency_limit': tenth,
               'urgent_initial_destination_concurrency': tenth} if case == 'urgent' else {}
    return Setting.of(
        args, case=case, names=tuple(name if '.' in name else f'{name}.test' for name in names),
        messages=1, sections=sections.get(case, ''), listener=HEADERS, urgent=tuple(SINGLES),
        options={'shutdown_timeout': '1s'}, postfix=postfix,
        sink=('--delay-dot', DELAY_MS))


def setting_of(name, case, args):
    """postfix-urgent divides the window, as two transports do not know of each other."""
    if name != 'postfix-urgent':
        return dataclasses.replace(case, postfix={})
    tenth = max(1, args.window // 10)
    return dataclasses.replace(case, window=args.window - tenth, postfix=case.postfix)


class Run:
    """One system with its receiver, and what is offered to it."""

    def __init__(self, args, name, case, subject, ends):
        self.args, self.name, self.case = args, name, case
        self.subject, self.sink = subject, ends.sink
        self.begin = time.time()

    def source(self, domain, messages, *options, fields=()):
        """One that runs. fields: {header field: value}"""
        headers = [text for field, value in dict(fields).items()
                   for text in ('--header', f'{field}: {value}')]
        return Source(self.args.build, self.subject.to, '--size', self.case.size, '--domains', domain,
                      '--messages', messages, '--timeout', self.args.timeout, *options, *headers)

    def offer(self, what, *arguments, **fields):
        with self.source(*arguments, **fields) as source:
            return source.finish(what)

    def offer_bulk(self, domain, messages, *options, **fields):
        return self.offer(f'the backlog of {domain}', domain, messages, '--connections',
                          self.args.connections, '--pipelining', *options, **fields)

    def singles(self, domain, *options, **fields):
        self.offer(f'the singles of {domain}', domain, self.args.singles, '--rate', self.args.rate,
                   '--connections', 8, *options, **fields)

    def wait(self, domain, count):
        wait_for_all(self.args, self.sink, None, {domain: count}, count,
                     f'{self.name}, {self.case.case}')

    def received(self):
        return {one['domain'].partition('.')[0]: one['recipients']
                for one in self.sink.read()['domains']}

    def bulk(self):
        return self.args.bulk if systems.is_sluice(self.name) else self.args.bulk_postfix


# ---- the cases; each returns its figures, and {domain: how many must have arrived, and no more}

def beside_bulk(run, mine, theirs):
    """Latencies of singles alone, while bulk is accepted, and beside it."""
    during = None
    run.singles(SINGLES[0], fields=mine)
    run.wait(SINGLES[0], run.args.singles)
    with run.source(SINGLES[1], 0, '--seconds', 86400, '--rate', run.args.rate, '--connections', 8,
                    '--json', run.args.folder / 'during.json', fields=mine) as source:
        offered = run.offer_bulk('bulk.test', run.bulk(), fields=theirs)
        accepted = time.time()
        source.process.terminate()
        source.process.wait(run.args.timeout)
        during = json.loads((run.args.folder / 'during.json').read_text())
    run.singles(SINGLES[2], fields=mine)
    queued = run.bulk() - run.received().get('bulk', 0)
    run.wait(SINGLES[2], run.args.singles)
    return {'queued': queued, 'in_rate': run.bulk() / (accepted - offered['first_offer']),
            'during_offered': during['acked']}, \
        {SINGLES[0]: run.args.singles, SINGLES[2]: run.args.singles}


def urgent(run):
    return beside_bulk(run, {'X-Tenant': 'resets', 'X-Class': 'urgent'},
                       {'X-Tenant': 'news', 'X-Class': 'bulk'})


def alike(run):
    return beside_bulk(run, {'X-Tenant': 'resets'}, {'X-Tenant': 'news'})


def idle(run):
    several = ('--tenants', 10 * TENANTS, '--tenant-prefix', 'idle')  # few come twice
    run.singles(SINGLES[0], *several)
    run.wait(SINGLES[0], run.args.singles)
    run.offer_bulk('bulk.test', run.args.messages, '--tenants', TENANTS)
    run.singles(SINGLES[2], *several)
    queued = run.args.messages - run.received().get('bulk', 0)
    run.wait(SINGLES[2], run.args.singles)
    return {'queued': queued}, {SINGLES[0]: run.args.singles, SINGLES[2]: run.args.singles}


def shares_of(run, names, fields_of):
    """What each has of the deliveries while all have mail queued."""
    for name in names:
        run.offer_bulk(f'{name}.test', run.args.messages, fields=fields_of(name))
    run.sink.release()
    got = {}
    while max(got.values(), default=0) < run.args.messages / 2:  # of the one with most
        run.sink.pause()
        got = run.received()
    total = sum(got.get(name, 0) for name in names)
    return {f'share_{name}': 100 * got.get(name, 0) / total for name in names}, {}


def shares(run):
    return shares_of(run, WEIGHTS, lambda name: {'X-Tenant': name})


def flood(run):
    return shares_of(run, CLASSES, lambda name: {'X-Tenant': name, 'X-Class': name})


def campaign(run):
    run.offer_bulk('bulk.test', run.bulk(), fields={'X-Tenant': 'news', 'X-Campaign': 'large'})
    run.offer('the small campaign', SINGLES[2], SMALL_CAMPAIGN,
              fields={'X-Tenant': 'news', 'X-Campaign': 'small'})
    run.wait(SINGLES[2], SMALL_CAMPAIGN)
    return {}, {SINGLES[2]: SMALL_CAMPAIGN}


RUNNERS = {'urgent': urgent, 'alike': alike, 'idle': idle, 'shares': shares, 'campaign': campaign,
           'flood': flood}


# ---- one run

def run_one(args, name, case):
    case = setting_of(name, case, args)
    with Receivers(args, case, *(['--hold'] if case.case in HOLDING else [])) as ends:
        with systems.started(args, name, case, ends) as subject:
            run = Run(args, name, case, subject, ends)
            with Meter(subject, ends) as meter:
                figures, wanted = RUNNERS[case.case](run)
                used = meter.used(max(1, ends.sink.read()['recipients']))
        numbers = ends.sink.end()
    return outcome(args, name, case, figures, wanted, used, numbers)


def outcome(args, name, case, figures, wanted, used, numbers):
    found = {one['domain']: one for one in numbers['domains']}
    for domain, count in wanted.items():
        if found.get(domain, {}).get('recipients', 0) != count:
            raise Failure(f"{domain}: {found.get(domain, {}).get('recipients', 0):,} arrived of {count:,}")
    figures = {**latencies(found), **figures, 'memory_mb': used['figures'].get('memory_mb')}
    figures['demand'] = demand_of(args, case.case, figures)
    figures = {key: value for key, value in figures.items() if value is not None}
    run = {'relay': name, 'case': case.case, 'figures': figures, 'foreign': used['foreign'],
           'recipients': numbers['recipients'], 'connections': numbers['connections'],
           'destinations': [{'name': domain, **{key: one[key] for key in (
               'messages', 'recipients', 'rate', 'latency', 'deferred', 'rejected')}}
               for domain, one in found.items()]}
    if 'threads' in used:
        run['threads'] = used['threads']
    if 'timeline' in numbers and SINGLES[0] in found:
        run['timeline'] = course(numbers['timeline'])
    return run


def latencies(found):
    figures = {}
    for domain in SINGLES:
        if domain in found:
            figures.update({f"{domain.partition('.')[0]}_{what}":
                            found[domain]['latency'][what] * 1000 for what in ('p50', 'p99', 'max')})
    return figures


def demand_of(args, case, figures):
    """Milliseconds that the singles may take beside the others."""
    if case in ('urgent', 'alike'):
        return 1.5 * figures['alone_p99'] + DELAY_MS
    if case == 'idle':  # a selection of each, --window at a time
        return math.ceil(TENANTS / args.window) * DELAY_MS + figures['alone_p99']
    return TURNS * DELAY_MS if case == 'campaign' else None


def together(key, values):
    """Of one second: numbers add up, of latencies the longest counts."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return max(known) if key.startswith('latency') else sum(known)


def course(timeline):
    """The singles of all phases as one, and the bulk."""
    domains = timeline['domains']
    several = [domains[name] for name in SINGLES if name in domains]
    merged = {key: [together(key, values) for values in zip(*(one[key] for one in several))]
              for key in SERIES}
    return {'interval': timeline['interval'], 'start': timeline['start'],
            'destinations': {'singles': merged, 'bulk': domains.get('bulk.test', {})}}


def thousand(args, pair):
    """The same mail, once with the fields for whose it is, once without one that is known."""
    runs = []
    for case, listener in (('no tenants', {}), ('thousand', HEADERS)):
        one = Setting.of(args, case=case, messages=args.messages, listener=listener,
                         source=('--tenants', TENANTS))
        runs.append({**flow(args, 'sluice', one), 'pair': pair, 'is_clean': True})
        measure.print_run(runs[-1], FIGURES)
    return runs


# ---- all of them

def cpu_target(rows):
    found = {row['case']: row['figures']['cpu_us'] for row in rows
             if row['case'] in ('no tenants', 'thousand')}
    if not found:
        return []
    ratio = found['thousand'] / found['no tenants']
    return [measure.target('thousand: CPU a message, times that without tenants', f'<= {MOST_CPU}', ratio,
                           ratio <= MOST_CPU, digits=3)]


def share_targets(figures):
    weights = sum(WEIGHTS.values())
    found = []
    for name, weight in WEIGHTS.items():
        if f'share_{name}' in figures:
            got, due = figures[f'share_{name}'], 100 * weight / weights
            found.append(measure.target(f'shares: {name}, %', f'{due:.1f} within 2', got,
                                        abs(got - due) <= 2))
    if 'share_bulk' in figures:
        # What is owed is whole recipients: a look comes in front of the next one.
        for what, names, least in (('normal and bulk', ('normal', 'bulk'), 10), ('bulk', ('bulk',), 1)):
            got = sum(figures[f'share_{name}'] for name in names)
            found.append(measure.target(f'flood: {what}, %', f'>= {least}', got, round(got) >= least))
    return found


def targets(rows):
    found = []
    for row in rows:
        figures = row['figures']
        if not systems.is_sluice(row['relay']):
            continue
        found += share_targets(figures)
        if 'demand' in figures:
            key = 'beside_max' if row['case'] == 'campaign' else 'beside_p99'
            what = 'the last of the small campaign' if key == 'beside_max' else 'p99 of singles'
            found.append(measure.target(f"{row['case']}: {what}, ms", f"<= {figures['demand']:.0f}",
                                        figures[key], figures[key] <= figures['demand'], digits=0))
    return found + cpu_target(rows)


def is_part_of(name, case):
    return systems.is_sluice(name) or case in OF_POSTFIX.get(name, ())


def run(args):
    measure.check(args, without=('raw',))
    relays, runs = args.relays, []
    for case in args.cases:
        if case == 'thousand':
            runs += [one for pair in range(1, args.pairs + 1) for one in thousand(args, pair)]
            continue
        args.relays = [name for name in relays if is_part_of(name, case)]
        runs += measure.rounds(args, [setting(args, case)], FIGURES, run_one)
    args.relays = relays
    return measure.result(args, (TITLE, __doc__), FIGURES, runs, targets)
