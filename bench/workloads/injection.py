"""Injection over HTTP beside SMTP (w8): what 1,000 messages a second over HTTP cost the rest.

Each round is two runs of --seconds each. `smtp`: messages of 4 KB for one destination over SMTP, as
fast as they are taken (workload single). `with http`: the same, and beside it single messages of
4 KB by POST /v1/inject at --rate a second, over connections that stay (sluice-inject), and a
browser's page that asks every 2 seconds, as an operator looks on. Deliveries of both ways count.
The loss is that of all deliveries a second against the run before. An answer's latency counts from
when its message was due; every message must be taken, and every one taken must arrive."""
import contextlib
import http.client
import json
import subprocess
import threading
import time

import flow
import measure
import systems
from load import Source, free_port
from progress import Progress
from relay import Failure

TITLE = 'Injection over HTTP beside SMTP'
QUICK = {'pairs': 1, 'seconds': 5}
SMTP_DOMAIN, HTTP_DOMAIN = 'd1.test', 'd2.test'
FIGURES = [
    {**measure.RATE, 'title': 'delivered/s'},
    {'key': 'smtp_rate', 'title': 'of SMTP/s', 'better': 'higher', 'digits': 0},
    {'key': 'http_rate', 'title': 'of HTTP/s', 'better': 'higher', 'digits': 0},
    measure.CPU,
    {'key': 'answer_p50_ms', 'title': '202 p50 ms', 'better': 'lower', 'digits': 2},
    {'key': 'answer_p99_ms', 'title': '202 p99 ms', 'better': 'lower', 'digits': 2},
    {'key': 'not_taken', 'title': 'not taken', 'better': 'lower', 'digits': 0},
    {'key': 'page_ms', 'title': 'page max ms', 'better': 'lower', 'digits': 1}]
PAGE = {2: ('/v1/status', '/v1/series?span=600', '/v1/destinations?sort=load&limit=30'),
        5: ('/v1/responses?limit=50', '/v1/tenants', '/v1/orders', '/v1/counts?by=destination',
            '/v1/counts?by=age')}


def add_arguments(parser):
    measure.add_arguments(parser, ['sluice'])
    parser.add_argument('--seconds', type=int, default=60, help='of each run')
    parser.add_argument('--rate', type=int, default=1000, help='messages a second over HTTP')
    parser.add_argument('--http-connections', type=int, default=20)


