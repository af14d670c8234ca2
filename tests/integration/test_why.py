"""What `sluice why` says of mail that is held back in each way there is."""
import os
import re
import time

import pytest

from support.address import free_port
from support.api import ask
from support.client import Client, message, submit
from support.injection import post
from support.net import Net
from support.peer import Peer
from support.tools import PRELOAD
from support.wait import settled, until

REFUSES = 'send 220 peer.test ESMTP\nexpect EHLO\nsend 250 peer.test\nexpect MAIL\n' \
    'send 451 4.7.1 try later\nclose'
STUCK = 'chunks\nexpect MAIL\nsend 250 2.1.0 ok\nexpect RCPT\nsend 250 2.1.5 ok\nhold 1\nsilence'


@pytest.fixture(scope='module')
def stage(module_place):
    refuses, stuck = (module_place.keep(Peer(script)) for script in (REFUSES, STUCK))
    absent = f'[127.0.0.1]:{free_port()}'
    daemon = module_place.sluice(
        listener={'tenant_header': 'X-Tenant'},
        options={'minimal_backoff_time': '300s', 'maximal_backoff_time': '400s',
                 'queue_run_delay': '7s'},
        transports={'smtp': {'hold': False}, 'held': {'hold': True},
                    'narrow': {'initial_destination_concurrency': 1,
                               'destination_concurrency_limit': 1}},
        routes={'held.test': ('held', '[127.0.0.1]:9'), 'refuses.test': ('smtp', refuses.nexthop),
                'absent.test': ('narrow', absent),
                'stuck.test': ('narrow', stuck.nexthop, {'smtp_tls_security_level': 'none'})})
    nexthops = {'refuses': refuses.nexthop, 'absent': absent, 'stuck': stuck.nexthop,
                'held': '[127.0.0.1]:9'}
    for recipients in (['a@held.test', 'b@held.test'], ['x@refuses.test'], ['u@absent.test'],
                       ['first@stuck.test'], ['second@stuck.test']):
        submit(daemon, 'a@back.test', recipients, message(X_Tenant='acme'))
        if recipients == ['first@stuck.test']:
            until(lambda: stuck.held, 'a message on its way')
    for recipient in ('x@refuses.test', 'u@absent.test'):
        daemon.wait_event('TransientFailure', recipient)
    until(lambda: [m['state'] for m in ask(daemon, '/v1/messages')[1][:-1]] ==
          ['active', 'deferred', 'deferred', 'active', 'active'],
          lambda: f'states: {ask(daemon, "/v1/messages")}')
    settled(lambda: check_views(daemon, nexthops))
    return daemon, nexthops


def check_views(daemon, nexthops):
    """All who are asked below have heard of everything."""
    views = {one['destination']: (one['busy'], one['in_flight'], one['todo'])
             for one in daemon.query('destinations') if 'destination' in one}
    assert views[nexthops['stuck']] == (1, 1, 1) and views[nexthops['held']] == (0, 0, 1), views
    hosts = {f'[{one["address"]}]:{one["port"]}': one['failures'] for one in daemon.query('hosts')}
    assert hosts[nexthops['absent']] == 1, hosts
    answer = why(daemon, tenant='acme')
    assert answer['about'] == {'tenant': 'acme', 'recipients': 6, 'messages': 5}, answer


def why(daemon, **asked):
    status, [answer] = ask(daemon, '/v1/why', **asked)
    assert status == 200, answer
    assert {'about', 'chain'} <= set(answer)
    return answer


def of_recipient(stage, recipient):
    daemon, _ = stage
    _, [found, _] = ask(daemon, '/v1/messages', recipient=recipient)
    answer = why(daemon, message=found['id'])
    assert answer['about']['message'] == found['id']
    assert answer['about']['tenant'] == 'acme'
    return answer


def link(answer, limit):
    """The one link that names this option."""
    [found] = [one for one in answer['chain'] if one.get('limit') == limit]
    return found


def whats(answer):
    return [one['what'] for one in answer['chain']]


def line_of(daemon, text, begin=''):
    """FILE:LINE of a line of the configuration, the first behind `begin`."""
    lines = daemon.config_text().splitlines()
    first = next(i for i, line in enumerate(lines) if begin in line)
    return next(f'{daemon.config_path}:{i + 1}' for i, line in enumerate(lines)
                if i >= first and line.strip() == text)


