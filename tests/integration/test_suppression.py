"""Lists of suppressed recipients: filled by rules, by requests and by files; in force at intake and before each
attempt, after a kill as well; each tenant's token reaches its own."""
import json
import time
import urllib.parse

import pytest

from support.api import Connection
from support.client import Client, message, submit
from support.injection import post
from support.reloading import reload
from support.wait import PATIENCE, until
from test_orders import LABELS, LATER, Gate, run

def call(daemon, method, path, body=None, content_type='application/json', **params):
    """(status, answer)"""
    query = '?' + urllib.parse.urlencode(params) if params else ''
    connection = Connection(daemon)
    try:
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        headers = {'Content-Type': content_type} if data is not None else {}
        connection.request(method, '/v1/suppressions' + path + query, data, headers)
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text[:1] == b'{' and b'\n{' not in text else text
    finally:
        connection.close()


def add(daemon, address, **members):
    status, answer = call(daemon, 'POST', '', {'address': address, **members})
    assert status == 200, answer
    return answer


def entries(daemon, **params):
    """Entries of one answer, and its end."""
    connection = Connection(daemon)
    try:
        connection.request('GET', '/v1/suppressions?' + urllib.parse.urlencode(params))
        response = connection.getresponse()
        assert response.status == 200
        *items, end = [json.loads(line) for line in response.read().splitlines()]
        return items, end
    finally:
        connection.close()


def relay(place, receiver, **settings):
    return place.sluice(routes={'*': ('smtp', receiver.nexthop)}, options=LATER, **settings)


def rcpt(daemon, address):
    """The reply to RCPT."""
    with Client(daemon) as client:
        for command in ('EHLO c.test', 'MAIL FROM:<a@a.test>'):
            client.send(f'{command}\r\n')
            client.expect(250)
        client.send(f'RCPT TO:<{address}>\r\n')
        return client.reply()


NO_SUCH = {'nobody@x.test': '550 5.1.1 No such user', 'bad@x.test': '554 5.7.1 Message rejected as spam',
           'full@x.test': '452 4.2.2 Mailbox full'}


def refuser(verb, argument, session):
    return next((reply for address, reply in NO_SUCH.items() if verb == 'RCPT' and address in argument), None)


def test_a_hard_bounce_suppresses_its_recipient_alone(place):
    receiver = place.receiver(answers=refuser)
    daemon = relay(place, receiver, suppressions={'*': {}})
    submit(daemon, 'a@a.test', ['nobody@x.test', 'bad@x.test', 'good@x.test'], message())
    daemon.wait_event('Bounce', 'nobody@x.test')
    daemon.wait_event('Bounce', 'bad@x.test')
    added = daemon.wait_event('SuppressionAdded', 'nobody@x.test')
    assert added['bounce_classification'] == 'hard_bounce' and '5.1.1' in added['response']['content']
    until(lambda: rcpt(daemon, 'Nobody@X.test').code == 550, 'the recipient is refused')
    refused = rcpt(daemon, 'nobody@x.test')
    assert refused.text.startswith('5.1.8') and 'hard_bounce' in refused.text
    assert rcpt(daemon, 'bad@x.test').code == 250 and rcpt(daemon, 'good@x.test').code == 250
    answer = post(daemon, {'from': 'a@a.test', 'recipients': ['nobody@x.test'], 'text': 'x\n'})
    assert answer.expect(422)['code'] == 'suppressed' and 'nobody@x.test (hard_bounce)' in answer.object['error']
    assert [one['address'] for one in entries(daemon)[0]] == ['nobody@x.test']


def test_an_injection_goes_to_those_who_are_not_suppressed(place):
    """Of each message of a batch; one to nobody else is not taken, nor a request of such alone."""
    receiver = place.receiver()
    daemon = relay(place, receiver, suppressions={'soft': {'at_intake': 'drop'}})
    for address in ('gone@x.test', '@never.test'):
        add(daemon, address, reason='complaint')
    gone = [{'address': 'gone@x.test', 'reason': 'complaint'}]

    def mail(*recipients, **more):
        return {'from': 'a@a.test', 'recipients': recipients, 'text': 'x\n', **more}
    answer = post(daemon, mail('first@x.test', 'gone@x.test', 'last@x.test'))
    result = answer.expect(207)
    assert result['accepted'] == 1 and result['results'] == [{'id': result['ids'][0], 'suppressed': gone}]
    for address in ('first@x.test', 'last@x.test'):
        daemon.wait_event('Delivery', address)
    answer = post(daemon, {'messages': [
        mail('gone@x.test', 'ann@never.test'), mail('second@x.test'), mail('third@x.test', 'ann@never.test'),
        mail('gone@x.test', tenant='soft')]})
    result = answer.expect(207)
    one, two, three, four = result['results']
    assert result['ids'] == [two['id'], three['id'], four['id']] and 'error' not in {*two, *three, *four}
    assert one['error'] == 'all of its recipients are suppressed' and 'id' not in one
    assert [who['address'] for who in one['suppressed']] == ['gone@x.test', 'ann@never.test']
    assert [who['address'] for who in three['suppressed']] == ['ann@never.test'] and 'suppressed' not in four
    for address in ('second@x.test', 'third@x.test'):
        daemon.wait_event('Delivery', address)
    daemon.wait_event('Suppressed', 'gone@x.test')
    assert post(daemon, {'messages': [mail('gone@x.test'), mail('ann@never.test')]}).status == 422
    daemon.wait_empty()
    assert not receiver.to('gone@x.test') and not receiver.to('ann@never.test')
    assert len(receiver.to('first@x.test')) == 1


