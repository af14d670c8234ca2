"""The demonstration behind ./quickstart: a relay, a name server and a receiver on loopback.

usage: campaign.py --build FOLDER [--serve] [--messages N]

Sends a campaign through the relay, shows its progress and ends with a table per destination; the
last line says what happened, and the exit status is 0 when every message arrived exactly once.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

DESTINATIONS = 50
# The receiver is a little like the real ones: it takes its time and defers some.
ANSWER_MS = 20
DEFERRED_SHARE = 0.005
STALL_SECONDS = 60

CONFIG = '''\
hostname = "relay.test"
allow_loopback = yes            # the MX hosts of this demonstration are on loopback
minimal_backoff_time = 2s       # real receivers are asked again after 300s
queue_run_delay = 1s
spool {{ path = "{folder}/spool" }}
listener "127.0.0.1:{port}" {{ relay_from = {{"127.0.0.0/8"}} }}
dns {{ servers = {{"127.0.0.1:{dns_port}"}} }}
event_log {{ path = "{folder}/events.jsonl" }}
transport smtp {{ smtp_tcp_port = {sink_port} }}
route "*" {{ transport = "smtp" }}
http "127.0.0.1:{http_port}" {{ }}     # the page, injection, metrics
'''


class Failure(Exception):
    pass


class Stage:
    """What runs: the three servers, in a folder of their own."""

    def __init__(self, args, processes):
        self.processes = processes
        self.build = args.build
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='sluice-quickstart.'))
        self.port, self.sink_port, self.dns_port, self.http_port = (
            int(os.environ.get(name, default))
            for name, default in (('PORT', 2525), ('SINK_PORT', 2626), ('DNS_PORT', 5300),
                                  ('HTTP_PORT', 8025)))
        self.config = self.folder / 'sluice.conf'
        self.events = self.folder / 'events.jsonl'
        self.sluice = str(args.build / 'engine/sluice')
        (self.folder / 'spool').mkdir()
        self.config.write_text(CONFIG.format(**vars(self)))

    def start(self, name, *arguments):
        """Its standard error goes to NAME.log, its standard output to NAME.out."""
        with open(self.folder / f'{name}.log', 'wb') as log, \
                open(self.folder / f'{name}.out', 'wb') as output:
            process = subprocess.Popen([str(argument) for argument in arguments], stdout=output,
                                       stderr=log, stdin=subprocess.DEVNULL,
                                       start_new_session=True)  # Ctrl-C is for this script only
        self.processes.append(process)
        return process

    def start_all(self, serve):
        bench = self.build / 'bench'
        zone = self.start('zone', bench / 'sluice-zone', '--listen', f'127.0.0.1:{self.dns_port}',
                          'd#.test MX 10 mx.d#.test', 'mx.d#.test A 127.0.1.#')
        options = ['--listen', f'127.0.1.1-127.0.1.{DESTINATIONS}:{self.sink_port}']
        if serve:
            (self.folder / 'received').mkdir()
            options += ['--store', self.folder / 'received', '--ledger',
                        self.folder / 'received.jsonl']
        else:
            options += ['--delay-dot', ANSWER_MS, '--defer', DEFERRED_SHARE, '--json',
                        self.folder / 'sink.json']
        sink = self.start('sink', bench / 'sluice-sink', *options)
        relay = self.start('relay', self.sluice, 'run', '-c', self.config)
        self.wait_for('sink', '127.0.1.1', self.sink_port, sink)
        self.wait_for('relay', '127.0.0.1', self.port, relay)
        if zone.poll() is not None:
            raise Failure(f'the name server did not start: {self.log_end("zone")}')
        return sink, relay

    def wait_for(self, name, address, port, process):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if process.poll() is not None:
                raise Failure(f'{name} did not start: {self.log_end(name)}')
            with contextlib.suppress(OSError):
                with socket.create_connection((address, port), 1) as connection:
                    connection.recv(200)
                    return
            time.sleep(0.05)
        raise Failure(f'{name} does not answer on {address}:{port}')

    def log_end(self, name):
        lines = (self.folder / f'{name}.log').read_text(errors='replace').splitlines()
        return ' / '.join(lines[-3:])

    def output(self, name):
        try:
            return json.loads((self.folder / f'{name}.out').read_text())
        except ValueError as error:
            raise Failure(f'{name} ended without numbers: {self.log_end(name)}') from error

    def counts(self):
        """(totals, destinations) of the running relay; None when it does not answer in time."""
        objects = []
        for command in ('status', 'destinations'):
            try:
                answer = subprocess.run([self.sluice, command, '--json', '-c', self.config],
                                        capture_output=True, text=True, timeout=20, check=True)
            except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
                return None
            objects += [json.loads(line) for line in answer.stdout.splitlines()]
        return objects[0], objects[1:]


class Progress:
    """One line that changes on a terminal, else a line every two seconds."""

    def __init__(self, messages):
        self.messages = messages
        self.is_terminal = sys.stdout.isatty()
        self.begin = self.last_time = time.monotonic()
        self.last_count = 0
        self.last_shown = 0.0

    def show(self, totals, is_last=False):
        now = time.monotonic()
        period = now - self.last_time
        if not is_last and now - self.last_shown < (0.4 if self.is_terminal else 2):
            return
        rate = (totals['delivered'] - self.last_count) / period if period > 0 else 0
        self.last_time, self.last_count, self.last_shown = now, totals['delivered'], now
        line = (f"{now - self.begin:5.1f} s  delivered {totals['delivered']:6,} of "
                f"{self.messages:,}  {rate:6,.0f}/s  queued {totals['messages']:6,}  "
                f"in flight {totals['entries_in_flight']:4,}  deferred {totals['deferred']:4,}")
        if self.is_terminal:
            print(f'\r{line}\x1b[K', end='\n' if is_last else '', flush=True)
        else:
            print(line, flush=True)


class Windows:
    """Average window of each destination over the samples in which it had work."""

    def __init__(self):
        self.sums = collections.Counter()
        self.samples = collections.Counter()

    def add(self, destinations):
        for one in destinations:
            if one['busy'] or one['todo']:
                self.sums[one['destination']] += one['window']
                self.samples[one['destination']] += 1

    def average(self, name):
        return self.sums[name] / self.samples[name] if self.samples[name] else None


def watch(stage, args, source, relay):
    """Until everything is delivered. Returns the windows seen."""
    progress, windows = Progress(args.messages), Windows()
    delivered, changed = -1, time.monotonic()
    while True:
        if relay.poll() is not None:
            raise Failure(f'the relay ended with {relay.returncode}: {stage.log_end("relay")}')
        answer = stage.counts()
        if answer is None:
            raise Failure('the relay does not answer on its control socket')
        totals, destinations = answer
        windows.add(destinations)
        is_last = totals['delivered'] >= args.messages and totals['messages'] == 0
        if source.poll() not in (None, 0):
            raise Failure(f'the source ended with {source.returncode}: {stage.log_end("source")}')
        progress.show(totals, is_last)
        if is_last:
            return windows
        if totals['delivered'] != delivered:
            delivered, changed = totals['delivered'], time.monotonic()
        elif time.monotonic() - changed > STALL_SECONDS:
            raise Failure(f'nothing delivered for {STALL_SECONDS} s, {delivered} arrived')
        time.sleep(0.2)


def end(process, name):
    process.send_signal(signal.SIGTERM)
    try:
        status = process.wait(30)
    except subprocess.TimeoutExpired as error:
        raise Failure(f'{name} does not stop') from error
    if status != 0:
        raise Failure(f'{name} ended with {status}')


def count_deferrals(path):
    """Deferred and all attempts of each destination, from the event log."""
    deferred, attempts = collections.Counter(), collections.Counter()
    with open(path, encoding='utf-8') as log:
        for line in log:
            event = json.loads(line)
            if event['type'] in ('Delivery', 'TransientFailure', 'Bounce'):
                domain = event['recipient'].rpartition('@')[2]
                attempts[domain] += 1
                deferred[domain] += event['type'] == 'TransientFailure'
    return deferred, attempts


def print_table(received, windows, deferred, attempts):
    head = ('destination', 'messages', 'per second', 'p50 ms', 'p99 ms', 'window', 'deferred %')
    print('\n{:14}{:>10}{:>12}{:>10}{:>10}{:>9}{:>12}'.format(*head))

    def row(name, numbers, window, share):
        print(f"{name:14}{numbers['messages']:10,}{numbers['rate']:12,.1f}"
              f"{numbers['latency']['p50'] * 1000:10,.1f}{numbers['latency']['p99'] * 1000:10,.1f}"
              f"{'-' if window is None else format(window, '.1f'):>9}{share * 100:12.2f}")

    def number_of(domain):
        return int(''.join(c for c in domain['domain'] if c.isdigit()) or 0)

    averages = []
    for one in sorted(received['domains'], key=number_of):
        name = one['domain']
        averages.append(windows.average(name))
        row(name, one, averages[-1], deferred[name] / max(attempts[name], 1))
    known = [average for average in averages if average is not None]
    row('all', received, sum(known) / len(known) if known else None,
        deferred.total() / max(attempts.total(), 1))
    print('latency: from the offer to the relay until the receiver had the message; window: '
          'connections\nthat the relay allowed itself to the destination, averaged while it had '
          'mail for it')


def campaign(stage, args):
    print(f'== campaign: {args.messages:,} messages of 4 KB to {DESTINATIONS} destinations; the '
          f'receiver answers after\n   {ANSWER_MS} ms and defers {DEFERRED_SHARE:.1%} of the '
          'messages', flush=True)
    sink, relay = stage.start_all(serve=False)
    source = stage.start('source', stage.build / 'bench/sluice-source', '--to',
                         f'127.0.0.1:{stage.port}', '--messages', args.messages, '--connections',
                         20, '--domains', f'd%d.test:{DESTINATIONS}')
    windows = watch(stage, args, source, relay)
    if source.wait(30) != 0:
        raise Failure(f'the source: {stage.log_end("source")}')
    end(relay, 'the relay')
    end(sink, 'the receiver')
    offered, received = stage.output('source'), stage.output('sink')
    deferred, attempts = count_deferrals(stage.events)
    print_table(received, windows, deferred, attempts)
    elapsed = received['last'] - offered['first_offer']
    if received['messages'] != args.messages or offered['acked'] != args.messages:
        raise Failure(f"{offered['acked']:,} accepted by the relay, {received['messages']:,} "
                      f'arrived, {args.messages:,} expected')
    return (f"{received['messages']:,} messages to {len(received['domains'])} destinations in "
            f"{elapsed:.1f} s ({received['messages'] / elapsed:,.0f} a second); "
            f'{deferred.total():,} deferred and delivered later, none lost, none twice')


def serve(stage):
    _, relay = stage.start_all(serve=True)
    print(f'''== the relay listens on 127.0.0.1:{stage.port} and delivers to d1.test ... d{DESTINATIONS}.test, that is to a
   receiver on this machine. Try:

  swaks --server 127.0.0.1:{stage.port} --from me@example.test --to you@d1.test
  printf 'Subject: hello\\n\\nhello\\n' | {stage.sluice} send -c {stage.config} -f me@example.test you@d2.test
  {stage.build}/bench/sluice-source --to 127.0.0.1:{stage.port} --messages 10000 --connections 20 --domains d%d.test:50
  {stage.sluice} top -c {stage.config}
  {stage.sluice} why d2.test -c {stage.config}

   in a browser    http://127.0.0.1:{stage.http_port}/
   received mail   {stage.folder}/received/
   events          {stage.events}
   configuration   {stage.config}

   Ctrl-C stops it.''', flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        status = relay.wait()
        raise Failure(f'the relay ended with {status}: {stage.log_end("relay")}')
    print()
    end(relay, 'the relay')
    return 'the relay was stopped'


def stop_all(processes):
    for process in reversed(processes):
        if process.poll() is None:
            process.terminate()
    for process in reversed(processes):
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def interrupt(*_):
    raise KeyboardInterrupt


def conduct(make_stage, act):
    """Let act(stage) run until it has a result, fails or is interrupted. What the stage started ends with it, and
    its folder is kept when it failed. Returns what to say of it, and an exit status."""
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
    # A script that starts this in the background makes it ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    processes, stage = [], None
    try:
        stage = make_stage(processes)
        result, status = f'ok: {act(stage)}', 0
    except KeyboardInterrupt:
        result, status = 'FAILED: interrupted', 130
    except (Failure, OSError, KeyError) as error:
        result, status = f'FAILED: {error}', 1
    finally:
        stop_all(processes)
    if stage is not None and status == 1:
        print(f'logs are in {stage.folder}')
    elif stage is not None:
        shutil.rmtree(stage.folder, ignore_errors=True)
    return result, status


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--build', type=pathlib.Path, required=True)
    parser.add_argument('--serve', action='store_true')
    parser.add_argument('--messages', type=int, default=20000)
    args = parser.parse_args()
    result, status = conduct(lambda processes: Stage(args, processes),
                             lambda stage: serve(stage) if args.serve else campaign(stage, args))
    print(f'quickstart: {result}')
    return status


if __name__ == '__main__':
    sys.exit(main())
