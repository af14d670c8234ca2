"""Webhooks and CSV files that come, go and change while mail flows: no event is missed, no batch is
sent by two, no row is there twice."""
import csv
import glob
import hashlib
import hmac
import os
import threading

import pytest

from support import api
from support.client import message, submit
from support.reloading import config_of, options_of, reload
from support.wait import PATIENCE, until
from support.web_receiver import WebReceiver


@pytest.fixture
def hook(place):
    return place.keep(WebReceiver())


def send(daemon, *names):
    for name in names:
        submit(daemon, 'me@a.test', [f'{name}@x.test'], message())
        daemon.wait_event('Delivery', f'{name}@x.test')


def delivered(events):
    return [e['recipient'].split('@')[0] for e in events if e['type'] == 'Delivery']


def consumers(daemon):
    """{title: object}"""
    return {line['title']: line for line in api.get(daemon, '/v1/events/consumers').list}


def rows_of(path):
    """Recipients of deliveries in all files of this name, the oldest first."""
    files = sorted(glob.glob(path + '.*'), key=lambda name: int(name.rsplit('.', 1)[1])) + [path]
    found = []
    for name in files:
        with open(name, newline='', encoding='utf-8') as file:
            found += [row['rcpt'].split('@')[0] for row in csv.DictReader(file) if row['type'] == 'd']
    return found


def test_webhooks_come_and_go(place, hook):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)})
    send(daemon, 'before')
    daemon.webhooks = {hook.url: {'types': ['Delivery'], 'batch_wait': '0s'}}
    assert options_of(reload(daemon)) == []
    send(daemon, 'one', 'two')
    hook.wait('Delivery', 2)
    title = f'http://127.0.0.1:{hook.port}'
    assert until(lambda: consumers(daemon)[title]['behind_bytes'] == 0, 'nothing behind')
    until(lambda: consumers(daemon)[title]['events'] == 2, lambda: consumers(daemon))
    daemon.webhooks = {}
    assert options_of(reload(daemon)) == []
    until(lambda: consumers(daemon) == {}, 'no consumer')
    assert ('webhook', title, 'batch_size') not in config_of(daemon)
    until(lambda: b'sluice_event_consumer' not in b'\n'.join(
        line for line in api.get(daemon, '/metrics').body.splitlines() if title.encode() in line), 'no metrics of it')
    send(daemon, 'between')
    # It comes back, and has missed nothing.
    daemon.webhooks = {hook.url: {'batch_wait': '0s', 'types': ['Delivery']}}
    reload(daemon)
    send(daemon, 'after')
    hook.wait('Delivery', 4)
    assert delivered(hook.events()) == ['one', 'two', 'between', 'after']
    assert daemon.stop() == 0


def test_options_of_a_webhook_that_is_sending(place, hook):
    """The batch under way is waited for, and what was only gathered goes by the other options."""
    gate, begun = threading.Event(), threading.Event()

    def answer(_):
        begun.set()
        return 204 if gate.wait(3 * PATIENCE) else 500
    hook.answer = answer
    files = [os.path.join(place.folder, name) for name in ('first', 'second')]
    for path in files:
        with open(path, 'w', encoding='ascii') as file:
            file.write(os.path.basename(path) + '\n')
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)}, webhooks={hook.url: {
        'types': ['Delivery'], 'batch_wait': '0s', 'secret_file': files[0]}})
    send(daemon, 'one')
    assert begun.wait(PATIENCE)
    send(daemon, 'two')
    daemon.webhooks[hook.url].update(secret_file=files[1], format='array')
    reload(daemon)
    assert len(hook.requests) == 1
    gate.set()
    hook.wait('Delivery', 2)
    send(daemon, 'three')
    hook.wait('Delivery', 3)
    daemon.wait_log('goes on with other options')
    assert delivered(hook.events()) == ['one', 'two', 'three']
    for n, request in enumerate(hook.accepted):
        key = b'first' if n == 0 else b'second'
        assert request.headers['X-Sluice-Signature'] == 'sha256=' + hmac.new(
            key, request.body, hashlib.sha256).hexdigest()
        assert request.body.startswith(b'[') == (n > 0)
    # The same section with another secret in the same file.
    with open(files[1], 'w', encoding='ascii') as file:
        file.write('third\n')
    seen = daemon.log().count('goes on with other options')
    reload(daemon)
    until(lambda: daemon.log().count('goes on with other options') > seen, daemon.log)
    send(daemon, 'four')
    hook.wait('Delivery', 4)
    assert hook.accepted[-1].headers['X-Sluice-Signature'] == 'sha256=' + hmac.new(
        b'third', hook.accepted[-1].body, hashlib.sha256).hexdigest()
    until(lambda: [c['events'] for c in consumers(daemon).values()] == [4], lambda: consumers(daemon))
    [consumer] = consumers(daemon).values()
    assert 'why' not in consumer
    assert daemon.stop() == 0


