"""Another configuration while mail flows: what changes at once, what stays, and that a mistake
changes nothing."""
import csv
import http.client
import json
import os
import signal
import ssl
import threading
import time
from datetime import datetime

import pytest

from support.api import Connection, ask
from support.certificate import make_certificate
from support.client import Client, message, submit
from support.daemon import status_of
from support.reloading import config_of, options_of, reload
from support.wait import PATIENCE, best_of, until

SENDER = 'sender@sender.test'


def test_routes(place):
    first, second = place.receiver(), place.receiver()
    daemon = place.sluice(routes={'a.test': ('smtp', first.nexthop)})
    submit(daemon, SENDER, ['x@a.test'], message())
    first.wait(1)
    with Client(daemon) as client:
        client.ehlo()
        client.say(f'MAIL FROM:<{SENDER}>', 250)
        client.say('RCPT TO:<x@b.test>', 550)
        daemon.routes = {'b.test': ('smtp', second.nexthop), 'a.test': ('smtp', second.nexthop)}
        assert reload(daemon)['serial'] == 2
        # A session that is open routes by what is in force.
        client.say('RCPT TO:<x@b.test>', 250)
        client.data(message())
    submit(daemon, SENDER, ['y@a.test'], message())
    second.wait(2)
    assert len(first.messages) == 1
    daemon.routes = {'b.test': ('smtp', second.nexthop)}
    reload(daemon)
    with Client(daemon) as client:
        client.ehlo()
        client.say(f'MAIL FROM:<{SENDER}>', 250)
        assert client.say('RCPT TO:<y@a.test>').code == 550
    assert daemon.stop() == 0


def test_deferred_mail_goes_by_the_new_route(place):
    refuses = place.receiver(answers=lambda verb, *_: '451 4.0.0 later' if verb == 'RCPT' else None)
    takes = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', refuses.nexthop)})
    submit(daemon, SENDER, ['x@a.test'], message())
    daemon.wait_event('TransientFailure', 'x@a.test')
    daemon.routes = {'*': ('smtp', takes.nexthop)}
    reload(daemon)
    takes.wait(1)


def test_a_lower_backoff_brings_mail_forward_in_turn(place):
    """Mail that waits longer than it may now comes within the new time, and not all at once."""
    # A busy machine may have them all come late, but not every time.
    assert best_of(3, lambda: span_of_returns(place), lambda span: span > 0.5) > 0.5


def span_of_returns(place):
    """Seconds from the first to the last that came."""
    refuses = [True]
    receiver = place.receiver(answers=lambda verb, *_: '451 4.0.0 later' if verb == 'RCPT' and refuses[0]
                              else None)
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)}, options={
        'minimal_backoff_time': '1h', 'maximal_backoff_time': '1h'})
    for n in range(40):
        submit(daemon, SENDER, [f'{n}@a.test'], message())
    daemon.wait_events('TransientFailure', count=40)
    last = max(e['timestamp'] for e in daemon.of('TransientFailure'))
    until(lambda: time.time() > last + 4, 'mail that has waited longer than it may')
    refuses[0] = False
    daemon.options.update(minimal_backoff_time='1s', maximal_backoff_time='3s')
    reload(daemon)
    receiver.wait(40)
    times = [datetime.fromisoformat(e['event_time']).timestamp() for e in daemon.wait_events('Delivery', count=40)]
    assert daemon.stop() == 0
    return max(times) - min(times)


def test_hang_up_reloads_and_opens_the_log_again(place):
    first, second = place.receiver(), place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', first.nexthop)})
    daemon.routes = {'*': ('smtp', second.nexthop)}
    daemon.write_config()
    os.rename(daemon.events_path, daemon.events_path + '.1')
    daemon.signal(signal.SIGHUP)
    daemon.wait_log(' is in force')
    until(lambda: os.path.exists(daemon.events_path), 'a new event log')
    submit(daemon, SENDER, ['x@a.test'], message())
    second.wait(1)
    assert first.messages == []


