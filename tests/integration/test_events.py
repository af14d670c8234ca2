"""Events for programs: webhooks, CSV files, the interface's list, and the rotation below them."""
import csv
import glob
import hashlib
import hmac
import json
import os
import subprocess
import threading
import time

import pytest

from support import api
from support.api import Connection
from support.certificates import Authority
from support.client import Client, message, submit
from support.daemon import PROGRAM
from support.wait import PATIENCE, is_ever_below, until
from support.web_receiver import WebReceiver


def lines_of(daemon):
    """All lines of all segments in order, as objects; torn ones are left out."""
    segments = []
    for path in glob.glob(daemon.events_path + '*'):
        with open(path, encoding='utf-8') as file:
            lines = []
            for line in file:
                try:
                    lines.append(json.loads(line))
                except ValueError:
                    assert daemon.kills, f'{path}: {line!r}'
        if lines:
            assert lines[0]['type'] == 'Segment', path
            segments.append((lines[0]['number'], lines[1:]))
    segments.sort()
    assert [n for n, _ in segments] == list(range(segments[0][0], segments[-1][0] + 1))
    return [line for _, lines in segments for line in lines]


def key_of(event):
    return event['type'], event['id'], event.get('recipient'), event['event_time']


def check_in_order(wanted, came):
    """Each of `wanted` came, and for the first time in this order."""
    seen, order = set(), []
    for event in came:
        if key_of(event) not in seen:
            seen.add(key_of(event))
            order.append(key_of(event))
    assert order == [key_of(event) for event in wanted]


def send(daemon, count, prefix='r'):
    with Client(daemon) as client:
        client.ehlo()
        for n in range(count):
            client.mail('me@a.test', [f'{prefix}{n}@x.test'])
            client.data(message())


def get(daemon, path):
    """(status, lines as objects) of the control socket"""
    connection = Connection(daemon)
    connection.request('GET', path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, [json.loads(line) for line in body.splitlines()]


@pytest.fixture
def hook(place):
    return place.keep(WebReceiver())


def test_webhook(place, hook):
    receiver = place.receiver()
    secret = os.path.join(place.folder, 'secret')
    with open(secret, 'w', encoding='ascii') as file:
        file.write('s3cret\n')
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)}, webhooks={hook.url: {
        'headers': ['Authorization: Bearer abc', 'X-Team: mail'], 'secret_file': secret,
        'batch_wait': '1s'}})
    submit(daemon, 'me@a.test', ['one@x.test', 'two@x.test'], message())
    hook.wait('Delivery', 2)
    check_in_order(lines_of(daemon), hook.events())
    for request in hook.accepted:
        assert request.headers['Content-Type'] == 'application/x-ndjson'
        assert request.headers['Authorization'] == 'Bearer abc'
        assert request.headers['X-Team'] == 'mail'
        assert request.headers['X-Sluice-Signature'] == 'sha256=' + hmac.new(
            b's3cret', request.body, hashlib.sha256).hexdigest()
        assert request.headers['X-Sluice-Cursor'].startswith('1:')
    # The receiver has the events a moment before the daemon has its answer.
    consumer = until(lambda: next((c for c in daemon_consumers(daemon) if not c['behind_bytes']), None),
                     'nothing behind')
    assert consumer['kind'] == 'webhook'
    assert consumer['title'] == f'http://127.0.0.1:{hook.port}'
    for path in ('/v1/events/consumers', '/v1/config', '/metrics'):
        answer = api.get(daemon, path).body
        assert b'127.0.0.1' in answer
        assert b'hook/secret' not in answer and b'key=secret' not in answer and b'Bearer abc' not in answer
    assert daemon.stop() == 0
    assert 'hook/secret' not in daemon.log() and 'key=secret' not in daemon.log()


def daemon_consumers(daemon):
    status, lines = get(daemon, '/v1/events/consumers')
    assert status == 200 and lines[-1]['end']
    return lines[:-1]


