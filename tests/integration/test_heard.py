"""What comes back: return addresses that each recipient's mail has (`verp`), and what is heard at them."""
import contextlib
import os
import re
import shutil
import stat
import time

from support.api import get
from support.client import Client, message, submit
from support.reloading import reload
from support.signing_key import make_signing_key
from support.wait import until

FROM = 'news@example.test'
LISTENER = {'tenant_header': 'X-Tenant', 'campaign_header': 'X-Campaign', 'relay_from': ['127.0.0.0/8']}
RETURN = re.compile(r'bounces\+([a-z2-7]{48})@b\.test')


def by_recipient(receiver):
    return {to: mail.sender for mail in receiver.messages for to in mail.recipients}


def test_each_recipient_has_a_return_address(place):
    """One recipient a transaction, the same address at a retry and after a restart, none for the null
    sender, and by reload none at all."""
    refused, senders_of = {'later@a.test'}, {}
    def answers(verb, argument, session):
        if verb != 'RCPT':
            return None
        to = argument[4:-1]
        senders_of.setdefault(to, set()).add(session.sender)
        return '451 4.3.0 later' if to in refused else None
    receiver = place.receiver(answers=answers)
    daemon = place.sluice(listener=LISTENER, transports={'smtp': {'verp': 'bounces@B.test'}},
                          routes={'*': ('smtp', receiver.nexthop)},
                          options={'minimal_backoff_time': '1s', 'maximal_backoff_time': '1s', 'queue_run_delay': '1s'})
    people = [f'p{n}@a.test' for n in range(30)]
    submit(daemon, FROM, people + ['later@a.test'], message(X_Tenant='acme', X_Campaign='spring'))
    submit(daemon, '', ['null@a.test'], message())
    until(lambda: len(receiver.messages) == 31, 'all but the one that is refused')
    senders = by_recipient(receiver)
    assert all(len(mail.recipients) == 1 for mail in receiver.messages)
    assert senders.pop('null@a.test') == ''
    assert all(RETURN.fullmatch(sender) for sender in senders.values()), senders
    assert len(set(senders.values())) == 30
    until(lambda: 'later@a.test' in senders_of, 'the one that is refused')
    daemon.kill()
    daemon.start()
    refused.clear()
    until(lambda: 'later@a.test' in by_recipient(receiver), 'the retry')
    assert {by_recipient(receiver)['later@a.test']} == senders_of['later@a.test'], 'one address'
    assert len(set.union(*senders_of.values())) == 32
    assert daemon.wait_event('Delivery', 'later@a.test')['sender'] == FROM
    folder = os.path.join(daemon.folder, 'spool', 'heard')
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert all(stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == 0o600 for name in ('keys', 'names'))
    names = open(os.path.join(folder, 'names'), encoding='ascii').read().splitlines()
    assert [line.rsplit(' ', 1)[0] for line in names] == ['1 acme ', '2 acme spring']
    daemon.transports = {'smtp': {}}
    reload(daemon)
    submit(daemon, FROM, ['plain@a.test'], message())
    until(lambda: by_recipient(receiver).get('plain@a.test') == FROM, 'a sender that stays')


def test_a_tenant_has_its_own(place):
    receiver = place.receiver()
    daemon = place.sluice(listener=LISTENER, routes={'*': ('smtp', receiver.nexthop)},
                          tenants={'acme': {'verp': 'bounces@b.test'}})
    submit(daemon, FROM, ['a@a.test', 'b@a.test'], message(X_Tenant='acme'))
    submit(daemon, FROM, ['c@a.test', 'd@a.test'], message(X_Tenant='other'))
    until(lambda: len(receiver.messages) == 3, 'three transactions')
    senders = by_recipient(receiver)
    assert RETURN.fullmatch(senders['a@a.test']) and RETURN.fullmatch(senders['b@a.test'])
    assert senders['c@a.test'] == senders['d@a.test'] == FROM


# --- what comes back -------------------------------------------------------------------------------