def test_mistakes_change_nothing(place):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)})
    daemon.options['process_limit'] = 0
    daemon.routes['b.test'] = ('nowhere', None)
    answer = reload(daemon, status=422)
    assert answer['code'] == 'wrong' and len(answer['complaints']) == 2
    assert any('process_limit: 0 is out of range' in text for text in answer['complaints'])
    assert any('there is no transport "nowhere"' in text for text in answer['complaints'])
    done = daemon.command('reload')
    assert done.returncode == 78 and b'process_limit: 0 is out of range' in done.stderr
    daemon.options['process_limit'] = 5
    del daemon.routes['b.test']
    daemon.listener['users'] = '/nonexistent'
    daemon.listener['tls_certificate'], daemon.listener['tls_key'] = '/nonexistent', '/nonexistent'
    daemon.write_config()
    done = daemon.command('reload')  # right as far as its command can tell
    assert done.returncode == 78 and b'/nonexistent' in done.stderr, done
    submit(daemon, SENDER, ['x@b.test'], message())
    receiver.wait(1)
    # Nor does a file that is not there.
    os.rename(daemon.config_path, daemon.config_path + '.away')
    os.kill(daemon.process.pid, signal.SIGHUP)
    daemon.wait_log('the old configuration stays in force')
    submit(daemon, SENDER, ['y@b.test'], message())
    receiver.wait(2)


def test_what_needs_a_restart(place):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          transports={'smtp': {}, 'other': {}})
    daemon.options.update(workers=3, queue_run_delay='2s')
    # In another order, and one more.
    daemon.transports = {'new': {}, 'other': {}, 'smtp': {'inet_protocols': 'ipv4'}}
    answer = reload(daemon)
    assert options_of(answer) == ['workers']
    assert answer['restart'][0]['at'].startswith(daemon.config_path + ':')
    assert answer['restart'][0]['why'] == 'needs a restart'
    submit(daemon, SENDER, ['x@a.test'], message())
    receiver.wait(1)
    daemon.transports = {'new': {}, 'smtp': {}}
    daemon.routes['b.test'] = ('new', receiver.nexthop)
    assert options_of(reload(daemon)) == ['workers']
    submit(daemon, SENDER, ['x@b.test'], message())
    receiver.wait(2)
    assert daemon.stop() == 0


def test_why_after_a_reload(place):
    """Transports that are new, and mail that has lost its route."""
    daemon = place.sluice(routes={'a.test': ('smtp', '[127.0.0.1]:9'), 'b.test': ('smtp', None)},
                          options={'minimal_backoff_time': '300s', 'maximal_backoff_time': '300s'})
    for recipient in ('x@a.test', 'y@b.test'):
        submit(daemon, SENDER, [recipient], message())
        daemon.wait_event('TransientFailure', recipient)
    assert daemon.command('suspend', '--domain', 'b.test', '--reason', 'x').returncode == 0
    daemon.transports = {f'new{n}': {} for n in range(40)} | {'smtp': {}}
    del daemon.routes['b.test']
    reload(daemon)
    for found in daemon.query('messages'):
        assert ask(daemon, '/v1/why', message=found['id'])[0] == 200
        assert daemon.command('why', found['id']).returncode == 0
    for asked in ({'destination': '[127.0.0.1]:9'}, {'destination': 'c.test'}, {'tenant': 'acme'}):
        assert ask(daemon, '/v1/why', **asked)[0] == 200
    [answer] = ask(daemon, '/v1/why', message=found['id'])[1]
    assert any('no route leads there any more' in link['what'] for link in answer['chain']), answer
    assert any(link['what'].startswith('order 1: suspend') for link in answer['chain']), answer
    assert daemon.stop() == 0


def test_name_and_end_of_the_daemon(place):
    """What is asked for seldom is also that of the newest configuration."""
    gate = threading.Event()
    receiver = place.receiver(answers=lambda verb, *_: verb == '.' and gate.wait(600) and None)
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)}, http={},
                          options={'shutdown_timeout': '3600s', 'hostname': 'one.test'})
    daemon.options.update(shutdown_timeout='0s', hostname='two.test')
    reload(daemon)
    assert daemon.totals()['hostname'] == 'two.test'
    for name, status in (('one.test', 403), ('two.test', 200)):
        door = http.client.HTTPConnection(daemon.address, daemon.http_port, timeout=PATIENCE)
        door.request('GET', '/v1/status', headers={'Host': name})
        assert door.getresponse().status == status
        door.close()
    submit(daemon, SENDER, ['x@a.test'], message())
    until(lambda: daemon.query('transports')[0]['entries_in_flight'] == 1, 'a delivery in flight')
    assert daemon.stop() == 0
    gate.set()


