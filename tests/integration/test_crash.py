"""kill -9, or a power cut, at every kind of moment under load: nothing that was accepted is lost, and
what is repeated stays within the bound that the restarted daemon prints."""
import bisect
import http.client
import json
import os
import random
import re
import threading
import time
import urllib.parse

import pytest

from support.api import Connection
from support.tools import PRELOAD, Account, Sink, Source
from support.wait import until

KILLS = int(os.environ.get('SLUICE_KILLS', '200'))
SEED = int(os.environ.get('SLUICE_SEED', '0')) or random.SystemRandom().randrange(1 << 30)
WALL = 100 * max(KILLS, 200) / 200  # seconds; on a slow machine there are fewer kills then
CUTS = int(os.environ.get('SLUICE_CUTS', '20'))
LIE = os.environ.get('SLUICE_LIE', '0')  # 1: syncs do nothing; the test of cuts must fail then
CUT_SECONDS = 25 * max(CUTS, 20) / 20

LOAD = {  # four injectors; mail of many flows, some of which have much more than others
    'small': ['--connections', '4', '--rate', '300', '--size', '2000', '--tenants', '20:1',
              '--header', 'X-Class: bulk', '--header', 'X-Campaign: c1'],
    'pipelined': ['--connections', '2', '--rate', '200', '--pipelining', '--size', '1000',
                  '--tenants', '5', '--header', 'X-Class: normal'],
    'many': ['--connections', '2', '--rate', '30', '--recipients', '20', '--tenants', '3',
             '--header', 'X-Class: bulk', '--header', 'X-Campaign: c2'],
    'large': ['--connections', '2', '--rate', '5', '--size', '400000',
              '--header', 'X-Class: urgent'],
}
# Fewer messages in memory than a second brings: most flows have a backlog in the spool now and then.
FLOWS = {'message_active_limit': 60}
LISTENER = {'tenant_header': 'X-Tenant', 'campaign_header': 'X-Campaign', 'class_header': 'X-Class',
            'keep_control_headers': True}  # the receiver compares all of the message
TENANTS = {'*': {'classes': ['urgent', 'normal', 'bulk']}, 't1': {'weight': 10},
           't2': {'weight': 3}}
FLOW_COUNT = 20 + 5 + 3 + 1  # tenant, class and campaign


class Killer:
    def __init__(self, daemon, chance):
        self.daemon, self.chance = daemon, chance
        self.bounds, self.times = [], []
        self.kinds = {}

    def start(self, **fault):
        self.daemon.env = {}
        if fault:
            self.daemon.env = {'LD_PRELOAD': PRELOAD, 'FAULT_FOLDER': self.daemon.spool, **fault}
        self.daemon.start(wait=False)

    def read_bound(self):
        """What this start says about the crash before it."""
        found = re.search(r'at most (\d+) deliver', self.daemon.log())
        if found and self.bounds:
            self.bounds[-1] = int(found.group(1))
        return found

    def kill(self, kind):
        assert self.daemon.process.poll() in (None, -9), self.daemon.log()
        self.read_bound()
        self.daemon.kill()
        self.times.append(time.time())
        self.bounds.append(None)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1

    def at_restart(self):
        """While the spool is opened and the queue is taken up again."""
        self.start()
        self.until_dead(self.chance.uniform(0, 0.08))
        self.kill('restart')

    def in_restart_call(self):
        self.start(FAULT_AT=str(self.chance.randint(1, 25)),
                   FAULT_ACTION=self.chance.choice(['kill-before', 'kill-after']))
        self.until_dead(0.3)
        self.kill('restart call')

    def in_commit(self):
        """At a storage call of a busy daemon, done or not."""
        self.start(FAULT_AT=str(self.chance.randint(25, 600)),
                   FAULT_CALLS=self.chance.choice(['write', 'sync', 'write,sync']),
                   FAULT_ACTION=self.chance.choice(['kill-before', 'kill-after']))
        self.until_dead(1)
        self.kill('commit')

    def at_any_time(self):
        self.start()
        self.daemon.wait_log(' is running')
        self.until_dead(self.chance.uniform(0, 0.4))
        self.kill('intake and delivery')

    def until_dead(self, seconds):
        try:
            until(lambda: self.daemon.process.poll() is not None, '', seconds)
        except AssertionError:
            pass  # the moment has come


