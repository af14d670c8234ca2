"""The wall clock is set while the daemon runs (tests/fault/clock_preload.c), by hours and days, forward
and back, with mail in every state. Deferred mail is tried once after each step that makes it due or
puts it into the future, and not again; held and scheduled mail waits for its time by the clock that
is; nothing is lost or sent twice, nothing turns in circles, and no command speaks of absurd times.

SLUICE_CLOCK_STEPS: how many steps at random (5), SLUICE_CLOCK_SEED: which."""
import os
import random
import re
import shutil
import struct
import subprocess
import time

from support.client import message, submit
from support.daemon import BUILD, PROGRAM
from support.injection import post
from support.wait import PATIENCE, is_ever_below, until
from test_orders import LABELS

HOUR, DAY = 3600, 86400
WHY = ('--reason', 'ticket 12')


class Clock:
    """The daemon's, seconds off the right one."""

    def __init__(self, folder):
        self.path = os.path.join(folder, 'clock')
        self.env = {'LD_PRELOAD': os.path.join(BUILD, 'tests', 'fault', 'clock_preload.so'),
                    'CLOCK_FILE': self.path}
        with open(self.path, 'wb') as file:
            file.write(bytes(8))
        self.offset = 0

    def set(self, offset):
        self.offset = offset
        with open(self.path, 'r+b', buffering=0) as file:
            file.write(struct.pack('=q', offset))

    def now(self):
        return time.time() + self.offset


class Busy:
    """answers of a Receiver: whom it does not take yet is deferred."""

    def __init__(self):
        self.is_open = False

    def __call__(self, verb, argument, session):
        return None if verb != 'RCPT' or self.is_open or 'later' not in argument else '450 4.7.1 later'