def test_types_arrays_and_batches(place, hook):
    receiver = place.receiver(answers=lambda verb, argument, _:
                              '550 5.1.1 no' if verb == 'RCPT' and 'bad' in argument else None)
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)}, webhooks={hook.url: {
        'types': ['Bounce', 'Delivery'], 'format': 'array', 'batch_size': 3, 'batch_wait': '0s'}})
    send(daemon, 10)
    submit(daemon, 'me@a.test', ['bad@x.test'], message())
    hook.wait('Delivery', 10)
    [bounce] = hook.wait('Bounce', 1)
    assert bounce['recipient'] == 'bad@x.test'
    assert {e['type'] for e in hook.events()} == {'Bounce', 'Delivery'}
    assert max(len(r.events) for r in hook.accepted) <= 3
    assert {r.headers['Content-Type'] for r in hook.accepted} == {'application/json'}
    assert 'X-Sluice-Signature' not in hook.accepted[0].headers
    until(lambda: daemon_consumers(daemon)[0]['behind_bytes'] == 0, 'nothing behind')


def test_receiver_that_fails_dies_and_comes_back(place, hook):
    """Each event at least once and in order, whatever the receiver does."""
    answers, is_seen = iter([500, None, 302]), threading.Event()

    def answer(request):
        if request is not hook.requests[0]:
            is_seen.wait(PATIENCE)  # what the first answer did
        return next(answers, 200)
    hook.answer = answer
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          webhooks={hook.url: {'batch_size': 7, 'timeout': '60s'}})
    send(daemon, 20)
    until(lambda: hook.requests, 'the first try')
    consumer = until(lambda: daemon_consumers(daemon)[0].get('why') and daemon_consumers(daemon)[0],
                     'a consumer that fails')
    assert consumer['why'] == 'answered 500' and consumer['behind'] > 0
    assert consumer['behind_bytes'] > 0
    is_seen.set()
    hook.wait('Delivery', 20)
    assert [r.body for r in hook.requests[1:4]] == [hook.requests[0].body] * 3
    check_in_order(lines_of(daemon), hook.events())
    hook.close()
    send(daemon, 20, 'later')
    until(lambda: 'why' in daemon_consumers(daemon)[0], 'a failure')
    hook.start()
    hook.wait('Delivery', 40)
    check_in_order(lines_of(daemon), hook.events())
    until(lambda: 'why' not in daemon_consumers(daemon)[0], 'success')
    daemon.wait_log('works again')
    daemon.wait_log('answered 302')


def test_slow_receiver_does_not_slow_mail(place, hook):
    """A receiver that answers nothing: mail goes through as without it."""
    release = threading.Event()
    hook.answer = lambda request: 200 if release.wait(600) else None
    receiver = place.receiver()
    plain = place.sluice(routes={'*': ('smtp', receiver.nexthop)})
    hooked = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          webhooks={hook.url: {'batch_size': 1, 'timeout': '600s'}})
    submit(hooked, 'me@a.test', ['first@x.test'], message())
    until(lambda: hook.requests, 'a request that hangs')
    rounds = 0

    def lateness():
        """By how much the one was later than it may be, beside the other in the same minute."""
        nonlocal rounds
        rounds += 1
        took = []
        for daemon in (plain, hooked):
            begun = time.monotonic()
            send(daemon, 150, f'{rounds}.')
            daemon.wait_events('Delivery', count=150 * rounds + (daemon is hooked))
            took.append(time.monotonic() - begun)
        return took[1] - 2 * took[0]
    assert is_ever_below(0.5, lateness, 6)
    assert len(hook.requests) == 1
    release.set()
    hook.wait('Delivery', 1 + 150 * rounds)
    check_in_order(lines_of(hooked), hook.events())