class Page(threading.Thread):
    """Asks what the page asks, as often as it does (engine/http/page/index.html)."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.ended, self.problem = port, threading.Event(), None
        self.slowest = 0

    def run(self):
        try:
            connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=30)
            begin = time.monotonic()
            due = {pause: begin for pause in PAGE}
            while not self.ended.wait(max(0, min(due.values()) - time.monotonic())):
                pause = min(due, key=due.get)
                for path in PAGE[pause]:
                    self.ask(connection, path)
                due[pause] = time.monotonic() + pause
            connection.close()
        except (OSError, http.client.HTTPException, Failure) as error:
            self.problem = error

    def ask(self, connection, path):
        begin = time.monotonic()
        connection.request('GET', path)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise Failure(f'{path}: {answer.status} {body[:200]}')
        self.slowest = max(self.slowest, time.monotonic() - begin)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()


class Injector:
    """sluice-inject, from its creation on."""

    def __init__(self, args, port, batch=1):
        # a connection has one request under way, and intake_memory would not take fifty batches
        connections = args.http_connections if batch == 1 else min(args.http_connections, 4)
        self.process = subprocess.Popen(
            [args.build / 'bench/sluice-inject', '--to', f'127.0.0.1:{port}', '--rate',
             str(args.rate), '--seconds', str(args.seconds), '--connections',
             str(connections), '--size', str(args.size), '--batch', str(batch), '--domain', HTTP_DOMAIN],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self):
        output, said = self.process.communicate()
        if not output:
            raise Failure(f'sluice-inject: {said.decode(errors="replace")}')
        return json.loads(output)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def wait_for(args, sink, total, title):
    """Until everything that was taken arrived."""
    progress = Progress(title)
    got, changed = -1, time.monotonic()
    while True:
        count = sink.read().get('recipients', 0)
        progress.show('delivered', count, total)
        if count >= total:
            progress.clear()
            return
        if count != got:
            got, changed = count, time.monotonic()
        elif time.monotonic() - changed > args.timeout:
            raise Failure(f'{got:,} of {total:,} arrived, then none for {args.timeout} s')
        sink.pause()


def offer(args, subject, http_port, has_http):
    """Both loads until they end; returns (numbers of the source, of sluice-inject or None, the
    slowest answer to the page in seconds)."""
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(Source(
            args.build, subject.to, '--messages', 0, '--seconds', args.seconds, '--connections',
            args.connections, '--size', args.size, '--domains', SMTP_DOMAIN, '--timeout',
            args.timeout))
        page = stack.enter_context(Page(http_port)) if has_http else None
        injector = stack.enter_context(Injector(args, http_port)) if has_http else None
        offered = source.finish()
        injected = injector.finish() if has_http else None
    if page is not None and page.problem is not None:
        raise Failure(f'the page: {page.problem}')
    return offered, injected, page.slowest if page is not None else 0


def check(numbers, wanted):
    """The relay was stopped: nothing more can come."""
    got = {one['domain']: one['recipients'] for one in numbers['domains']}
    for name, count in wanted.items():
        if got.get(name, 0) != count:
            raise Failure(f'{name}: {got.get(name, 0):,} recipients arrived of {count:,}')


def run_one(args, name, setting):
    has_http = setting.case == 'with http'
    http_port = free_port()
    setting.options = {f'http "127.0.0.1:{http_port}" {{ connection_limit': '1000 }'}
    with flow.Receivers(args, setting) as ends:
        with systems.started(args, name, setting, ends) as subject, \
                flow.Meter(subject, ends) as meter:
            offered, injected, slowest = offer(args, subject, http_port, has_http)
            taken = {SMTP_DOMAIN: offered['acked'],
                     HTTP_DOMAIN: injected['accepted'] if has_http else 0}
            total = sum(taken.values())
            wait_for(args, ends.sink, total, flow.title_of(name, setting))
            used = meter.used(total)
        numbers = ends.sink.end()
    check(numbers, taken)
    elapsed = numbers['last'] - offered['first_offer']
    figures = {'rate': total / elapsed, 'smtp_rate': taken[SMTP_DOMAIN] / elapsed}
    if has_http:
        figures.update(http_rate=taken[HTTP_DOMAIN] / elapsed,
                       answer_p50_ms=injected['answer']['p50'] * 1000,
                       answer_p99_ms=injected['answer']['p99'] * 1000,
                       not_taken=injected['refused'] + injected['failed'], page_ms=slowest * 1000)
        if injected['last_problem']:
            print(f"    {injected['last_problem']}", flush=True)
    return flow.outcome(name, setting, figures, used, numbers, [], meter)


def rounds(args):
    """As measure.rounds, but the cases take turns: their ratio is what counts."""
    cases = [flow.Setting.of(args, case=case, domains=2, messages=1)
             for case in ('smtp', 'with http')]
    runs = []
    for pair in range(1, args.pairs + 1):
        measure.wait_for_quiet(args)
        turn = [measure.one_run(args, name, case, pair, FIGURES, run_one)
                for name in args.relays for case in cases]
        is_clean = all((run['foreign'] or 0) <= args.max_foreign for run in turn)
        for run in turn:
            run['is_clean'] = is_clean
        if not is_clean:
            print('    others used too much: this round is left out', flush=True)
        runs += turn
    return runs


def losses(runs, name):
    """Of each clean round, in percent."""
    rates = {(run['pair'], run['case']): run['figures']['rate'] for run in runs
             if run['relay'] == name and run['is_clean']}
    return [(1 - rates[pair, 'with http'] / rates[pair, 'smtp']) * 100
            for pair, case in rates if case == 'smtp']


def run(args):
    for name in args.relays:
        if not systems.is_sluice(name):
            raise Failure(f'{name} takes no mail over HTTP; --relays sluice')
    measure.check(args)
    runs = rounds(args)
    found = sorted(losses(runs, args.relays[0]))

    def targets_of(rows):
        if not found:
            return []
        loss = found[len(found) // 2]
        print(f'loss of each round, %: {", ".join(f"{one:.1f}" for one in found)}')
        missed = sum(run['figures'].get('not_taken', 0) for run in runs)
        return [measure.target('deliveries lost to injection, %', '<= 5', loss, loss <= 5),
                measure.target('injections not taken', '0', missed, missed == 0, digits=0)]
    return measure.result(args, (TITLE, __doc__), FIGURES, runs, targets_of)