def holding_receiver(place):
    """One that answers no MAIL before the gate is set; `busy`: the sessions that said it."""
    gate = threading.Event()
    busy = set()

    def answers(verb, _, session):
        if verb == 'MAIL':
            busy.add(session)
            gate.wait(3 * PATIENCE)
        return None
    receiver = place.receiver(answers=answers)
    return receiver, gate, busy


def test_limits_of_a_transport(place):
    receiver, gate, busy = holding_receiver(place)
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          transports={'smtp': {'process_limit': 2, 'pipeline_depth': 1,
                                               'destination_concurrency_limit': 2}})
    for n in range(30):
        submit(daemon, SENDER, [f'x{n}@a.test'], message())
    until(lambda: len(busy) == 2, 'two sessions')
    daemon.transports['smtp'] = {'process_limit': 300, 'pipeline_depth': 1, 'hold': True}
    reload(daemon)
    daemon.transports['smtp'] = {'process_limit': 300, 'pipeline_depth': 1,
                                 'initial_destination_concurrency': 12}
    daemon.routes = {'*': ('smtp', receiver.nexthop), 'b.test': ('smtp', receiver.nexthop)}
    reload(daemon)
    gate.set()
    receiver.wait(30)
    daemon.wait_empty()
    assert len({r for m in receiver.messages for r in m.recipients}) == len(receiver.messages) == 30
    assert daemon.stop() == 0


def test_recipient_limit_with_mail_that_waits(place):
    """What waits in larger entries is divided, and the bound on what a crash repeats follows."""
    receiver, gate, busy = holding_receiver(place)
    other = place.receiver()

    def limits(recipients):
        return {'smtp': {'destination_recipient_limit': recipients, 'process_limit': 2,
                         'destination_concurrency_limit': 1, 'pipeline_depth': 1},
                'other': {'destination_recipient_limit': 5, 'process_limit': 2}}
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop), 'b.test': ('other', other.nexthop)},
                          options={'scheduler_threads': 1, 'message_recipient_limit': 200},
                          transports=limits(50))

    def undurable_limit():
        control = Connection(daemon)
        control.request('GET', '/metrics')
        lines = control.getresponse().read().decode().splitlines()
        control.close()
        return int(next(line for line in lines
                        if line.startswith('sluice_undurable_recipients_limit ')).split()[1])
    submit(daemon, SENDER, [f'x{n}@a.test' for n in range(400)], message())
    until(lambda: busy, 'a transaction')
    assert undurable_limit() == 2000 + 2 * 50 + 2 * 5
    daemon.transports = limits(7)
    reload(daemon)
    until(lambda: undurable_limit() == 2000 + 2 * 7 + 2 * 5, 'the smaller bound')
    submit(daemon, SENDER, ['y@b.test'], message())
    other.wait(1)
    gate.set()
    until(lambda: len(receiver.messages) > 10, 'some of it')
    daemon.transports = limits(1)
    reload(daemon)
    until(lambda: len(receiver.messages) > 20, 'more of it')
    daemon.transports = limits(9)
    reload(daemon)
    daemon.wait_empty()
    sizes = [len(m.recipients) for m in receiver.messages]
    assert sizes[0] == 50 and max(sizes[1:]) <= 9 and 1 in sizes, sizes
    assert sorted(r for m in receiver.messages for r in m.recipients) == \
        sorted(f'x{n}@a.test' for n in range(400))
    daemon.kill()
    daemon.start()
    daemon.wait_log(f'at most {2000 + 2 * 9 + 2 * 5 + 9} deliveries may repeat')
    assert daemon.stop() == 0


def test_options_of_a_listener(place):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)})
    with Client(daemon) as before:
        before.ehlo()
        daemon.listener.update(relay_from=['192.0.2.0/24'], message_size_limit='1M',
                               smtpd_client_connection_count_limit=2)
        reload(daemon)
        with Client(daemon) as client:
            assert 'SIZE 1048576' in client.ehlo().text
            client.say(f'MAIL FROM:<{SENDER}>', 250)
            assert client.say('RCPT TO:<x@a.test>').code in (550, 554)
            with Client(daemon, greet=False) as third:
                third.expect(421)
        # A session that was there goes on by what it began with.
        before.mail(SENDER, ['x@a.test'])
        before.data(message())
    receiver.wait(1)