def test_kills_lose_no_event(place, hook):
    """kill -9 while events are on their way to a webhook and a file, with rotations."""
    receiver = place.receiver()
    path = os.path.join(place.folder, 'acct.csv')
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          event_log={'rotate_size': '64K', 'rotate_keep': 0},
                          webhooks={hook.url: {'batch_size': 20}}, csvs={path: {}})
    for turn in range(4):
        send(daemon, 60, f't{turn}.')
        until(lambda: len(hook.requests) > 3 * turn, 'requests')
        daemon.kill()
        daemon.start()
    hook.wait('Delivery', 240)
    wanted = lines_of(daemon)
    check_in_order(wanted, hook.events())
    assert daemon.stop() == 0
    with open(path, encoding='utf-8', newline='') as file:
        rows = list(csv.DictReader(file))
    # The file has each line of the log once, not only at least once.
    assert [(r['type'], r['msgId'], r['rcpt']) for r in rows] == [
        ({'Reception': 'r', 'Delivery': 'd', 'TransientFailure': 't'}[e['type']], e['id'],
         e['recipient']) for e in lines_of(daemon)]


def test_rotation_under_load(place, hook):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          event_log={'rotate_size': '64K', 'rotate_keep': 0},
                          webhooks={hook.url: {}})
    threads = [threading.Thread(target=send, args=(daemon, 150, f's{n}.')) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    daemon.wait_empty()
    hook.wait('Delivery', 600)
    lines = lines_of(daemon)
    assert len(glob.glob(daemon.events_path + '.*')) >= 4
    for kind in ('Reception', 'Delivery'):
        assert sorted(e['recipient'] for e in lines if e['type'] == kind) == \
            sorted(f's{n}.{i}@x.test' for n in range(4) for i in range(150))
    check_in_order(lines, hook.events())


def test_old_segments_go(place, hook):
    """Those that are read go first; those that nobody reads any more go, too, when there are too
    many, and the webhook goes on behind them."""
    hook.answer = lambda request: 503
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          event_log={'rotate_size': '64K', 'rotate_keep': 2},
                          webhooks={hook.url: {'batch_size': 10}})
    most, was_there = 0, False
    for turn in range(60):
        send(daemon, 50, f't{turn}.')
        # One more than there may be is removed a moment after it was closed.
        most = max(most, until(lambda: (count := len(glob.glob(daemon.events_path + '.*'))) <= 4 and [count], 'a removal')[0])
        # The first one is open and can still be read when it is gone, so the next must go, too.
        was_there |= os.path.exists(daemon.events_path + '.2')
        if was_there and not os.path.exists(daemon.events_path + '.2'):
            break
    assert most == 4 and was_there and not os.path.exists(daemon.events_path + '.2')
    hook.answer = lambda request: 200
    until(lambda: daemon_consumers(daemon)[0]['gaps'] == 1, 'a gap')
    assert 'events were removed before it read them' in daemon.log()
    until(lambda: daemon_consumers(daemon)[0]['behind_bytes'] == 0, 'nothing behind')


def test_moved_away_by_somebody_else(place, hook):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)}, webhooks={hook.url: {}})
    for turn in range(4):
        send(daemon, 20, f't{turn}.')
        os.rename(daemon.events_path, f'{daemon.events_path}-2026112{turn}')
        send(daemon, 20, f'u{turn}.')
        daemon.signal(1)
        until(lambda: os.path.exists(daemon.events_path), 'a new event log')
    hook.wait('Delivery', 160)
    check_in_order(lines_of(daemon), hook.events())


def test_tls_is_verified(place):
    authority = Authority(place.subfolder('ca'))
    leaf = authority.leaf('127.0.0.1')
    hook = place.keep(WebReceiver(tls=(leaf.cert, leaf.key)))
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)}, webhooks={hook.url: {}})
    send(daemon, 2)
    consumer = until(lambda: daemon_consumers(daemon)[0].get('why') and daemon_consumers(daemon)[0],
                     'a refusal')
    assert 'certificate' in consumer['why']
    assert not hook.requests
    assert daemon.stop() == 0
    daemon.webhooks = {hook.url: {'tls_ca_file': authority.cert}}
    daemon.write_config()
    daemon.start()
    hook.wait('Delivery', 2)
    check_in_order(lines_of(daemon), hook.events())


