"""How much a tenant may have queued (queue_limit), and whether it may send at all (inject): what clients
hear, that others go on, and that the number is exact: over kills, reloads, orders, and against many
clients at once."""
import random
import threading

import pytest

from support.client import Client, message, stuffed, submit
from support.injection import post
from support.reloading import reload
from support.wait import until
from test_orders import run

FROM = 'sender@sender.test'
LISTENER = {'tenant_header': 'X-Tenant'}
HOLD = {'smtp': {'hold': True}}


def holding(place, tenants, **listener):
    return place.sluice(listener={**LISTENER, **listener}, tenants=tenants, transports=HOLD)


def send(daemon, tenant, code=250, recipient='a@a.test', **more):
    """The reply to the end of data."""
    with Client(daemon) as client:
        client.ehlo()
        client.mail(FROM, [recipient])
        return client.data(message(X_Tenant=tenant, **more), code)


def inject(daemon, tenant, count=1):
    body = {'from': FROM, 'text': 'x\n', 'recipients': ['a@a.test'], 'tenant': tenant}
    return post(daemon, {'messages': [body] * count})


def counted(daemon):
    """By a walk over the tables."""
    return {row['tenant']: row['messages'] for row in daemon.query('counts', '--by', 'tenant')}


def test_named_by_a_header(place):
    """452 at the end of the message and 429, with tenant and limit; others go on. Small mail and mail in
    parts, whatever the letters of the name; over a kill; and the room that is made is there."""
    daemon = holding(place, {'acme': {'queue_limit': 3}})
    send(daemon, 'acme')
    send(daemon, 'ACME', text='x' * 300000)
    send(daemon, 'acme')
    text = '4.3.1 Tenant acme has as many messages queued as it may (3), try again later'
    assert send(daemon, 'acme', 452).text == text
    assert send(daemon, 'acme', 452, text='x' * 300000).text == text
    send(daemon, 'other')
    answer = inject(daemon, 'Acme')
    assert answer.expect(429)['code'] == 'full' and 'Acme' in answer.object['error'] and '3' in answer.object['error']
    assert answer.retry_after == '10'
    inject(daemon, 'other').expect(202)
    until(lambda: [(row['queued'], row['queue_limit']) for row in daemon.query('tenants') if row['tenant'] == 'acme'] == [(3, 3)],
          lambda: daemon.query('tenants'))
    daemon.kill()
    daemon.start()
    assert send(daemon, 'acme', 452).text == text
    inject(daemon, 'acme').expect(429)
    send(daemon, 'other')
    run(daemon, 'drop', '--tenant', 'acme', '--for', '0', '--reason', 'a test', '--yes')
    until(lambda: 'acme' not in counted(daemon), 'an empty queue')
    until(lambda: inject(daemon, 'acme', 3).status == 202, 'room for as many as before')
    inject(daemon, 'acme').expect(429)


def test_of_a_batch(place):
    """What does not fit as a whole is refused as a whole."""
    daemon = holding(place, {'acme': {'queue_limit': 5}})
    inject(daemon, 'acme', 6).expect(429)
    inject(daemon, 'acme', 5).expect(202)
    inject(daemon, 'acme', 1).expect(429)


def test_named_by_the_listener(place):
    """452 at RCPT: the client need not send the content. By reload, there and away again."""
    daemon = place.sluice(listener={'tenant': 'house'}, tenants={'house': {'queue_limit': 1}}, transports=HOLD)
    submit(daemon, FROM, ['a@a.test'], message())
    until(lambda: counted(daemon) == {'house': 1}, 'the tables')
    with Client(daemon) as client:
        client.ehlo()
        client.say(f'MAIL FROM:<{FROM}>', 250)
        text = client.say('RCPT TO:<a@a.test>', 452).text
        assert text == '4.3.1 Tenant house has as many messages queued as it may (1), try again later'
        client.say('DATA', 554)
        client.say('RSET', 250)
        daemon.tenants = {'house': {'queue_limit': 2}}
        reload(daemon)
        client.mail(FROM, ['a@a.test'])
        client.data(message())
        client.say(f'MAIL FROM:<{FROM}>', 250)
        client.say('RCPT TO:<a@a.test>', 452)
    daemon.tenants = {}
    reload(daemon)
    submit(daemon, FROM, ['a@a.test'], message())
    daemon.tenants = {'*': {'queue_limit': 3}}
    reload(daemon)
    with Client(daemon) as client:
        client.ehlo()
        client.say(f'MAIL FROM:<{FROM}>', 250)
        client.say('RCPT TO:<a@a.test>', 452)