class Ways:
    """A daemon whose mail has return addresses, the receiver that it goes to, and mail for it."""

    def __init__(self, place, **more):
        self.receiver, self.known = place.receiver(), set()
        self.daemon = place.sluice(
            listener={**LISTENER, 'receives': ['b.test', 'fbl.test'], **more.pop('listener', {})},
            transports=more.pop('transports', {'smtp': {'verp': 'bounces@b.test'}}),
            routes={'*': ('smtp', self.receiver.nexthop)}, **more)

    def send(self, recipient, tenant='acme', campaign='spring'):
        """returns: its id, and its return address"""
        submit(self.daemon, FROM, [recipient], message(X_Tenant=tenant, X_Campaign=campaign))
        number = self.daemon.wait_event('Delivery', recipient, tenant=tenant)['id']
        [mail] = [one for one in self.receiver.to(recipient) if one.sender not in self.known]
        self.known.add(mail.sender)
        return number, mail.sender

    def back_is_refused(self, to):
        with Client(self.daemon) as client:
            client.ehlo()
            client.say('MAIL FROM:<>', 250)
            assert client.say(f'RCPT TO:<{to}>', 550).lines[-1].startswith('550 5.1.1')

    def back(self, to, text, code=250):
        """A message for us, from nobody who may relay."""
        with Client(self.daemon) as client:
            client.ehlo()
            client.mail('', [to])
            client.data(text, code)


def dsn(recipient, status='5.1.1', diagnostic='550 5.1.1 no such user', action='failed', returned=''):
    return ('From: mailer-daemon@mx.test\r\nSubject: Undelivered\r\n'
            'Content-Type: multipart/report; report-type=delivery-status; boundary=r\r\n\r\n'
            '--r\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.test\r\n\r\n'
            f'Final-Recipient: rfc822; {recipient}\r\nAction: {action}\r\nStatus: {status}\r\n'
            f'Diagnostic-Code: smtp; {diagnostic}\r\n\r\n'
            f'--r\r\nContent-Type: text/rfc822-headers\r\n\r\n{returned}\r\n--r--\r\n').encode()


def complaint(recipient, returned, kind='abuse'):
    return ('From: fbl@isp.test\r\nSubject: FW: news\r\n'
            'Content-Type: multipart/report; report-type=feedback-report; boundary=r\r\n\r\n'
            '--r\r\nContent-Type: message/feedback-report\r\n\r\n'
            f'Feedback-Type: {kind}\r\nUser-Agent: isp/1\r\nVersion: 1\r\nSource-IP: 192.0.2.1\r\n\r\n'
            f'--r\r\nContent-Type: message/rfc822\r\n\r\nReturn-Path: <{returned}>\r\nTo: {recipient}\r\n\r\nx\r\n'
            '--r--\r\n').encode()


def test_a_bounce_comes_back(place):
    """Its event has the ids of the original, and its recipient is suppressed, behind a kill too."""
    ways = Ways(place, suppressions={'*': {'hard_bounce': '1'}})
    number, address = ways.send('jane@a.test')
    ways.back(address.upper(), dsn('JANE@a.test'))
    ways.daemon.kill()
    ways.daemon.start()
    submit(ways.daemon, FROM, ['jane@a.test'], message(X_Tenant='acme'))
    ways.daemon.wait_event('Suppressed', 'jane@a.test')
    ways.send('jane@a.test', 'other')
    event = ways.daemon.wait_event('OOB', 'JANE@a.test')
    assert (event['id'], event['tenant'], event['campaign']) == (number, 'acme', 'spring')
    assert event['response']['code'] == 550 and event['response']['enhanced_code'] == {'class': 5, 'subject': 1, 'detail': 1}
    assert event['bounce_classification'] == 'mailbox'
    assert event['report']['action'] == 'failed' and event['report']['reporting_mta'] == 'mx.test'
    # Whom the token is not for is nobody; what is sent on is found by the message that is returned.
    ways.back(address, dsn('joe@a.test'))
    event = until(lambda: [e for e in ways.daemon.of('OOB') if e['report'].get('final_recipient') == 'joe@a.test'],
                  'the other')[0]
    assert 'recipient' not in event and event['id'] == number
    ways.back(address, dsn('forwarded@c.test', returned='To: jane@a.test\r\n'))
    event = ways.daemon.wait_event('OOB', 'jane@a.test')
    assert event['report']['final_recipient'] == 'forwarded@c.test'
    # A bounce that no rule knows is among the unknown replies.
    ways.back(address, dsn('jane@a.test', '5.0.0', '550 gone fishing with the 17 cats'))
    until(lambda: [row for row in ways.daemon.query('classify', '--unknown') if 'fishing' in row['reply']], 'the reply')


