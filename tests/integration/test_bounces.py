"""Mail that cannot be delivered: retries, warnings, expiry, and the reports that senders get."""
import threading
import time
from email.utils import parsedate_to_datetime

import pytest

from support import exposition
from support.api import get
from support.client import Client, message, submit
from support.injection import post
from support.peer import Peer
from support.report import Report
from support.smtp_sink import SmtpSink
from support.wait import until

REFUSE = 'plain\nexpect MAIL\nsend 250 ok\nexpect RCPT\nsend 550 5.1.1 no such user\nclose'
LATER = 'send 421 4.3.2 come back later\nclose'


def relay_to(place, peer, **options):
    """A daemon that sends *.back.test to a receiver and everything else to `peer`."""
    receiver = place.receiver()
    daemon = place.sluice(options=options, routes={'back.test': ('smtp', receiver.nexthop),
                                                   '*': ('smtp', peer.nexthop)})
    return daemon, receiver


def the_report(daemon, receiver, sender):
    daemon.wait_event('Delivery', sender)
    [notice] = receiver.to(sender)
    assert notice.sender == ''
    return Report(notice.content)


def test_report_of_a_refusal(place):
    peer = place.keep(Peer(REFUSE))
    daemon, receiver = relay_to(place, peer)
    body = message('broken', 'text\r\n.dot\r\n' + 'grün\r\n', Message_ID='<1@a.test>')
    submit(daemon, 'me@back.test', ['nobody@x.test'], body, ' BODY=8BITMIME')
    bounce = daemon.wait_event('Bounce', 'nobody@x.test')
    report = the_report(daemon, receiver, 'me@back.test')
    about = report.recipient('nobody@x.test')
    assert about['Action'] == 'failed' and about['Status'] == '5.1.1'
    assert about['Diagnostic-Code'].startswith('smtp; ')
    assert 'no such user' in about['Diagnostic-Code']
    assert about['Remote-MTA'].startswith('dns; ')
    assert report.about['Reporting-MTA'] == 'dns; relay.test'
    assert parsedate_to_datetime(report.about['Arrival-Date'])
    assert 'nobody@x.test' in report.text.get_content()
    assert report.original.get_content_type() == 'message/rfc822'
    original = report.original.get_payload(0)
    assert original['Message-ID'] == '<1@a.test>' and original['Subject'] == 'broken'
    assert original.get_payload(decode=True).replace(b'\r\n', b'\n') == \
        'text\n.dot\ngrün\n'.encode()
    assert report.message['Auto-Submitted'] == 'auto-replied'
    assert report.message['To'] == 'me@back.test' or '<me@back.test>' in report.message['To']
    assert bounce['response']['code'] == 550
    daemon.wait_empty()


def test_one_report_for_all_refusals_of_a_message(place):
    def answers(verb, argument, _):
        return '550 5.1.1 nobody' if verb == 'RCPT' else None
    refuser = place.receiver(answers=answers)
    daemon, receiver = relay_to(place, refuser)
    names = [f'r{n}@d{n % 3}.test' for n in range(30)]
    submit(daemon, 'me@back.test', names, message())
    report = the_report(daemon, receiver, 'me@back.test')
    assert sorted(r['Final-Recipient'] for r in report.recipients) == \
        sorted(f'rfc822; {name}' for name in names)
    daemon.wait_empty()
    assert len(receiver.messages) == 1


def test_large_message_comes_back_as_its_header(place):
    peer = place.keep(Peer(REFUSE))
    daemon, receiver = relay_to(place, peer, bounce_size_limit=5000)
    submit(daemon, 'me@back.test', ['x@x.test'], message('large', 'x' * 70 + '\r\n') * 100)
    report = the_report(daemon, receiver, 'me@back.test')
    assert report.original.get_content_type() == 'text/rfc822-headers'
    assert 'Subject: large' in report.original.get_content()
    assert len(receiver.messages[0].body) < 5000


def test_very_large_message_comes_back_as_its_header(place):
    peer = place.keep(Peer(REFUSE))
    daemon, receiver = relay_to(place, peer)
    submit(daemon, 'me@back.test', ['x@x.test'], message('huge', 'x' * 98 + '\r\n') +
           (b'y' * 98 + b'\r\n') * 100000)
    report = the_report(daemon, receiver, 'me@back.test')
    assert 'Subject: huge' in report.original.get_content()