def test_without_a_section_nothing_is_added(place):
    receiver = place.receiver(answers=refuser)
    daemon = relay(place, receiver)
    submit(daemon, 'a@a.test', ['nobody@x.test'], message())
    daemon.wait_event('Bounce', 'nobody@x.test')
    daemon.wait_empty()
    assert entries(daemon)[0] == [] and rcpt(daemon, 'nobody@x.test').code == 250


def test_full_mailboxes_are_counted_by_message(place):
    receiver = place.receiver(answers=refuser)
    daemon = relay(place, receiver, suppressions={'*': {'mailbox_full': '3 in 1d'}})
    for n in range(2):
        submit(daemon, 'a@a.test', ['full@x.test'], message())
        daemon.wait_events('TransientFailure', count=n + 1)
    # Events are written before their commit, so a flush may find less than they tell.
    until(lambda: run(daemon, 'flush') and len(daemon.of('TransientFailure')) >= 4, 'two more attempts')
    assert entries(daemon)[0] == []
    submit(daemon, 'a@a.test', ['full@x.test'], message())
    daemon.wait_event('SuppressionAdded', 'full@x.test')
    until(lambda: run(daemon, 'flush') and len(daemon.of('Suppressed')) == 3, 'all three have ended')
    daemon.wait_empty()


def test_what_was_answered_is_in_force_after_a_kill(place):
    receiver = place.receiver()
    daemon = relay(place, receiver)
    for n in range(20):
        assert add(daemon, f'u{n}@x.test')['is_new']
        daemon.kill()
        daemon.start()
        assert rcpt(daemon, f'u{n}@x.test').code == 550
    assert len(entries(daemon)[0]) == 20


def test_one_mailbox_is_one_entry(place):
    """However it is written: in a file, at RCPT, in an injection."""
    receiver = place.receiver()
    daemon = relay(place, receiver)
    forms = ['"joe"@X.Test', 'JOE@x.test', 'joe@x.test.']
    status, answer = call(daemon, 'POST', '', '\r\n'.join(['address', '"""joe""@X.Test"', *forms[1:]]).encode(),
                          'text/csv')
    assert status == 200 and answer['added'] == 1 and answer['replaced'] == 2, answer
    assert [one['address'] for one in entries(daemon)[0]] == ['joe@x.test']
    for form in forms:
        assert rcpt(daemon, form).code == 550, form
        assert post(daemon, {'from': 'a@a.test', 'recipients': [form], 'text': 'x\n'}).status == 422, form
    status, answer = call(daemon, 'POST', '', 'address\r\n@b\u00fccher.test\r\n@xn--bcher-kva.test\r\n'.encode(),
                          'text/csv')
    assert status == 200 and answer['added'] == 1 and answer['replaced'] == 1, answer
    assert call(daemon, 'GET', '/ann@' + urllib.parse.quote('b\u00fccher.test'))[0] == 200
    assert rcpt(daemon, 'ann@XN--BCHER-KVA.test').code == 550


def test_mail_that_waits_does_not_go_out(place):
    """Deferred mail, and mail that a scheduler has in memory behind a busy receiver."""
    gate = Gate()
    receiver = place.receiver(answers=gate)
    daemon = relay(place, receiver, transports={'smtp': {'process_limit': 1}})
    submit(daemon, 'a@a.test', ['first@x.test'], message())
    assert gate.entered.wait(PATIENCE)
    submit(daemon, 'a@a.test', ['waits@x.test'], message())
    submit(daemon, 'a@a.test', ['also@x.test', 'waits@x.test'], message())
    until(lambda: len(daemon.query('messages')) == 3, 'three messages')
    add(daemon, 'waits@x.test', reason='unsubscribe')
    gate.opened.set()
    ended = daemon.wait_events('Suppressed', count=2)
    assert {one['recipient'] for one in ended} == {'waits@x.test'}
    daemon.wait_event('Delivery', 'also@x.test')
    daemon.wait_empty()
    assert not receiver.to('waits@x.test') and not daemon.of('Bounce')
    until(lambda: daemon.query('tenants')[0]['suppressed'] == 2, lambda: daemon.query('tenants'))