def test_csv(place):
    receiver = place.receiver(answers=lambda verb, argument, _:
                              '550 5.1.1 no, "never"' if verb == 'RCPT' and 'bad' in argument
                              else None)
    path = os.path.join(place.folder, 'acct.csv')
    few = os.path.join(place.folder, 'few.csv')
    daemon = place.sluice(
        routes={'*': ('smtp', receiver.nexthop)}, sources={'mta1': {'address': '127.0.0.1'}},
        pools={'main': {'sources': ['mta1']}}, transports={'smtp': {'source_pool': 'main'}},
        csvs={path: {}, few: {'columns': ['rcpt', 'type'], 'types': ['Bounce']}})
    until(lambda: os.path.exists(path) and os.path.exists(few), 'files with names alone')
    submit(daemon, 'me@a.test', ['"a,b"@x.test', 'bad@x.test'], message())
    daemon.wait_event('Delivery', '"a,b"@x.test')
    daemon.wait_event('Bounce', 'bad@x.test')
    assert daemon.stop() == 0
    with open(path, encoding='utf-8', newline='') as file:
        rows = list(csv.DictReader(file))
    [reception] = [r for r in rows if r['type'] == 'r' and r['orig'] == 'me@a.test']
    assert reception['srcMta'] == 'client.test (127.0.0.1)' and reception['srcType'] == 'smtp'
    [delivery] = [r for r in rows if r['rcpt'] == '"a,b"@x.test' and r['type'] == 'd']
    assert delivery['dsnAction'] == 'relayed' and delivery['vmta'] == 'mta1'
    assert delivery['dlvSourceIp'] == delivery['dlvDestinationIp'] == '127.0.0.1'
    assert delivery['vmtaPool'] == 'main' and delivery['queue'] == 'x.test/mta1'
    [bounce] = [r for r in rows if r['rcpt'] == 'bad@x.test' and r['type'] == 'b']
    assert bounce['dsnDiag'].startswith('smtp;550 5.1.1 ') and '"never"' in bounce['dsnDiag']
    assert bounce['dsnStatus'] == '5.1.1' and bounce['bounceCat'] == 'bad-mailbox'
    with open(few, encoding='utf-8', newline='') as file:
        assert list(csv.reader(file)) == [['rcpt', 'type'], ['bad@x.test', 'b']]


def test_csv_rotates(place):
    receiver = place.receiver()
    path = os.path.join(place.folder, 'acct.csv')
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          csvs={path: {'rotate_size': '64K'}})
    turn = 0
    while len(glob.glob(path + '.*')) < 2:
        send(daemon, 200, f't{turn}.')
        turn += 1
        assert turn < 20
        until(lambda: daemon_consumers(daemon)[0]['behind_bytes'] == 0, 'nothing behind')
    daemon.wait_empty()
    assert daemon.stop() == 0
    came = []
    for name in sorted(glob.glob(path + '*')):
        with open(name, encoding='utf-8', newline='') as file:
            came += [r['rcpt'] for r in csv.DictReader(file) if r['type'] == 'd']
    assert sorted(came) == sorted(f't{t}.{n}@x.test' for t in range(turn) for n in range(200))


def test_a_new_consumer_begins_with_now(place, hook):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)})
    send(daemon, 5, 'before')
    daemon.wait_empty()
    assert daemon.stop() == 0
    daemon.webhooks = {hook.url: {}}
    daemon.write_config()
    daemon.start()
    send(daemon, 5, 'after')
    hook.wait('Delivery', 5)
    assert all(e['recipient'].startswith('after') for e in hook.events())