def test_who_is_heard(place):
    """Anybody, at addresses that were given out; nobody else, and nobody relays."""
    ways = Ways(place, listener={'relay_from': ['192.0.2.0/24']})
    daemon = ways.daemon
    with Client(daemon) as client:
        client.ehlo()
        client.say('MAIL FROM:<>', 250)
        for to in ('bounces@b.test', 'bounces+' + 'a' * 48 + '@b.test', 'x@b.test', 'bounces+@b.test'):
            assert client.say(f'RCPT TO:<{to}>', 550).lines[-1].startswith('550 5.1.1')
        client.say('RCPT TO:<a@a.test>', 554)
        client.say('RCPT TO:<postmaster@b.test>', 250)
        client.say('RCPT TO:<abuse@b.test>', 452)
        client.say('RCPT TO:<a@a.test>', 452)
        client.say('RSET', 250)
        client.say('MAIL FROM:<>', 250)
        client.say('RCPT TO:<anything@FBL.test>', 250)
        client.data(b'Subject: hello\r\n\r\nwhat is this?\r\n')
    folder = os.path.join(daemon.folder, 'spool', 'heard', 'unknown')
    [name] = os.listdir(folder)
    with open(os.path.join(folder, name), 'rb') as kept:
        assert kept.read() == b'Subject: hello\r\n\r\nwhat is this?\r\n'


def test_what_is_not_understood_is_read_by_people(place):
    """Listed with the newest first, printed as it came, removed; the same over HTTP."""
    ways = Ways(place)
    daemon = ways.daemon
    assert daemon.query('heard') == []
    texts = [b'From: Jo <jo@x.test>\r\nSubject: =?utf-8?q?gr=C3=BC=C3=9Fe?=\r\n\r\nwhat \x1b[31mis\xff this?\r\n' + b'x' * 3000 + b'\r\n',
             b'Subject: 2\r\n\r\n', b'no header at all\r\n']
    for text in texts:
        ways.back('anything@fbl.test', text)
    rows = daemon.query('heard')
    assert [row['subject'] for row in rows] == ['', '2', 'gr\u00fc\u00dfe']
    assert rows[2]['from'] == 'jo@x.test' and [row['bytes'] for row in rows] == [len(text) for text in reversed(texts)]
    assert all(abs(row['time'] - time.time()) < 60 for row in rows)
    assert len(daemon.query('heard', '--limit', '1')) == 1
    table = daemon.command('heard').stdout.decode()
    assert 'gr\u00fc\u00dfe' in table and rows[0]['id'] in table
    shown = daemon.command('heard', rows[2]['id'])
    assert shown.stdout == texts[0]
    assert daemon.command('heard', '--remove', rows[2]['id'], rows[0]['id']).returncode == 0
    assert [row['id'] for row in daemon.query('heard')] == [rows[1]['id']]
    gone = daemon.command('heard', rows[2]['id'])
    assert gone.returncode == 66 and b'there is no such message' in gone.stderr
    assert daemon.command('heard', '--remove', rows[2]['id']).returncode == 66
    assert daemon.command('heard', '--remove').returncode == 64


def test_complaints_and_answers(place):
    """A complaint counts for its recipient only by a token in the message that it returns; tenants are
    told apart; auto-replies and unsubscribes are events of their own."""
    ways = Ways(place)
    first, at_first = ways.send('jane@a.test')
    second, at_second = ways.send('jane@a.test', 'other', 'autumn')
    ways.back('fbl@fbl.test', complaint('jane@a.test', at_second))
    event = ways.daemon.wait_event('Feedback', 'jane@a.test')
    assert (event['id'], event['tenant'], event['campaign']) == (second, 'other', 'autumn')
    assert event['report']['feedback_type'] == 'abuse' and event['report']['user_agent'] == 'isp/1'
    ways.back('fbl@fbl.test', complaint('joe@a.test', 'bounces+' + 'a' * 48 + '@b.test'))
    forged = until(lambda: [e for e in ways.daemon.of('Feedback') if 'recipient' not in e], 'a forged one')[0]
    assert forged['id'] == '' and 'tenant' not in forged
    ways.back(at_first, b'From: Jane <jane@a.test>\r\nSubject: Out of office\r\nAuto-Submitted: auto-replied\r\n\r\nAway\r\n')
    assert ways.daemon.wait_event('AutoReply', 'jane@a.test')['id'] == first
    ways.back(at_first, b'From: jane@a.test\r\nSubject: unsubscribe\r\n\r\n')
    until(lambda: [e for e in ways.daemon.of('Feedback', 'jane@a.test') if e['id'] == first], 'the unsubscription')

    # The counters go on over a stop in order.
    counts = {'complaints': 2, 'auto_replies': 1, 'unsubscribes': 1, 'bounces': 0, 'unknown': 0}

    def counted():
        text = get(ways.daemon, '/metrics').body.decode()
        return {kind: int(re.search(rf'^sluice_heard_{kind}_total (\d+)$', text, re.M)[1]) for kind in counts}
    for _ in range(2):
        until(lambda: counted() == counts, counted)
        assert ways.daemon.stop() == 0
        ways.daemon.start()


