"""Held mail: scheduled by its sender or suspended by an order. Nothing but its time or the end of the
order lets it go, and nothing keeps it longer, whatever happens meanwhile."""
import os
import time

import pytest

from support.injection import post
from support.reloading import reload
from support.wait import PATIENCE, until
from test_orders import LATER, Busy, Gate, give, relay, run, send, wait_states

HOUR = 3600


def schedule(daemon, tenant, *recipients, at):
    return post(daemon, {'from': 'a@a.test', 'recipients': recipients, 'text': 'x\n', 'tenant': tenant,
                         'not_before': at}).expect(202)


def test_an_order_does_not_hurry_scheduled_mail(place):
    """Some of its recipients are dropped at once; the others have their time still, also when the
    order is lifted and when the daemon starts anew."""
    receiver = place.receiver()
    daemon = relay(place, receiver)
    schedule(daemon, 'acme', 'a@x.test', 'b@y.test', at=time.time() + HOUR)
    give(daemon, 'suspend', '--tenant', 'acme', '--for', '2s')
    order = give(daemon, 'drop', '--domain', 'x.test', '--for', '1h', '--yes')
    daemon.wait_event('AdminDrop', 'a@x.test')
    wait_states(daemon, scheduled=1)
    daemon.wait_log('order 1 is over')
    run(daemon, 'resume', order['id'])
    daemon.kill()
    daemon.start()
    send(daemon, 'acme', 'c@y.test')
    daemon.wait_event('Delivery', 'c@y.test')
    wait_states(daemon, scheduled=1)
    assert not receiver.to('b@y.test')


def test_scheduled_mail_comes_at_its_time_after_an_order(place):
    receiver = place.receiver()
    daemon = relay(place, receiver)
    begin = int(time.time()) + 8
    schedule(daemon, 'acme', 'a@x.test', 'b@y.test', at=begin)
    give(daemon, 'drop', '--domain', 'x.test', '--for', '1h', '--yes')
    daemon.wait_event('AdminDrop', 'a@x.test')
    daemon.wait_event('Delivery', 'b@y.test')
    assert time.time() >= begin
    daemon.wait_empty()


def test_slow_mail_does_not_keep_other_held_mail(place):
    """More messages than one pass takes become due at once and stay active; those behind go out."""
    gate = Gate()
    slow, fast = place.receiver(answers=gate), place.receiver()
    daemon = relay(place, slow, routes={'slow.test': ('smtp', slow.nexthop),
                                        'fast.test': ('smtp', fast.nexthop)})
    at = time.time() + 3
    post(daemon, {'messages': [{'from': 'a@a.test', 'recipients': [f'r{n}@slow.test'], 'text': 'x\n', 'tenant': 'acme',
                                'not_before': at} for n in range(300)]}).expect(202)
    schedule(daemon, 'acme', 'r@fast.test', at=at + 1)
    daemon.wait_event('Delivery', 'r@fast.test')
    assert gate.entered.is_set() and not daemon.of('Delivery', 'r0@slow.test')
    gate.opened.set()
    daemon.wait_empty()
    assert len(slow.messages) == 300


def test_resumed_mail_is_not_forgotten_by_a_kill(place):
    """The order is lifted, and the daemon killed before it has come to the mail."""
    gate = Gate()
    receiver = place.receiver(answers=gate)
    daemon = relay(place, receiver, options={'message_active_limit': 1})
    order = give(daemon, 'suspend', '--tenant', 'acme', '--for', '300d')
    for n in range(5):
        send(daemon, 'acme', f'r{n}@x.test')
    wait_states(daemon, suspended=5)
    send(daemon, 'other', 'first@x.test')
    assert gate.entered.wait(PATIENCE)
    run(daemon, 'resume', order['id'])
    daemon.kill()
    gate.opened.set()
    daemon.start()
    for n in range(5):
        daemon.wait_event('Delivery', f'r{n}@x.test')
    daemon.wait_empty()


@pytest.mark.parametrize('is_killed', [False, True])
def test_resumed_mail_in_memory_is_not_forgotten_by_a_restart(place, is_killed):
    """It became active when its order was lifted, and had not gone when the daemon ended."""
    receiver = place.receiver()
    daemon = relay(place, receiver)
    give(daemon, 'suspend', '--tenant', 'acme', '--for', '1d')
    for n in range(5):
        send(daemon, 'acme', f'r{n}@x.test')
    wait_states(daemon, suspended=5)
    for options in daemon.transports.values():
        options['hold'] = True
    reload(daemon)
    run(daemon, 'resume', '--all')
    until(lambda: daemon.totals()['active'] == 5, daemon.totals)
    if is_killed:
        daemon.kill()
    else:
        assert daemon.stop() == 0
    for options in daemon.transports.values():
        options['hold'] = False
    daemon.write_config()
    daemon.start()
    receiver.wait(5, 60)


