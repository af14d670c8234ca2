"""What why and message say of mail that has left the queue, of names that nobody knows, and of times
that are over."""
import time

import pytest

from support.address import free_port
from support.api import ask
from support.client import message, submit
from support.wait import until

NOBODY = '550 550 5.1.1 no such user'


@pytest.fixture(scope='module')
def stage(module_place):
    receiver = module_place.receiver(
        answers=lambda verb, argument, session:
        NOBODY if verb == 'RCPT' and 'nobody' in argument else None)
    absent = f'[127.0.0.1]:{free_port()}'
    daemon = module_place.sluice(
        listener={'tenant_header': 'X-Tenant'},
        options={'minimal_backoff_time': '1s', 'maximal_backoff_time': '1s',
                 'queue_run_delay': '600s'},
        routes={'gmail.com': ('smtp', receiver.nexthop), 'absent.test': ('smtp', absent)})
    submit(daemon, '', ['nobody@gmail.com'], message(X_Tenant='Acme'))
    submit(daemon, '', ['user@gmail.com'], message(X_Tenant='Acme'))
    daemon.wait_event('Bounce', 'nobody@gmail.com')
    daemon.wait_event('Delivery', 'user@gmail.com')
    daemon.wait_empty()
    return daemon, receiver, absent


def say(daemon, *args, code=0):
    done = daemon.command(*args)
    assert done.returncode == code, done
    return (done.stdout + done.stderr).decode()


def test_what_failed(stage):
    """By tenant, in any case of letters, and by destination: whom, when, why, and the code once."""
    daemon, receiver, _ = stage
    for name in (['acme'], [receiver.nexthop]):
        said = say(daemon, 'why', *name)
        assert 'nothing of it is queued' in said and 'the last failure of it in the event log' in said
        assert f'Bounce of nobody@gmail.com at {receiver.nexthop} ' in said
        assert 'because 550 5.1.1 host 127.0.0.1[127.0.0.1] said: no such user' in said
        assert 'sluice message ' in said


def test_unknown_name(stage):
    daemon, _, absent = stage
    said = say(daemon, 'why', 'gmail')
    assert 'no tenant gmail; destinations: gmail.com\n' in said
    assert 'no failure of it is in the event log (looked at all of the event log)' in said
    assert 'no tenant smt; transports: smtp\n' in say(daemon, 'why', 'smt')
    assert 'no destination acm; tenants: Acme\n' in say(daemon, 'why', '-d', 'acm')
    assert say(daemon, 'why', 'q"\\x').count('no tenant q"\\x\n') == 1
    assert 'no destination absent.test\n' in say(daemon, 'why', '-d', 'absent.test')


def test_names_in_both_cases(place):
    """Tenants that differ in the case of letters are two; each is told what became of its own mail."""
    receiver = place.receiver(answers=lambda verb, argument, session:
                              NOBODY if verb == 'RCPT' else None)
    daemon = place.sluice(listener={'tenant_header': 'X-Tenant'},
                          routes={'*': ('smtp', receiver.nexthop)})
    for number, name in enumerate(('acme', 'ACME')):
        submit(daemon, '', [f'x{number}@a.test'], message(X_Tenant=name))
        daemon.wait_event('Bounce', f'x{number}@a.test')
    daemon.wait_empty()
    for number, name in enumerate(('acme', 'ACME')):
        said = say(daemon, 'why', '-t', name)
        assert f'Bounce of x{number}@a.test' in said and f'x{1 - number}@a.test' not in said
    assert 'Bounce of x0@a.test' in say(daemon, 'why', '-t', 'Acme')


def test_route_of_an_address(stage):
    daemon, receiver, _ = stage
    said = say(daemon, 'why', '-d', 'user@gmail.com')
    assert f'mail for the domain gmail.com goes to {receiver.nexthop}, ' in said


def test_message_that_is_gone(stage):
    daemon, receiver, _ = stage
    [event] = daemon.of('Delivery', 'user@gmail.com')
    said = say(daemon, 'message', event['id'])
    assert 'not in the queue any more' in said and 'of all of the event log' in said
    assert said.index('Reception') < said.index('Delivery')
    assert f'user@gmail.com  via smtp, {receiver.nexthop}' in said
    [o] = daemon.query('message', event['id'])
    assert (o['state'], [e['type'] for e in o['events']]) == ('gone', ['Reception', 'Delivery'])
    said = say(daemon, 'why', event['id'])
    assert 'it is no longer in the queue; its last events in the event log' in said
    assert 'Delivery of user@gmail.com' in said
    status, [answer] = ask(daemon, '/v1/messages/00000000000000fe')
    assert status == 404 and 'all of the event log' in answer['error']
    assert ask(daemon, '/v1/why', message='00000000000000fe')[0] == 404
    assert ask(daemon, '/v1/messages/zz')[0] == 400


def test_overdue(stage):
    """Its time has come, and the next scan is the next thing that happens."""
    daemon, _, absent = stage
    submit(daemon, '', ['x@absent.test'], message())
    daemon.wait_event('TransientFailure', 'x@absent.test')
    until(lambda: [m for m in daemon.query('messages') if m.get('due', time.time()) < time.time() - 1],
          'an overdue one')
    [one] = daemon.query('messages')
    assert time.time() < one['next_scan'] < time.time() + 601
    assert ' overdue ' in say(daemon, 'messages')
    assert 'state       deferred overdue, next scan in ' in say(daemon, 'message', one['id'])
    said = say(daemon, 'why', one['id'])
    assert 'the next one is overdue, next scan in ' in said and 's ago' not in said.split('given up')[0]
