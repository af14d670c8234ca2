"""One run: a fresh system under test between a source and receivers, and what it did.

A Setting says what every system gets alike. flow() offers mail and takes the time from the first
offer to the last delivery; drain() lets a backlog be accepted first, while the receiver greets
nobody, and takes the time of its delivery alone. Both end with an error when mail was lost or came
twice. CPU time goes from before the first offer (or the release) until half a second after the last
delivery was seen: what a relay still does for the last messages counts too."""
import collections
import contextlib
import dataclasses
import ipaddress
import json
import os
import resource
import time

import calls
import systems
from load import Sink, Source, Zone, busy_seconds
from progress import Progress
from relay import Failure, MemorySampler, stat_seconds, thread_seconds
from windows import Windows

FIRST_ADDRESS = ipaddress.IPv4Address('127.0.1.1')
SETTLE = 0.5
SERIES = ('messages', 'open', 'deferred', 'latency_p50', 'latency_p99')
TIMELINES_MAX = 50  # destinations of which the course is kept, those with the most mail


@dataclasses.dataclass
class Setting:
    """messages, recipients: of sluice and raw; the *_postfix ones of everybody else (0: the same).
    transport, options: of sluice; postfix: of Postfix; source, sink: of these two programs."""
    case: str = ''
    domains: int = 1
    names: tuple = ()  # instead of d1.test ..., all at one address
    messages: int = 1
    messages_postfix: int = 0
    recipients: int = 1
    recipients_postfix: int = 0
    size: int = 4096
    connections: int = 20  # into the system
    window: int = 20       # connections to a destination
    process_limit: int = 100
    batch: int = 50        # recipients of a transaction
    source: tuple = ()
    sink: tuple = ()
    sink_environment: dict = None
    transport: dict = dataclasses.field(default_factory=dict)
    options: dict = dataclasses.field(default_factory=dict)
    listener: dict = dataclasses.field(default_factory=dict)  # of sluice
    sections: str = ''                                        # of sluice
    urgent: tuple = ()  # domains to which postfix-urgent has a transport of its own
    postfix: dict = dataclasses.field(default_factory=dict)
    postfix_messages: int = 100000    # in the memory of its queue manager
    postfix_recipients: int = 200000
    is_even: bool = True  # recipients go round the domains
    # > 0: they are at so many hosts in turn, each an MX set, and a name server says so; 0: each at an
    # address of its own, and the relays know it from a table.
    sites: int = 0
    # Further domains that only get mail, and are not waited for but the slow ones:
    # {of slow, refusing, silent: how many}
    beside: dict = dataclasses.field(default_factory=dict)
    slow_sink: tuple = ()

    @classmethod
    def of(cls, args, **values):
        """With what the command line says (measure.add_arguments)."""
        common = {name: getattr(args, name)
                  for name in ('size', 'connections', 'window', 'process_limit')}
        if 'messages' not in values:
            common.update(messages=args.messages, messages_postfix=args.messages_postfix)
        return cls(**{**common, **values})

    def destinations(self):
        """(domain, address) of those that are measured."""
        if self.names:
            return [(name, str(FIRST_ADDRESS)) for name in self.names]
        return [(f'd{i}.test', str(FIRST_ADDRESS + (i % self.sites if self.sites else i - 1)))
                for i in range(1, self.domains + 1)]

    def zone_rules(self):
        """What the name server says of these destinations."""
        return [f'd#.test MX 10 mx.s#%{self.sites}.test',
                *(f'mx.s{i}.test A {FIRST_ADDRESS + i}' for i in range(self.sites))]

    def besides(self):
        """(domain, address, kind) of the further ones."""
        kinds = [kind for kind, count in self.beside.items() for _ in range(count)]
        return [(f'd{i}.test', str(FIRST_ADDRESS + i - 1), kind)
                for i, kind in enumerate(kinds, self.domains + 1)]

    def pattern(self):
        """All domains as sluice-source takes them."""
        return ','.join(self.names) or f'd%d.test:{self.domains + sum(self.beside.values())}'

    def load_of(self, name):
        """(messages, recipients of each) for a system; raw must divide them as a relay would."""
        if name == systems.RAW and self.recipients > self.batch:
            return -(-self.messages * self.recipients // self.batch), self.batch
        if systems.is_sluice(name) or name == systems.RAW:
            return self.messages, self.recipients
        return self.messages_postfix or self.messages, self.recipients_postfix or self.recipients

    def total_of(self, name):
        messages, recipients = self.load_of(name)
        return messages * recipients

    def wanted(self, recipients):
        """{domain: how many must arrive}; {} where that is random."""
        if not self.is_even:
            return {}
        count = self.domains + sum(self.beside.values())
        return {name: (recipients - i + count - 1) // count
                for i, (name, _) in enumerate(self.destinations())}


class Receivers:
    """One sink for the destinations that are measured, another for slow ones beside them."""

    def __init__(self, args, setting, *options):
        self.args, self.setting = args, setting
        self.options = [*setting.sink, *options]
        self.stack = contextlib.ExitStack()  # of what is open
        self.slow = self.zone = None
        self.routes = []

    def __enter__(self):
        args, setting = self.args, self.setting
        try:
            self.sink = self.open(setting.destinations(), self.options, args.sink_port)
            self.open_besides()
            if setting.sites:
                self.routes = []
                self.zone = self.stack.enter_context(Zone(args.build, setting.zone_rules()))
        except BaseException:
            self.stack.close()
            raise
        return self

    def open(self, destinations, options, port=None):
        addresses = sorted({ipaddress.IPv4Address(address) for _, address in destinations})
        hosts = f'{addresses[0]}-{addresses[-1]}'
        course = ['--timeline', self.args.timeline] if self.args.timeline else []
        sink = self.stack.enter_context(
            Sink(self.args.build, self.args.folder, *options, *course, hosts=hosts, port=port,
                 environment=self.setting.sink_environment))
        self.routes += [(name, sink.nexthop(address)) for name, address in destinations]
        return sink

    def open_besides(self):
        kinds = {}
        for name, address, kind in self.setting.besides():
            kinds.setdefault(kind, []).append((name, address))
        if 'slow' in kinds:
            self.slow = self.open(kinds['slow'], self.setting.slow_sink)
        if 'silent' in kinds:
            behaviour = self.args.folder / 'silent.conf'
            behaviour.write_text('default { silent = yes }\n')
            self.open(kinds['silent'], ['--behaviour', behaviour])
        for name, address in kinds.get('refusing', ()):  # nobody listens there
            self.routes.append((name, f'[{address}]:{self.sink.port}'))

    def __exit__(self, *_):
        self.stack.close()


class Meter:
    """What a system used, and what others took of the machine meanwhile."""

    def __init__(self, subject, receivers):
        self.subject, self.receivers = subject, receivers
        self.windows = self.memory = None

    def tools_seconds(self):
        """Of this process, of the source once it ended, and of the sinks that still run."""
        usages = [resource.getrusage(who)
                  for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        sinks = [sink for sink in (self.receivers.sink, self.receivers.slow) if sink is not None]
        return sum(u.ru_utime + u.ru_stime for u in usages) + \
            sum(stat_seconds(f'/proc/{sink.process.pid}/stat')[1] for sink in sinks)

    def look(self):
        subject = self.subject
        return {'cpu': subject.account.cpu_seconds() if subject.account else 0,
                'threads': thread_seconds(subject.pid) if subject.pid else {},
                'calls': subject.calls() if subject.calls else None,
                'tools': self.tools_seconds(), 'busy': busy_seconds(), 'time': time.monotonic()}

    def __enter__(self):
        subject = self.subject
        with contextlib.ExitStack() as stack:
            if subject.account is not None:
                self.memory = stack.enter_context(MemorySampler(subject.account))
            if subject.pid is not None:
                self.windows = stack.enter_context(Windows(
                    subject.command('destinations', '--json'), subject.pid))
            self.before = self.look()
            self.stack = stack.pop_all()
        return self

    def used(self, count):
        """Since the beginning; count: of messages or recipients, for the CPU time of one."""
        time.sleep(SETTLE)
        now, before = self.look(), self.before
        cpu, tools, busy, elapsed = (now[key] - before[key]
                                     for key in ('cpu', 'tools', 'busy', 'time'))
        found = {'figures': {}, 'foreign': None}
        if self.subject.account is not None:
            self.memory.look()
            found['figures'] = {'cpu_us': cpu / count * 1e6,
                                'memory_mb': self.memory.peak_bytes / 1e6}
        if self.subject.is_seen:
            # Ticks are coarse: others who have all of a processor seem to have a little more.
            found['foreign'] = min((busy - cpu - tools) / elapsed / os.cpu_count(), 1)
        if self.subject.pid is not None:
            found['threads'] = {name: round(seconds - before['threads'].get(name, 0), 3)
                                for name, seconds in now['threads'].items()}
        if now['calls'] is not None:
            found['calls'] = calls.between(before['calls'], now['calls'])
        return found

    def __exit__(self, *_):
        self.stack.close()


def start_source(args, name, setting, subject):
    messages, recipients = setting.load_of(name)
    counts = args.folder / 'source.json'
    counts.unlink(missing_ok=True)
    return Source(args.build, subject.to, '--messages', messages, '--recipients', recipients,
                  '--connections', min(setting.connections, messages), '--size', setting.size,
                  '--domains', setting.pattern(), '--timeout', args.timeout, '--json', counts,
                  *subject.options, *setting.source, *ledger(args, 'offered'))


def ledger(args, kind):
    if not args.exact:
        return []
    path = args.folder / f'{kind}.jsonl'
    path.unlink(missing_ok=True)
    return ['--ledger', path]


def has_all(numbers, wanted, total):
    if not wanted:
        return numbers['recipients'] >= total
    got = {one['domain']: one['recipients'] for one in numbers['domains']}
    return all(got.get(name, 0) >= count for name, count in wanted.items())


def wait_for_all(args, sink, source, wanted, total, title):
    """Until the source ended and everything arrived; a stall of --timeout seconds ends it."""
    progress = Progress(title)
    got, changed = -1, time.monotonic()
    while True:
        is_over = source is None or not source.is_running()
        numbers = sink.read()
        if not numbers:
            raise Failure('the receiver ended')
        progress.show('delivered', numbers['recipients'], total)
        if is_over and source is not None and source.process.returncode != 0:
            source.finish()
        if is_over and has_all(numbers, wanted, total):
            progress.clear()
            return
        if numbers['recipients'] != got:
            got, changed = numbers['recipients'], time.monotonic()
        elif time.monotonic() - changed > args.timeout:
            raise Failure(f'{got:,} of {total:,} arrived, then none for {args.timeout} s')
        if is_over:
            sink.pause()
        else:  # a report of 10,000 domains takes both ends much of a second of CPU
            source.wait(min(5, max(0.5, 50 * sink.read_seconds)))


def wait_for_source(source, args, title, messages):
    """While the receiver holds: the backlog is accepted."""
    progress = Progress(title)
    while source.is_running():
        with contextlib.suppress(OSError):
            numbers = json.loads((args.folder / 'source.json').read_text())
            progress.show('accepted', numbers['acked'], messages)
        time.sleep(0.1)
    progress.clear()
    return source.finish()


def title_of(name, setting):
    return f'{name}{", " if setting.case else ""}{setting.case}'


def flow(args, name, setting):
    """Offer, deliver. Returns one of the "runs" of the result."""
    total = setting.total_of(name)
    wanted = setting.wanted(total)
    measured = sum(wanted.values()) or total
    with Receivers(args, setting, *ledger(args, 'received')) as ends:
        with systems.started(args, name, setting, ends) as subject, \
                Meter(subject, ends) as meter:
            with start_source(args, name, setting, subject) as source:
                wait_for_all(args, ends.sink, source, wanted, measured, title_of(name, setting))
                offered = source.finish()
            used = meter.used(total)
            if ends.slow is not None:
                ends.slow.wait(lambda n: n['recipients'] >= slow_count(setting, total),
                               args.timeout, 'the slow ones')
        numbers = ends.sink.end()
        others = [ends.slow.end()] if ends.slow else []
    check(args, setting, wanted, measured, numbers)
    if others and others[0]['recipients'] != slow_count(setting, total):
        raise Failure(f"slow: {others[0]['recipients']:,} recipients arrived of "
                      f'{slow_count(setting, total):,}')
    figures = {'rate': measured / (numbers['last'] - offered['first_offer']),
               'in_rate': total / max(offered['last_ack'] - offered['first_offer'], 1e-6)}
    return outcome(name, setting, figures, used, numbers, others, meter)


def drain(args, name, setting):
    """Accept a backlog, then deliver it."""
    total = setting.total_of(name)
    wanted = setting.wanted(total)
    with Receivers(args, setting, '--hold', *ledger(args, 'received')) as ends:
        with systems.started(args, name, setting, ends) as subject:
            title, offered = title_of(name, setting), None
            if name != systems.RAW:
                with start_source(args, name, setting, subject) as source:
                    offered = wait_for_source(source, args, title, setting.load_of(name)[0])
                ends.sink.wait(lambda n: n['open'] > 0, 60, 'a connection')
            with Meter(subject, ends) as meter, contextlib.ExitStack() as stack:
                released = ends.sink.release()
                source = stack.enter_context(start_source(args, name, setting, subject)) \
                    if name == systems.RAW else None
                wait_for_all(args, ends.sink, source, wanted, total, title)
                used = meter.used(total)
        numbers = ends.sink.end()
    check(args, setting, wanted, total, numbers)
    figures = {'rate': total / (numbers['last'] - released)}
    if offered is not None:
        figures['in_rate'] = total / max(offered['last_ack'] - offered['first_offer'], 1e-6)
    return outcome(name, setting, figures, used, numbers, [], meter)


def slow_count(setting, total):
    count = setting.domains + sum(setting.beside.values())
    return sum((total - int(name[1:-5]) + count) // count
               for name, _, kind in setting.besides() if kind == 'slow')


def check(args, setting, wanted, total, numbers):
    """Nothing lost, nothing twice. The relay was stopped, so nothing more can come."""
    got = {one['domain']: one['recipients'] for one in numbers['domains']}
    for name, count in wanted.items():
        if got.get(name, 0) != count:
            raise Failure(f'{name}: {got.get(name, 0):,} recipients arrived of {count:,}')
    if not wanted and numbers['recipients'] != total:
        raise Failure(f"{numbers['recipients']:,} recipients arrived of {total:,}")
    if args.exact:
        check_ledgers(args, {name for name, _ in setting.destinations()})


def check_ledgers(args, domains):
    """Every acknowledged recipient exactly once."""
    offered, acked, received = {}, set(), collections.Counter()
    for line in (args.folder / 'offered.jsonl').read_text().splitlines():
        event = json.loads(line)
        if event['event'] == 'offered':
            offered[event['id']] = event['recipients']
        elif event['event'] == 'acked':
            acked.add(event['id'])
    for line in (args.folder / 'received.jsonl').read_text().splitlines():
        event = json.loads(line)
        received.update((event['id'], recipient) for recipient in event['recipients'])
    due = collections.Counter((id, recipient) for id in acked for recipient in offered[id]
                              if recipient.rpartition('@')[2] in domains)
    if due != received:
        raise Failure(f'lost: {list((due - received).keys())[:3]}, twice or strange: '
                      f'{list((received - due).keys())[:3]}')


def outcome(name, setting, figures, used, numbers, others, meter):
    latency = numbers['latency']
    figures.update({f'{key}_ms': latency[key] * 1000 for key in ('p50', 'p90', 'p99', 'max')
                    if key in latency})
    figures.update(used['figures'])
    here = places(name, setting)
    run = {'relay': name, 'case': setting.case, 'figures': figures, 'foreign': used['foreign'],
           'recipients': numbers['recipients'], 'connections': numbers['connections'],
           'max_open': max(one['max_open'] for one in numbers['listeners']),
           'destinations': [row for one in (numbers, *others)
                            for row in destination_rows(here, one)]}
    if 'threads' in used:
        run['threads'] = used['threads']
    if 'calls' in used:
        run['calls'] = used['calls']
    courses = [timeline(here, one, meter.windows) for one in (numbers, *others)
               if 'timeline' in one]
    if courses:
        run['timeline'] = courses[0]
        for course in courses[1:]:
            run['timeline']['destinations'].update(course['destinations'])
        level(run['timeline']['destinations'].values())
    return run


def level(courses):
    """Of receivers that did not end in the same interval: nothing happens in what a shorter one lacks."""
    most = max((len(course['messages']) for course in courses), default=0)
    for course in courses:
        for key, series in course.items():
            nothing = 0 if key in ('messages', 'open', 'deferred') else None
            series.extend([nothing] * (most - len(series)))


def places(name, setting):
    """{address: domains there}"""
    found = {}
    if name == systems.RAW:
        return {str(FIRST_ADDRESS): [one for one, _ in setting.destinations()]}
    for domain, address, *_ in (*setting.destinations(), *setting.besides()):
        found.setdefault(address, []).append(domain)
    return found


def destination_rows(here, numbers):
    """The domains in the order of the setting; what is known of the address alone is that of every
    domain there."""
    listeners = {one['address'].rpartition(':')[0]: one for one in numbers['listeners']}
    homes = {name: address for address, names in here.items() for name in names}
    order = {name: i for i, name in enumerate(homes)}
    return [{'name': one['domain'],
             **{key: one[key] for key in ('messages', 'recipients', 'rate', 'latency', 'deferred',
                                          'rejected')},
             **{key: listeners.get(homes.get(one['domain']), {}).get(key)
                for key in ('connections', 'max_open', 'refused')}}
            for one in sorted(numbers['domains'], key=lambda d: order.get(d['domain'], len(order)))]


def timeline(here, numbers, windows):
    """The sink's, by domain instead of by address, with the windows of sluice."""
    course = numbers['timeline']
    most = sorted(course['listeners'].items(), key=lambda item: -sum(item[1]['messages']))
    found = {}
    for address, series in most[:TIMELINES_MAX]:
        host, _, port = address.rpartition(':')
        count, domains = len(series['messages']), here.get(host, [address])
        name = ', '.join(domains) if len(domains) <= 3 else f'{domains[0]} to {domains[-1]}'
        found[name] = {
            **{key: series[key] for key in SERIES},
            'window': windows.along(f'[{host}]:{port}', course['start'], course['interval'], count)
                      if windows is not None else [None] * count}
    return {'interval': course['interval'], 'start': course['start'], 'destinations': found}
