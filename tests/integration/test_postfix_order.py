"""The same messages through a real Postfix with one delivery agent and through the core, in the same
order: what Postfix did is written down as a scheduler script, which sluice-sim must follow.

What decides besides the sizes is the order of import and the second in which each message became
active. Postfix reads its folders in no order, so the messages that it finds waiting are taken into
the script as its log says; most sets come one after the other, each awaited in the log. Either way
the agent is held until everything is active, and a run that went past the end of a second does not
count: ages would differ by what the log does not tell."""
import os
import random
import subprocess
import time

import pytest

from support.address import fresh_address
from support.client import message, submit
from support.daemon import BUILD
from support.postfix import TRANSPORT, Postfix, is_usable
from support.receiver import Receiver
from support.wait import until

PROGRAM = os.path.join(BUILD, 'bench', 'sluice-sim')
PATIENCE = 60.0
ATTEMPTS = 4

pytestmark = pytest.mark.skipif(not is_usable(), reason='Postfix needs root and its package')


class Letter:
    """One message: a letter as its name, and how many recipients for each of the nexthops."""

    def __init__(self, name, *counts):
        self.name = name
        self.recipients = [f'{name}{number:04d}@n{nexthop}.test'.lower()
                           for nexthop, count in enumerate(counts) for number in range(count)]
        self.queue_id = None


class Course:
    """One run of a set through Postfix.

    letters     those queued from the start
    arrivals    {n: letters that become active while the n-th entry is in flight}
    is_scanned  the queue manager finds all letters waiting when it starts
    """

    def __init__(self, place, letters, arrivals=None, nexthops=1, parameters=None,
                 is_scanned=False):
        self.letters, self.arrivals = letters, arrivals or {}
        self.parameters = parameters or {}
        self.is_scanned = is_scanned
        self.entries = []
        self.arrived = {}
        self.receivers = sorted(
            (place.keep(Receiver(address=fresh_address(), answers=self.answer))
             for _ in range(nexthops)), key=lambda receiver: receiver.nexthop)
        settings = ''.join(f'{TRANSPORT}_{name} = {value}\n'
                           for name, value in self.parameters.items())
        routes = {f'n{i}.test': receiver.nexthop for i, receiver in enumerate(self.receivers)}
        self.postfix = place.keep(Postfix(place.subfolder('postfix'), routes, settings))

    def answer(self, verb, argument, _session):
        """Called at the end of a transaction's data, before it is acknowledged: there is one agent,
        so no other transaction goes on."""
        if verb == '.':
            self.entries.append([r.lower() for r in argument.recipients])
            number = len(self.entries)
            before = len(self.postfix.active()) if number in self.arrivals else 0
            for letter in self.arrivals.get(number, ()):
                self.send(letter)
                before += 1
                self.await_active(before)

    def send(self, letter):
        target = ('127.0.0.1', self.postfix.port)
        reply = submit(target, 'sender@sender.test', letter.recipients, message(letter.name))
        letter.queue_id = reply.text.split()[-1]

    def make_active(self):
        time.sleep(1.02 - time.time() % 1)
        if self.is_scanned:
            self.postfix.release('qmgr')
            self.await_active(len(self.letters))
            return
        for number, letter in enumerate(self.letters, 1):
            self.send(letter)
            self.await_active(number)

    def await_active(self, count):
        until(lambda: len(self.postfix.active()) >= count,
              lambda: f'{count} active messages: {self.postfix.log()}')

    def run(self):
        """Returns whether all letters of the start became active in the same second."""
        self.postfix.start()
        if self.is_scanned:
            for letter in self.letters:
                self.send(letter)
        else:
            self.postfix.release('qmgr')
        self.make_active()
        seconds = {second for _, second in self.postfix.active()}
        self.postfix.release('smtp')
        everyone = self.letters + [a for group in self.arrivals.values() for a in group]
        total = sum(len(letter.recipients) for letter in everyone)
        until(lambda: sum(map(len, self.entries)) >= total, lambda: f'{total} recipients, '
              f'{sum(map(len, self.entries))} came', PATIENCE)
        return len(seconds) == 1

    def script(self):
        """What happened, in the language of sluice-sim script."""
        by_id = {letter.queue_id: letter for letter in
                 self.letters + [a for group in self.arrivals.values() for a in group]}
        order = [by_id[queue_id] for queue_id, _ in self.postfix.active()]
        lines = ['=== postfix 1', 'global concurrency_feedback_rule postfix3']
        lines += [f'transport {name} {value}' for name, value in self.parameters.items()]
        start = order[:len(self.letters)]
        later = order[len(self.letters):]
        left = {letter.name: len(letter.recipients) for letter in order}

        def announce(letter):
            lines.append(' '.join(['message', letter.name, *letter.recipients]))

        for letter in start:
            announce(letter)
        for number, entry in enumerate(self.entries, 1):
            letter = next(x for x in order if entry[0] in x.recipients)
            limit = self.parameters['destination_recipient_limit']
            name = entry[0] if limit == 1 else entry[0].partition('@')[2]
            lines += ['select', f'> #{number} {letter.name} {name} {",".join(entry)}']
            for _ in self.arrivals.get(number, ()):
                announce(later.pop(0))
            lines.append(f'report #{number} ok')
            left[letter.name] -= len(entry)
            if left[letter.name] == 0:
                lines.append(f'> done {letter.name} delivered')
        return '\n'.join(lines + ['select', '> none', ''])

    def order(self):
        """Like A14 B1 A3: whose entries came, in runs."""
        runs = []
        for entry in self.entries:
            name = entry[0][0].upper()
            if not runs or runs[-1][0] != name:
                runs.append([name, 0])
            runs[-1][1] += 1
        return ' '.join(f'{name}{count}' for name, count in runs)


