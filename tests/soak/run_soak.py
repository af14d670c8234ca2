#!/usr/bin/env python3
"""Mixed load with everything that happens to a relay in its life, and an account of it at the end.

usage: run_soak.py [--minutes M] [--seed N] [--rate MESSAGES_A_SECOND] [--keep]

Under load of every size, from many tenants, to receivers that take, defer, refuse, reset, stall, close,
limit, are silent or gone, behind names that are slow or wrong: reloads, orders, rotations of the event
log, a disk that gets full (for root), questions of every kind, clean stops and kill -9. SLUICE_BUILD
names the build, best a sanitized one. When the minutes are over the faults end, and the queue has to.

Then everything that was accepted was received, or returned, dropped by an order, or grew too old;
nothing is reported delivered that nobody took; a copy too many is marked as ambiguous in the event log,
or within the bound that the start after a kill printed; no sanitizer reported; answers came in time;
memory and descriptors are stable. Exit status 0 says that all of this holds."""
import argparse
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '..', 'integration')]

from conftest import end_place, make_place  # noqa: E402
from soak_account import REPEATS, Account, share_out  # noqa: E402
from soak_actors import Caller, Injector, Operator, Reader  # noqa: E402
from soak_world import BACK, Disk, Receivers, domains, make_daemon  # noqa: E402
from support.daemon import BUILD  # noqa: E402
from support.tools import Program, ledger_lines  # noqa: E402
from support.wait import until  # noqa: E402

SOURCE = os.path.abspath(os.path.join(HERE, '..', '..'))
LOADS = {  # share of the rate, options
    'small': (0.60, ['--connections', '3', '--size', '2000', '--tenants', '5']),
    'chunk': (0.20, ['--connections', '2', '--chunking', '--sizes', '1000:0.5,20000:0.5']),
    'many': (0.05, ['--connections', '1', '--recipients', '20', '--pipelining']),
    'large': (0.02, ['--connections', '1', '--sizes', 'lognormal:100000:1:1000000']),
}
HTTP_SHARE = 0.13
SANITIZERS = {
    'ASAN_OPTIONS': 'detect_leaks=1:strict_string_checks=1:quarantine_size_mb=32',
    'LSAN_OPTIONS': f'suppressions={SOURCE}/tests/lsan.supp:print_suppressions=0',
    'UBSAN_OPTIONS': 'halt_on_error=1:print_stacktrace=1',
    'TSAN_OPTIONS': f'second_deadlock_stack=1:suppressions={SOURCE}/tests/tsan.supp',
}
READ_LIMIT = 30     # seconds for any answer of a sanitized daemon on a busy machine
START_LIMIT = 90    # until it runs
STOP_LIMIT = 60
SAMPLE_SECONDS = 5
QUIET = (0.35, 0.75)  # of the time: no restarts, so that memory can be watched
GROWTH = 1.3          # of a third of that over the one before, and GROWTH_BYTES
GROWTH_BYTES = 64 << 20
SPARE_DESCRIPTORS = 40  # idle connections, and whoever asks just now
BAD = re.compile(r'Sanitizer|runtime error:|\berror: .*\bbug\b|[Aa]ssertion')