def test_a_webhook_that_fails_can_be_mended(place, hook):
    """Nobody waits for the end of a pause between tries, and nothing of the batch is lost."""
    receiver = place.receiver()
    dead = 'http://127.0.0.1:9/x'
    hook.answer = lambda request: 204 if request.headers.get('X-Key') == 'right' else 401
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          webhooks={hook.url: {'types': ['Delivery'], 'headers': ['X-Key: wrong']},
                                    dead: {'types': ['Delivery']}})
    send(daemon, *(f'r{n}' for n in range(5)))
    until(lambda: all('why' in c for c in consumers(daemon).values()), 'failures')
    daemon.webhooks = {hook.url: {'types': ['Delivery'], 'headers': ['X-Key: right']}}
    reload(daemon)
    hook.wait('Delivery', 5)
    assert delivered(hook.events()) == [f'r{n}' for n in range(5)]
    until(lambda: list(consumers(daemon)) == [f'http://127.0.0.1:{hook.port}'], lambda: consumers(daemon))
    assert daemon.stop() == 0


def test_csv_files_come_and_go(place):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)})
    path, other = (os.path.join(place.folder, name) for name in ('a.csv', 'b.csv'))
    send(daemon, 'before')
    daemon.csvs = {path: {}}
    assert options_of(reload(daemon)) == []
    send(daemon, 'one')
    until(lambda: os.path.exists(path) and rows_of(path) == ['one'], 'a row')
    # Other columns: a new file, and no row in both.
    daemon.csvs = {path: {'columns': ['type', 'rcpt']}, other: {'columns': ['rcpt', 'type']}}
    reload(daemon)
    send(daemon, 'two')
    until(lambda: os.path.exists(other) and rows_of(other) == ['two'], 'a row of the other')
    until(lambda: os.path.exists(path) and rows_of(path) == ['one', 'two'], 'rows of both files')
    with open(path, encoding='utf-8') as file:
        assert file.readline().strip() == 'type,rcpt'
    daemon.csvs = {}
    reload(daemon)
    until(lambda: consumers(daemon) == {}, 'no consumer')
    send(daemon, 'three')
    assert rows_of(path) == ['one', 'two']
    daemon.csvs = {path: {'columns': ['type', 'rcpt']}}
    reload(daemon)
    send(daemon, 'four')
    until(lambda: rows_of(path) == ['one', 'two', 'three', 'four'], 'all rows')
    assert daemon.stop() == 0


def test_a_reload_just_before_the_stop(place):
    """The next start knows from where on a webhook that was new has to be told."""
    receiver = place.receiver()
    hook = place.keep(WebReceiver())
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)})
    send(daemon, 'before')
    daemon.webhooks = {hook.url: {'types': ['Delivery'], 'batch_wait': '0s'}}
    hook.close()
    reload(daemon)
    send(daemon, 'one')
    assert daemon.stop() == 0
    hook.start()
    daemon.start()
    send(daemon, 'two')
    hook.wait('Delivery', 2)
    assert delivered(hook.events()) == ['one', 'two']
    assert daemon.stop() == 0


def test_without_an_event_log(place, hook):
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)}, start=False)
    events_path, daemon.events_path = daemon.events_path, 'none'
    daemon.write_config()
    daemon.start()
    daemon.events_path = events_path
    daemon.webhooks, daemon.csvs = {hook.url: {}}, {os.path.join(place.folder, 'a.csv'): {}}
    answer = reload(daemon)
    assert options_of(answer) == ['event_log.path', f'webhook http://127.0.0.1:{hook.port}',
                                  f'csv {place.folder}/a.csv']
    assert answer['restart'][1]['why'] == 'the event log that it reads needs a restart'
    assert daemon.stop() == 0