def test_the_running_configuration(place):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          transports={'smtp': {'process_limit': 7}, 'other': {}})
    before = config_of(daemon)
    limit = before['transport', 'smtp', 'process_limit']
    assert limit['value'] == '7' and not limit['needs_restart']
    path, line = limit['at'].rsplit(':', 1)
    assert path == daemon.config_path
    with open(path, encoding='ascii') as file:
        assert 'process_limit = 7' in file.read().splitlines()[int(line) - 1]
    assert before['', None, 'workers']['needs_restart']
    assert before['transport', 'other', 'process_limit']['at'] == 'default'
    daemon.options['workers'] = 3
    daemon.transports['smtp'] = {'process_limit': 9}
    daemon.transports['new'] = {}
    daemon.sources = {'s': {'helo_name': 's.test'}}
    reload(daemon)
    after = config_of(daemon)
    assert after['transport', 'smtp', 'process_limit']['value'] == '9'
    assert after['', None, 'workers'] == before['', None, 'workers']
    assert after['transport', 'new', 'process_limit']['at'] == 'default'
    assert after['source', 's', 'helo_name']['value'] == 's.test'


def test_explain(place):
    daemon = place.sluice(start=False, transports={'smtp': {'process_limit': 7}, 'other': {}},
                          routes={'*': ('smtp', None), 'a.test': ('other', '[mx.a.test]:26', {
                              'smtp_tls_security_level': 'verify'})})
    done = daemon.command('explain', 'Somebody@B.test', '--json')
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert answer['route']['pattern'] == '*' and answer['destination'] == 'b.test'
    assert answer['transport']['name'] == 'smtp'
    [limit] = [o for o in answer['transport']['options'] if o['option'] == 'process_limit']
    assert limit['value'] == '7' and limit['at'].startswith(daemon.config_path)
    for what in ('a.test', '[mx.a.test]:26'):
        answer = json.loads(daemon.command('explain', what, '--json').stdout)
        assert answer['transport']['name'] == 'other'
        assert answer['tls_level']['value'] == 'verify'
        assert answer['tls_level']['at'].startswith(daemon.config_path)
    text = daemon.command('explain', 'b.test').stdout
    assert b'process_limit' in text and b'TLS level may (default)' in text
    everything = daemon.command('check', '--explain')
    assert everything.returncode == 0 and b'queue_run_delay' in everything.stdout
    del daemon.routes['*']
    daemon.write_config()
    assert daemon.command('explain', 'b.test').returncode == 68


RECEIVERS = '''
source "s1" { max_message_rate = "500/s" }
source "s2" { }
pool "both" { sources = {s1, s2} }
pool "second" { sources = {s2} }
tenant "acme" { pool = second max_message_quota = "5/d" }
provider "big" { mx = {"*.big.test"} max_message_rate = "200/s" smtp_rcpt_timeout = 310s }
domain "D.test" { max_message_rate = "10/s" smtp_mail_timeout = 7s }
'''


