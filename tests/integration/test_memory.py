"""Memory is what status says: each thing that is bounded is driven to its bound with the largest that a
stranger may send, and what the daemon's own memory grows by is compared with docs/operating.md.

SLUICE_MEMORY=N makes the queues N times as long."""
import os

import pytest

from support.client import Client
from support.wait import until
from support.watch import Watch

TIMES = int(os.environ.get('SLUICE_MEMORY', '1'))
LONG = 'because ' * 115  # with its code 940 bytes, the most that a line of a reply holds
MB = 1 << 20


def refuser(place, code):
    """Refuses every recipient at length, each with other words."""
    def answers(verb, argument, _):
        return f'{code} {code[0]}.2.0 {argument} {LONG}' if verb == 'RCPT' else None
    return place.receiver(answers=answers)


def submit_to(daemon, count, prefix='r', sender='me@back.test'):
    """One message over SMTP, which takes recipients as they come and keeps a batch of them."""
    with Client(daemon) as client:
        client.ehlo()
        client.say(f'MAIL FROM:<{sender}>', 250)
        for begin in range(0, count, 100):
            several = range(begin, min(begin + 100, count))
            client.send(''.join(f'RCPT TO:<{prefix}{n}@x.test>\r\n' for n in several))
            for _ in several:
                client.expect(250)
        client.data(b'Subject: x\r\n\r\nx\r\n')


def line_count(daemon, kind):
    with open(daemon.events_path, 'rb') as file:
        return sum(f'"type":"{kind}"'.encode() in line for line in file)


@pytest.mark.parametrize('code, kind, most', [('450', 'TransientFailure', 20 * MB), ('550', 'Bounce', 24 * MB)])
def test_recipients_that_are_done_take_no_memory(place, code, kind, most, report_table):
    """One message; status counts those that wait for an attempt or for the disk, and a result that is
    on the disk is neither, however long its reply was. What is left does not depend on their number: a
    transaction, and of a bounce the notice, of which 4 MB tell of recipients."""
    receiver = refuser(place, code)
    back = place.receiver()
    daemon = place.sluice(
        options={'message_recipient_limit': 500, 'minimal_backoff_time': '1h',
                 'maximal_backoff_time': '1h'},
        listener={'smtpd_recipient_limit': 1000000},
        transports={'smtp': {'destination_concurrency_limit': 8,
                             'destination_recipient_limit': 50}},
        routes={'back.test': ('smtp', back.nexthop), '*': ('smtp', receiver.nexthop)})
    submit_to(daemon, 100, 'warm')
    until(lambda: line_count(daemon, kind) == 100, lambda: daemon.log())
    count = 20000 * TIMES
    with Watch(daemon) as watch:
        submit_to(daemon, count)
        until(lambda: line_count(daemon, kind) == count + 100, lambda: daemon.log()[-2000:], 60 * TIMES)
    report_table('memory', f'{count} {kind}: {watch.growth >> 10} KB')
    assert watch.growth < most, f'{watch.growth / count:.0f} bytes each'