def test_tenants_have_lists_of_their_own_and_may_drop(place):
    receiver = place.receiver()
    daemon = relay(place, receiver, listener=LABELS, suppressions={'soft': {'at_intake': 'drop'}})
    add(daemon, 'joe@x.test', tenant='acme')
    add(daemon, '@y.test')
    # With a tenant header nobody knows the tenant at RCPT: the list for all is asked, the others later.
    assert rcpt(daemon, 'joe@x.test').code == 250 and rcpt(daemon, 'ann@y.test').code == 550
    for tenant in ('acme', 'other'):
        submit(daemon, 'a@a.test', ['joe@x.test'], message(X_Tenant=tenant))
    assert daemon.wait_event('Suppressed', 'joe@x.test')['tenant'] == 'acme'
    assert daemon.wait_event('Delivery', 'joe@x.test')['tenant'] == 'other'
    soft = {'from': 'a@a.test', 'recipients': ['ann@y.test'], 'text': 'x\n', 'tenant': 'soft'}
    post(daemon, soft).expect(202)
    assert daemon.wait_event('Suppressed', 'ann@y.test')['tenant'] == 'soft'
    post(daemon, {**soft, 'tenant': 'hard'}).expect(422)
    assert len(receiver.to('joe@x.test')) == 1


def test_entries_end_and_are_removed(place):
    daemon = relay(place, place.receiver())
    status, answer = call(daemon, 'POST', '', {'address': 'past@x.test', 'expires': 1})
    assert status == 200 and answer['is_new'] and rcpt(daemon, 'past@x.test').code == 250
    add(daemon, 'joe@x.test')
    assert call(daemon, 'GET', '/joe@x.test')[1]['reason'] == 'by_hand'
    assert call(daemon, 'DELETE', '/JOE@x.test')[0] == 200
    assert call(daemon, 'DELETE', '/joe@x.test')[0] == 404
    assert call(daemon, 'GET', '/joe@x.test')[0] == 404
    assert rcpt(daemon, 'joe@x.test').code == 250
    daemon.wait_event('SuppressionRemoved', 'joe@x.test')


@pytest.fixture(scope='module')
def daemon(module_place):
    return module_place.sluice()


@pytest.mark.parametrize('wrong', [{'address': 'joe'}, {'address': '@'}, {}, {'address': 'a@x.test', 'reason': 'why'},
                                   {'address': 'a@x.test', 'tenant': 'a b'}, {'address': 'a@x.test', 'expires': 'x'},
                                   {'address': 'a@x.test', 'source': 'a\nb'}, {'address': 7}])
def test_wrong_entries_are_refused(daemon, wrong):
    assert call(daemon, 'POST', '', wrong)[0] == 422
    assert entries(daemon)[0] == []


def test_files_go_in_and_out(place):
    daemon = relay(place, place.receiver())
    names = [f'u{n:05}@x.test' for n in range(2500)]
    lines = ['Email,reason,other', *[f'{name},complaint,"a,b"' for name in names]]
    lines.insert(3, 'nothing,complaint,')
    lines.insert(1002, '"u@x.test,complaint,')
    status, answer = call(daemon, 'POST', '', '\r\n'.join(lines).encode(), 'text/csv', tenant='acme', source='a list')
    assert status == 200 and (answer['accepted'], answer['added'], answer['bad']) == (2500, 2500, 2), answer
    assert [one['line'] for one in answer['wrong']] == [4, 1003] and answer['next_line'] == 2504
    found, after = [], {}
    while True:
        items, end = entries(daemon, tenant='acme', limit=1000, **after)
        found += items
        if not end['more']:
            break
        after = {'after': end['after']}
    assert [one['address'] for one in found] == names
    assert {(one['reason'], one['source'], one['tenant']) for one in found} == {('complaint', 'a list', 'acme')}
    out = call(daemon, 'GET', '', format='csv', limit=10000)[1]
    assert len(out.splitlines()) == 2501
    assert call(daemon, 'POST', '', out, 'text/csv', remove='yes')[1]['removed'] == 2500
    assert entries(daemon)[0] == []
    again = call(daemon, 'POST', '', out, 'text/csv')[1]
    assert again['added'] == 2500 and call(daemon, 'GET', '', format='csv', limit=10000)[1] == out
    ndjson = '\n'.join([json.dumps({'address': 'n@x.test', 'reason': 'unsubscribe'}), '', '{', '[]']).encode()
    answer = call(daemon, 'POST', '', ndjson, 'application/x-ndjson', line=11)[1]
    assert answer['accepted'] == 1 and [one['line'] for one in answer['wrong']] == [13, 14]
    assert [one['address'] for one in entries(daemon, match='n@')[0]] == ['n@x.test']