def test_events_are_listed_in_pages(place):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          event_log={'rotate_size': '64K'})
    status, [end] = get(daemon, '/v1/events')
    assert status == 200 and end['count'] == 0 and not end['more']
    now = end['cursor']
    send(daemon, 150)
    daemon.wait_empty()
    wanted = lines_of(daemon)
    for start in ('start', now):
        cursor, came = start, []
        while True:
            status, lines = get(daemon, f'/v1/events?limit=37&after={cursor}')
            assert status == 200 and lines[-1]['count'] == len(lines) - 1 <= 37
            assert 'lost' not in lines[-1]
            came += lines[:-1]
            cursor = lines[-1]['cursor']
            if not lines[-1]['more']:
                break
        assert came == wanted
    status, lines = get(daemon, '/v1/events?after=start&type=Delivery,Bounce')
    assert lines[:-1] == [e for e in wanted if e['type'] == 'Delivery']
    status, lines = get(daemon, '/v1/events')
    assert lines[-1]['cursor'] == cursor
    for wrong in ('after=x', 'after=1', 'after=-1:0', 'type=Bounces', 'type=', 'limit=0', 'from=1'):
        assert get(daemon, f'/v1/events?{wrong}')[0] == 400, wrong
    # Any numbers do no harm: what is not there is said to be lost, and the oldest follows.
    for odd in ('999:5', '1:3', '1:999999999999', '0:7'):
        status, lines = get(daemon, f'/v1/events?limit=5&after={odd}')
        assert status == 200 and len(lines) <= 6, odd


def test_events_command(place):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)})
    send(daemon, 12)
    daemon.wait_empty()
    done = daemon.command('events', '--json')
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == lines_of(daemon)
    done = daemon.command('events', '--type', 'Delivery', '--limit', '3')
    assert done.returncode == 0
    text = done.stdout.decode().splitlines()
    assert len(text) == 3 and all(' Delivery ' in line and ' to r' in line for line in text)
    assert daemon.command('events', '--type', 'Nonsense').returncode == 64
    assert daemon.command('events', 'people').returncode == 64
    assert b'nobody' in daemon.command('events', 'consumers').stdout + \
        daemon.command('events', 'consumers').stderr


def test_events_command_follows(place):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)})
    send(daemon, 3, 'before')
    daemon.wait_empty()
    with subprocess.Popen([PROGRAM, 'events', '-c', daemon.config_path, '-f', '--json', '--type',
                           'Delivery', '--limit', '5'], stdout=subprocess.PIPE) as follower:
        # It begins with what comes after its first question, which leaves a trace nowhere.
        sent = 0
        end = time.monotonic() + PATIENCE
        while follower.poll() is None and time.monotonic() < end:
            send(daemon, 1, f'after{sent}.')
            sent += 1
            time.sleep(0.02)
        follower.kill()
        text = follower.stdout.read().decode()
        assert follower.wait() == 0 and sent >= 5
    recipients = [json.loads(line)['recipient'] for line in text.splitlines()]
    assert len(recipients) == 5 and all(r.startswith('after') for r in recipients)


def test_mistakes_are_told(place):
    def complaints(**settings):
        daemon = place.sluice(start=False, **settings)
        done = daemon.command('check')
        return done.returncode, (done.stdout + done.stderr).decode()
    for url, text in (('ftp://x/', 'is not a URL'), ('https://', 'is not a URL'),
                      ('https://u:p@x/', 'no user name and password'),
                      ('https://x/ y', 'is not a URL')):
        code, said = complaints(webhooks={url: {}})
        assert code == 78 and text in said, said
    code, said = complaints(webhooks={'http://192.0.2.1/': {}})
    assert code == 0 and 'in clear' in said
    for options, text in (({'types': ['Delivered']}, 'no type of event'),
                          ({'headers': ['nonsense']}, 'not a header field'),
                          ({'headers': ['A: b\nC: d']}, 'not a header field'),
                          ({'headers': ['Content-Type: x']}, 'written by the daemon'),
                          ({'batch_size': 0}, 'batch_size')):
        code, said = complaints(webhooks={'https://x.test/': options})
        assert code == 78 and text in said, said
    for path, options, text in (('/x/', {}, 'is not a path'),
                                ('/x', {'columns': ['typ']}, 'no column'),
                                ('/x', {'columns': ['type', 'type']}, 'there twice'),
                                ('/x', {'rotate_size': '5'}, 'so small')):
        code, said = complaints(csvs={path: options})
        assert code == 78 and text in said, said
    code, said = complaints(event_log={'rotate_size': '1'})
    assert code == 78 and 'so small' in said
    daemon = place.sluice(start=False, webhooks={'https://x.test/': {}})
    daemon.events_path = 'none'
    daemon.write_config()
    assert b'there is no event log' in daemon.command('check').stderr