class Soak:
    def __init__(self, place, seed, minutes, rate):
        self.place, self.seconds, self.rate = place, minutes * 60, rate
        self.chance = random.Random(seed)
        self.read_limit = READ_LIMIT
        self.lifetime = int(min(240, max(40, self.seconds / 3)))
        self.receivers = Receivers(place, seed, [*LOADS, 'http'])
        self.daemon = make_daemon(place, self.receivers, self.lifetime, dict(SANITIZERS))
        self.disk = place.keep(Disk(self.daemon.spool, '2G'))
        self.life, self.is_up = 0, False
        self.failures, self.kills, self.bounds, self.lives = [], [], [], []
        self.is_killed = False
        self.samples, self.clean_stops = [], 0
        self.begin = time.monotonic()

    def now(self):
        return time.monotonic() - self.begin

    def say(self, text):
        print(f'{self.now():7.0f} s  {text}', flush=True)

    def fail(self, text):
        self.failures.append(text)
        self.say('FAILED: ' + text)

    # --- life ------------------------------------------------------------------------------------

    def start(self):
        self.life += 1
        self.daemon.start(wait=False)
        begin = time.monotonic()
        self.daemon.wait_log(' is running', START_LIMIT)
        if self.is_killed:
            found = REPEATS.search(self.daemon.log())
            self.bounds.append(int(found.group(1)) if found else 0)
            self.is_killed = False
        self.lives.append((self.now(), time.monotonic() - begin))
        self.is_up = True

    def stop(self):
        self.is_up = False
        self.disk.free()
        code = self.daemon.stop(STOP_LIMIT)
        if code != 0:
            self.fail(f'a clean stop ended with {code}: {self.daemon.log()[-3000:]}')
        self.clean_stops += 1

    def kill(self):
        self.is_up = False
        self.kills.append(time.time())
        self.is_killed = True
        self.daemon.kill()

    def restart(self):
        is_clean = self.chance.random() < 0.4
        self.say('clean stop' if is_clean else 'kill -9')
        if is_clean:
            self.stop()
        else:
            self.kill()
        self.disk.free()
        self.start()

    def revive(self):
        """It ended by itself, which is a finding; the rest goes on as after a kill."""
        self.is_up = False
        self.kills.append(time.time())
        self.is_killed = True
        code = self.daemon.wait_exit()
        self.fail(f'the daemon ended by itself with {code}: {self.daemon.log()[-6000:]}')
        if len(self.failures) > 20:
            raise AssertionError('too many failures')
        self.disk.free()
        self.start()

    def rename_log(self, number):
        path = self.daemon.events_path
        os.rename(path, f'{path}.hup-{number}')
        self.daemon.signal(signal.SIGHUP)
        until(lambda: os.path.exists(path), 'a new event log after SIGHUP', READ_LIMIT)

    # --- what it uses ----------------------------------------------------------------------------

    def sample(self):
        folder = f'/proc/{self.daemon.process.pid}'
        try:
            with open(f'{folder}/status', encoding='ascii') as status:
                fields = dict(line.split(':', 1) for line in status)
            found = (self.now(), self.life, int(fields['VmRSS'].split()[0]) << 10,
                     len(os.listdir(f'{folder}/fd')), int(fields['Threads']))
        except (OSError, KeyError):
            return None  # it just ended
        self.samples.append(found)
        return found

    def check_memory(self):
        """The life that spans the quiet time: its middle third against its last."""
        life = max({s[1] for s in self.samples}, key=lambda n: sum(s[1] == n for s in self.samples))
        rss = [s[2] for s in self.samples if s[1] == life]
        third = len(rss) // 3
        if third * SAMPLE_SECONDS < 120:
            return 'too short a life to judge memory'
        middle, last = (statistics.median(part) for part in (rss[third:2 * third], rss[2 * third:]))
        if last > middle * GROWTH + GROWTH_BYTES:
            self.fail(f'memory grew from {middle / 1e6:.0f} to {last / 1e6:.0f} MB')
        return f'memory of the longest life {middle / 1e6:.0f} MB, then {last / 1e6:.0f} MB'

    def queued(self):
        status = self.daemon.totals()
        return status.get('messages')


class Load(Program):
    """A source with its ledger, which sends until the time is over."""

    def __init__(self, soak, folder, name, seed):
        share, options = LOADS[name]
        self.has_tenants = '--tenants' in options
        self.ledger = os.path.join(folder, f'{name}.ledger')
        weights = domains(name)
        super().__init__([
            os.path.join(BUILD, 'bench', 'sluice-source'), '--to', f'127.0.0.1:{soak.daemon.port}',
            '--ledger', self.ledger, '--id-prefix', name, '--messages', '0', '--seconds',
            str(int(soak.seconds)), '--retry', '--timeout', '60', '--seed', str(seed), '--rate',
            str(soak.rate * share), '--domains', ','.join(weights), '--weights',
            ','.join(map(str, weights.values())), '--sender', f'bounce@{BACK}', *options],
            os.path.join(folder, f'{name}.log'))

    def lines(self):
        return ledger_lines(self.ledger)


