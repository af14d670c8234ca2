"""The same messages through a real Postfix with one delivery agent and through the core, in the same
order: what Postfix did is written down as a scheduler script, which sluice-sim must follow.

What decides besides the sizes is the order of import and the second in which each message became
active. Postfix reads its folders in no order, so the messages that it finds waiting are taken into
the script as its log says; most sets come one after the other, each awaited in the log. Either way
the agent is held until everything is active. The queue manager's clock stands
(tests/fault/frozen_preload.c): ages would differ by what the log does not tell."""
import os
import random
import subprocess

import pytest

from support.address import fresh_address
from support.client import Client, message
from support.daemon import BUILD
from support.postfix import Postfix, is_usable
from support.receiver import Receiver
from support.wait import until

FROZEN = os.path.join(BUILD, 'tests', 'fault', 'frozen_preload.so')
PROGRAM = os.path.join(BUILD, 'bench', 'sluice-sim')
PATIENCE = 60.0
NEXTHOPS = 3

pytestmark = pytest.mark.skipif(not is_usable(), reason='Postfix needs root and its package')

EACH = {'destination_recipient_limit': 1}
EAGER = {**EACH, 'delivery_slot_cost': 2, 'delivery_slot_loan': 0, 'delivery_slot_discount': 0}
AT_ONCE = {**EAGER, 'minimum_delivery_slots': 0}

# The worked vectors JS-1, 2, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15 and 19 in which all come at once:
# sizes, parameters, order.
WORKED = [
    ((10, 2, 2), EAGER, 'A4 B2 A4 C2 A2'),
    ((10, 2, 2), {**EAGER, 'delivery_slot_discount': 50}, 'A2 B2 A4 C2 A4'),
    ((10, 2, 2), EACH, 'A10 B2 C2'),
    ((14, 1), EACH, 'A14 B1'),
    ((15, 1), EACH, 'A1 B1 A14'),
    ((20, 1, 1, 1), EACH, 'A1 B1 A5 C1 A5 D1 A9'),
    ((100, 10, 1), EACH, 'A1 C1 A14 B10 A85'),
    ((1000, 100, 10, 1), EACH, 'A1 D1 A14 C10 A275 B100 A710'),
    ((30, 1, 2, 1), {**EAGER, 'delivery_slot_cost': 5}, 'A5 B1 A5 D1 A10 C2 A10'),
    ((20, 1), {**EACH, 'delivery_slot_cost': 0}, 'A20 B1'),
    ((10, 6, 5), AT_ONCE, 'A10 B6 C5'),
    ((4, 1, 1, 1, 1), AT_ONCE, 'A2 B1 A2 C1 D1 E1'),
    ((4, 1, 1, 1, 1), {**AT_ONCE, 'delivery_slot_loan': 1}, 'A1 B1 A2 C1 A1 D1 E1'),
    ((10, 2, 2, 1), AT_ONCE, 'A2 D1 A4 B2 A4 C2'),
    ((24, 6, 2, 1), EAGER, 'A2 D1 A4 C2 A12 B6 A6'),
]


def random_sizes(seed):
    """One recipient an entry: (sizes, parameters)"""
    chance = random.Random(seed)
    sizes = [int(2 ** chance.uniform(0, 6)) for _ in range(chance.randint(5, 14))]
    return sizes, {**EACH, 'delivery_slot_cost': chance.choice([2, 3, 5]),
                   'delivery_slot_loan': chance.choice([0, 1, 3]),
                   'delivery_slot_discount': chance.choice([0, 50, 100]),
                   'minimum_delivery_slots': chance.choice([0, 1, 3])}


def random_shares(seed):
    """Several recipients an entry, and jobs that take turns among nexthops."""
    chance = random.Random(100 + seed)
    sizes = [tuple(int(2 ** chance.uniform(0, 6)) for _ in range(NEXTHOPS))
             for _ in range(chance.randint(4, 9))]
    return sizes, {'destination_recipient_limit': chance.choice([2, 3]),
                   'delivery_slot_cost': chance.choice([2, 3]),
                   'minimum_delivery_slots': chance.choice([0, 3])}