class Stage:
    def __init__(self, place):
        self.clock = Clock(place.subfolder('clock'))
        self.busy = Busy()
        self.receiver = place.receiver(answers=self.busy)
        self.daemon = place.sluice(
            env=self.clock.env, listener=LABELS, routes={'*': ('smtp', self.receiver.nexthop)},
            options={'minimal_backoff_time': '1h', 'maximal_backoff_time': '2h',
                     'maximal_queue_lifetime': '90d', 'bounce_queue_lifetime': '90d'})

    def run(self, *args):
        """A command on the same machine, whose clock is the same."""
        done = subprocess.run([PROGRAM, args[0], '-c', self.daemon.config_path, *args[1:]],
                              capture_output=True, env={**os.environ, **self.clock.env},
                              timeout=PATIENCE, check=False, text=True)
        assert done.returncode == 0, (args, done.stdout, done.stderr)
        return done.stdout

    def send(self, recipient, tenant='other'):
        submit(self.daemon, '', [recipient], message(X_Tenant=tenant))

    def schedule(self, recipient, seconds):
        post(self.daemon, {'from': 'a@a.test', 'recipients': [recipient], 'text': 'x\n',
                           'not_before': self.clock.now() + seconds}).expect(202)

    def attempts(self, recipient):
        return len(self.daemon.of('TransientFailure', recipient))

    def wait_attempts(self, recipient, count):
        until(lambda: self.attempts(recipient) >= count,
              lambda: f'{count} attempts for {recipient}: {self.daemon.results(recipient)}')

    def check_quiet(self, seconds=1):
        """Nothing is tried again and again, as it would be at any time."""
        attempts = len(self.daemon.of('TransientFailure'))

        def share():
            used, begin = self.cpu(), time.monotonic()
            time.sleep(seconds)
            return (self.cpu() - used) / (time.monotonic() - begin)
        assert is_ever_below(0.2, share, 5)
        assert len(self.daemon.of('TransientFailure')) == attempts

    def settle(self):
        """What the last step of the clock began is over: no scan of some that follow finds anything."""
        seen, since = -1, 0
        while time.monotonic() - since < 2.5:
            if len(self.daemon.events()) != seen:
                seen, since = len(self.daemon.events()), time.monotonic()
            time.sleep(0.1)

    def cpu(self):
        with open(f'/proc/{self.daemon.process.pid}/stat', encoding='ascii') as stat:
            fields = stat.read().rpartition(')')[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def check_words(self):
        """Ages and waits are no longer than this test's steps, and none is negative."""
        for args in (['status'], ['messages'], ['destinations'], ['why', 'x.test'], ['orders'],
                     ['counts'], ['sources'], ['hosts']):
            said = self.run(*args)
            spans = [int(n) for n in re.findall(r'\b(\d+)d\b', said)]
            assert not re.search(r'(?<![\w.:-])-\d', said) and max(spans, default=0) <= 40, said


def test_steps_of_a_day(place):
    s = Stage(place)
    daemon, clock = s.daemon, s.clock
    s.run('suspend', '--tenant', 'short', '--for', '2h', *WHY)
    s.run('suspend', '--tenant', 'long', '--for', '3d', *WHY)
    s.send('later@x.test')
    s.send('short@x.test', 'short')
    s.send('long@x.test', 'long')
    s.schedule('soon@x.test', 2 * HOUR)
    s.schedule('far@x.test', 2 * DAY)
    s.wait_attempts('later@x.test', 1)
    until(lambda: daemon.totals()['messages'] == 5, 'five messages')
    s.check_words()

    clock.set(DAY)
    s.wait_attempts('later@x.test', 2)
    daemon.wait_event('Delivery', 'soon@x.test')
    daemon.wait_event('Delivery', 'short@x.test')
    s.send('later-of-tomorrow@x.test')
    s.wait_attempts('later-of-tomorrow@x.test', 1)
    s.check_words()

    clock.set(0)
    s.wait_attempts('later@x.test', 3)
    s.wait_attempts('later-of-tomorrow@x.test', 2)
    s.check_words()

    clock.set(-DAY)
    s.wait_attempts('later@x.test', 4)
    s.wait_attempts('later-of-tomorrow@x.test', 3)
    s.send('later-of-yesterday@x.test')
    s.wait_attempts('later-of-yesterday@x.test', 1)
    s.schedule('before@x.test', HOUR)
    s.check_quiet()
    s.check_words()
    daemon.kill()
    daemon.start()
    s.check_quiet()
    assert not daemon.of('Delivery', 'before@x.test')

    s.busy.is_open = True
    clock.set(0)
    for who in ('before', 'later', 'later-of-tomorrow', 'later-of-yesterday'):
        daemon.wait_event('Delivery', f'{who}@x.test')
    until(lambda: [m['state'] for m in daemon.query('messages')] == ['suspended', 'scheduled'],
          lambda: daemon.query('messages'))  # events come before what they tell of is stored
    s.check_words()
    clock.set(3 * DAY + HOUR)
    daemon.wait_event('Delivery', 'far@x.test')
    daemon.wait_event('Delivery', 'long@x.test')
    daemon.wait_empty()
    everybody = [r for m in s.receiver.messages for r in m.recipients]
    assert len(everybody) == len(set(everybody)) == 8
    assert daemon.stop() == 0, daemon.log()


def test_steps_at_random(place):
    """Mail comes and is deferred, scheduled and suspended between them, and the daemon is stopped."""
    s = Stage(place)
    daemon, clock = s.daemon, s.clock
    draw = random.Random(int(os.environ.get('SLUICE_CLOCK_SEED', '1')))
    sent, tries, waiting = [], {}, {}
    for step in range(int(os.environ.get('SLUICE_CLOCK_STEPS', '5'))):
        clock.set(draw.choice([0, draw.randint(-3 * DAY, 3 * DAY), clock.offset - HOUR // 2]))
        if draw.random() < 0.2:
            assert daemon.stop() == 0, daemon.log()
            daemon.start()
        now = [f'{word}{step}@x.test' for word in ('at-once', 'later', 'at')]
        sent += now
        s.send(now[0])
        s.send(now[1])
        waiting[now[2]] = not_before = clock.now() + draw.randint(HOUR, 3 * DAY)
        s.schedule(now[2], not_before - clock.now())
        if draw.random() < 0.3:
            s.run('suspend', '--domain', f'd{step}.test', '--for', f'{draw.randint(1, 60)}h', *WHY)
            sent.append(f'held@d{step}.test')
            s.send(sent[-1])
        daemon.wait_event('Delivery', now[0])
        for who in tries:
            tries[who] = max(tries[who], s.attempts(who))
        tries[now[1]] = 1
        s.wait_attempts(now[1], 1)
        for who in [who for who, at in waiting.items() if at <= clock.now() - 2]:
            daemon.wait_event('Delivery', who)
            del waiting[who]
        assert not [who for who in waiting if daemon.of('Delivery', who)], waiting
    s.settle()
    for who in tries:
        # At most once for each step, and once for its own beginning.
        assert s.attempts(who) <= 2 + len(tries), daemon.results(who)
    s.busy.is_open = True
    clock.set(10 * DAY)
    until(lambda: all(daemon.of('Delivery', who) for who in sent), lambda: [
        (who, daemon.results(who), daemon.query('messages')) for who in sent
        if not daemon.of('Delivery', who)])
    daemon.wait_empty()
    everybody = [r for m in s.receiver.messages for r in m.recipients]
    assert sorted(everybody) == sorted(sent)
    assert daemon.stop() == 0, daemon.log()


def test_an_old_copy_of_the_spool_gives_no_id_twice(place):
    """An id stands in return addresses, events, and what clients were told: it means one message for good."""
    s = Stage(place)
    daemon = s.daemon
    s.busy.is_open = True

    def send(recipient):
        s.send(recipient)
        return daemon.wait_event('Delivery', recipient)['id']

    ids = [send('before@x.test')]
    assert daemon.stop() == 0, daemon.log()
    shutil.copytree(daemon.spool, daemon.spool + '.copy')
    daemon.start()
    ids += [send(f'after{i}@x.test') for i in range(5)]
    assert daemon.stop() == 0, daemon.log()
    shutil.rmtree(daemon.spool)
    os.rename(daemon.spool + '.copy', daemon.spool)
    s.clock.set(HOUR)
    daemon.start()
    ids += [send(f'restored{i}@x.test') for i in range(5)]
    assert sorted(set(ids)) == ids, ids
    assert daemon.stop() == 0, daemon.log()