def run_load(soak, seed):
    folder = soak.place.subfolder('sources')
    return [soak.place.keep(Load(soak, folder, name, seed)) for name in LOADS]


def restart_times(soak):
    """A restart each twentieth of the time at most, none in the quiet time."""
    step = max(15.0, soak.seconds / 20)
    times, at = [], step
    while at < soak.seconds * 0.95:
        if not QUIET[0] < at / soak.seconds < QUIET[1]:
            times.append(at * soak.chance.uniform(0.95, 1.05))
        at += step
    return sorted(times)


def main_loop(soak, operator):
    restarts = restart_times(soak)
    next_sample = next_line = next_act = 0
    while soak.now() < soak.seconds:
        time.sleep(0.2)
        if not soak.daemon.is_alive():
            soak.revive()
        if restarts and soak.now() >= restarts[0]:
            restarts.pop(0)
            soak.restart()
        if soak.now() >= next_act:
            operator.act()
            next_act = soak.now() + soak.chance.uniform(1, 5)
        if soak.now() >= next_sample:
            found = soak.sample()
            next_sample = soak.now() + SAMPLE_SECONDS
            if found and soak.now() >= next_line:
                next_line = soak.now() + 60
                soak.say(f'life {found[1]}: {found[2] / 1e6:.0f} MB resident, {found[3]} descriptors, '
                         f'{found[4]} threads')


def drain(soak, operator):
    """The faults end; the queue has to. Until expiry that may take a lifetime, and some notices."""
    soak.disk.free()
    operator.run_due(is_end=True)
    soak.receivers.bring_up()
    operator.resume_all()
    operator.calm()
    last = [None]

    def is_empty():
        time.sleep(0.5)
        if not soak.daemon.is_alive():
            soak.revive()
        last[0] = soak.queued()
        return last[0] == 0
    until(is_empty, lambda: f'an empty queue; {last[0]} are left: {soak.daemon.query("messages")[:5]}',
          3 * soak.lifetime + 240)


def idle_descriptors(soak, limit):
    last = [None]

    def is_low():
        time.sleep(0.2)
        last[0] = soak.sample()[3]
        return last[0] <= limit
    try:
        until(is_low, '', 40)
    except AssertionError:
        soak.fail(f'{last[0]} descriptors are open at rest, at most {limit} were expected')
    return last[0]


def check_account(soak, sources, injector):
    account = Account(sources, injector, soak.receivers.ledgers())
    events = account.read_events(soak.daemon.events_path)
    soak.say('events: ' + ', '.join(f'{n} {kind}' for kind, n in sorted(events.items())))
    lost, claimed, untold = account.lost(), account.claimed(), account.untold()
    marked, bare = account.repeats()
    by_kill, unexplained = share_out(soak.kills, bare)
    over = [(n, bound) for n, bound in zip(by_kill, soak.bounds) if n > bound]
    for what, found in (('lost', lost), ('said to be delivered and nobody took it', claimed),
                        ('received with no end in the event log', untold),
                        ('repeated with no mark and no kill', unexplained),
                        ('repeated beyond the bound after a kill', over),
                        ('not as they were sent', account.wrong)):
        if found:
            soak.fail(f'{len(found)} {what}: {found[:5]}')
    if events.get('torn line', 0) > len(soak.kills):
        soak.fail(f'{events["torn line"]} lines of the event log are no JSON')
    return (f'{account.messages} messages to {len(account.accepted)} recipients accepted; '
            f'{len(account.copies)} received, {len(lost)} lost; {marked} repeats marked as ambiguous, '
            f'{len(bare)} after {len(soak.kills)} kills (at most {max(by_kill, default=0)} by one; '
            f'bounds {soak.bounds})')


