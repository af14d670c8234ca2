"""Held mail: scheduled by its sender or suspended by an order. Nothing but its time or the end of the
order lets it go, and nothing keeps it longer, whatever happens meanwhile."""
import time

from support.injection import post
from test_orders import Gate, relay


def schedule(daemon, tenant, *recipients, at):
    return post(daemon, {'from': 'a@a.test', 'recipients': recipients, 'text': 'x\n', 'tenant': tenant,
                         'not_before': at}).expect(202)


def test_slow_mail_does_not_keep_other_held_mail(place):
    """More messages than one pass takes become due at once and stay active; those behind go out."""
    gate = Gate()
    slow, fast = place.receiver(answers=gate), place.receiver()
    daemon = relay(place, slow, routes={'slow.test': ('smtp', slow.nexthop),
                                        'fast.test': ('smtp', fast.nexthop)})
    at = time.time() + 3
    for n in range(300):
        schedule(daemon, 'acme', f'r{n}@slow.test', at=at)
    schedule(daemon, 'acme', 'r@fast.test', at=at + 1)
    daemon.wait_event('Delivery', 'r@fast.test')
    assert gate.entered.is_set() and not daemon.of('Delivery', 'r0@slow.test')
    gate.opened.set()
    daemon.wait_empty()
    assert len(slow.messages) == 300