def test_hostile_mail_is_heard_out(place):
    """Nested, cut, endless: each has its answer, and the daemon goes on."""
    ways = Ways(place)
    number, address = ways.send('jane@a.test')
    nested = b''.join(b'Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n' % (n, n) for n in range(3000))
    for text in (nested, b'Content-Type: message/rfc822\r\n\r\n' * 5000, b'A: b\r\n' * 500 + b'\r\n', b'\r\n',
                 dsn('jane@a.test')[:-40] + b'x' * 70 + b'\r\n' + (b'y' * 70 + b'\r\n') * 20000):
        ways.back(address, text)
    assert ways.daemon.wait_event('OOB', 'jane@a.test')['id'] == number


def test_the_slow_make_room(place):
    """Strangers who hold every place for mail to us with content that never ends lose them to whoever comes."""
    ways = Ways(place)
    with contextlib.ExitStack() as stack:
        slow = []
        for i in range(130):
            client = stack.enter_context(Client(ways.daemon, source=f'127.0.0.{2 + i // 45}'))
            client.ehlo()
            client.mail('', ['abuse@b.test'])
            client.say('DATA', 354)
            client.send(b'Subject: slow\r\n')
            slow.append(client)
        time.sleep(5.2)
        for client in slow:
            client.send(b'X-More: yes\r\n')
        for _ in range(3):
            ways.back('fbl@fbl.test', complaint('jane@a.test', 'x@y.test'))
        # Whoever had none, or lost it, is told so when the content ends; the session goes on.
        ends = [client.say('\r\nx\r\n.').code for client in slow]
        assert set(ends) == {250, 451}
        assert slow[0].say('NOOP').code == 250


def test_a_complaint_suppresses(place):
    """Within a second and behind a kill, for the tenant whose mail it is about; only when the message that
    it returns has the address that we wrote, whatever else it says."""
    ways = Ways(place, suppressions={'*': {'complaint': '1', 'unsubscribe': '1'}})
    daemon = ways.daemon
    number, address = ways.send('jane@a.test')
    ways.back('abuse@fbl.test', complaint('jane@a.test', 'bounces+' + 'a' * 48 + '@b.test'))
    until(lambda: len(daemon.of('Feedback')) == 1, 'the forged one is told')
    assert 'recipient' not in daemon.of('Feedback')[0]
    submit(daemon, FROM, ['jane@a.test'], message(X_Tenant='acme'))
    until(lambda: len(ways.receiver.to('jane@a.test')) == 2, 'her next one')
    begun = time.monotonic()
    ways.back('abuse@fbl.test', complaint('jane@a.test', address))
    daemon.kill()
    taken = time.monotonic() - begun
    daemon.start()
    submit(daemon, FROM, ['jane@a.test'], message(X_Tenant='acme'))
    daemon.wait_event('Suppressed', 'jane@a.test')
    [entry] = [row for row in daemon.query('suppressions', '--tenant', 'acme') if not row.get('end')]
    assert entry['address'] == 'jane@a.test' and entry['reason'] == 'complaint'
    event = [e for e in daemon.of('Feedback') if 'recipient' in e][0]
    assert (event['id'], event['recipient'], event['tenant']) == (number, 'jane@a.test', 'acme')
    submit(daemon, FROM, ['jane@a.test'], message(X_Tenant='other'))
    until(lambda: len(ways.receiver.to('jane@a.test')) == 3, "another tenant's")
    assert taken < 20  # seconds, on a machine that does much else