def check_logs(soak):
    with open(soak.daemon.log_path, encoding='utf-8', errors='replace') as file:
        lines = file.read().splitlines()
    found = [number for number, line in enumerate(lines) if BAD.search(line)]
    if found:
        soak.fail(f'{len(found)} lines of the log complain: ' +
                  '\n'.join(lines[found[0]:found[0] + 80]))


def summary_of_reads(soak, readers):
    took = sorted(item for reader in readers for item in reader.took)
    if not took:
        soak.fail('nothing was read')
        return ''
    slowest, path = took[-1]
    return (f'{len(took)} reads, p50 {took[len(took) // 2][0] * 1000:.0f} ms, '
            f'p99 {took[len(took) * 99 // 100][0] * 1000:.0f} ms, '
            f'longest {slowest:.2f} s ({path})')


def soak_for(place, seed, minutes, rate):
    soak = Soak(place, seed, minutes, rate)
    soak.start()
    at_rest = soak.sample()[3]
    soak.begin = time.monotonic()
    sources = run_load(soak, seed)
    injector = Injector(soak, seed + 1, rate * HTTP_SHARE)
    readers = [Reader(soak, seed + n) for n in (2, 3)]
    actors = [injector, *readers, Caller(soak, seed + 4)]
    operator = Operator(soak, random.Random(seed + 5))
    idle = 'unknown'
    try:
        main_loop(soak, operator)
        injector.close()
        for source in sources:
            source.end(patience=120)
            if not source.lines():
                soak.fail(f'a source sent nothing: {source.log}')
        soak.say('no more mail; waiting for an empty queue')
        drain(soak, operator)
        for actor in actors:
            actor.close()
        idle = idle_descriptors(soak, at_rest + SPARE_DESCRIPTORS)
        soak.stop()
    except AssertionError as error:
        soak.fail(str(error)[-6000:])
        soak.is_up = False
    memory = soak.check_memory()
    text = check_account(soak, sources, injector)
    check_logs(soak)
    soak.say(text)
    soak.say(summary_of_reads(soak, readers) + f'; {actors[-1].count} commands')
    soak.say(f'{memory}; {at_rest} descriptors at first, '
             f'{idle} in the end')
    soak.say(f'operator: {operator.counts}; {soak.clean_stops} clean stops, longest start '
             f'{max(took for _, took in soak.lives):.1f} s')
    return soak.failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--minutes', type=float, default=60)
    parser.add_argument('--seed', type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument('--rate', type=float, default=40, help='messages a second, all loads')
    parser.add_argument('--keep', action='store_true', help='keep the folder when something is wrong')
    options = parser.parse_args()
    if os.getuid() == 0 and 'SLUICE_SOAK_ALONE' not in os.environ:
        # In a mount namespace of its own, so that the disk it fills is gone with it, and without
        # random addresses, which sanitizers need.
        command = ['unshare', '-m', '--propagation', 'private', 'setarch', '-R', sys.executable]
        if subprocess.run([*command[:-1], 'true'], check=False, capture_output=True).returncode == 0:
            os.environ['SLUICE_SOAK_ALONE'] = '1'
            os.execvp(command[0], [*command, *sys.argv])
    print(f'build {BUILD}, seed {options.seed}, {options.minutes} minutes, {options.rate}/s', flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit('stopped'))  # what it started ends with it
    place = make_place()
    failures = ['it did not come to its end']
    try:
        failures = soak_for(place, options.seed, options.minutes, options.rate)
    finally:
        print('soak: ' + ('ok' if not failures else f'{len(failures)} FAILURES'), flush=True)
        for failure in failures:
            print('  ' + failure.splitlines()[0][:300], flush=True)
        if failures and options.keep:
            os.environ['SLUICE_KEEP'] = '1'
        end_place(place, bool(failures))
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
