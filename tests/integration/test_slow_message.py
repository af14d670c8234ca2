"""A receiver that is fast takes long over one message, on a connection that others were given to. No more waits
for that than was sent already; the rest is elsewhere at once, each message once and at its first attempt."""
import signal
import threading

import pytest

from support.client import Client, message
from support.wait import PATIENCE, until

WARM = 200   # messages that show how fast the receiver is, on each of its connections
BURST = 12   # behind the slow one; more than one connection takes


class Receiver:
    """Answers to the end of a message whose recipient is `slow` when it is let; dies: instead it is gone, once."""

    def __init__(self, place, dies):
        self.dies = dies
        self.may_answer, self.has_come = threading.Event(), threading.Event()
        self.server = place.receiver(answers=self.answer)

    def answer(self, verb, received, _session):
        if verb == '.' and received.recipients == ['slow@x.test']:
            self.has_come.set()
            self.may_answer.wait(2 * PATIENCE)
            if self.dies:
                self.dies = False
                raise EOFError

    def names(self):
        return [m.recipients[0].partition('@')[0] for m in list(self.server.messages)]


def send(daemon, names):
    with Client(daemon) as client:
        client.ehlo()
        for name in names:
            client.mail('', [f'{name}@x.test'])
            client.data(message(name))


def start(place, dies=False, **transport):
    receiver = Receiver(place, dies)
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


def start_with_one(place, dies=False):
    """The rest of a burst was given back, and has nowhere to go."""
    receiver, daemon = start(place, dies, initial_destination_concurrency=1, destination_concurrency_limit=1)
    burst = [f'b{i}' for i in range(BURST)]
    send(daemon, ['slow', *burst])
    assert receiver.has_come.wait(PATIENCE)
    receiver.may_answer.wait(0.2)  # longer than the server's usual time, many times over
    return receiver, daemon, burst


def test_with_one_connection(place):
    """It waits, and is lost no more than anything else."""
    receiver, daemon, burst = start_with_one(place)
    receiver.may_answer.set()
    check_once(daemon, receiver, [*[f'w{i}' for i in range(WARM)], 'slow', *burst])


@pytest.mark.parametrize('is_alone', [True, False], ids=['one', 'more'])
def test_the_server_is_gone_meanwhile(place, is_alone):
    """What was given back, and what was sent behind the slow one and is unread, had no attempt."""
    if is_alone:
        receiver, daemon, burst = start_with_one(place, dies=True)
    else:
        receiver, daemon = start(place, dies=True)
        burst = [f'b{i}' for i in range(BURST)]
        send(daemon, ['slow', *burst])
        receiver.server.wait(WARM + BURST - 1)
    receiver.may_answer.set()
    daemon.wait_empty()
    assert sorted(receiver.names()) == sorted([*[f'w{i}' for i in range(WARM)], 'slow', *burst])
    for name in burst:
        assert [(e['type'], e['num_attempts']) for e in daemon.results(f'{name}@x.test')] == [('Delivery', 1)], name


@pytest.mark.parametrize('is_killed', [False, True], ids=['stopped', 'killed'])
def test_the_daemon_ends_meanwhile(place, is_killed):
    """When it is killed the slow one, and one that was sent behind it, may come twice; others are not begun."""
    receiver, daemon, burst = start_with_one(place)
    if is_killed:
        daemon.kill()
        receiver.may_answer.set()
    else:
        daemon.signal(signal.SIGTERM)
        receiver.may_answer.set()
        assert daemon.wait_exit() == 0
    daemon.start()
    daemon.wait_empty()
    names = receiver.names()
    assert {name: names.count(name) for name in burst[1:]} == dict.fromkeys(burst[1:], 1)
    assert {'slow', burst[0]} <= set(names)


@pytest.mark.parametrize('is_gone', [False, True], ids=['changed', 'gone'])
def test_the_transport_is_another_one_meanwhile(place, is_gone):
    receiver, daemon, burst = start_with_one(place)
    if is_gone:
        daemon.transports = {'other': daemon.transports['smtp']}
        daemon.routes = {'*': ('other', receiver.server.nexthop)}
    else:
        daemon.transports['smtp']['process_limit'] = 1
    daemon.write_config()
    assert daemon.command('reload').returncode == 0
    send(daemon, ['behind'])
    receiver.may_answer.set()
    check_once(daemon, receiver, [*[f'w{i}' for i in range(WARM)], 'slow', *burst, 'behind'])