def test_suspended_as_a_sender(place):
    """Told so, at RCPT or at the end; what is queued stays, and others go on."""
    daemon = holding(place, {'acme': {'inject': False}})
    assert send(daemon, 'acme', 450).text == '4.7.1 Tenant acme is suspended and may not send, try again later'
    answer = inject(daemon, 'acme').expect(403)
    assert answer['code'] == 'suspended' and 'acme' in answer['error']
    send(daemon, 'other')
    inject(daemon, 'other').expect(202)
    del daemon.listener['tenant_header']
    daemon.listener['tenant'] = 'acme'
    reload(daemon)
    with Client(daemon) as client:
        client.ehlo()
        client.say(f'MAIL FROM:<{FROM}>', 250)
        assert client.say('RCPT TO:<a@a.test>', 450).text.startswith('4.7.1 Tenant acme is suspended')
    daemon.tenants = {}
    reload(daemon)
    submit(daemon, FROM, ['a@a.test'], message())


def test_delivered_mail_makes_room(place):
    """Each of its own, however the messages leave: delivered from the journal, deferred, bounced (the
    notice is nobody's)."""
    def answers(verb, argument, _session):
        user = argument[argument.find('<') + 1:][:3] if verb == 'RCPT' else ''
        return {'bad': '550 5.1.1 no\r\n', 'lat': '450 4.2.1 later\r\n'}.get(user)

    receiver = place.receiver(answers=answers)
    daemon = place.sluice(listener=LISTENER, tenants={'*': {'queue_limit': 2}},
                          routes={'*': ('smtp', receiver.nexthop)})

    def queued(tenant):
        [row] = [row for row in daemon.query('tenants') if row['tenant'] == tenant]
        return row['queued']

    for number in range(10):
        send(daemon, 'good', recipient=f'good{number}@a.test')
        until(lambda: queued('good') == 0, 'delivered')
    send(daemon, 'bad', recipient='bad@a.test')
    until(lambda: queued('bad') == 0, 'bounced')
    send(daemon, 'late', recipient='late1@a.test')
    send(daemon, 'late', recipient='late2@a.test')
    daemon.wait_event('TransientFailure', 'late2@a.test')
    send(daemon, 'late', 452)
    assert queued('late') == 2


@pytest.mark.parametrize('seed', [1])
def test_many_clients(place, seed):
    """The limit holds to the message, whoever comes at the same time and however often the daemon is
    killed: never one more, and as many as fit."""
    limits = {'a': 40, 'b': 25, 'c': 60}
    daemon = holding(place, {name: {'queue_limit': limit} for name, limit in limits.items()})
    chance = random.Random(seed)
    codes = set()

    def client(names):
        try:
            for number, name in enumerate(names):
                with Client(daemon) as c:
                    c.ehlo()
                    c.mail(FROM, ['a@a.test'])
                    c.say('DATA', 354)
                    c.send(stuffed(message(X_Tenant=name, text='x' * (100000 if number % 5 == 0 else 10))))
                    codes.add(c.reply().code)
        except (OSError, EOFError):
            pass  # killed

    for turn in range(4):
        threads = [threading.Thread(target=client, args=([chance.choice('abc') for _ in range(20 + i)],))
                   for i in range(6)]
        for thread in threads:
            thread.start()
        if turn < 3:
            threads[0].join(chance.uniform(0.05, 0.3))
            daemon.kill()
        for thread in threads:
            thread.join()
        if turn < 3:
            daemon.start()
            assert all(count <= limits[name] for name, count in counted(daemon).items())
    for name, limit in limits.items():
        before = counted(daemon).get(name, 0)
        assert before <= limit
        while inject(daemon, name).status == 202:
            before += 1
            assert before <= limit
    until(lambda: counted(daemon) == limits, 'all that fits')
    assert codes == {250, 452}


def test_refused_mail_takes_no_room_of_a_batch(place):
    """Many a message refused by the writer alone, with nothing to commit between them: others go on."""
    daemon = place.sluice(listener={'tenant': 'house'}, tenants={'house': {'queue_limit': 1}}, transports=HOLD)
    clients = [Client(daemon) for _ in range(140)]
    for client in clients:
        client.ehlo()
        client.mail(FROM, ['a@a.test'])  # while there is room
    clients.pop().data(message())
    until(lambda: counted(daemon) == {'house': 1}, 'the tables')
    for client in clients:
        client.data(message(text=('x' * 62 + '\r\n') * 1000), 452)
        client.close()
    inject(daemon, 'other').expect(202)