def test_explain_receivers(place):
    """Each value with the section that it is from: domain, provider, transport, or none."""
    daemon = place.sluice(start=False, transports={'smtp': {'source_pool': 'both', 'max_message_rate': '100/s'}},
                          routes={'*': ('smtp', None)})
    with open(daemon.config_path, 'a', encoding='ascii') as config:
        line = daemon.config_text().count('\n')
        config.write(RECEIVERS)
    at = {name: f'{daemon.config_path}:{line + number}' for name, number in (('s1', 2), ('big', 7), ('d', 8))}

    def explain(*words):
        done = daemon.command('explain', *words, '--json')
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        return answer, {o['option']: (o['value'], o['at']) for o in answer['transport']['options']}

    answer, values = explain('x.test')
    assert answer['needs_mx'] and answer['provider'] is None and answer['domain'] is None
    assert values['max_message_rate'][0] == '100/s' and '(' not in values['max_message_rate'][1]
    assert values['smtp_mail_timeout'] == ('300s', 'default')
    answer, values = explain('d.test')
    assert answer['has_own_site'] and answer['domain']['at'] == at['d']
    assert values['max_message_rate'] == ('10/s', f'{at["d"]} (domain d.test)')
    answer, values = explain('d.test', '--mx', 'mx1.big.test,mx2.big.test', '--source', 's2', '--tenant', 'ACME')
    assert answer['is_bounded'] and answer['provider']['name'] == 'big' and not answer['needs_mx']
    assert values['max_message_rate'][0] == '100/s'  # the provider's is larger, the domain's a bound beside it
    assert values['smtp_rcpt_timeout'] == ('310s', f'{at["big"]} (provider big)')
    assert values['smtp_mail_timeout'] == ('7s', f'{at["d"]} (domain d.test)')
    assert [s['name'] for s in answer['sources']] == ['s2'] and answer['tenant']['name'] == 'acme'
    answer, _ = explain('d.test', '--mx', 'mx1.big.test,mx.evil.test')
    assert answer['provider'] is None and [s['name'] for s in answer['sources']] == ['s1', 's2']
    done = daemon.command('explain', 'd.test', '--source', 's1', '--tenant', 'acme')
    assert done.returncode == 68 and b'its sources are s2' in done.stderr
    text = daemon.command('explain', 'd.test', '--mx', 'mx1.big.test').stdout.decode()
    assert f"domain d.test at {at['d']}: bounds of its own within the provider's site" in text


def certificate_of(daemon):
    with Client(daemon) as client:
        client.ehlo()
        client.starttls()
        return client.sock.getpeercert(binary_form=True)


def test_certificates_and_users(place):
    folder = place.subfolder('tls')
    cert, key = make_certificate(folder, 'one.test')
    users = os.path.join(folder, 'users')
    with open(users, 'w', encoding='ascii') as file:
        file.write('')
    daemon = place.sluice(listener={'tls_certificate': cert, 'tls_key': key, 'users': users})
    first = certificate_of(daemon)
    with Client(daemon) as client:
        client.ehlo()
        make_certificate(folder, 'two.test')
        reload(daemon)
        client.starttls()  # of a session that began before
        assert client.sock.getpeercert(binary_form=True) == first
    second = certificate_of(daemon)
    assert second != first
    assert ssl.DER_cert_to_PEM_cert(second) in open(cert, encoding='ascii').read()
    # One that cannot be read: the old one stays.
    with open(key, 'w', encoding='ascii') as file:
        file.write('no key')
    [text] = reload(daemon, status=422)['complaints']
    assert text.startswith(f'listener "{daemon.address}:{daemon.port}": ')
    assert certificate_of(daemon) == second
    make_certificate(folder, 'three.test')
    with open(users, 'w', encoding='ascii') as file:
        file.write('somebody:plain text\n')
    [text] = reload(daemon, status=422)['complaints']
    assert 'users: not [tenant=T] NAME:HASH' in text
    assert certificate_of(daemon) == second


def test_passwords(place):
    said = []

    def answers(verb, argument, _):
        if verb == 'AUTH':
            said.append(argument)
            return '235 2.7.0 in'
        return None
    receiver = place.receiver(answers=answers, extensions=('AUTH PLAIN', '8BITMIME'))
    path = os.path.join(place.subfolder('secret'), 'password')

    def write(text):
        with open(path, 'w', encoding='ascii') as file:
            file.write(text)
    write('first')
    daemon = place.sluice(
        routes={'*': ('smtp', receiver.nexthop)},
        transports={'smtp': {'smtp_auth_user': 'u', 'smtp_auth_password_file': path,
                             'smtp_auth_requires_tls': False,
                             'smtp_connection_cache_time_limit': '600s'}})
    submit(daemon, SENDER, ['x@a.test'], message())
    receiver.wait(1)
    done = daemon.command('reload')
    assert done.returncode == 0 and done.stdout.endswith(b' is in force\n') and not said[1:]
    # Another password means another connection, though the first one is open and idle.
    write('second')
    reload(daemon)
    submit(daemon, SENDER, ['y@a.test'], message())
    receiver.wait(2)
    assert len(set(said)) == 2
    until(lambda: any(host['state'] == 'idle' for host in daemon.query('hosts')) and
          all(host['in_flight'] == 0 for host in daemon.query('hosts')), 'a connection that is free again')
    # Nothing changed: the connection is used again.
    reload(daemon)
    submit(daemon, SENDER, ['z@a.test'], message())
    receiver.wait(3)
    assert len(said) == 2
    os.unlink(path)
    [text] = reload(daemon, status=422)['complaints']
    assert 'smtp_auth_password_file' in text and path in text
    submit(daemon, SENDER, ['v@a.test'], message())
    receiver.wait(4)