def random_turns(seed):
    """Messages for some nexthops each, some of which come in between: ({n-th entry: sizes}, parameters);
    those of 0 are there from the beginning."""
    chance = random.Random(200 + seed)

    def sizes():
        return tuple(chance.choice([0, 1, 1, 2, 5, 9]) for _ in range(NEXTHOPS - 1)) + (1,)

    return ({0: [sizes() for _ in range(chance.randint(1, 6))],
             **{n: sizes() for n in sorted(chance.sample(range(1, 9), 4))}},
            {'destination_recipient_limit': chance.choice([2, 3])})


# Through the old queue manager: destinations take turns, ages do not matter.
TURNS = {
    # README: one selection in three is for the destination that has more mail than the others.
    'gateway': ({0: [(12, 0, 0), (0, 2, 1), (0, 2, 1)]}, {'destination_recipient_limit': 2}),
    'single': ({0: [30], 5: 2, 9: 1}, EACH),
    **{f'turns{seed}': random_turns(seed) for seed in range(8)},
}

# Every set has a transport: an agent is held only before its first delivery.
SETS = {
    'arrivals': ((50,), EACH),
    **{f'worked{i}': case[:2] for i, case in enumerate(WORKED)},
    **{f'sizes{seed}': random_sizes(seed) for seed in range(8)},
    **{f'shares{seed}': random_shares(seed) for seed in range(5)},
}


class Letter:
    """One message. counts: how many recipients it has for each nexthop of the transport."""

    def __init__(self, name, transport, counts):
        self.name = name
        self.recipients = [f'{name}{number:04d}@{nexthop}.{transport}.test'
                           for nexthop, count in enumerate(counts) for number in range(count)]
        self.queue_id = None


class Post:
    """A Postfix and its receivers. listener: called with the recipients of each transaction before
    it is acknowledged; there is one agent, so no other transaction goes on."""

    def __init__(self, place, transports, manager='qmgr'):
        self.listener = None
        receivers = sorted((place.keep(Receiver(address=fresh_address(), answers=self.answer))
                            for _ in range(NEXTHOPS)), key=lambda receiver: receiver.nexthop)
        routes = {f'{i}.{name}.test': f'{name}:{receiver.nexthop}'
                  for name in transports for i, receiver in enumerate(receivers)}
        self.postfix = place.keep(
            Postfix(place.subfolder(f'postfix-{manager}'), transports, routes, manager, FROZEN)).start()
        self.scheduler = 'preemptive' if manager == 'qmgr' else 'round_robin'

    def answer(self, verb, argument, _session):
        if verb == '.':
            self.listener(argument.recipients)

    def send(self, letter):
        """Its recipients in one go: an answer awaited to each of a thousand takes longer than a second."""
        with Client(('127.0.0.1', self.postfix.port)) as client:
            client.ehlo()
            client.mail('sender@sender.test', [])
            client.send(''.join(f'RCPT TO:<{recipient}>\r\n' for recipient in letter.recipients))
            for _ in letter.recipients:
                client.expect(250)
            letter.queue_id = client.data(message(letter.name)).text.split()[-1]

    def await_active(self, count):
        until(lambda: len(self.postfix.active()) >= count,
              lambda: f'{count} active messages: {self.postfix.log()}')