def test_deferred(stage):
    daemon, nexthops = stage
    answer = of_recipient(stage, 'x@refuses.test')
    group = answer['chain'][0]
    assert group['what'] == f'1 recipient for {nexthops["refuses"]} by smtp: deferred'
    assert group['because'].startswith('451 4.7.1 ') and 'try later' in group['because']
    assert 'attempt 1 failed; the next one is due' in whats(answer)
    due = link(answer, 'minimal_backoff_time')
    assert due['value'] == '5m'
    assert due['at'] == line_of(daemon, 'minimal_backoff_time = "300s"')
    assert 200 < due['until'] - time.time() <= 300
    scan = link(answer, 'queue_run_delay')
    assert (scan['value'], scan['level']) == ('7s', due['level'] + 1)
    assert scan['at'] == line_of(daemon, 'queue_run_delay = "7s"')
    assert answer['next_change'] == due['until']
    end = link(answer, 'maximal_queue_lifetime')
    assert (end['at'], end['value']) == ('default', '5d')
    assert abs(end['until'] - time.time() - 5 * 86400) < 60


def test_full_window(stage):
    daemon, nexthops = stage
    answer = of_recipient(stage, 'second@stuck.test')
    assert whats(answer)[:3] == [
        f'1 recipient for {nexthops["stuck"]} by narrow: active',
        f'{nexthops["stuck"]} by narrow: 1 waiting, 1 in flight, 1 of 1 connections of its window '
        'busy',
        f'the window of {nexthops["stuck"]} by narrow is full: 1 of 1 connections busy']
    full = link(answer, 'destination_concurrency_limit')
    assert (full['value'], full['at']) == (1, line_of(daemon, 'destination_concurrency_limit = 1'))
    assert 'the scheduler of narrow has it: 1 delivery waiting, 0 in flight' in whats(answer)
    first = of_recipient(stage, 'first@stuck.test')
    assert 'the scheduler of narrow has it: 0 deliveries waiting, 1 in flight' in whats(first)


def test_hold(stage):
    daemon, nexthops = stage
    answer = of_recipient(stage, 'a@held.test')
    assert whats(answer)[0] == f'2 recipients for {nexthops["held"]} by held: active'
    held = link(answer, 'hold')
    assert held['what'] == 'transport held is on hold'
    assert (held['value'], held['at']) == ('yes', line_of(daemon, 'hold = yes'))


def test_failed_host(stage):
    """A destination that its scheduler has forgotten, but not its host."""
    daemon, nexthops = stage
    answers = why(daemon, destination=nexthops['absent']), of_recipient(stage, 'u@absent.test')
    for answer in answers:
        host = next(one for one in answer['chain'] if one['what'].startswith('host '))
        assert host['what'] == f'host {nexthops["absent"]} of transport narrow failed 1 time'
        assert (host['limit'], host['value']) == ('minimal_backoff_time', '5m')
        assert 200 < host['until'] - time.time() <= 300
        assert answer['next_change'] <= host['until']


def test_destination(stage):
    daemon, nexthops = stage
    answer = why(daemon, destination=nexthops['stuck'].upper())
    assert answer['about'] == {'destination': nexthops['stuck'], 'recipients': 2, 'messages': 2}
    level = link(answer, 'smtp_tls_security_level')
    assert (level['value'], level['at']) == (
        'none', line_of(daemon, 'smtp_tls_security_level = "none"'))
    row = f'2 recipients for {nexthops["stuck"]} by narrow: active (in 2 messages'
    assert any(what.startswith(row) for what in whats(answer))
    answer = why(daemon, destination=nexthops['refuses'])
    reply = answer['chain'][-1]
    assert reply['what'] == '1 of 1 deferred recipient looked at was told'
    assert reply['because'].startswith('451 4.7.1 ')
    assert whats(why(daemon, destination='nowhere.test'))[:2] == [
        'no scheduler has mail for it now', 'nothing of it is queued']


def test_tenant(stage):
    daemon, nexthops = stage
    answer = why(daemon, tenant='acme')
    assert answer['about'] == {'tenant': 'acme', 'recipients': 6, 'messages': 5}
    rows = [w.split(' (in')[0] for w in whats(answer) if ' (in ' in w]
    assert sorted(rows) == sorted([
        f'2 recipients for {nexthops["held"]} by held: active',
        f'2 recipients for {nexthops["stuck"]} by narrow: active',
        f'1 recipient for {nexthops["refuses"]} by smtp: deferred',
        f'1 recipient for {nexthops["absent"]} by narrow: deferred'])
    assert link(answer, 'hold')['level'] > 0
    assert link(answer, 'destination_concurrency_limit')['value'] == 1
    told = [one['because'] for one in answer['chain'] if ' told' in one['what']]
    assert len(told) == 2 and any('refused' in text for text in told)


