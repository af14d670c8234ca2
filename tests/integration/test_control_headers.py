"""What receivers do not see: control headers (tenant_header, campaign_header) are taken out of mail on
its way in, however it is cut and whichever way it comes; and the Received field without the client."""
import random
import re

import pytest

from support.client import Client, stuffed, submit
from support.injection import post

FROM = 'sender@sender.test'
LABELS = {'tenant_header': 'X-Tenant', 'campaign_header': 'X-Campaign'}
FOLDED = b'x-TENANT: acme\r\nX-Campaign\t :\r\n spring\r\n'
BODY = b'\r\nX-Tenant: a word of the text\r\n.\r\n..\r\n'
MESSAGE = (FOLDED + b'Subject: one\r\n X-Tenant: folded\r\nX-Tenant: again\r\n\tand\r\n again\r\n'
           b'X-Tenants: stays\r\nX-Campaign:\r\n' + BODY)
SEEN = b'Subject: one\r\n X-Tenant: folded\r\nX-Tenants: stays\r\n' + BODY


def relay(place, **listener):
    receiver = place.receiver()
    return place.sluice(listener={**LABELS, **listener},
                        routes={'*': ('smtp', receiver.nexthop)}), receiver


def check(daemon, receiver, recipient, seen):
    """One message came, and what is counted of it is what it is now."""
    event = daemon.wait_event('Delivery', recipient)
    [got] = receiver.to(recipient)
    assert got.content == seen
    assert event['size'] == len(got.body)
    return event


def bdat(client, pieces):
    for number, piece in enumerate(pieces):
        last = ' LAST' if number == len(pieces) - 1 else ''
        client.send(f'BDAT {len(piece)}{last}\r\n'.encode() + piece)
    for _ in pieces:
        client.expect(250)


@pytest.mark.parametrize('verb', ['DATA', 'BDAT'])
def test_cut_anywhere(place, verb):
    """Pieces of every length, in one session; labels are read from what is removed."""
    daemon, receiver = relay(place)
    rng = random.Random(4711)
    with Client(daemon) as client:
        client.ehlo()
        for number in range(30):
            recipient = f'r{number}@a.test'
            client.mail(FROM, [recipient], f' SIZE={len(MESSAGE)}')
            text = stuffed(MESSAGE) if verb == 'DATA' else MESSAGE
            cuts = sorted(rng.sample(range(1, len(text)), min(number, 25)))
            pieces = [text[a:b] for a, b in zip([0] + cuts, cuts + [len(text)])]
            if verb == 'DATA':
                client.say('DATA', 354)
                for piece in pieces:
                    client.send(piece)
                client.expect(250)
            else:
                bdat(client, pieces)
    for number in range(30):
        event = check(daemon, receiver, f'r{number}@a.test', SEEN)
        assert (event['tenant'], event['campaign']) == ('acme', 'spring')


def test_larger_than_any_buffer(place):
    """A header field and content of several chunks each; nothing of the field is stored."""
    daemon, receiver = relay(place)
    field = b'X-Tenant: acme\r\n' + b'X-Campaign:' + b'\r\n folded and folded again' * 12000 + b'\r\n'
    many = b'X-Tenant: t\r\n' * 900
    text = b''.join(b'line %d of the text, which is long\r\n' % i for i in range(10000))
    for number, (head, seen) in enumerate([
            (field + b'Subject: a\r\n', b'Subject: a\r\n'),
            (b'Subject: b\r\n' + many + b'To: x\r\n', b'Subject: b\r\nTo: x\r\n'),
            (b'X-A: ' + b'a' * 65400 + b'\r\n' + field * 2, b'X-A: ' + b'a' * 65400 + b'\r\n'),
            (field, b'')]):
        for verb in ('DATA', 'BDAT'):
            recipient = f'{verb}{number}@a.test'
            with Client(daemon) as client:
                client.ehlo()
                client.mail(FROM, [recipient])
                if verb == 'DATA':
                    client.data(head + b'\r\n' + text)
                else:
                    bdat(client, [head[:70000], head[70000:] + b'\r\n', text])
            check(daemon, receiver, recipient, seen + b'\r\n' + text)


