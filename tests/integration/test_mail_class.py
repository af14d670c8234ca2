"""The class of a message: who may say it and how, what a tenant may use, and where it shows: in the
record, the log, counts, metrics and CSV, also after a restart and of a notice."""
import json
import os

import pytest

from support.api import get
from support.client import Client, message, submit
from support.injection import post
from support.reloading import reload
from support.wait import settled, until

FROM = 'sender@sender.test'
LISTENER = {'tenant_header': 'X-Tenant', 'class_header': 'X-Class', 'mt_priority': True}
TENANTS = {'shop': {'class': 'bulk'}, 'reset': {'class': 'urgent'},
           'plain': {'classes': ['normal']}}


@pytest.fixture
def daemon(place):
    return place.sluice(listener=LISTENER, tenants=TENANTS, transports={'smtp': {'hold': True}})


def class_of(daemon, recipient):
    return daemon.wait_event('Reception', recipient)['mail_class']


def counted(daemon):
    """Of what the tables have: what came just now may be in the journal alone."""
    return {row['mail_class']: row['messages'] for row in daemon.query('counts', '--by', 'mail_class')}


def send(daemon, recipient, parameters='', **headers):
    return submit(daemon, FROM, [recipient], message(**headers), parameters)


@pytest.mark.parametrize('number, headers, parameters, expected', [
    (0, {}, '', 'normal'),
    (1, {'X_Class': 'bulk'}, '', 'bulk'),
    (2, {'X_Class': 'Urgent', 'X_Tenant': 'reset'}, '', 'urgent'),
    (3, {'X_Class': 'urgent', 'X_Tenant': 'nobody'}, '', 'normal'),
    (4, {'X_Tenant': 'shop'}, '', 'bulk'),
    (5, {'X_Tenant': 'reset'}, '', 'urgent'),
    (6, {'X_Tenant': 'shop', 'X_Class': 'normal'}, '', 'normal'),
    (7, {'X_Tenant': 'shop'}, ' MT-PRIORITY=0', 'normal'),
    (8, {'X_Tenant': 'shop'}, ' MT-PRIORITY=3', 'urgent'),
    (9, {'X_Tenant': 'reset'}, ' MT-PRIORITY=-1', 'bulk'),
    (10, {'X_Class': 'bulk', 'X_Tenant': 'reset'}, ' MT-PRIORITY=9', 'bulk'),
    (11, {'X_Class': 'first', 'X_Tenant': 'shop'}, '', 'bulk'),
    (12, {'X_Tenant': 'plain', 'X_Class': 'urgent'}, '', 'normal'),
])
def test_over_smtp(daemon_of_all, number, headers, parameters, expected):
    daemon = daemon_of_all
    send(daemon, f's{number}@a.test', parameters, **headers)
    assert class_of(daemon, f's{number}@a.test') == expected


@pytest.fixture(scope='module')
def daemon_of_all(module_place):
    return module_place.sluice(listener=LISTENER, tenants=TENANTS,
                               transports={'smtp': {'hold': True}})


def test_what_the_client_hears(daemon):
    """RFC 6710: offered in EHLO; 2.3.6 and the new priority when it is another one."""
    with Client(daemon) as client:
        assert 'MT-PRIORITY' in client.ehlo().text.split('\n')
        assert client.say('MAIL FROM:<a@b.test> MT-PRIORITY=10').code == 501
        for wanted, tenant, text in ((9, 'reset', '2.0.0 Ok: queued as '),
                                     (3, 'other', '2.3.6 0 is the new priority (normal): queued as '),
                                     (2, 'other', '2.0.0 Ok: queued as '),
                                     (-9, 'other', '2.0.0 Ok: queued as ')):
            client.mail(FROM, ['a@a.test'], f' MT-PRIORITY={wanted}')
            assert client.data(message(X_Tenant=tenant)).text.startswith(text)
        client.mail(FROM, ['a@a.test'], ' MT-PRIORITY=9')
        reply = client.data(message(X_Tenant='reset', X_Class='bulk')).text
        assert reply.startswith('2.3.6 -1 is the new priority (bulk)')


def test_not_offered(place):
    daemon = place.sluice(transports={'smtp': {'hold': True}})
    with Client(daemon) as client:
        assert 'MT-PRIORITY' not in client.ehlo().text
        assert client.say('MAIL FROM:<a@b.test> MT-PRIORITY=1').code == 555
    with Client(daemon) as client:
        client.say('HELO client.test', 250)
        assert client.say('MAIL FROM:<a@b.test> MT-PRIORITY=1').code == 555