def test_a_list_of_another_node_ends_nothing_sooner(place):
    """Lists are brought from node to node (docs/cluster.md): who has unsubscribed here gets no mail when an entry of there is
    over, or is over by now."""
    daemon = relay(place, place.receiver())
    names = ['never', 'later', 'sooner', 'new']
    for name, span in zip(names, (None, '9d', '1d')):
        run(daemon, 'suppress', f'{name}@x.test', '--reason', 'unsubscribe', *(('--for', span) if span else ()))
    now = int(time.time())
    for expires in (now + 5 * 86400, now - 5):
        lines = [f'{name}@x.test,mailbox_full,{expires}' for name in names]
        answer = call(daemon, 'POST', '', '\n'.join(['address,reason,expires', *lines]).encode(), 'text/csv')[1]
        assert (answer['accepted'], answer['added']) == (4, 1 if expires > now else 0), answer
        is_over = {one['address'].split('@')[0]: one.get('expires', 2**62) - now for one in entries(daemon)[0]}
        assert is_over['never'] > 2**60 and 8 * 86400 < is_over['later'] <= 9 * 86400 + 60, is_over
        assert 4 * 86400 < is_over['sooner'] <= 5 * 86400 and is_over['new'] == is_over['sooner'], is_over
    assert 'was and is on' in run(daemon, 'suppress', 'never@x.test', '--for', '1h')
    assert 'expires' in [one for one in entries(daemon)[0] if one['address'] == 'never@x.test'][0], 'one by one is as it is said'


def test_a_reload_changes_the_rules(place):
    receiver = place.receiver(answers=refuser)
    daemon = relay(place, receiver)
    daemon.suppressions['*'] = {'hard_bounce': '2 in 7d', 'expire': '1h'}
    reload(daemon)
    for n in range(2):
        submit(daemon, 'a@a.test', ['nobody@x.test'], message())
        daemon.wait_events('Bounce', count=n + 1)
    one = daemon.wait_event('SuppressionAdded', 'nobody@x.test')
    until(lambda: entries(daemon)[0], 'the entry')
    entry = entries(daemon)[0][0]
    assert entry['expires'] - entry['added'] in (3600, 3601) and one['timestamp']


def test_commands(place):
    daemon = relay(place, place.receiver())
    assert 'joe@x.test: put on the list for all' in run(daemon, 'suppress', 'Joe@x.test', '@y.test', '--reason', 'complaint')
    assert 'was and is on' in run(daemon, 'suppress', 'joe@x.test', '--for', '1h', '--source', 'ticket 1')
    run(daemon, 'suppress', 'ann@x.test', '--tenant', 'acme')
    assert rcpt(daemon, 'joe@x.test').code == 550
    table = run(daemon, 'suppressions')
    assert 'ticket 1' in table and '@y.test' in table and 'acme' in table
    assert [one['address'] for one in daemon.query('suppressions', '--tenant', 'acme')] == ['ann@x.test']
    assert [one['address'] for one in daemon.query('suppressions', 'jo')] == ['joe@x.test']
    out = run(daemon, 'suppressions', '--csv')
    path = f'{daemon.folder}/list.csv'
    with open(path, 'w', encoding='utf-8', newline='') as file:
        file.write(out + ',wrong,,,,\r\n' + ''.join(f'acme,u{n:05}@x.test,unsubscribe,,,\r\n' for n in range(25000)))
    assert '3 removed' in run(daemon, 'unsuppress', '--file', path, code=65)
    assert daemon.query('suppressions') == []
    said = run(daemon, 'suppress', '--file', path, code=65)
    assert 'line 5: ' in said and '25003 lines taken, 25003 new, 1 wrong' in said
    assert '24990 lines taken, 0 new, 0 wrong' in run(daemon, 'suppress', '--file', path, '--from', '16')
    assert len(daemon.query('suppressions')) == 25003
    assert run(daemon, 'suppressions', '--csv', '--limit', '3', '--tenant', '-').count('\r\n') == 3
    assert 'taken off the list of tenant acme' in run(daemon, 'unsuppress', 'ann@x.test', '--tenant', 'acme')
    assert 'is not on the list' in run(daemon, 'unsuppress', 'ann@x.test', '--tenant', 'acme', code=66)
    run(daemon, 'suppress', 'nobody', code=64)
    run(daemon, 'suppress', code=64)
