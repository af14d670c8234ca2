"""Memory is what the limits say: each of them is reached with the largest that a stranger may send,
and what one more of it takes of the daemon's own memory is compared with the table in
docs/operating.md, "Limits that protect the machine".

SLUICE_MEMORY=N makes the limits N times as high. The bounds are those of a build without sanitizers."""
import json
import os
import socket
import string

import pytest

from support import api, injection
from support.address import free_port
from support.certificate import make_certificate
from support.client import Client
from support.large_zone import LargeZone
from support.wait import until
from support.watch import Watch

TIMES = int(os.environ.get('SLUICE_MEMORY', '1'))
KB, MB = 1 << 10, 1 << 20
LABELS = {'tenant_header': 'X-Tenant', 'campaign_header': 'X-Campaign', 'smtpd_recipient_limit': 0}
PATIENCE = 60 * TIMES
WORDS = {word: 'w' * 255 for word in ('campaign', 'domain', 'destination', 'transport', 'source')}


def end_of(length):
    """What makes a name so long."""
    return '.'.join([*['e' * 60] * 3, 'f' * (length - 188), 'test'])


LONG = end_of(243)  # with "dNNNNNN." 251 bytes, 253 is the most


def words(number):
    """Letters, another text for each number: a template leaves out what has digits."""
    text = ''
    while number or not text:
        number, letter = divmod(number, 26)
        text += string.ascii_lowercase[letter] * 3 + ' '
    return text


@pytest.fixture
def tell(report_table):
    """Print what one more costs, and compare it."""
    def compare(what, count, growth, most):
        report_table('memory', f'{what}: {growth >> 10} KB for {count}, {growth // count} bytes each; '
                               f'bound {most}')
        assert growth < count * most, f'{what}: {growth / count:.0f} bytes each, not {most}'
    return compare


class Mute:
    """Takes connections and never says a word."""

    def __init__(self):
        self.socket = socket.create_server(('127.0.0.1', 0), backlog=100)
        self.nexthop = '[127.0.0.1]:%d' % self.socket.getsockname()[1]

    def close(self):
        self.socket.close()


def envelope(domains, sender='s' * 64 + '@d1.' + LONG):
    """Commands of a transaction, as long as they may be."""
    return f'MAIL FROM:<{sender}>\r\n' + ''.join(f'RCPT TO:<{"l" * 64}@{d}>\r\n' for d in domains)


def send_large(daemon, messages):
    """messages: of each the domains of its recipients"""
    with Client(daemon) as client:
        client.ehlo('h' * 255)
        for domains in messages:
            client.send(envelope(domains) + 'DATA\r\n')
            for _ in range(len(domains) + 1):
                client.expect(250)
            client.expect(354)
            client.send('X-Tenant: ' + 't' * 64 + '\r\nX-Campaign: ' + 'c' * 64 + '\r\n\r\nx\r\n.\r\n')
            client.expect(250)