def test_a_large_message_expires_where_nothing_else_happens(place):
    """Its lines and its reasons go in several transactions; no other mail, nor the event log's sync,
    must be what makes the spool writer go on."""
    count = 9000  # more than twice what a transaction has
    peer = place.receiver(answers=lambda verb, *_: '450 4.2.1 later' if verb == 'RCPT' else None)
    daemon = place.sluice(listener={'smtpd_recipient_limit': 0}, event_log={'path': 'none'},
                          options={'maximal_queue_lifetime': '1s', 'bounce_queue_lifetime': '1s'},
                          routes={'*': ('smtp', peer.nexthop)})
    before = daemon.totals()['used_bytes']
    with Client(daemon) as client:
        client.ehlo()
        client.say('MAIL FROM:<>', 250)
        client.send(''.join(f'RCPT TO:<r{n}@x.test>\r\n' for n in range(count)))
        for _ in range(count):
            client.expect(250)
        client.data(message())
    until(lambda: daemon.totals()['expired'] == count, 'the end of it')
    until(lambda: daemon.totals()['messages'] == 0, 'its removal')
    until(lambda: daemon.totals()['used_bytes'] < before + (64 << 10),
          lambda: f'nothing left of {before}: {daemon.totals()}')


def test_null_sender_gets_no_report(place):
    peer = place.keep(Peer(REFUSE))
    daemon, receiver = relay_to(place, peer)
    submit(daemon, '', ['x@x.test'], message())
    daemon.wait_event('Bounce', 'x@x.test')
    daemon.wait_empty()
    assert len(daemon.of('Reception')) == 1 and not receiver.messages


def test_report_that_cannot_be_delivered_ends_there(place):
    peer = place.keep(Peer(REFUSE))
    daemon, _ = relay_to(place, peer)
    submit(daemon, 'me@x.test', ['you@x.test'], message())
    daemon.wait_event('Bounce', 'you@x.test')
    daemon.wait_event('Bounce', 'me@x.test')
    daemon.wait_empty()
    assert [e['sender'] for e in daemon.of('Bounce')] == ['me@x.test', '']
    assert len(daemon.of('Reception')) == 2


def test_attempts_are_counted_and_spaced(place):
    begun, refused = [], []

    def answers(verb, argument, session):
        if verb == '':
            begun.append(time.monotonic())
        if verb != 'RCPT' or len(refused) == 3:
            return None
        refused.append(time.monotonic())
        return '421 4.3.2 come back later'
    daemon, _ = relay_to(place, place.receiver(answers=answers))
    submit(daemon, 'me@back.test', ['x@x.test'], message())
    delivered = daemon.wait_event('Delivery', 'x@x.test')
    failures = daemon.of('TransientFailure', 'x@x.test')
    assert [e['num_attempts'] for e in failures + [delivered]] == [1, 2, 3, 4]
    # From before the daemon can hear of a failure until after it has begun anew: minimal_backoff_time is 1 s,
    # maximal_backoff_time 2 s, a scan each second. It counts from when it last looked at its clock.
    gaps = [after - before for before, after in zip(refused, begun[1:])]
    assert len(gaps) == 3 and all(0.5 <= gap <= 30 for gap in gaps), gaps
    assert delivered['delay'] >= 1.5


def test_queue_shows_what_waits(place):
    peer = place.keep(Peer(LATER))
    daemon, _ = relay_to(place, peer, minimal_backoff_time='600s', maximal_backoff_time='600s')
    submit(daemon, 'me@back.test', ['x@x.test'], message())
    event = daemon.wait_event('TransientFailure', 'x@x.test')
    [one] = until(lambda: [m for m in daemon.query('messages') if m['state'] == 'deferred'],
                  'a deferred message')
    assert one['id'] == event['id'] and one['attempts'] == 1
    assert one['due'] - one['created'] >= 599
    assert '421' in one['last_reply']
    [recipient] = daemon.query('message', one['id'])[0]['list']
    assert recipient['state'] == 'deferred' and recipient['code'] == 421


@pytest.mark.parametrize('lifetime', ['0s', '2s'])
def test_expiry(place, lifetime):
    peer = place.keep(Peer(LATER))
    daemon, receiver = relay_to(place, peer, maximal_queue_lifetime=lifetime,
                                bounce_queue_lifetime='0s')
    submit(daemon, 'me@back.test', ['x@x.test', 'y@y.test'], message('old'))
    expiration = daemon.wait_event('Expiration', 'x@x.test')
    refusal = daemon.wait_event('TransientFailure', 'x@x.test')
    assert expiration['bounce_classification'] == refusal['bounce_classification'] != ''
    daemon.wait_event('Expiration', 'y@y.test')
    report = the_report(daemon, receiver, 'me@back.test')
    assert len(report.recipients) == 2
    about = report.recipient('x@x.test')
    assert about['Action'] == 'failed'
    assert about['Status'][0] in '45'
    assert 'come back later' in about['Diagnostic-Code']
    daemon.wait_empty()
    assert not daemon.of('Delivery', 'x@x.test')
    if lifetime == '0s':
        assert len(daemon.of('TransientFailure', 'x@x.test')) == 1