def test_tls_level(place):
    """A level that rises holds for the next message, whatever connection is open."""
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          transports={'smtp': {'smtp_connection_cache_time_limit': '60s'}})
    submit(daemon, SENDER, ['x@a.test'], message())
    receiver.wait(1)
    daemon.routes = {'*': ('smtp', receiver.nexthop, {'smtp_tls_security_level': 'encrypt'})}
    reload(daemon)
    submit(daemon, SENDER, ['y@a.test'], message())
    event = daemon.wait_event('TransientFailure', 'y@a.test')
    assert status_of(event) == '4.7.4'
    daemon.routes = {'*': ('smtp', receiver.nexthop)}
    reload(daemon)
    receiver.wait(2)


def test_sources(place):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          sources={'a': {'address': '127.0.0.2'}},
                          pools={'p': {'sources': ['a']}},
                          transports={'smtp': {'source_pool': 'p'}})

    def send(name):
        count = len(receiver.messages) + 1
        submit(daemon, SENDER, [f'{name}@a.test'], message())
        received = receiver.wait(count)[-1]
        return received.peer, daemon.wait_event('Delivery', f'{name}@a.test')['egress_source']
    assert send('one') == ('127.0.0.2', 'a')
    daemon.sources = {'b': {'address': '127.0.0.3'}, 'a': {'address': '127.0.0.2'}}
    daemon.pools = {'q': {'sources': ['a']}, 'p': {'sources': ['b', 'a'], 'weights': [1, 0]}}
    assert options_of(reload(daemon)) == []
    assert send('two') == ('127.0.0.3', 'b')
    daemon.transports = {'smtp': {}}
    daemon.sources = daemon.pools = {}
    reload(daemon)
    submit(daemon, SENDER, ['three@a.test'], message())
    assert receiver.wait(3)[-1].peer == '127.0.0.1'


def test_sources_in_accounting_files(place):
    """Rows say what the configuration in force says of a source and a transport."""
    receiver = place.receiver()
    path = os.path.join(place.folder, 'acct.csv')
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          sources={'a': {'address': '127.0.0.2'}, 'gone': {'address': '127.0.0.9'}},
                          pools={'p': {'sources': ['a', 'gone'], 'weights': [1, 0]}},
                          transports={'smtp': {'source_pool': 'p'}}, csvs={path: {}})

    def send(name):
        submit(daemon, SENDER, [f'{name}@a.test'], message())
        daemon.wait_event('Delivery', f'{name}@a.test')

        def row():
            if not os.path.exists(path):
                return None
            with open(path, encoding='utf-8', newline='') as file:
                return next((r for r in csv.DictReader(file)
                             if r['rcpt'] == f'{name}@a.test' and r['type'] == 'd'), None)
        found = until(row, f'a row of {name}')
        return found['vmta'], found['dlvSourceIp'], found['vmtaPool']
    assert send('one') == ('a', '127.0.0.2', 'p')
    daemon.sources = {'a': {'address': '127.0.0.4'}, 'b': {'address': '127.0.0.3'}}
    daemon.pools = {'p': {'sources': ['a']}, 'q': {'sources': ['b']}}
    assert options_of(reload(daemon)) == []
    assert send('two') == ('a', '127.0.0.4', 'p')
    daemon.transports = {'smtp': {'source_pool': 'q'}}
    assert options_of(reload(daemon)) == []
    assert send('three') == ('b', '127.0.0.3', 'q')
    assert daemon.stop() == 0


