"""Draining: no mail is taken, what is due goes out, and the daemon ends by itself."""
import http.client
import json
import signal
import threading
import time

from support.api import Connection, ask, get
from support.client import Client, message, submit
from support.injection import post
from support.reloading import reload
from support.wait import PATIENCE, until


class Stuck:
    """answers of a Receiver: the end of data is not answered before `release`."""

    def __init__(self):
        self.release, self.is_asked = threading.Event(), threading.Event()

    def __call__(self, verb, argument, session):
        if verb == '.':
            self.is_asked.set()
            self.release.wait(600)


def stuck_relay(place, count=1, **settings):
    """(daemon, answers): `count` messages of which the first is in flight and stays so."""
    answers = Stuck()
    receiver = place.receiver(answers=answers)
    place.closers.append(answers.release.set)
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)}, http={}, **settings)
    for n in range(count):
        submit(daemon, 'a@a.test', [f'r{n}@x.test'], message())
    assert answers.is_asked.wait(PATIENCE)
    return daemon, answers, receiver


def drain(daemon, *args):
    done = daemon.command('drain', *args)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def greeting(daemon):
    with Client(daemon, greet=False) as client:
        return client.reply()


def test_nobody_gives_mail_while_it_drains(place):
    daemon, answers, receiver = stuck_relay(place)
    with Client(daemon) as idle, Client(daemon) as busy:
        idle.ehlo('client.test')
        busy.ehlo('client.test')
        busy.mail('a@a.test', ['begun@x.test'])
        assert 'only deferred and held' in drain(daemon)
        busy.data(message())  # a transaction that has begun is finished
        idle.send('MAIL FROM:<a@a.test>\r\n')
        reply = idle.expect(421)
        assert reply.text.startswith('4.3.2')
    reply = greeting(daemon)
    assert reply.code == 421 and reply.text.startswith('4.3.2')
    refused = post(daemon, {'from': 'a@a.test', 'recipients': ['b@x.test'], 'text': 'x\n'})
    assert refused.status == 503 and int(refused.retry_after) > 0 and 'draining' in refused.object['error']
    assert get(daemon, '/readyz', 503).object['gates'] == ['draining']
    door = http.client.HTTPConnection('127.0.0.1', daemon.http_port, timeout=PATIENCE)
    door.request('GET', '/readyz')
    assert door.getresponse().status == 503
    door.close()
    assert 'draining' in daemon.command('status').stdout.decode()
    assert 'draining' in daemon.command('top', '--once').stdout.decode()
    assert b'sluice_gate_closed{reason="draining"} 1' in get(daemon, '/metrics').body
    assert daemon.is_alive()  # as long as a delivery is in flight
    answers.release.set()
    assert daemon.wait_exit() == 0
    assert {m.recipients[0] for m in receiver.messages} == {'r0@x.test', 'begun@x.test'}
    assert 'only deferred and held mail is left' in daemon.log()


def test_what_is_due_goes_and_the_rest_stays(place):
    """Deferred, suspended, scheduled mail and that of a transport on hold do not keep it."""
    later = place.receiver(answers=lambda verb, argument, session: '450 4.2.0 later' if verb == 'RCPT' else None)
    good = place.receiver()
    daemon = place.sluice(options={'minimal_backoff_time': '1h', 'maximal_backoff_time': '2h'},
                          transports={'smtp': {}, 'held': {'hold': True}, 'slow': {'destination_concurrency_limit': 1}},
                          routes={'*': ('slow', good.nexthop), 'later.test': ('smtp', later.nexthop),
                                  'held.test': ('held', None)})
    daemon.command('suspend', '--tenant', 'acme', '--for', '1h', '--reason', 'a test')
    stay = [post(daemon, {'from': 'a@a.test', 'recipients': [to], 'text': 'x\n', **more}).expect(202)['ids'][0]
            for to, more in (('a@later.test', {}), ('b@held.test', {}), ('c@x.test', {'tenant': 'acme'}),
                             ('d@x.test', {'not_before': int(time.time()) + 86400}))]
    post(daemon, {'messages': [{'from': 'a@a.test', 'recipients': [f'r{n}@x.test'], 'text': 'x\n'} for n in range(300)]}).expect(202)
    drain(daemon)
    assert daemon.wait_exit() == 0
    assert len(good.messages) == 300
    daemon.start()
    assert {m['id'] for m in ask(daemon, '/v1/messages')[1][:-1]} == set(stay)
    daemon.stop()


def test_more_is_on_hold_than_may_be_active(place):
    """Mail that cannot become active behind it does not keep it either."""
    daemon = place.sluice(options={'message_active_limit': 20}, transports={'smtp': {'hold': True}})
    post(daemon, {'messages': [{'from': 'a@a.test', 'recipients': [f'r{n}@x.test'], 'text': 'x\n'} for n in range(50)]}).expect(202)
    drain(daemon)
    assert daemon.wait_exit() == 0


def test_nothing_is_queued(place):
    daemon = place.sluice()
    drain(daemon)
    assert daemon.wait_exit() == 0


def test_its_time_is_up(place):
    """A receiver that never answers keeps it no longer than that; its mail stays queued."""
    daemon, answers, _ = stuck_relay(place, count=3, options={'shutdown_timeout': '1s'})
    assert 'or at' in drain(daemon, '--for', '1s')
    assert daemon.wait_exit() == 0
    assert 'its time is up' in daemon.log()
    answers.release.set()
    daemon.start()
    daemon.wait_events('Delivery', count=3)
    daemon.wait_empty()


def test_another_end_and_none(place):
    daemon, answers, _ = stuck_relay(place)
    assert 'or at' in drain(daemon, '--for', '1d')
    assert 'or at' not in drain(daemon)
    for body in ({'for': '1 fortnight'}, {'for': 7}, {'until': '1h'}, {'for': '400d'}):
        status, _ = post_drain(daemon, body)
        assert status == 422
    assert daemon.command('drain', '--off', '--for', '1h').returncode == 64
    assert 'mail is taken' in drain(daemon, '--off')
    assert get(daemon, '/readyz').object['status'] == 'ready'
    submit(daemon, 'a@a.test', ['again@x.test'], message())
    answers.release.set()
    daemon.wait_events('Delivery', count=2)
    assert daemon.is_alive() and greeting(daemon).code == 220
    assert daemon.stop() == 0


def post_drain(daemon, body):
    connection = Connection(daemon)
    connection.request('POST', '/v1/drain', json.dumps(body), {'Content-Type': 'application/json'})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, text


def test_reload_while_it_drains(place):
    daemon, answers, _ = stuck_relay(place)
    drain(daemon)
    daemon.transports['smtp']['destination_concurrency_limit'] = 3
    daemon.write_config()
    reload(daemon)
    assert greeting(daemon).code == 421 and daemon.is_alive()
    answers.release.set()
    assert daemon.wait_exit() == 0


def test_stopped_while_it_drains(place):
    for number in (signal.SIGTERM, signal.SIGINT):
        daemon, answers, _ = stuck_relay(place, options={'shutdown_timeout': '1s'})
        drain(daemon, '--for', '1d')
        daemon.signal(number)
        assert daemon.wait_exit() == 0
        answers.release.set()
        assert 'draining is over' not in daemon.log()
        daemon.start()
        until(lambda: daemon.of('Delivery'), 'it goes out after all')
        assert daemon.stop() == 0