class Cutter(Killer):
    """The power fails (tests/fault/power_cut.h): what was not synced is lost, or a part of it."""

    def __init__(self, daemon, chance):
        super().__init__(daemon, chance)
        self.switch = os.path.join(daemon.folder, 'switch')

    def arm(self, calls, **fault):
        self.start(FAULT_AT=str(self.chance.randint(1, calls)),
                   FAULT_SEED=str(self.chance.randrange(1 << 30)), FAULT_LIE=LIE, FAULT_TEAR='journal',
                   FAULT_ACTION=self.chance.choice(['cut-before', 'cut-during', 'cut-after']),
                   **fault)

    def under_load(self):
        """At one of the next calls of a busy daemon."""
        self.arm(40, FAULT_SWITCH=self.switch)
        self.daemon.wait_log(' is running')
        self.until_dead(self.chance.uniform(0, 0.8))
        with open(self.switch, 'w', encoding='ascii'):
            pass
        self.cut('under load')
        os.unlink(self.switch)

    def in_restart(self):
        """While it takes over what the cut before it left; or soon after."""
        self.arm(25)
        self.cut('restart')

    def cut(self, kind):
        until(lambda: self.daemon.process.poll() is not None, self.daemon.log)
        self.kill(kind)


class Lister(threading.Thread):
    """Adds suppressed recipients, one after the other, and remembers whom the daemon has answered for."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.daemon_under_test, self.answered, self.asked = daemon, [], 0
        self.ends = threading.Event()

    def run(self):
        while not self.ends.wait(0.005):
            self.asked += 1
            address = f'{SEED + self.asked * 7919 % 10007:x}.u{self.asked}@gone.test'
            try:
                if self.call('POST', '', json.dumps({'address': address}).encode())[0] == 200:
                    self.answered.append(address)
            except (OSError, http.client.HTTPException):
                pass  # killed, or not yet there

    def call(self, method, query, body=None):
        connection = Connection(self.daemon_under_test)
        try:
            connection.request(method, '/v1/suppressions' + query, body,
                               {'Content-Type': 'application/json'} if body else {})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def missing(self):
        there, last = set(), None
        while last is None or lines:
            after = '' if last is None else '&after=' + urllib.parse.quote(f' {last}')
            status, text = self.call('GET', f'?tenant=&format=csv&limit=10000{after}')
            assert status == 200, text
            lines = [line.split(',')[1] for line in text.decode().splitlines()[1:]]
            last = lines[-1] if lines else ''
            there.update(lines)
        return sorted(set(self.answered) - there)


# What a killed daemon had written is still in the receiver's socket: its copy may be noted a moment
# after the kill.
SOCKET_SECONDS = 0.5


def per_crash(times, duplicates):
    """How many copies each crash repeated. The first crash after a copy is the one that forgot it."""
    counts = [0] * len(times)
    for before, after in duplicates:
        crash = bisect.bisect_left(times, before)
        if crash < len(times) and times[crash] <= after:
            counts[crash] += 1
        elif crash > 0 and before - times[crash - 1] < SOCKET_SECONDS:
            counts[crash - 1] += 1
    return counts


def crash_under_load(place, capsys, breaker, count, seconds, what):
    """breaker: of a daemon and a source of chances, makes a Killer and what it does, as a list"""
    chance = random.Random(SEED)
    folder = place.subfolder('tools')
    sink = place.keep(Sink(folder, '--defer', '0.02'))
    daemon = place.sluice(start=False, routes={'*': ('smtp', sink.nexthop)}, options=FLOWS,
                          listener=LISTENER, tenants=TENANTS,
                          event_log={'rotate_size': '0'},  # check_log reads one file
                          transports={'smtp': {'process_limit': 20,
                                               'destination_recipient_limit': 10}})
    daemon.start()
    assert daemon.stop() == 0  # the spool exists
    target = f'127.0.0.1:{daemon.port}'
    sources = [place.keep(Source(folder, name, target, '--messages', '0', '--seconds', '3600',
                                 '--retry', '--timeout', '30', *options))
               for name, options in LOAD.items()]
    killer, kinds = breaker(daemon, chance)
    lister = Lister(daemon)
    lister.start()
    begin = time.monotonic()
    while len(killer.times) < count and time.monotonic() - begin < seconds:
        chance.choice(kinds)()
    # One more life, to drain.
    daemon.env = {}
    daemon.start()
    killer.read_bound()
    for source in sources:
        source.end()
    daemon.wait_empty()
    lister.ends.set()
    lister.join()
    missing = lister.missing()
    assert daemon.stop() == 0
    account = Account(sources, sink)
    duplicates = account.duplicates()
    counts = per_crash(killer.times, duplicates)
    bound = max(b for b in killer.bounds if b is not None)
    text = (f'\nseed {SEED}: {len(killer.times)} {what} in {time.monotonic() - begin:.0f} s '
            f'({killer.kinds}); {len(account.offered)} messages offered, {len(account.acked)} '
            f'accepted, {account.recovered()} delivered without a reply; '
            f'{len(account.copies)} recipients received, {len(account.lost())} lost, '
            f'{len(duplicates)} repeated, at most {max(counts)} by one crash; '
            f'bound {bound} a crash; {len(lister.answered)} of {lister.asked} suppressions '
            f'answered, {len(missing)} missing')
    with capsys.disabled():
        print(text)
    assert not missing, missing[:10]
    assert len(lister.answered) > len(killer.times)
    assert not account.lost(), account.lost()[:10]
    assert not account.unexpected(), account.unexpected()[:10]
    for number, allowed in zip(counts, killer.bounds):
        assert allowed is None or number <= allowed
    assert sum(counts) == len(duplicates), 'copies were repeated without a crash'
    assert len(account.acked) > 10 * len(killer.times)
    check_log(daemon, account)


def check_log(daemon, account):
    """No result is lost with its line; none is invented."""
    received = {recipient for _, recipient in account.copies}
    logged = {event['recipient'] for event in daemon.of('Delivery')}
    assert logged == received, (list(logged - received)[:5], list(received - logged)[:5])
    assert not daemon.of('Bounce')

    def flow_of(event):
        return event.get('tenant'), event.get('class'), event.get('campaign')
    # A kill may come between the disk and the line of the reception.
    given = {event['id']: flow_of(event) for event in daemon.of('Reception')}
    changed = [event for event in daemon.of('Delivery') if flow_of(event) != given.get(event['id'], flow_of(event))]
    assert not changed, changed[:5]
    # On a slow machine not each of them may have come.
    flows = {flow_of(event) for event in daemon.of('Delivery')}
    assert FLOW_COUNT // 2 <= len(flows) <= FLOW_COUNT, flows


def kills(daemon, chance):
    killer = Killer(daemon, chance)
    return killer, [killer.at_any_time] * 4 + [killer.in_commit] * 3 + [killer.at_restart] * 2 + \
        [killer.in_restart_call]


def cuts(daemon, chance):
    cutter = Cutter(daemon, chance)
    return cutter, [cutter.under_load] * 3 + [cutter.in_restart]


@pytest.mark.skipif(not os.path.exists(PRELOAD), reason='no fault library in this build')
def test_kill_under_load(place, capsys):
    crash_under_load(place, capsys, kills, KILLS, WALL, 'kills')


@pytest.mark.skipif(not os.path.exists(PRELOAD), reason='no fault library in this build')
def test_power_cut_under_load(place, capsys):
    crash_under_load(place, capsys, cuts, CUTS, CUT_SECONDS, 'power cuts')