def test_expiry_of_a_report(place):
    peer = place.keep(Peer(REFUSE, LATER))
    daemon, _ = relay_to(place, peer, bounce_queue_lifetime='0s')
    submit(daemon, 'me@x.test', ['you@x.test'], message())
    daemon.wait_event('Bounce', 'you@x.test')
    daemon.wait_event('Expiration', 'me@x.test')
    daemon.wait_empty()
    assert len(daemon.of('Reception')) == 2


def test_part_expires_part_was_delivered(place):
    def answers(verb, argument, _):
        return '450 4.2.1 later' if verb == 'RCPT' and 'later' in argument else None
    mixed = place.receiver(answers=answers)
    daemon, receiver = relay_to(place, mixed, maximal_queue_lifetime='2s')
    submit(daemon, 'me@back.test', ['good@x.test', 'later@x.test'], message())
    daemon.wait_event('Delivery', 'good@x.test')
    daemon.wait_event('Expiration', 'later@x.test')
    report = the_report(daemon, receiver, 'me@back.test')
    assert [r['Final-Recipient'] for r in report.recipients] == ['rfc822; later@x.test']
    assert len(mixed.to('good@x.test')) == 1


def test_expiry_tells_of_all_recipients(place):
    """Results that came in one after the other."""
    first, second = place.keep(Peer(LATER)), place.keep(Peer('silence'))
    receiver = place.receiver()
    daemon = place.sluice(
        options={'maximal_queue_lifetime': '0s'},
        transports={'smtp': {}, 'slow': {'smtp_helo_timeout': '1s'}},
        routes={'back.test': ('smtp', receiver.nexthop), 'first.test': ('smtp', first.nexthop),
                'second.test': ('slow', second.nexthop)})
    submit(daemon, 'me@back.test', ['x@first.test', 'x@second.test'], message())
    report = the_report(daemon, receiver, 'me@back.test')
    assert len(report.recipients) == 2
    daemon.wait_event('Expiration', 'x@second.test')
    assert len(daemon.of('Expiration')) == 2


def test_delay_warning(place):
    peer = place.keep(Peer(*[LATER] * 4, 'accept'))
    daemon, receiver = relay_to(place, peer, delay_warning_time='1s')
    submit(daemon, 'me@back.test', ['x@x.test'], message('slow'))
    report = the_report(daemon, receiver, 'me@back.test')
    about = report.recipient('x@x.test')
    assert about['Action'] == 'delayed' and about['Status'][0] == '4'
    assert parsedate_to_datetime(about['Will-Retry-Until'])
    assert 'Subject: slow' in report.original.get_content()
    daemon.wait_event('Delivery', 'x@x.test')
    daemon.wait_empty()
    assert len(receiver.messages) == 1  # once, however often it was tried


def test_delay_cleared(place):
    peer = place.keep(Peer(*[LATER] * 3, 'accept'))
    daemon, receiver = relay_to(place, peer, delay_warning_time='1s', confirm_delay_cleared=True)
    submit(daemon, 'me@back.test', ['x@x.test'], message('slow'))
    receiver.wait(2)
    actions = [Report(m.content).recipient('x@x.test')['Action'] for m in receiver.messages]
    assert actions == ['delayed', 'delivered']


def test_utf8_report(place):
    peer = place.keep(Peer('send 220 x\nexpect EHLO\nsend 250-x\nsend 250 SMTPUTF8\nexpect MAIL\n'
                           'send 250 ok\nexpect RCPT\nsend 550 5.1.1 niemand\nclose'))
    daemon, receiver = relay_to(place, peer)
    submit(daemon, 'ich@back.test', ['grün@x.test'], message('utf8'), ' SMTPUTF8')
    daemon.wait_event('Delivery', 'ich@back.test')
    [notice] = receiver.to('ich@back.test')
    assert 'SMTPUTF8' in notice.parameters
    assert 'Final-Recipient: utf-8; grün@x.test'.encode() in notice.body


