"""The hidden limits that sluice-sink keeps for each client address, seen from sockets, and what its
report says of each client."""
import json
import threading
import time

import pytest

from support.wait import best_of, until
from test_sink_behaviour import Client, behaving, hello  # noqa: F401 (a fixture)
from test_tools import ADDRESS, TIMEOUT, sink  # noqa: F401 (a fixture)

OTHER = '127.0.3.2'
FIRST, SECOND = '127.0.0.2', '127.0.0.3'


def clients_of(numbers):
    """{(section or domain, client): its object}"""
    return {(one.get('destination', one.get('domain')), one['client']): one
            for one in numbers['clients']}


def fates(server, count, **more):
    """The last replies to so many messages, on as many connections as it takes."""
    client, found = None, []
    while len(found) < count:
        client = client or hello(server, **more)
        found.append(client.deliver('x@d1.test')[-1])
        if found[-1][:3] == '421':
            assert client.reply() == ''
            client.close()
            client = None
    if client:
        client.close()
    return found


def test_each_client_has_its_rate(behaving):  # noqa: F811
    """At all addresses of the section together, whichever client comes first."""
    server = behaving('''
        default { rate_per_client = "5/h, burst 3"
                  rate_reply = "421 4.7.28 {client} sends at an unusual rate" }
        client "127.0.0.3" { rate_per_client = "9/h, burst 2" }
        client "127.0.0.4" { rate_per_client = none rate_stage = dot }''')
    refused = f'421 4.7.28 {FIRST} sends at an unusual rate'
    assert fates(server, 5, source_address=FIRST) == ['250 2.0.0 Ok: queued'] * 3 + [refused] * 2
    assert fates(server, 1, host=OTHER, source_address=FIRST) == [refused]
    assert [one[:3] for one in fates(server, 4, host=OTHER, source_address=SECOND)] == \
        ['250', '250', '421', '421']
    assert {one[:3] for one in fates(server, 12, source_address='127.0.0.4')} == {'250'}
    numbers = server.finish()
    clients = clients_of(numbers)
    expected = {FIRST: (3, 3, 3), SECOND: (2, 2, 2), '127.0.0.4': (12, 0, 1)}
    assert {client: (one['messages'], one['refused'], one['connections'])
            for (_, client), one in clients.items()} == expected
    assert numbers['deferred'] == 5 and numbers['messages'] == 17


@pytest.mark.parametrize('stage, index', [('mail', 0), ('rcpt', 1), ('dot', 3)])
def test_a_rate_acts_at_its_stage(behaving, stage, index):  # noqa: F811
    server = behaving(f'''
        destination "{ADDRESS}" {{ rate_per_client = "2/h, burst 2" rate_stage = {stage}
                                  rate_reply = "450 4.7.1 slower" }}
        destination "{OTHER}" {{ rate = 2/d rate_stage = {stage} rate_reply = "451 4.7.1 no" }}''')
    for host, reply in ((ADDRESS, '450 4.7.1 slower'), (OTHER, '451 4.7.1 no')):
        with hello(server, host) as client:
            # A message counts once, however many recipients it has.
            assert client.fate('x@d1.test', 'y@d1.test') == '250'
            assert client.fate('x@d1.test') == '250'
            replies = client.deliver('x@d1.test')
            assert (replies[index], len(replies)) == (reply, index + 1)
            assert client.say('NOOP')[:3] == '250'
    for one in server.finish()['clients']:
        assert (one['messages'], one['recipients']) == (2, 3)
        assert (one['refused'], one['refused_recipients']) == ((0, 1) if stage == 'rcpt' else (1, 0))


def test_connections_have_a_rate(behaving):  # noqa: F811
    server = behaving('''
        default { connection_rate_per_client = "2/h, burst 2" connections_per_client = 1
                  connection_reply = "421 4.7.0 {client} connects too often" }''')
    with hello(server, source_address=FIRST), Client(server, source_address=FIRST) as second:
        assert second.reply() == f'421 4.7.0 {FIRST} connects too often' and second.reply() == ''
    # What the number of connections refused has taken no token.
    hello(server, source_address=FIRST).close()
    with Client(server, OTHER, source_address=FIRST) as third:
        assert third.reply()[:3] == '421' and third.reply() == ''
    hello(server, source_address=SECOND).close()
    clients = clients_of(server.finish())
    assert {client: (one['connections'], one['refused_connections'])
            for (_, client), one in clients.items()} == {FIRST: (4, 2), SECOND: (1, 0)}