def test_unknown(stage):
    daemon, _ = stage
    assert ask(daemon, '/v1/why', message='00000000000000ff')[0] == 404
    for asked in ({}, {'message': 'x'}, {'message': '0' * 16}, {'tenant': ''},
                  {'tenant': 'a', 'destination': 'b'}, {'destination': 'x' * 300},
                  {'tenant': 'a', 'colour': 'red'}):
        status, [answer] = ask(daemon, '/v1/why', **asked)
        assert (status, answer['code']) == (400, 'usage'), asked


def test_command(stage):
    daemon, nexthops = stage
    done = daemon.command('why', nexthops['stuck'])
    lines = done.stdout.decode().splitlines()
    assert lines[0] == f'destination {nexthops["stuck"]}', done.stderr
    at = line_of(daemon, 'destination_concurrency_limit = 1')
    assert f'      destination_concurrency_limit = 1 (set at {at})' in lines
    done = daemon.command('why', 'acme')
    assert done.stdout.startswith(b'tenant acme\n'), done.stderr
    assert daemon.command('why', '--destination', 'acme').stdout.startswith(b'destination acme\n')
    assert daemon.command('why', '00000000000000ff').returncode == 66
    assert daemon.command('why').returncode == 64
    assert daemon.command('why', '--tenant', '--destination', 'x').returncode == 64
    [answer] = daemon.query('why', 'acme')
    assert answer['about']['tenant'] == 'acme'


def test_incoming_behind_the_active_limit(place):
    begin = time.time()
    daemon = place.sluice(options={'message_active_limit': 2},
                          transports={'held': {'hold': True}}, routes={'*': ('held', None)})
    for n in range(5):
        submit(daemon, 'a@back.test', [f'u{n}@held.test'], message())
    until(lambda: len(ask(daemon, '/v1/messages', state='incoming')[1]) == 4,
          lambda: f'three that wait: {ask(daemon, "/v1/messages")}')
    last = ask(daemon, '/v1/messages', recipient='u4@*')[1][0]['id']

    def check():
        answer = why(daemon, message=last)
        full = link(answer, 'message_active_limit')
        assert re.fullmatch(r'as many messages are active as may be, for \d+s: 2', full['what'])
        assert begin - 1 <= full['since'] <= time.time()
        assert (full['value'], full['at']) == (2, line_of(daemon, 'message_active_limit = 2'))
        assert 'about 2 messages are in front of it' in whats(answer)
        assert link(why(daemon, destination='held.test'), 'message_active_limit')['value'] == 2
    settled(check)


def test_recipients_in_memory(place):
    daemon = place.sluice(options={'message_active_limit': 10, 'message_recipient_limit': 10,
                                   'message_recipient_minimum': 1},
                          transports={'held': {'hold': True}}, routes={'*': ('held', None)})
    for n in range(5):
        submit(daemon, 'a@back.test', [f'u{n}.{i}@held.test' for i in range(8)], message())
    until(lambda: daemon.totals()['recipients_in_core'] >= 10, 'recipients in memory')
    full = until(lambda: next((one for one in why(daemon, destination='held.test')['chain']
                               if one.get('limit') == 'message_recipient_limit'), None),
                 lambda: f'a link: {why(daemon, destination="held.test")}')
    assert re.fullmatch(r'as many recipients are in memory as may be, for \d+s: \d+', full['what'])
    assert (full['value'], full['at']) == (10, line_of(daemon, 'message_recipient_limit = 10'))


