"""Each single-threaded stage under as much work as the others can give it: what one core of it carries.

intake    messages go in over --connections in few reads (BDAT, several in flight) while the receiver
          greets nobody: the spool writer, and the activator beside it
delivery  that backlog is released: the scheduler, and what the activator reads back
http      messages are posted one by one at --rate, more than is taken: the thread at the doors
batch     the same by 1,000 personal messages a request

A stage's capacity is what a core that it has for itself would carry: one second by its CPU time a message.
The last figure says how much of the time it ran; below 100 % something else was the limit, here mostly that all
share the cores. The workers are as many as there are cores, so their capacity is of one of them."""
import time

import flow
import measure
import systems
from load import free_port
from relay import Failure
from workloads import injection

TITLE = 'Each stage alone'
QUICK = {'pairs': 1, 'messages': 20000, 'seconds': 2}
STAGES = {'worker': 'worker', 'spool-writer': 'writer', 'activator': 'activator', 'scheduler': 'scheduler',
          'http': 'http'}  # the thread's name: what tables call it
FIGURES = [measure.RATE, measure.CPU] + [
    {'key': f'{stage}_{key}', 'title': f'{short}{title}', 'better': better, 'digits': digits}
    for stage, short in STAGES.items()
    for key, title, better, digits in (('us', ' us', 'lower', 1), ('capacity', '/s', 'higher', 0),
                                       ('busy', ' %', None, 0))]


def add_arguments(parser):
    measure.add_arguments(parser, ['sluice'])
    parser.add_argument('--cases', type=measure.choice(*CASES), default=list(CASES), metavar='CASE,...',
                        help=f'of {", ".join(CASES)}')
    parser.add_argument('--messages', type=int, default=100000, help='of intake and delivery (100,000)')
    parser.add_argument('--seconds', type=int, default=10, help='of http')
    parser.add_argument('--rate', type=int, default=20000, help='messages a second offered to http')
    parser.add_argument('--http-connections', type=int, default=50)


def intake(args, name, setting):
    total = setting.messages
    wanted = setting.wanted(total)
    title = flow.title_of(name, setting)
    with flow.Receivers(args, setting, '--hold') as ends:
        with systems.started(args, name, setting, ends) as subject:
            with flow.Meter(subject, ends) as meter, \
                    flow.start_source(args, name, setting, subject) as source:
                offered = flow.wait_for_source(source, args, title, total)
                used = meter.used(total)
            ends.sink.release()
            flow.wait_for_all(args, ends.sink, None, wanted, total, title)
        numbers = ends.sink.end()
    flow.check(args, setting, wanted, total, numbers)
    elapsed = offered['last_ack'] - offered['first_offer']
    return flow.outcome(name, setting, {'rate': total / elapsed}, used, numbers, [], meter)


def http(args, name, setting, batch=1):
    door = free_port()
    setting.options = {f'http "127.0.0.1:{door}" {{ connection_limit': '1000 }'}
    setting.names = (injection.HTTP_DOMAIN,)
    with flow.Receivers(args, setting) as ends:
        with systems.started(args, name, setting, ends) as subject, \
                flow.Meter(subject, ends) as meter:
            begin = time.monotonic()
            with injection.Injector(args, door, batch) as injector:
                taken = injector.finish()['accepted']
            elapsed = time.monotonic() - begin
            injection.wait_for(args, ends.sink, taken, flow.title_of(name, setting))
            used = meter.used(taken)
        numbers = ends.sink.end()
    injection.check(numbers, {injection.HTTP_DOMAIN: taken})
    return flow.outcome(name, setting, {'rate': taken / elapsed}, used, numbers, [], meter)


def batch(args, name, setting):
    return http(args, name, setting, 1000)


CASES = {'intake': intake, 'delivery': flow.drain, 'http': http, 'batch': batch}


def run_one(args, name, setting):
    run = CASES[setting.case](args, name, setting)
    count, elapsed = run['recipients'], run['recipients'] / run['figures']['rate']
    for stage in STAGES:
        seconds = run['threads'].get(stage, 0)
        if seconds * 1e6 / count >= 0.1:  # what a stage does beside others' work is none of its figure
            run['figures'].update({f'{stage}_us': seconds * 1e6 / count,
                                   f'{stage}_capacity': count / seconds,
                                   f'{stage}_busy': seconds / elapsed * 100})
    return run


def run(args):
    for name in args.relays:
        if not systems.is_sluice(name):
            raise Failure(f'{name} has no such stages; --relays sluice')
    measure.check(args)
    load = ('--chunking', '--in-flight', '16')
    cases = [flow.Setting.of(args, case=case, domains=1, messages=args.messages,
                             source=load if case == 'intake' else ()) for case in args.cases]
    runs = measure.rounds(args, cases, FIGURES, run_one)
    return measure.result(args, (TITLE, __doc__), FIGURES, runs)