def test_messages_of_a_connection(behaving):  # noqa: F811
    server = behaving('''default { messages_per_connection = 2
                                   messages_reply = "452 4.3.2 enough of {sender}" }''')
    with hello(server) as client:
        assert [client.fate('x@d1.test') for _ in range(2)] == ['250'] * 2
        assert client.deliver('x@d1.test') == ['452 4.3.2 enough of b.test'] * 1
        assert client.say('QUIT')[:3] == '221'
    [one] = server.finish()['clients']
    assert (one['messages'], one['refused'], one['client']) == (2, 1, '127.0.0.1')


def test_recipients_have_a_rate(behaving):  # noqa: F811
    server = behaving('default { recipient_rate_per_client = "3600/h, burst 3" '
                      'recipient_reply = "452 4.5.3 {domain} has enough" }')
    with hello(server) as client:
        replies = client.deliver('a@d1.test', 'b@d1.test', 'c@d1.test', 'd@D2.test')
        assert replies[-3:] == ['452 4.5.3 d2.test has enough', '354 go on', '250 2.0.0 Ok: queued']
        deadline = time.monotonic() + TIMEOUT
        while client.deliver('x@d1.test')[-1][:3] != '250':  # one each second comes again
            assert time.monotonic() < deadline
            time.sleep(0.05)
    [one] = server.finish()['clients']
    assert (one['messages'], one['recipients'], one['refused']) == (2, 4, 0)
    assert one['refused_recipients'] >= 1


def test_one_domain_of_a_site_is_throttled(behaving):  # noqa: F811
    server = behaving('''
        default { rate_reply = "451 4.7.1 {domain} later" }
        domain "d4.test" { rate_per_client = "2/h, burst 2" }
        domain "d5.test" { rate_per_client = "1/h" rate_stage = dot
                           rate_reply = "452 4.7.1 {client} for {domain}" }''')
    with hello(server, source_address=FIRST) as one, hello(server, source_address=SECOND) as two:
        for client in (one, two):
            assert [client.deliver('x@d4.test')[-1] for _ in range(3)] == \
                ['250 2.0.0 Ok: queued'] * 2 + ['451 4.7.1 d4.test later']
            assert client.fate('x@d1.test') == '250'
        assert [one.deliver('x@d5.test')[-1] for _ in range(2)] == \
            ['250 2.0.0 Ok: queued', f'452 4.7.1 {FIRST} for d5.test']
    clients = clients_of(server.finish())
    assert (clients['d4.test', FIRST]['messages'], clients['d4.test', SECOND]['messages']) == (2, 2)
    assert clients['d4.test', FIRST]['refused_recipients'] == 1
    assert (clients['d5.test', FIRST]['messages'], clients['d5.test', FIRST]['refused']) == (1, 1)
    assert clients['', FIRST]['messages'] == 4 and clients['', SECOND]['messages'] == 3


@pytest.mark.parametrize('stage, index', [('banner', 0), ('mail', 0), ('rcpt', 1), ('dot', 3)])
def test_a_blocked_address_is_named(behaving, stage, index):  # noqa: F811
    server = behaving(f'''
        client "{SECOND}" {{ reject = {{"{stage}:1:554 5.7.1 Client host [{{client}}] blocked using bl.test"}} }}
        client "127.0.0.9" {{ reject = {{"dot:1:550 5.7.1 {{sender}} is on a list of domains"}} }}''')
    text = f'554 5.7.1 Client host [{SECOND}] blocked using bl.test'
    if stage == 'banner':
        with Client(server, source_address=SECOND) as client:
            assert client.reply() == text and client.reply() == ''
    else:
        with hello(server, source_address=SECOND) as client:
            assert client.deliver('x@d1.test')[index] == text
    with hello(server, source_address=FIRST) as good, hello(server, source_address='127.0.0.9') as bad:
        assert good.fate('x@d1.test') == '250'
        assert bad.deliver('x@d1.test')[-1] == '550 5.7.1 b.test is on a list of domains'
    blocked = clients_of(server.finish())['', SECOND]
    seen = [blocked[key] for key in ('refused_connections', 'refused', 'refused_recipients')]
    assert seen == {'banner': [1, 0, 0], 'rcpt': [0, 0, 1]}.get(stage, [0, 1, 0])


def test_greylist_has_its_words(behaving):  # noqa: F811
    server = behaving('''default { greylist = 1000 greylist_reply = "450 4.7.1 greylisted" }
                         client "127.0.0.3" { greylist = 0 }
                         domain "d2.test" { greylist_reply = "450 4.7.1 {domain} is grey" }''')
    with hello(server) as client, hello(server, source_address=SECOND) as known:
        assert client.deliver('x@d1.test')[-1] == '450 4.7.1 greylisted'
        assert client.deliver('x@d2.test')[-1] == '450 4.7.1 d2.test is grey'
        assert known.fate('x@d1.test') == '250'