def test_active_messages(place, tell):
    """None of them ends, as their receiver says nothing; and each has message_recipient_minimum
    recipients, however full the pools are."""
    mute = place.keep(Mute())
    count = 1000 * TIMES
    daemon = place.sluice(
        # One flow has all of them but an eighth.
        options={'message_active_limit': count * 8 // 7, 'message_recipient_limit': count * 8 // 7},
        listener=LABELS, transports={'smtp': {'process_limit': 1}},
        routes={'*': ('smtp', mute.nexthop)})
    with Watch(daemon) as watch:
        send_large(daemon, [[f'd{100000 + 10 * n + m}.{LONG}' for m in range(10)]
                            for n in range(count + 200)])
        until(lambda: (of := daemon.totals())['recipients_in_core'] == count * 10 and of['active'] == count,
              lambda: daemon.totals(), PATIENCE)
    tell('active messages with 10 recipients', count, watch.growth, 14 * KB)


def zone_daemon(place, name_server, options=None, dns=None):
    """Every host's connections are refused, and the first kills its destination."""
    return place.sluice(
        options={'allow_loopback': True, 'smtp_tcp_port': free_port(), 'message_active_limit': 100,
                 'minimal_backoff_time': '1h', 'maximal_backoff_time': '1h', 'trace_memory': '0',
                 **(options or {})},
        listener=LABELS, dns={'servers': [name_server], 'timeout': '3s', 'tries': 5, **(dns or {})},
        transports={'smtp': {'initial_destination_concurrency': 1,
                             'destination_concurrency_failed_cohort_limit': 1}})


def test_destinations_that_are_looked_up(place, tell):
    """Each recipient has its own, and no name server answers."""
    count = 3000 * TIMES
    silent = place.keep(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    silent.bind(('127.0.0.1', 0))
    daemon = zone_daemon(place, '127.0.0.1:%d' % silent.getsockname()[1], {'message_recipient_limit': count})
    with Watch(daemon) as watch:
        send_large(daemon, [[f'd{100000 + n}.{LONG}' for n in range(count + 1000)]])
        until(lambda: daemon.totals()['destinations'] == count, lambda: daemon.totals(), PATIENCE)
    tell('destinations that are looked up', count, watch.growth, 7 * KB)


def test_destinations_that_are_dead(place, tell):
    """They are kept for minimal_backoff_time, twice as many as there may be recipients, each with the
    hosts that it had."""
    count = 150 * TIMES
    zone = place.keep(LargeZone())
    daemon = zone_daemon(place, zone.name, {'message_recipient_limit': count}, {'cache_size': 8})
    with Watch(daemon) as watch:
        send_large(daemon, [[f'd{100000 + n}.test' for n in range(3 * count)]])
        until(lambda: daemon.totals()['deferrals'] == 3 * count, lambda: daemon.totals(), PATIENCE)
    totals = daemon.totals()
    assert totals['dead'] <= 2 * count + 2
    tell('dead destinations', totals['dead'], watch.growth, 160 * KB)


def test_dns_cache(place, tell):
    """64 MB of answers, however many names it may have; beside it what the lookups under way take."""
    count = 1000 * TIMES
    zone = place.keep(LargeZone())
    daemon = zone_daemon(place, zone.name, {'message_recipient_limit': 50}, {'cache_size': 1000000})
    with Watch(daemon) as watch:
        send_large(daemon, [[f'd{100000 + n}.test' for n in range(count)]])
        until(lambda: daemon.totals()['deferrals'] == count, lambda: daemon.totals(), PATIENCE)
    tell('the cache of DNS', 1, watch.growth, 170 * MB)


def give(daemon, number):
    """An order with a reason and selectors of the largest kind; the answer's status."""
    order = {'order': 'suspend', 'for': '1d', 'reason': 'r' * 500, 'tenant': f't{number:0254}',
             **WORDS}
    return post(api.Connection(daemon), '/v1/orders', json.dumps(order))


def post(connection, path, body):
    connection.request('POST', path, body, {'Content-Type': 'application/json'})
    response = connection.getresponse()
    response.read()
    return response.status


def post_by_all(connections, path, body):
    """The status of one request by each, all asked before the first answer is read."""
    for connection in connections:
        connection.request('POST', path, body, {'Content-Type': 'application/json'})
    responses = [connection.getresponse() for connection in connections]
    for response in responses:
        response.read()
    return [response.status for response in responses]


def test_orders(place, tell):
    """As many as may stand, from the file that one more would be added to; the next is refused."""
    daemon = place.sluice()
    assert give(daemon, 0) == 201
    begin = daemon.memory()
    daemon.stop()
    path = os.path.join(daemon.spool, 'orders.json')
    with open(path, encoding='utf-8') as file:
        content = json.load(file)
    [first] = content['orders']
    content['orders'] = [{**first, 'id': n + 1, 'tenant': f't{n:0254}'} for n in range(999)]
    content['next_id'] = 1000
    with open(path, 'w', encoding='utf-8') as file:
        json.dump(content, file)
    daemon.start()
    assert [give(daemon, 999), give(daemon, 1000)] == [201, 429]
    tell('orders', 1000, daemon.memory() - begin, 20 * KB)


def test_sweeps(place, tell):
    """Flushes are asked for faster than the queue can be walked; the 1,001st that waits is refused."""
    daemon = place.sluice(routes={'*': ('smtp', f'[127.0.0.1]:{free_port()}')}, options={
        'minimal_backoff_time': '1h', 'maximal_backoff_time': '1h'})
    messages = {'defaults': {'from': 'a@a.test', 'headers': {'Subject': 'x'}, 'text': 'x'},
                'messages': [{'recipients': ['u@x.test']}] * 1000}
    for _ in range(5):
        injection.post(daemon, messages).expect(202)
    until(lambda: daemon.totals()['deferred'] == 5000, lambda: daemon.totals(), PATIENCE)
    # Other names are looked for in the queue first, which takes longer than a sweep.
    selector = json.dumps({word: WORDS[word] for word in ('transport', 'source')})
    # On a busy machine the walks would keep up with one who waits for each answer.
    connections = [api.Connection(daemon) for _ in range(20)]
    connection = connections[0]
    answers = post_by_all(connections, '/v1/flush', selector)
    with Watch(daemon) as watch:
        while 429 not in answers and len(answers) < 20000:
            answers += post_by_all(connections, '/v1/flush', selector)
    assert set(answers) == {202, 429} and answers.index(429) >= 1000, answers[-5:]
    tell('sweeps', 1000, watch.growth, 4 * KB)
    until(lambda: post(connection, '/v1/flush', selector) == 202, 'a place among the sweeps')


def test_responses(place, tell):
    """Every recipient gets another answer; as many with the same answer came before."""
    count = 4000 * TIMES
    texts = {'same': lambda number: 'same', 'other': words}

    def answers(verb, argument, _):
        if verb != 'RCPT':
            return None
        kind, number = argument[4:].partition('@')[0].split('-')
        number = int(number) % 2500
        return f'450 4.2.0 {texts[kind](number)} {"because " * 100}'
    receiver = place.receiver(answers=answers)
    daemon = place.sluice(
        options={'trace_memory': '0', 'minimal_backoff_time': '1h', 'maximal_backoff_time': '1h',
                 'message_recipient_limit': 500},
        listener=LABELS, routes={'*': ('smtp', receiver.nexthop)})
    for kind in texts:
        deferrals = daemon.totals()['deferrals']
        with Watch(daemon) as watch, Client(daemon) as client:
            client.ehlo()
            client.say('MAIL FROM:<>', 250)
            client.send(''.join(f'RCPT TO:<{kind}-{n}@x.test>\r\n' for n in range(count)))
            for _ in range(count):
                client.expect(250)
            client.data(b'x\r\n')
            until(lambda: daemon.totals()['deferrals'] == deferrals + count, lambda: daemon.totals(), PATIENCE)
    assert len(daemon.query('responses', '--limit', '500')) == 500
    tell('responses', 500, watch.growth, 20 * KB)


def fill_envelope(client):
    client.ehlo('h' * 255)
    client.send(envelope(f'd{100000 + n}.{LONG}' for n in range(203)))
    for _ in range(204):
        client.expect(250)
    client.send('RCPT TO:<' + 'x' * 2000)


def fill_content(client):
    client.ehlo('h' * 255)
    client.send(envelope(f'd{100000 + n}.{LONG}' for n in range(203)) + 'DATA\r\n')
    for _ in range(204):
        client.expect(250)
    client.expect(354)
    client.send('Subject: x\r\n\r\n' + ('x' * 998 + '\r\n') * 65)


def fill_deaf(client):
    """The replies are not taken until no more commands are."""
    client.ehlo()
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.sock.settimeout(0.05)
    client.send('MAIL FROM:<>\r\n')
    command = 'RCPT TO:<l@d>\r\n' * 1000
    try:
        while True:
            client.send(command)
    except TimeoutError:
        pass


@pytest.mark.parametrize('fill, tls', [(fill_envelope, False), (fill_envelope, True), (fill_content, False),
                                       (fill_content, True), (fill_deaf, False)])
def test_sessions(place, tell, fill, tls):
    """All that may be open, each with the most that it holds before anything of it is stored."""
    count = (20 if fill is fill_deaf else 100) * TIMES
    cert, key = make_certificate(place.subfolder('tls'), 'relay.test')
    daemon = place.sluice(options={'intake_memory': '1M'}, listener={
        **LABELS,  'smtpd_connection_limit': count, 'tls_certificate': cert, 'tls_key': key})
    clients = []
    with Watch(daemon) as watch:
        for _ in range(count):
            clients.append(place.keep(Client(daemon)))
            if tls:
                clients[-1].ehlo()
                clients[-1].starttls()
            fill(clients[-1])
        with Client(daemon, greet=False) as client:
            client.expect(421)
    tell(f'sessions, {fill.__name__[5:]}{" over TLS" * tls}', count, watch.growth, 300 * KB)