class Course:
    """One run of a set through Postfix.

    arrivals    {n: sizes of the letter that becomes active while the n-th entry is in flight}
    """

    def __init__(self, post, transport, arrivals=None):
        self.post, self.transport = post, transport
        self.parameters = post.postfix.transports[transport]
        self.letters = []
        self.arrivals = arrivals or {}
        self.entries = []
        self.active_before = len(post.postfix.active())
        post.listener = self.take

    def write(self, size):
        counts = size if isinstance(size, tuple) else (size,)
        letter = Letter(chr(ord('a') + len(self.letters)), self.transport, counts)
        self.letters.append(letter)
        self.post.send(letter)

    def await_active(self):
        self.post.await_active(self.active_before + len(self.letters))

    def take(self, recipients):
        if len(self.entries) + 1 in self.arrivals:
            self.write(self.arrivals[len(self.entries) + 1])
            self.await_active()
        self.entries.append(recipients)

    def release(self):
        self.post.postfix.release(self.transport)

    def finish(self):
        until(lambda: sum(map(len, self.entries)) >= sum(len(x.recipients) for x in self.letters),
              lambda: self.post.postfix.log()[-4000:], PATIENCE)

    def active(self):
        return self.post.postfix.active()[self.active_before:]

    def script(self):
        """What happened, in the language of sluice-sim script."""
        lines = ['=== postfix 1', 'global concurrency_feedback_rule postfix3',
                 f'transport scheduler {self.post.scheduler}']
        lines += [f'transport {name} {value}' for name, value in self.parameters.items()]
        by_id = {letter.queue_id: letter for letter in self.letters}
        waiting = [by_id[queue_id] for queue_id, _ in self.active()]
        left = {letter.name: len(letter.recipients) for letter in waiting}

        def announce():
            letter = waiting.pop(0)
            lines.append(' '.join(['message', letter.name, *letter.recipients]))

        for _ in range(len(self.letters) - len(self.arrivals)):
            announce()
        for number, entry in enumerate(self.entries, 1):
            name = entry[0][0]
            is_each = self.parameters['destination_recipient_limit'] == 1
            queue = entry[0] if is_each else entry[0].partition('@')[2]
            lines += ['select', f'> #{number} {name} {queue} {",".join(entry)}']
            if number in self.arrivals:
                announce()
            lines.append(f'report #{number} ok')
            left[name] -= len(entry)
            if left[name] == 0:
                lines.append(f'> done {name} delivered')
        return '\n'.join(lines + ['select', '> none', ''])

    def order(self):
        """Whose entries came, in runs: like A14 B1 A3."""
        runs = []
        for entry in self.entries:
            name = entry[0][0].upper()
            if not runs or runs[-1][0] != name:
                runs.append([name, 0])
            runs[-1][1] += 1
        return ' '.join(f'{name}{count}' for name, count in runs)


@pytest.fixture(scope='module', name='post')
def fixture_post(module_place):
    post = Post(module_place, {name: parameters for name, (_, parameters) in SETS.items()})
    post.postfix.release('qmgr')
    return post


def follow(course, folder):
    path = os.path.join(folder, 'script.txt')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(course.script())
    result = subprocess.run([PROGRAM, 'script', path], capture_output=True, text=True, timeout=60,
                            check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    print(course.order())


def is_same_second(course):
    return len({second for _, second in course.active()}) == 1


def compare(post, name, folder, arrivals=None):
    """Returns the order that Postfix and the core agree on."""
    sizes, _ = SETS[name]
    course = Course(post, name, arrivals)
    for size in sizes:
        course.write(size)
        course.await_active()
    assert is_same_second(course), 'the clock goes'
    course.release()
    course.finish()
    follow(course, folder)
    return course.order()


@pytest.mark.parametrize('number', range(len(WORKED)))
def test_worked_sets(post, tmp_path, number):
    assert compare(post, f'worked{number}', tmp_path) == WORKED[number][2]


def test_arrivals_during_delivery(post, tmp_path):
    """JS-9"""
    assert compare(post, 'arrivals', tmp_path, {10: 2, 17: 2}) == 'A10 B2 A5 C2 A35'


@pytest.mark.parametrize('name', [name for name in SETS if name[-1].isdigit()
                                  and not name.startswith('worked')])
def test_random_sets(post, tmp_path, name):
    compare(post, name, tmp_path)


@pytest.fixture(scope='module', name='old_post')
def fixture_old_post(module_place):
    post = Post(module_place, {name: parameters for name, (_, parameters) in TURNS.items()}, 'oqmgr')
    post.postfix.release('qmgr')
    return post


@pytest.mark.parametrize('name', TURNS)
def test_destinations_take_turns(old_post, tmp_path, name):
    sizes = dict(TURNS[name][0])
    at_first = sizes.pop(0)
    course = Course(old_post, name, sizes)
    for size in at_first:
        course.write(size)
        course.await_active()
    course.release()
    course.finish()
    follow(course, tmp_path)


def test_found_waiting(place, tmp_path):
    """All were accepted before the queue manager started; the order of import is its own."""
    chance = random.Random(7)
    post = Post(place, {'found': EACH})
    course = Course(post, 'found')
    for size in [int(2 ** chance.uniform(0, 6)) for _ in range(8)] + [40, 1, 2]:
        course.write(size)
    post.postfix.release('qmgr')
    course.await_active()
    assert is_same_second(course), 'the clock goes'
    course.release()
    course.finish()
    follow(course, tmp_path)