def follow(place, script):
    path = os.path.join(place.folder, 'script.txt')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(script)
    result = subprocess.run([PROGRAM, 'script', path], capture_output=True, text=True, timeout=60,
                            check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def compare(place, letters, **settings):
    """Returns the course that was taken by both."""
    for _ in range(ATTEMPTS):
        course = Course(place, letters, **settings)
        if course.run():
            follow(place, course.script())
            return course
        course.postfix.close()
    pytest.fail(f'{ATTEMPTS} imports went past the end of a second')


def letters_of(*counts):
    return [Letter(chr(ord('a') + i), count) for i, count in enumerate(counts)]


DEFAULTS = {'destination_recipient_limit': 1}
EAGER = {'destination_recipient_limit': 1, 'delivery_slot_cost': 2, 'delivery_slot_loan': 0,
         'delivery_slot_discount': 0}


# The worked vectors JS-1, 2, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15 and 19 in which all come at once.
@pytest.mark.parametrize('counts, parameters, expected', [
    ((10, 2, 2), EAGER, 'A4 B2 A4 C2 A2'),
    ((10, 2, 2), {**EAGER, 'delivery_slot_discount': 50}, 'A2 B2 A4 C2 A4'),
    ((10, 2, 2), DEFAULTS, 'A10 B2 C2'),
    ((14, 1), DEFAULTS, 'A14 B1'),
    ((15, 1), DEFAULTS, 'A1 B1 A14'),
    ((20, 1, 1, 1), DEFAULTS, 'A1 B1 A5 C1 A5 D1 A9'),
    ((100, 10, 1), DEFAULTS, 'A1 C1 A14 B10 A85'),
    ((1000, 100, 10, 1), DEFAULTS, 'A1 D1 A14 C10 A275 B100 A710'),
    ((30, 1, 2, 1), {**EAGER, 'delivery_slot_cost': 5}, 'A5 B1 A5 D1 A10 C2 A10'),
    ((20, 1), {**DEFAULTS, 'delivery_slot_cost': 0}, 'A20 B1'),
    ((10, 6, 5), {**EAGER, 'minimum_delivery_slots': 0}, 'A10 B6 C5'),
    ((4, 1, 1, 1, 1), {**EAGER, 'minimum_delivery_slots': 0}, 'A2 B1 A2 C1 D1 E1'),
    ((10, 2, 2, 1), {**EAGER, 'minimum_delivery_slots': 0}, 'A2 D1 A4 B2 A4 C2'),
    ((24, 6, 2, 1), EAGER, 'A2 D1 A4 C2 A12 B6 A6'),
], ids=str)
def test_worked_sets(place, counts, parameters, expected):
    assert compare(place, letters_of(*counts), parameters=parameters).order() == expected


def test_arrivals_during_delivery(place):
    """JS-9"""
    course = compare(place, letters_of(50), parameters=DEFAULTS,
                     arrivals={10: [Letter('b', 2)], 17: [Letter('c', 2)]})
    assert course.order() == 'A10 B2 A5 C2 A35'


@pytest.mark.parametrize('seed', range(2))
def test_found_waiting(place, seed):
    """All were accepted before the queue manager started; the order of import is its own."""
    counts = [int(2 ** random.Random(seed).uniform(0, 6)) for _ in range(8)] + [40, 1, 2]
    compare(place, letters_of(*counts), parameters=DEFAULTS, is_scanned=True)


@pytest.mark.parametrize('seed', range(4))
def test_random_sizes(place, seed):
    chance = random.Random(seed)
    counts = [int(2 ** chance.uniform(0, 6)) for _ in range(chance.randint(5, 14))]
    parameters = {**DEFAULTS, 'delivery_slot_cost': chance.choice([2, 3, 5]),
                  'delivery_slot_loan': chance.choice([0, 1, 3]),
                  'delivery_slot_discount': chance.choice([0, 50, 100]),
                  'minimum_delivery_slots': chance.choice([0, 1, 3])}
    course = compare(place, letters_of(*counts), parameters=parameters)
    print(counts, parameters, course.order())


@pytest.mark.parametrize('seed', range(3))
def test_random_shared_nexthops(place, seed):
    """Several recipients an entry, and jobs that take turns among nexthops."""
    chance = random.Random(100 + seed)
    letters = [Letter(chr(ord('a') + i), *(int(2 ** chance.uniform(0, 5)) for _ in range(3)))
               for i in range(chance.randint(4, 9))]
    parameters = {'destination_recipient_limit': chance.choice([2, 3, 50]),
                  'delivery_slot_cost': chance.choice([2, 5]),
                  'minimum_delivery_slots': chance.choice([0, 3])}
    print(compare(place, letters, nexthops=3, parameters=parameters).order())