def test_unsubscribing_by_what_the_mail_says(place):
    """A message for one recipient says where; mail there counts for whom the token was made, also from another
    address; a forged token and mail of several recipients are nothing."""
    key = os.path.join(place.subfolder('keys'), 'key')
    make_signing_key(key)
    ways = Ways(place, suppressions={'*': {'unsubscribe': '1'}},
                transports={'smtp': {'verp': 'bounces@b.test', 'list_unsubscribe': 'unsubscribe@u.test',
                                     'list_unsubscribe_url': 'https://x.test/{tenant}/{token}'}},
                listener={'receives': ['b.test', 'fbl.test', 'u.test']}, dkims={'s._domainkey.sender.test': {'key': key}})
    number, sender = ways.send('jane@a.test')
    token = RETURN.fullmatch(sender)[1]
    [mail] = ways.receiver.to('jane@a.test')
    head = mail.body.split(b'\r\n\r\n')[0].decode()
    assert (f'\r\nList-Unsubscribe: <https://x.test/acme/{token}>,\r\n <mailto:unsubscribe+{token}@u.test?subject=unsubscribe%20'
            'jane%40a.test>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n') in head
    names = re.sub(r'\s', '', re.search(r'\bh=([^;]*);', head)[1]).split(':')
    assert {'List-Unsubscribe', 'List-Unsubscribe-Post'} <= set(names)
    with Client(ways.daemon) as client:
        client.ehlo()
        client.say('MAIL FROM:<>', 250)
        for local in ('unsubscribe', 'unsubscribe+' + 'a' * 48):
            client.say(f'RCPT TO:<{local}@u.test>', 550)
    wish = 'From: Jane <jane.doe@elsewhere.test>\r\nSubject: unsubscribe jane@a.test\r\n\r\n'
    ways.back(f'unsubscribe+{token}@u.test', wish.replace('jane@a', 'joe@a').encode())
    until(lambda: len(ways.daemon.of('Feedback')) == 1, 'a wish for somebody else')
    assert 'recipient' not in ways.daemon.of('Feedback')[0]
    ways.back(f'UNSUBSCRIBE+{token}@u.test', wish.encode())
    ways.daemon.kill()
    ways.daemon.start()
    submit(ways.daemon, FROM, ['jane@a.test'], message(X_Tenant='acme'))
    ways.daemon.wait_event('Suppressed', 'jane@a.test')
    event = ways.daemon.wait_event('Feedback', 'jane@a.test')
    assert (event['id'], event['tenant'], event['campaign']) == (number, 'acme', 'spring')
    [entry] = [row for row in ways.daemon.query('suppressions', '--tenant', 'acme') if not row.get('end')]
    assert (entry['address'], entry['reason']) == ('jane@a.test', 'unsubscribe')
    submit(ways.daemon, FROM, ['one@a.test', 'two@a.test'], message())
    submit(ways.daemon, FROM, ['own@a.test'], message(List_Unsubscribe='<https://own.test/>'))
    until(lambda: len(ways.receiver.messages) == 4, 'mail of several, and with a field of its own')
    fields = [to + value for mail in ways.receiver.messages[1:] for to in mail.recipients
              for value in re.findall(r'\r\nList-Unsubscribe[^:]*: ?(.*)', mail.body.decode())]
    assert [field.strip() for field in fields] == ['own@a.test<https://own.test/>']


def key_of(address):
    """The number of the key that has sealed it: the first 8 of its bits."""
    first, second = ('abcdefghijklmnopqrstuvwxyz234567'.index(c) for c in RETURN.fullmatch(address)[1][:2])
    return first << 3 | second >> 2


def test_keys_rotate(place):
    """By command: new mail has the new key, what the old one sealed is heard, before and after a restart, and
    mail for later has the key of the time that it was wanted for."""
    ways = Ways(place, suppressions={'*': {'hard_bounce': '1'}})
    daemon = ways.daemon
    _, first = ways.send('jane@a.test')
    later = {**daemon.query('return-keys')[0]}
    assert list(later) == ['number', 'begin'] and later['number'] == 0 == key_of(first)
    name = os.path.join(daemon.folder, 'later')
    with open(name, 'wb') as file:
        file.write(b'Subject: later\r\n\r\nx\r\n')
    at = int(time.time()) + 5
    done = daemon.command('inject', '--from', FROM, '--to', 'later@a.test', '--at',
                          time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(at)), name)
    assert done.returncode == 0, done.stderr
    time.sleep(1.1)  # a key begins with a second, and mail of that second has it
    assert b'key 1 ' in daemon.command('return-keys', '--rotate').stdout
    keys = daemon.query('return-keys')
    assert [key['number'] for key in keys] == [0, 1] and 'until' not in keys[1]
    assert keys[0]['until'] == keys[1]['begin'] + 180 * 86400
    _, second = ways.send('joe@a.test')
    assert key_of(second) == 1
    until(lambda: ways.receiver.to('later@a.test'), 'the mail for later')
    assert key_of(ways.receiver.to('later@a.test')[0].sender) == (1 if keys[1]['begin'] <= at else 0)
    ways.back(first, dsn('jane@a.test'))
    assert daemon.wait_event('OOB', 'jane@a.test')['tenant'] == 'acme'
    daemon.kill()
    daemon.start()
    assert daemon.query('return-keys') == keys
    ways.back(first, dsn('jane@a.test'))
    ways.back(second, dsn('joe@a.test'))
    assert daemon.wait_event('OOB', 'joe@a.test')['tenant'] == 'acme'
    # A key that is kept no more: as if it had gone out of use 180 days ago.
    daemon.stop()
    path = os.path.join(daemon.folder, 'spool', 'heard', 'keys')
    with open(path, encoding='ascii') as file:
        lines = [line.split() for line in file]
    with open(path, 'w', encoding='ascii') as file:
        for line in lines:
            file.write(f'{line[0]} {int(line[1]) - 180 * 86400} {line[2]}\n')
    daemon.start()
    ways.back_is_refused(first)
    with Client(daemon) as client:
        client.ehlo()
        client.say('MAIL FROM:<>', 250)
        client.say(f'RCPT TO:<{second}>', 250)


