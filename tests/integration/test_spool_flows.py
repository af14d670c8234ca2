"""The queue on the disk is in the order of flows: far more mail of one tenant than fits into memory, for a
receiver that takes none of it, does not stand before a message of another tenant or of another campaign,
whether that is new, deferred, held, or there at a start. It is counts and the order of deliveries that are
looked at, never time: the slow receiver answers nothing as long as the others' mail is to come.

SLUICE_FLOW_MESSAGES: how many that tenant has (3,000); a third of that fits into memory, or 1,000."""
import os

import pytest

from support.injection import post
from support.wait import until
from test_orders import Busy, Gate, give, run

COUNT = int(os.environ.get('SLUICE_FLOW_MESSAGES', 3000))
ACTIVE = min(COUNT // 3, 1000)
PATIENCE = 30 + COUNT / 300
LABELS = {'tenant_header': 'X-Tenant', 'campaign_header': 'X-Campaign'}


def spool_of(place, slow, fast, transports=None, **options):
    return place.sluice(listener=LABELS, transports=transports, options={'message_active_limit': ACTIVE, **options},
                        routes={'slow.test': ('smtp', slow.nexthop), 'fast.test': ('smtp', fast.nexthop)})


def fill(daemon, count=COUNT, tenant='big', **more):
    """in one campaign"""
    for first in range(0, count, 1000):
        post(daemon, {'defaults': {'from': 'a@a.test', 'text': 'x\n', 'tenant': tenant, 'campaign': 'all', **more},
                      'messages': [{'recipients': [f'm{n}@slow.test']}
                                   for n in range(first, min(first + 1000, count))]}).expect(202)


def single(daemon, recipient, tenant, **more):
    post(daemon, {'from': 'a@a.test', 'recipients': [recipient], 'text': 'x\n', 'tenant': tenant,
                  **more}).expect(202)


def figures(daemon):
    """{state: messages}"""
    return daemon.totals()


class Closed(Gate):
    """answers nothing to the end of a message until it is opened, however long that takes"""

    def __call__(self, verb, argument, session):
        if verb == '.':
            self.opened.wait(20 * PATIENCE)


@pytest.fixture
def gate():
    gate = Closed()
    yield gate
    gate.opened.set()


def full(daemon, count=COUNT):
    """What may be in memory is, but for the reserve."""
    def seen():
        return daemon.totals()
    until(lambda: seen()['messages'] >= count and seen()['active'] >= ACTIVE - ACTIVE // 8,
          lambda: f'{seen()}', PATIENCE)


def drain(daemon, gate, receiver, count):
    """All of it comes, each once."""
    gate.opened.set()
    receiver.wait(count, PATIENCE)
    daemon.wait_empty(PATIENCE)
    came = sorted(m.recipients[0] for m in receiver.messages)
    assert came == sorted(set(came)) and len(came) == count


def test_new_mail_of_others(place, gate):
    slow, fast = place.receiver(answers=gate), place.receiver()
    daemon = spool_of(place, slow, fast)
    fill(daemon)
    full(daemon)
    single(daemon, 'tenant@fast.test', 'small')
    single(daemon, 'campaign@fast.test', 'big', campaign='another')
    single(daemon, 'nobody@fast.test', '')
    for name in ('tenant', 'campaign', 'nobody'):
        daemon.wait_event('Delivery', f'{name}@fast.test')
    assert not slow.messages
    drain(daemon, gate, slow, COUNT)


@pytest.mark.parametrize('ends', ['stop', 'kill'])
def test_mail_of_an_earlier_run(place, gate, ends):
    slow, fast = place.receiver(answers=gate), place.receiver()
    daemon = spool_of(place, slow, fast, transports={'smtp': {'hold': True}})
    fill(daemon)
    single(daemon, 'last@fast.test', 'small')
    getattr(daemon, ends)()
    daemon.transports = {'smtp': {}}
    daemon.write_config()
    daemon.start()
    daemon.wait_event('Delivery', 'last@fast.test')
    assert not slow.messages
    full(daemon)
    drain(daemon, gate, slow, COUNT)


def test_deferred_mail(place, gate):
    busy = Busy()
    slow, fast = place.receiver(answers=busy), place.receiver(answers=busy)
    daemon = spool_of(place, slow, fast, minimal_backoff_time='2s', maximal_backoff_time='2s',
                      queue_run_delay='1s')
    fill(daemon)
    single(daemon, 'last@fast.test', 'small')
    daemon.wait_event('TransientFailure', 'last@fast.test')
    until(lambda: figures(daemon)['incoming'] == 0, lambda: f'all was tried: {figures(daemon)}', PATIENCE)
    slow.answers = gate
    full(daemon)
    busy.on = False
    daemon.wait_event('Delivery', 'last@fast.test')
    assert not slow.messages
    drain(daemon, gate, slow, COUNT)


def test_held_mail(place, gate):
    slow, fast = place.receiver(answers=gate), place.receiver()
    daemon = spool_of(place, slow, fast)
    order = give(daemon, 'suspend', '--all')
    fill(daemon)
    single(daemon, 'last@fast.test', 'small')
    until(lambda: figures(daemon)['suspended'] == COUNT + 1, lambda: f'all is held: {figures(daemon)}', PATIENCE)
    run(daemon, 'resume', order['id'])
    daemon.wait_event('Delivery', 'last@fast.test')
    assert not slow.messages
    drain(daemon, gate, slow, COUNT)
