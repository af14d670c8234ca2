"""A receiver that is fast takes long over one message, on a connection that others were given to. No more waits
for that than was sent already; the rest is elsewhere at once, each message once and at its first attempt."""
import threading

from support.client import Client, message
from support.wait import PATIENCE, until

WARM = 200   # messages that show how fast the receiver is, on each of its connections
BURST = 12   # behind the slow one; more than one connection takes


class Receiver:
    """Answers to the end of a message whose recipient is `slow` when it is let."""

    def __init__(self, place):
        self.may_answer, self.has_come = threading.Event(), threading.Event()
        self.server = place.receiver(answers=self.answer)

    def answer(self, verb, received, _session):
        if verb == '.' and received.recipients == ['slow@x.test']:
            self.has_come.set()
            self.may_answer.wait(2 * PATIENCE)

    def names(self):
        return [m.recipients[0].partition('@')[0] for m in list(self.server.messages)]


def send(daemon, names):
    with Client(daemon) as client:
        client.ehlo()
        for name in names:
            client.mail('', [f'{name}@x.test'])
            client.data(message(name))


def start(place, **transport):
    receiver = Receiver(place)
    daemon = place.sluice(
        routes={'*': ('smtp', receiver.server.nexthop)},
        transports={'smtp': {'smtp_connection_cache_time_limit': '600s', **transport}})
    send(daemon, [f'w{i}' for i in range(WARM)])
    receiver.server.wait(WARM)
    daemon.wait_empty()
    return receiver, daemon


def check_once(daemon, receiver, sent):
    daemon.wait_empty()
    assert sorted(receiver.names()) == sorted(sent), receiver.names()
    for name in sent:
        events = daemon.results(f'{name}@x.test')
        assert [(e['type'], e['num_attempts'], e.get('is_ambiguous', False)) for e in events] == \
            [('Delivery', 1, False)], events


def test_others_do_not_wait(place):
    receiver, daemon = start(place)
    sent = [f'w{i}' for i in range(WARM)]

    def send_beside(names):
        """One may be sent behind the slow one before its silence told anything: all others arrive."""
        send(daemon, names)
        sent.extend(names)
        until(lambda: len(receiver.server.messages) >= len(sent) - 2,
              lambda: f'those that do not wait: {receiver.names()[WARM:]}')

    send_beside(['slow', *[f'b{i}' for i in range(BURST)]])
    assert receiver.has_come.wait(PATIENCE)
    for number in range(BURST):
        send_beside([f'l{number}'])
    receiver.may_answer.set()
    check_once(daemon, receiver, sent)


def test_with_one_connection(place):
    """What was given back has nowhere to go: it waits, and is lost no more than anything else."""
    receiver, daemon = start(place, initial_destination_concurrency=1, destination_concurrency_limit=1)
    burst = [f'b{i}' for i in range(BURST)]
    send(daemon, ['slow', *burst])
    assert receiver.has_come.wait(PATIENCE)
    receiver.may_answer.wait(0.2)  # longer than the server's usual time, many times over
    receiver.may_answer.set()
    check_once(daemon, receiver, [*[f'w{i}' for i in range(WARM)], 'slow', *burst])