@pytest.mark.skipif(not os.path.exists(PRELOAD), reason='no fault library here')
def test_the_writer_is_behind(place):
    """The bound of what a crash can repeat is reached: nothing more goes out, and why says so."""
    receiver = place.receiver()
    daemon = place.sluice(start=False, routes={'*': ('smtp', receiver.nexthop)}, transports={
        'smtp': {'hold': True, 'process_limit': 1, 'destination_recipient_limit': 50}})
    switch = os.path.join(daemon.folder, 'switch')
    daemon.env = {'LD_PRELOAD': PRELOAD, 'FAULT_FOLDER': f'{daemon.spool}/data.mdb',
                  'FAULT_SWITCH': switch, 'FAULT_AT': '1', 'FAULT_TIMES': '0', 'FAULT_CALLS': 'sync',
                  'FAULT_ACTION': 'stall'}
    daemon.start()
    for n in range(3):
        submit(daemon, 'a@back.test', [f'u{n}.{i}@a.test' for i in range(900)], message())
    until(lambda: ask(daemon, '/v1/status')[1][0]['recipients_in_core'] == 2700, 'all in memory')
    with open(switch, 'w', encoding='ascii'):
        pass
    begin = time.time()
    daemon.transports['smtp']['hold'] = False
    daemon.write_config()
    assert daemon.command('reload').returncode == 0
    held = until(lambda: next((one for one in why(daemon, destination=receiver.nexthop)['chain']
                               if 'nothing more is handed out' in one['what']), None),
                 lambda: f'a link: {why(daemon, destination=receiver.nexthop)}')
    assert re.fullmatch(r'nothing more is handed out, for \d+s: 20[5-9]\d recipients that were '
                        r'handed out have no result on the disk, and 2050 may', held['what'])
    assert "the spool's writer is behind: " in held['because']
    assert begin - 1 <= held['since'] <= time.time()

    def check():
        answer = why(daemon, destination=receiver.nexthop)
        # The transport's connections may be busy as well, by the same limit.
        part = next(one for one in answer['chain'] if 'a crash may repeat so many' in one['what'])
        assert (part['limit'], part['at']) == ('process_limit', line_of(daemon, 'process_limit = 1'))
        assert answer['chain'][answer['chain'].index(part) + 1]['limit'] == 'destination_recipient_limit'
        assert b'nothing more is handed out' in daemon.command('why', receiver.nexthop).stdout
    settled(check)
    os.unlink(switch)
    daemon.wait_empty()
    until(lambda: 'nothing more' not in ''.join(whats(why(daemon, destination=receiver.nexthop))), 'the end of it')


@pytest.mark.skipif(not os.path.exists(PRELOAD), reason='no fault library here')
def test_the_spool_is_full(place):
    daemon = place.sluice(start=False, transports={'held': {'hold': True}},
                          routes={'*': ('held', '[127.0.0.1]:9')})
    switch = os.path.join(daemon.folder, 'switch')
    daemon.env = {'LD_PRELOAD': PRELOAD, 'FAULT_FOLDER': daemon.spool, 'FAULT_SWITCH': switch,
                  'FAULT_AT': '1', 'FAULT_TIMES': '0', 'FAULT_CALLS': 'write,sync,size',
                  'FAULT_ERRNO': 'ENOSPC'}
    daemon.start()
    submit(daemon, 'a@back.test', ['u@held.test'], message())
    first = until(lambda: [m['id'] for m in ask(daemon, '/v1/messages', state='active')[1][:-1]], 'an active message')[0]
    begin = time.time()
    with Client(daemon) as client:
        client.ehlo()
        client.mail('a@back.test', ['v@held.test'])
        client.say('DATA', 354)
        with open(switch, 'w', encoding='ascii'):
            pass  # whatever is written first fails, and from then on there is no room
        client.send(message() + b'.\r\n')
        assert client.reply().code == 452

    def check(**asked):
        answer = why(daemon, **asked)
        full = answer['chain'][0]
        assert re.fullmatch(r'nothing is delivered: the spool cannot be written, for \d+s', full['what'])
        assert full['because'] == 'the last commit failed: No space left on device'
        assert begin - 1 <= full['since'] <= time.time()
        assert link(answer, 'map_size')['value'] == 4 << 30
        return answer
    settled(lambda: check(destination='[127.0.0.1]:9'))
    # The writer closes the spool before it tries again, and cannot open it: nobody can read it then.
    until(lambda: ask(daemon, '/v1/messages')[0] == 503, 'a spool that nobody can read')
    for path in ('/v1/messages', f'/v1/messages/{first}', '/v1/status', '/v1/suppressions'):
        status, [answer] = ask(daemon, path)
        assert status == 503 and re.fullmatch(
            r'the spool cannot be written, nor read meanwhile, for \d+ s: No space left on device; it is tried '
            r'again all the time', answer['error']), (path, answer)
    closed = 'what is queued cannot be read, nor counted, until the spool is open again'
    answer = check(destination='[127.0.0.1]:9')
    assert closed in whats(answer) and 'transport held is on hold' in whats(answer), answer
    assert closed in whats(check(tenant='acme'))
    answer = check(message=first)
    assert closed in whats(answer) and answer['about'] == {'message': first}
    assert 'the scheduler of held has it: 1 delivery waiting, 0 in flight' in whats(answer)
    done = daemon.command('why', first)
    assert b'the spool cannot be written' in done.stdout, done
    os.unlink(switch)
    settled(lambda: closed not in whats(why(daemon, message=first)))