def test_around_the_end_of_a_chunk(place):
    """The field's name at every place around the end of the first chunk of 64 KB."""
    daemon, receiver = relay(place)
    with Client(daemon) as client:
        client.ehlo()
        for shift in range(40):
            recipient = f's{shift}@a.test'
            pad = b'X-Pad: ' + b'p' * (65536 - 220 + 5 * shift) + b'\r\n'
            client.mail(FROM, [recipient])
            client.data(pad + b'X-Tenant : acme\r\nTo: b\r\n' + BODY)
            check(daemon, receiver, recipient, pad + b'To: b\r\n' + BODY)


def test_kept_or_not_named(place):
    """keep_control_headers leaves everything, and fields that mail needs stay in any case."""
    daemon, receiver = relay(place, keep_control_headers=True)
    submit(daemon, FROM, ['a@a.test'], MESSAGE)
    event = check(daemon, receiver, 'a@a.test', MESSAGE)
    assert (event['tenant'], event['campaign']) == ('acme', 'spring')
    daemon, receiver = relay(place, tenant_header='Feedback-ID', campaign_header='List-Id')
    text = b'Feedback-ID: acme\r\nList-Id: <spring>\r\n\r\nx\r\n'
    submit(daemon, FROM, ['b@a.test'], text)
    assert check(daemon, receiver, 'b@a.test', text)['tenant'] == 'acme'


def test_injected_mail(place):
    """Over HTTP, as finished text and as parts, with any listener's fields."""
    daemon, receiver = relay(place)
    post(daemon, MESSAGE, f'?from={FROM}&to=raw@a.test', 'message/rfc822').expect(202)
    event = daemon.wait_event('Delivery', 'raw@a.test')
    [got] = receiver.to('raw@a.test')
    assert 'tenant' not in event and event['size'] == len(got.body)
    added, seen = got.content.split(b'Subject: one', 1)
    assert b'Subject: one' + seen == SEEN and not re.search(rb'(?i)x-tenant|x-campaign', added)
    post(daemon, {'from': FROM, 'recipients': ['parts@a.test'], 'text': 'hello', 'tenant': 'acme',
                  'headers': {'X-Tenant': 'acme', 'x-campaign': ['a', 'b'], 'X-Mine': 'stays',
                              'Subject': 'parts'}}).expect(202)
    event = daemon.wait_event('Delivery', 'parts@a.test')
    [got] = receiver.to('parts@a.test')
    assert event['tenant'] == 'acme' and event['size'] == len(got.body)
    assert b'X-Mine: stays\r\n' in got.body and b'hello' in got.body
    assert not re.search(rb'(?i)x-tenant|x-campaign|acme', got.body)


# --- the Received field --------------------------------------------------------------------------


def test_received_without_the_client(place):
    daemon, receiver = relay(place, received_header='anonymous')
    with Client(daemon) as client:
        client.ehlo('secret-host.inner.test')
        client.mail(FROM, ['a@a.test'])
        client.data(b'Subject: x\r\n\r\n')
    daemon.wait_event('Delivery', 'a@a.test')
    [got] = receiver.to('a@a.test')
    assert re.fullmatch(rb'Received: by relay\.test \(sluice\)\r\n\twith ESMTP id [0-9a-f]{16};\r\n'
                        rb'\t[^\r\n]+\r\nSubject: x\r\n\r\n', got.body), got.body
    assert daemon.wait_event('Reception', 'a@a.test')['peer_address']['name'] == 'secret-host.inner.test'


def test_no_received_field(place):
    """Content that is nothing at all still makes a message."""
    daemon, receiver = relay(place, received_header='no')
    for recipient, text, seen in (('a@a.test', b'Subject: x\r\n\r\ny\r\n', None),
                                  ('b@a.test', b'X-Tenant: acme\r\n', b'\r\n'),
                                  ('c@a.test', b'', b'\r\n')):
        submit(daemon, FROM, [recipient], text)
        daemon.wait_event('Delivery', recipient)
        [got] = receiver.to(recipient)
        assert got.body == (text if seen is None else seen)