@pytest.mark.parametrize('how', ['command', 'signal'])
def test_fifty_reloads_under_load(place, how):
    """Nothing is lost, nothing comes twice; a sanitizer build says what leaks."""
    receiver = place.receiver()
    nexthop = receiver.nexthop
    daemon = place.sluice(routes={'*': ('smtp', nexthop)},
                          options={'message_active_limit': 100, 'message_recipient_limit': 100},
                          sources={'a': {'address': '127.0.0.2'}, 'b': {'address': '127.0.0.3'}},
                          pools={'p': {'sources': ['a', 'b']}},
                          transports={'smtp': {}, 'other': {}})
    stop = threading.Event()
    sent = []

    def load(number):
        with Client(daemon) as client:
            client.ehlo()
            while not stop.is_set():
                recipients = [f'r{number}.{len(sent)}.{n}@d{n % 5}.test' for n in range(3)]
                client.mail(SENDER, recipients)
                client.data(message())
                sent.extend(recipients)
    threads = [threading.Thread(target=load, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for n in range(50):
            daemon.transports = {
                'other': {'process_limit': 3 + n},
                'smtp': {'process_limit': 1 + 37 * n % 300, 'pipeline_depth': 1 + n % 7,
                         'destination_concurrency_limit': n % 5,
                         'destination_recipient_limit': 1 + n % 3, 'hold': n % 10 == 3,
                         'scheduler': ('preemptive', 'round_robin', 'fifo')[n // 4 % 3],
                         'host_concurrency_limit': n % 4, 'delivery_slot_cost': n % 6,
                         'recipient_limit': 10 + n, 'max_message_concurrency': n % 3,
                         **({'source_pool': 'p'} if n % 2 else {})}}
            daemon.routes = {'*': (('smtp', 'other')[n % 2], nexthop),
                             f'd{n % 5}.test': ('smtp', nexthop,
                                                {'smtp_tls_security_level': ('may', 'none')[n % 2]})}
            if how == 'command':
                reload(daemon)
            else:
                daemon.write_config()
                daemon.signal(signal.SIGHUP)
                until(lambda: daemon.log().count(' is in force') > n, 'a reload')
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    daemon.transports = {'other': {}, 'smtp': {}}
    daemon.routes = {'*': ('smtp', nexthop)}
    reload(daemon)
    daemon.wait_empty()
    arrived = [r for m in receiver.messages for r in m.recipients]
    assert sorted(arrived) == sorted(sent) and len(sent) > 100
    assert daemon.stop() == 0


def test_tokens_are_read_again(place):
    path = os.path.join(place.folder, 'tokens')

    def write(text):
        with open(path, 'w', encoding='ascii', opener=lambda p, f: os.open(p, f, 0o600)) as tokens:
            tokens.write(text)

    def ask(token):
        connection = http.client.HTTPConnection('127.0.0.1', daemon.http_port, timeout=PATIENCE)
        connection.request('GET', '/v1/status', headers={'Authorization': f'Bearer {token}'})
        status = connection.getresponse().status
        connection.close()
        return status

    write('anna:an-old-token-of-hers\n')
    daemon = place.sluice(http={'tokens_file': path})
    assert ask('an-old-token-of-hers') == 200
    write('anna:a-new-token-of-hers\nben:another-one-of-his\n')
    assert ask('a-new-token-of-hers') == 401
    reload(daemon)
    assert ask('an-old-token-of-hers') == 401
    assert ask('a-new-token-of-hers') == 200 and ask('another-one-of-his') == 200
    write('anna\n')
    assert 'tokens:1' in reload(daemon, 422)['complaints'][0]
    assert ask('a-new-token-of-hers') == 200


@pytest.mark.parametrize('option, value', [('max_message_rate', '1/h'), ('max_recipient_rate', '1/h'),
                                           ('site_message_rate', '1/h'), ('max_message_quota', '1/d')])
def test_mail_that_waits_for_a_rate_goes_by_the_new_one(place, option, value):
    """Nothing of it is looked up again meanwhile."""
    receiver = place.receiver()
    daemon = place.sluice(transports={'smtp': {option: value}},
                          routes={'*': ('smtp', receiver.nexthop)})
    for n in range(5):
        submit(daemon, 'a@a.test', [f'r{n}@x.test'], message())
    receiver.wait(1)
    until(lambda: daemon.totals()['messages'] == 4, 'the others wait')
    assert len(receiver.messages) == 1
    del daemon.transports['smtp'][option]
    reload(daemon)
    receiver.wait(5)
    daemon.wait_empty()
    assert daemon.stop() == 0