def test_all_of_a_pipelined_group_count(behaving, tmp_path):  # noqa: F811
    """Whatever was sent in one go behind the refusal that ends the connection; never a line of a
    message."""
    server = behaving('default { rate_per_client = "1/h" extensions = {pipelining, chunking} }',
                      '--json', str(tmp_path / 'live.json'))
    body = b'MAIL FROM:<no@b.test>\r\n' * 40
    one = b'MAIL FROM:<a@b.test>\r\nRCPT TO:<x@d1.test>\r\nBDAT %d LAST\r\n' % len(body) + body
    with hello(server) as client:
        client.sock.sendall(one * 6)
        assert [client.reply()[:3] for _ in range(4)] == ['250', '250', '250', '421']
        assert client.reply() == ''
    with hello(server) as client:
        client.sock.sendall(b'MAIL FROM:<a@b.test>\r\nRCPT TO:<x@d1.test>\r\nDATA\r\n')
        assert client.reply()[:3] == '421' and client.reply() == ''
        client.sock.sendall(b'MAIL FROM:<a@b.test>\r\n')  # also what was under way meanwhile

    def seen():
        return [(one['messages'], one['refused'])
                for one in json.loads((tmp_path / 'live.json').read_text())['clients']]
    until(lambda: seen() == [(1, 7)], lambda: f'1 accepted and 7 refused: {seen()}')


def offer(server, seconds, tried, source_address):
    """As many messages as go for so long, on one connection; a refusal by 450 keeps it."""
    with hello(server, source_address=source_address) as client:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            client.deliver('x@d1.test')
            tried[source_address] = tried.get(source_address, 0) + 1


def is_first_second_seen(limits):
    return limits[:3] == [100] * 3 and limits[-2:] == [200] * 2


def offer_for_a_while(behaving):  # noqa: F811
    """(what the server says at its end, messages that were tried by client)"""
    server = behaving('''
        default { rate_per_client = {"100/s", "200/s from 1"} rate_reply = "450 4.7.1 slower"
                  recipient_rate_per_client = "6000/m, burst 1000" }
        client "127.0.0.3" { rate_per_client = "50/s" }''', '--timeline', '250')
    tried = {}
    threads = [threading.Thread(target=offer, args=(server, 2.5, tried, address))
               for address in (FIRST, SECOND)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return server.finish(), tried


def test_rates_over_time(behaving):  # noqa: F811
    """Two clients with rates of their own, one of which changes; the report draws both."""
    def changes(courses):
        return [limit for limit in courses['', FIRST]['limit'] if limit is not None]
    # Not so when the clients of a busy machine begin or end a second late.
    numbers, tried = best_of(5, lambda: offer_for_a_while(behaving), lambda result: is_first_second_seen(
        changes(clients_of(result[0]['timeline']))))
    clients = clients_of(numbers)
    for address, most in ((FIRST, 10 + 100 + 200 * 2), (SECOND, 5 + 50 * 3)):
        one = clients['', address]
        assert one['messages'] + one['refused'] == tried[address]
        assert 0 < one['messages'] <= most
    courses = clients_of(numbers['timeline'])
    intervals = int(numbers['uptime'] / 0.25) + 1
    for key, course in courses.items():
        series = {name: values for name, values in course.items() if isinstance(values, list)}
        assert {len(values) for values in series.values()} == {intervals}
        for name in ('messages', 'refused', 'recipients', 'connections', 'refused_connections'):
            assert sum(series[name]) == clients[key][name]
        # The rest of an interval and the next one may bring what a full bucket holds.
        for accepted, limit in zip(series['messages'], series['limit']):
            assert limit is None and accepted == 0 or accepted <= 0.25 * limit + 20
    changing = changes(courses)
    assert is_first_second_seen(changing) and changing == sorted(changing), changing
    assert {*courses['', SECOND]['limit']} - {None} == {50}
    assert {*courses['', SECOND]['recipient_limit']} - {None} == {100}


def test_replies_jitter(behaving):  # noqa: F811
    server = behaving('default { round_trip = "1-80" }')
    with hello(server) as client:
        times = []
        for _ in range(20):
            assert client.say('NOOP')[:3] == '250'
            times.append(client.took())
        assert max(times) - min(times) > 0.02 and min(times) >= 0.001
        client.sock.sendall(b'NOOP\r\n' * 50 + b'VRFY x\r\n')
        assert [client.reply()[:3] for _ in range(51)] == ['250'] * 50 + ['252']
