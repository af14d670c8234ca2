"""What comes back: return addresses that each recipient's mail has (`verp`), and what is heard at them."""
import os
import re
import stat

from support.client import message, submit
from support.reloading import reload
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