def test_return_addresses_outlive_the_disk(place):
    """heard/keys and heard/names of a spool that was lost are brought to an empty one, before its first start or later: what went
    out under them comes back, to whom it belongs."""
    lost, fresh, old = (Ways(place, suppressions={'*': {'hard_bounce': '1'}}) for _ in range(3))
    _, address = lost.send('joe@a.test')
    assert fresh.send('new@a.test')
    fresh.back_is_refused(address)
    heard = os.path.join(lost.daemon.spool, 'heard')
    for ways, is_begun in ((fresh, True), (old, False)):
        ways.daemon.stop()
        if not is_begun:
            shutil.rmtree(ways.daemon.spool)
            os.makedirs(os.path.join(ways.daemon.spool, 'heard'))
        for name in ('keys', 'names'):
            shutil.copy(os.path.join(heard, name), os.path.join(ways.daemon.spool, 'heard', name))
        ways.daemon.start()
        ways.back(address, dsn('joe@a.test'))
        assert ways.daemon.wait_event('OOB', 'joe@a.test')['tenant'] == 'acme'
        assert 'joe@a.test' in ways.daemon.command('suppressions', '--tenant', 'acme').stdout.decode()


def test_no_keys_to_rotate(place):
    daemon = place.sluice(routes={'*': ('smtp', place.receiver().nexthop)})
    assert daemon.query('return-keys') == []
    done = daemon.command('return-keys', '--rotate')
    assert done.returncode == 66 and b'no tenant has verp' in done.stderr


def test_a_tenant_without_a_number_suppresses_for_nobody_else(place):
    """Mail that was queued before there was a `verp`: its bounce does not fill the list for all."""
    def answers(verb, argument, session):
        return '451 4.3.0 later' if verb == 'RCPT' and not RETURN.fullmatch(session.sender) else None
    receiver = place.receiver(answers=answers)
    daemon = place.sluice(listener={**LISTENER, 'receives': ['b.test']}, routes={'*': ('smtp', receiver.nexthop)},
                          suppressions={'*': {'hard_bounce': '1'}},
                          options={'minimal_backoff_time': '1s', 'maximal_backoff_time': '1s', 'queue_run_delay': '1s'})
    submit(daemon, FROM, ['jane@a.test'], message(X_Tenant='acme', X_Campaign='spring'))
    submit(daemon, FROM, ['joe@a.test'], message())
    daemon.wait_event('TransientFailure', 'jane@a.test')
    daemon.wait_event('TransientFailure', 'joe@a.test')
    daemon.transports = {'smtp': {'verp': 'bounces@b.test'}}
    reload(daemon)
    until(lambda: len(receiver.messages) == 2, 'the retries')
    with Client(daemon) as client:
        client.ehlo()
        for mail in receiver.messages:
            assert RETURN.fullmatch(mail.sender)
            client.mail('', [mail.sender])
            client.data(dsn(mail.recipients[0]))
    event = daemon.wait_event('OOB', 'jane@a.test')
    assert 'tenant' not in event and 'campaign' not in event and len(event['id']) == 16
    daemon.wait_event('OOB', 'joe@a.test')
    assert [row['address'] for row in daemon.query('suppressions')] == ['joe@a.test'], "nobody's mail is for all"