def test_retry_state_survives_a_restart(place):
    peer = place.keep(Peer(LATER, LATER, 'accept'))
    daemon, _ = relay_to(place, peer)
    submit(daemon, 'me@back.test', ['x@x.test'], message())
    daemon.wait_events('TransientFailure', 'x@x.test', count=1)
    daemon.kill()
    daemon.start()
    delivered = daemon.wait_event('Delivery', 'x@x.test')
    assert delivered['num_attempts'] in (2, 3, 4)
    assert len(peer.bodies) == 1


# --- notices turned off ----------------------------------------------------------------------------

LABEL = {'tenant_header': 'X-Tenant'}


def suppressed(daemon, count):
    until(lambda: daemon.totals()['notices_suppressed'] == count, daemon.totals)


def test_listener_without_notices(place):
    """Failure, delay and expiry: the event log says so, nobody else; also what was queued before a
    restart with a listener that has notices."""
    peer = place.keep(Peer(REFUSE))
    busy = place.receiver(answers=lambda verb, *_: '451 4.3.2 later' if verb == 'RCPT' else None)
    receiver = place.receiver()
    daemon = place.sluice(
        listener={'notices': False},
        options={'delay_warning_time': '1s', 'confirm_delay_cleared': True},
        routes={'back.test': ('smtp', receiver.nexthop), 'busy.test': ('smtp', busy.nexthop),
                '*': ('smtp', peer.nexthop)})
    submit(daemon, 'me@back.test', ['nobody@x.test'], message())
    assert daemon.wait_event('Bounce', 'nobody@x.test')['response']['code'] == 550
    suppressed(daemon, 1)
    submit(daemon, 'me@back.test', ['later@busy.test'], message())
    suppressed(daemon, 2)  # that it is delayed
    daemon.stop()
    daemon.listener['notices'] = True
    daemon.options['maximal_queue_lifetime'] = '1s'
    daemon.write_config()
    daemon.start()
    daemon.wait_event('Expiration', 'later@busy.test')
    daemon.wait_empty()
    suppressed(daemon, 3)  # counters go on over a stop
    assert not receiver.messages
    assert exposition.value(exposition.parse(get(daemon, '/metrics').body),
                            'sluice_notices_suppressed_total') == 3


def test_tenants_without_notices(place):
    """By its name in either case, by "*" for those without a section, and by a reload."""
    def answers(verb, argument, _):
        return '550 5.1.1 nobody' if verb == 'RCPT' else None
    refuser, receiver = place.receiver(answers=answers), place.receiver()
    daemon = place.sluice(listener=LABEL, tenants={'Quiet': {'notices': False}, 'loud': {}},
                          routes={'back.test': ('smtp', receiver.nexthop),
                                  '*': ('smtp', refuser.nexthop)})

    def fails(sender, **headers):
        submit(daemon, f'{sender}@back.test', [f'{sender}@x.test'], message(**headers))
        daemon.wait_event('Bounce', f'{sender}@x.test')

    fails('a', X_Tenant='quiet')
    suppressed(daemon, 1)
    fails('b', X_Tenant='loud')
    fails('c')
    receiver.wait(2)
    assert not receiver.to('a@back.test')
    daemon.tenants = {'*': {'notices': False}, 'loud': {'notices': True}}
    daemon.write_config()
    assert daemon.command('reload').returncode == 0
    fails('d', X_Tenant='quiet')
    fails('e')
    suppressed(daemon, 3)
    fails('f', X_Tenant='LOUD')
    receiver.wait(3)
    daemon.wait_empty()
    assert sorted(m.recipients[0] for m in receiver.messages) == \
        ['b@back.test', 'c@back.test', 'f@back.test']


def test_reports_while_mail_comes(place):
    """New mail is answered while a transaction is open that has reports in it: none of them is passed over."""
    def stream():
        with Client(daemon) as client:
            client.ehlo()
            while not is_enough.is_set():
                client.mail('me@back.test', ['you@good.test'])
                client.data(message())

    is_enough = threading.Event()
    refuser, taker = place.keep(SmtpSink('-f', 'rcpt')), place.keep(SmtpSink())
    daemon = place.sluice(routes={'x.test': ('smtp', refuser.nexthop), '*': ('smtp', taker.nexthop)})
    clients = [threading.Thread(target=stream) for _ in range(4)]
    for client in clients:
        client.start()
    body = {'from': 'me@back.test', 'text': 'x\n', 'recipients': ['nobody@x.test']}
    for _ in range(8):
        post(daemon, {'messages': [body] * 100}).expect(202)
        time.sleep(.1)
    is_enough.set()
    for client in clients:
        client.join()
    daemon.wait_empty()