def test_orders_may_be_removed_by_hand(place):
    """As the daemon suggests when their file is damaged: their mail goes."""
    receiver = place.receiver()
    daemon = relay(place, receiver)
    give(daemon, 'suspend', '--tenant', 'acme', '--for', '300d')
    send(daemon, 'acme', 'a@x.test')
    wait_states(daemon, suspended=1)
    assert daemon.stop() == 0
    os.remove(os.path.join(daemon.spool, 'orders.json'))
    daemon.start()
    daemon.wait_event('Delivery', 'a@x.test')


def test_what_is_to_end_ends_after_a_kill(place):
    """Mail is to be dropped, and the daemon killed before it has come to it."""
    busy, gate = Busy(), Gate()
    far, slow = place.receiver(answers=busy), place.receiver(answers=gate)
    daemon = relay(place, far, options={**LATER, 'message_active_limit': 1},
                   routes={'slow.test': ('smtp', slow.nexthop), '*': ('smtp', far.nexthop)})
    for n in range(5):
        send(daemon, 'acme', f'r{n}@x.test')
        daemon.wait_event('TransientFailure', f'r{n}@x.test')
    wait_states(daemon, deferred=5)
    send(daemon, 'other', 'first@slow.test')
    assert gate.entered.wait(PATIENCE)
    give(daemon, 'drop', '--tenant', 'acme', '--for', '1h', '--yes')
    assert not daemon.of('AdminDrop')
    daemon.kill()
    gate.opened.set()
    daemon.start()
    daemon.wait_events('AdminDrop', count=5)
    daemon.wait_event('Delivery', 'first@slow.test')
    daemon.wait_empty()


def test_an_order_that_is_lifted_ends_nothing(place):
    """Mail is to be dropped and is not, before the daemon has come to it: what waits goes on
    waiting."""
    busy, gate = Busy(), Gate()
    far, slow = place.receiver(answers=busy), place.receiver(answers=gate)
    daemon = relay(place, far, options={**LATER, 'message_active_limit': 1},
                   routes={'slow.test': ('smtp', slow.nexthop), '*': ('smtp', far.nexthop)})
    for n in range(5):
        send(daemon, 'acme', f'r{n}@x.test')
        daemon.wait_event('TransientFailure', f'r{n}@x.test')
    schedule(daemon, 'acme', 'later@x.test', at=time.time() + HOUR)
    wait_states(daemon, deferred=5, scheduled=1)
    send(daemon, 'other', 'first@slow.test')
    assert gate.entered.wait(PATIENCE)
    busy.on = False
    order = give(daemon, 'drop', '--tenant', 'acme', '--for', '1h', '--yes')
    run(daemon, 'resume', order['id'])
    gate.opened.set()
    daemon.wait_event('Delivery', 'first@slow.test')
    send(daemon, 'acme', 'fence@slow.test')
    daemon.wait_event('Delivery', 'fence@slow.test')
    wait_states(daemon, deferred=5, scheduled=1)
    assert not far.messages and not daemon.of('AdminDrop')


class SlowGate(Gate):
    """Each message takes longer than the writer lets new mail wait in the journal before all can see it."""

    def __call__(self, verb, argument, session):
        super().__call__(verb, argument, session)
        if verb == '.':
            time.sleep(0.05)


def test_new_mail_does_not_wait_for_all_that_is_resumed(place):
    gate = SlowGate()
    receiver = place.receiver(answers=gate)
    daemon = relay(place, receiver, options={'message_active_limit': 1})
    order = give(daemon, 'suspend', '--tenant', 'acme')
    for n in range(40):
        send(daemon, 'acme', f'r{n}@x.test')
    wait_states(daemon, suspended=40)
    send(daemon, 'other', 'first@x.test')
    assert gate.entered.wait(PATIENCE)
    send(daemon, 'other', 'second@x.test')
    run(daemon, 'resume', order['id'])
    gate.opened.set()
    daemon.wait_empty()
    order = [m.recipients[0] for m in receiver.messages]
    assert len(order) == 42 and order.index('second@x.test') < 30, order