def test_scheduled_and_suspended(place):
    """Mail that nobody wants delivered now counts as such, and why says until when."""
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)})
    assert daemon.command('suspend', '--tenant', 'globex', '--for', '1h', '--reason',
                          'spam, ticket 4').returncode == 0
    mail = {'from': 'a@back.test', 'text': 'hello\n'}
    begin = int(time.time()) + 3600
    post(daemon, {**mail, 'recipients': ['later@a.test'], 'tenant': 'acme',
                  'not_before': begin}).expect(202)
    post(daemon, {**mail, 'recipients': ['now@a.test'], 'tenant': 'globex'}).expect(202)

    def states():
        return {row['tenant']: row['state']
                for row in ask(daemon, '/v1/counts', by='tenant,state', recipient='*@a.test',
                               older='0s')[1][:-1]}
    until(lambda: states() == {'acme': 'scheduled', 'globex': 'suspended'},
          lambda: f'a scheduled and a suspended one: {states()}')
    _, [later, _] = ask(daemon, '/v1/messages', state='scheduled')
    answer = why(daemon, message=later['id'])
    assert [one['until'] for one in answer['chain']
            if one['what'] == 'its sender wants it delivered later'] == [begin]
    assert answer['next_change'] == begin
    _, [now, _] = ask(daemon, '/v1/messages', state='suspended')
    assert daemon.query('message', now['id'])[0]['state'] == 'suspended'
    for answer in (why(daemon, message=now['id']), why(daemon, tenant='globex')):
        [order] = [one for one in answer['chain'] if one['what'].startswith('order ')]
        assert order['what'] == 'order 1: suspend tenant globex'
        assert order['because'] == 'spam, ticket 4'
        assert 3500 < order['until'] - time.time() <= 3600
        assert 'sluice resume 1' in order['next']
    assert not [w for w in whats(why(daemon, tenant='acme')) if 'order' in w]


def test_dead_destination(place):
    """The window of failures that makes it dead, and the limit that says so."""
    net = Net(place)
    net.absent('mx.test')
    net.mx('a.test', 'mx.test')
    net.start({'smtp': {'initial_destination_concurrency': 1}},
              options={'minimal_backoff_time': '300s', 'maximal_backoff_time': '300s'})
    for _ in range(2):  # the second finds the host barred
        net.send('a.test')
        until(lambda: net.daemon.of('TransientFailure', 'user@a.test'), 'a failure')
    until(lambda: ask(net.daemon, '/v1/destinations', state='dead')[1][:-1], 'a dead destination')
    # The record of the change comes after the change.
    until(lambda: 'ago)' in why(net.daemon, destination='a.test')['chain'][0].get('because', ''),
          'the cause')
    one, end = ask(net.daemon, '/v1/destinations', state='dead,suspended', sort='load', limit=1)[1]
    assert end['more'] is False and 'order' not in one
    assert one['last_error']['text'] == 'connections to every host of a.test failed lately'
    assert one['last_error']['time'] == pytest.approx(time.time(), abs=60)
    net.daemon.command('suspend', '--destination', 'A.*', '--reason', 'x')
    until(lambda: ask(net.daemon, '/v1/destinations', match='a.t')[1][0].get('order') == '1', 'the order')
    net.daemon.command('resume', '1')
    until(lambda: 'order' not in ask(net.daemon, '/v1/destinations')[1][0], 'no order')
    assert ask(net.daemon, '/v1/destinations', state='dead,')[0] == 400
    assert ask(net.daemon, '/v1/destinations', sort='size')[0] == 400
    answer = why(net.daemon, destination='a.test')
    dead = answer['chain'][0]
    assert dead['what'] == 'a.test by smtp is dead'
    assert (dead['limit'], dead['value']) == ('minimal_backoff_time', '5m')
    assert dead['because'].startswith('connections to every host of a.test failed lately (')
    assert 200 < dead['until'] - time.time() <= 301
    assert link(answer, 'destination_concurrency_failed_cohort_limit')['value'] == 1
    assert any(w.startswith('host [') for w in whats(answer))


def test_a_domain_that_is_delivered_elsewhere(stage):
    """Who asks for a domain hears which destination its route leads to."""
    daemon, nexthops = stage
    answer = why(daemon, destination='held.test')
    [link] = [one for one in answer['chain'] if 'goes to' in one['what']]
    assert nexthops['held'] in link['what'] and f'sluice why -d {nexthops["held"]}' in link['next']
    for other in ('nowhere.test', nexthops['held']):  # without a route; no domain
        assert not any('goes to' in one['what'] for one in why(daemon, destination=other)['chain'])