def test_over_http(daemon):
    base = {'from': FROM, 'text': 'x\n'}
    for number, (members, expected) in enumerate([
            ({}, 'normal'), ({'class': 'bulk'}, 'bulk'), ({'class': 'urgent'}, 'normal'),
            ({'class': 'URGENT', 'tenant': 'reset'}, 'urgent'), ({'tenant': 'shop'}, 'bulk'),
            ({'tenant': 'shop', 'class': 'normal'}, 'normal')]):
        recipient = f'h{number}@a.test'
        post(daemon, {**base, 'recipients': [recipient], **members}).expect(202)
        assert class_of(daemon, recipient) == expected
    answer = post(daemon, {**base, 'recipients': ['x@a.test'], 'class': 'first'})
    assert answer.places == ['class']
    raw = b'Subject: x\r\nX-Class: bulk\r\n\r\nx\r\n'
    post(daemon, raw, f'?from={FROM}&to=q@a.test&tenant=reset&class=bulk', 'message/rfc822').expect(202)
    assert class_of(daemon, 'q@a.test') == 'bulk'
    done = daemon.command('inject', '--class', 'bulk', stdin=json.dumps(
        {**base, 'recipients': ['c@a.test'], 'tenant': 'reset'}).encode())
    assert done.returncode == 0 and class_of(daemon, 'c@a.test') == 'bulk'


def test_where_it_shows(daemon):
    """Counted by class, also after a restart: it is in the record. What a tenant may not use is counted."""
    send(daemon, 'a@a.test', X_Tenant='reset')
    send(daemon, 'b@a.test', X_Tenant='shop')
    send(daemon, 'c@a.test', X_Tenant='other', X_Class='urgent')
    send(daemon, 'd@a.test', X_Tenant='reset', X_Class='bulk', text='x' * 200000)
    expected = {'urgent': 1, 'bulk': 2, 'normal': 1}
    until(lambda: counted(daemon) == expected, 'classes')

    def check():
        lowered = {row['tenant']: row['lowered'] for row in daemon.query('tenants')}
        assert lowered == {'reset': 0, 'shop': 0, 'other': 1}
        metrics = get(daemon, '/metrics').body.decode()
        for word, count in expected.items():
            assert f'sluice_mail_class_messages_received_total{{mail_class="{word}"}} {count}\n' in metrics
        assert 'sluice_tenant_class_lowered_total{tenant="other"} 1\n' in metrics
    settled(check)
    [first] = daemon.query('messages', '--tenant', 'shop')
    assert first['mail_class'] == 'bulk'
    assert b'mail class  bulk' in daemon.command('message', first['id']).stdout
    daemon.kill()
    daemon.start()
    until(lambda: counted(daemon) == expected, 'classes after a restart')


def test_what_is_configured_counts(place):
    """By reload, for what comes in from then on; a message keeps its class."""
    daemon = place.sluice(listener={**LISTENER, 'class': 'bulk'}, transports={'smtp': {'hold': True}})
    send(daemon, 'a@a.test', X_Tenant='t')
    assert class_of(daemon, 'a@a.test') == 'bulk'
    daemon.tenants = {'t': {'class': 'urgent'}}
    reload(daemon)
    send(daemon, 'b@a.test', X_Tenant='t')
    send(daemon, 'c@a.test', X_Tenant='u')
    assert [class_of(daemon, f'{word}@a.test') for word in 'bc'] == ['urgent', 'bulk']
    until(lambda: counted(daemon) == {'bulk': 2, 'urgent': 1}, 'classes')


def test_of_a_notice(place):
    """A notice has the class of the message that it is about; and results have it, in the log and in CSV."""
    receiver = place.receiver(answers=lambda verb, argument, session:
                              '550 5.1.1 no\r\n' if verb == 'RCPT' and 'bad' in argument else None)
    path = f'{place.folder}/accounting.csv'
    daemon = place.sluice(listener=LISTENER, tenants=TENANTS, csvs={path: {'columns': ['rcpt', 'mailClass']}},
                          routes={'*': ('smtp', receiver.nexthop)})
    send(daemon, 'bad@a.test', X_Tenant='shop')
    send(daemon, 'good@a.test', X_Tenant='reset')
    assert daemon.wait_event('Bounce', 'bad@a.test')['mail_class'] == 'bulk'
    assert daemon.wait_event('Delivery', 'good@a.test')['mail_class'] == 'urgent'
    assert daemon.wait_event('Delivery', FROM)['mail_class'] == 'bulk'

    def rows():
        if not os.path.exists(path):
            return set()
        with open(path, encoding='utf-8') as file:
            return set(file.read().splitlines())

    until(lambda: {'bad@a.test,bulk', 'good@a.test,urgent', f'{FROM},bulk'} <= rows(), 'rows')
