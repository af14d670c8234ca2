"""What operators see of lanes and may do about them: causes with the reply that said them, lanes that
nobody uses now, orders to close, open and pace, and what is said where a name is unknown."""
import json
import time

from support.api import Connection, ask
from support.client import message, submit
from support.net import Net
from support.reloading import reload
from support.wait import until

SLOWER = '421 4.7.28 Too many messages, slow down'
LISTED = '554 5.7.1 Service unavailable; Client host [{}] blocked using zen.spamhaus.org'


def send(daemon, count, domain='x.test', first=0):
    for n in range(first, first + count):
        submit(daemon, 'a@a.test', [f'{n}@{domain}'], message())


def lanes(daemon, *arguments):
    return {one['source']: one for one in daemon.query('lanes', *arguments)}


def say(daemon, *arguments, code=0):
    done = daemon.command('lanes', *arguments)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return (done.stdout + done.stderr).decode()


def start(place, answers=None, **more):
    """Two sources to one receiver."""
    receiver = place.receiver(answers=answers)
    daemon = place.sluice(
        routes={'*': ('smtp', receiver.nexthop)},
        sources={'s1': {'address': '127.0.0.11'}, 's2': {'address': '127.0.0.12'}},
        pools={'all': {'sources': ['s1', 's2']}},
        options={'minimal_backoff_time': '300s', 'maximal_backoff_time': '300s'},
        transports={'smtp': {'source_pool': 'all', **more.pop('transport', {})}}, **more)
    return receiver, daemon


def delivered(daemon):
    return daemon.of('Delivery')


def from_address(receiver):
    return [m.peer for m in list(receiver.messages)]


def test_close_open_and_pace(place):
    """By order, with who and why, for all transports and over a restart; mail goes by the other lane
    meanwhile, and nowhere when none is left."""
    receiver, daemon = start(place)
    send(daemon, 4)
    receiver.wait(4)
    until(lambda: {one['state'] for one in lanes(daemon).values()} == {'open'}, lambda: lanes(daemon))
    said = say(daemon, 'close', receiver.nexthop, '--source', 's1', '--for', '2h', '--reason', 'D-9')
    assert 'from s1: closed, again in 1h59m' in said or 'from s1: closed, again in 2h00m' in said
    closed = lanes(daemon)['s1']
    assert closed['state'] == 'closed' and closed['closed']['by'] == 'order'
    assert closed['closed']['text'] == 'by local: D-9' and closed['until'] > time.time() + 7000
    daemon.wait_log('lanes: close for 7200 s by local')
    before = len(receiver.messages)
    send(daemon, 10, first=10)
    receiver.wait(before + 10)
    assert set(from_address(receiver)[before:]) == {'127.0.0.12'}
    until(lambda: [(site['lanes'], site['closed_lanes'], site['paced_lanes']) for site in daemon.query('sites')] == [(2, 1, 0)],
          lambda: daemon.query('sites'))
    assert 'closed: by order, opens in' in say(daemon) and 'by local: D-9' in say(daemon)
    daemon.stop()
    daemon.start()
    # No transport uses the lane now; what stands of it is remembered.
    closed = lanes(daemon)['s1']
    assert closed['state'] == 'closed' and 'transport' not in closed
    assert 'none uses it now' in say(daemon, receiver.nexthop, '--source', 's1')
    assert 'from s1: open' in say(daemon, 'open', receiver.nexthop)
    said = say(daemon, 'pace', receiver.nexthop, '50/s', '--source', 's2', '--reason', 'asked to')
    assert 'from s2: paced, at 50/s' in said
    paced = lanes(daemon, '--state', 'paced')
    assert set(paced) == {'s2'} and paced['s2']['paces'][0]['per_second'] == 50
    assert paced['s2']['paces'][0]['text'] == 'by local: asked to'
    before = len(receiver.messages)
    send(daemon, 10, first=30)
    receiver.wait(before + 10)
    assert set(from_address(receiver)[before:]) == {'127.0.0.11', '127.0.0.12'}
    assert 'from s2: open' in say(daemon, 'pace', receiver.nexthop, 'none', '--source', 's2')
    say(daemon, 'close', receiver.nexthop, '--for', '1h')
    until(lambda: [one['state'] for one in daemon.query('sites', '--state', 'closed')] == ['closed'],
          lambda: f'the site is closed: {daemon.query("sites")}')
    send(daemon, 1, first=50)
    daemon.wait_event('TransientFailure', '50@x.test')
    assert {e['num_attempts'] for e in delivered(daemon)} == {1}


def test_an_order_outlives_a_kill(place):
    """What was answered is on disk."""
    receiver, daemon = start(place)
    send(daemon, 2)
    receiver.wait(2)
    say(daemon, 'close', receiver.nexthop, '--source', 's1', '--for', '2h')
    daemon.kill()
    daemon.start()
    assert lanes(daemon)['s1']['state'] == 'closed'
    say(daemon, 'open', receiver.nexthop, '--source', 's1')
    daemon.kill()
    daemon.start()
    assert 's1' not in lanes(daemon) or lanes(daemon)['s1']['state'] == 'open'


def test_a_closure_by_order_ends_by_itself(place):
    receiver, daemon = start(place)
    send(daemon, 2)
    receiver.wait(2)
    say(daemon, 'close', receiver.nexthop, '--source', 's1', '--for', '1s')
    until(lambda: lanes(daemon)['s1']['state'] == 'open', 'it is open again')
    before = len(receiver.messages)
    send(daemon, 10, first=10)
    receiver.wait(before + 10)
    assert '127.0.0.11' in from_address(receiver)[before:]


def test_what_a_receiver_did(place):
    """The reply, how often, since when; the listing of one address, and what the other is told."""
    state = {'left': 6}

    def answers(verb, argument, session):
        if verb == 'RCPT' and session.peer[0] == '127.0.0.11':
            return LISTED.format(session.peer[0])
        if verb == 'MAIL' and session.peer[0] == '127.0.0.12':
            state['left'] -= 1
            return SLOWER if state['left'] == 0 else None
        return None
    receiver, daemon = start(place, answers, transport={'max_message_rate': '1000/s'})
    send(daemon, 10)
    until(lambda: len(delivered(daemon)) == 10, 'all')
    until(lambda: 'paces' in lanes(daemon).get('s2', {}), lambda: f'a pace: {lanes(daemon)}')
    both = lanes(daemon)
    closed, pace = both['s1']['closed'], both['s2']['paces'][0]
    assert both['s1']['state'] == 'closed' and closed['by'] == 'receiver'
    assert 'zen.spamhaus.org' in closed['text'] and closed['until'] > time.time() + 600
    assert pace['of'] == 'messages' and pace['times'] >= 1 and 'slow down' in pace['text']
    assert abs(pace['since'] - time.time()) < 60
    assert both['s2']['rates'] == [{'of': 'lane', 'unit': 'messages', 'rate': '1000/s'}]
    table = say(daemon)
    assert 'closed: by the receiver, tried in 14m' in table and 'zen.spamhaus.org' in table
    assert 'slow down' in table and max(map(len, table.splitlines())) < 400
    one = say(daemon, receiver.nexthop, '--source', 's2')
    assert '1000/s messages, of the lane' in one and 'slow down' in one and 'smtp' in one
    assert set(lanes(daemon, '--state', 'closed')) == {'s1'}
    say(daemon, 'open', receiver.nexthop, '--source', 's1')
    assert lanes(daemon)['s1']['state'] == 'open' and 'closed' not in lanes(daemon)['s1']
    assert daemon.command('suspend', '--source', 's1', '--for', '1d', '--reason', 'D-9').returncode == 0
    until(lambda: 'suspended' in lanes(daemon)['s1'], lambda: lanes(daemon))
    assert lanes(daemon)['s1']['suspended']['reason'] == 'D-9' and 'suspended' not in lanes(daemon)['s2']
    assert 'suspended: its source, by order 1, over in 23h59m: D-9' in say(daemon)


def test_explain(place):
    """Where each value is from, and what stands of the lanes that the tenant's mail may take."""
    receiver, daemon = start(place)
    daemon.tenants['acme'] = {'pool': 'one'}
    daemon.pools['one'] = {'sources': ['s2']}
    daemon.sources['s2']['max_message_quota'] = '5000/d'
    daemon.write_config()
    text = daemon.command('explain', receiver.nexthop).stdout.decode()
    reload(daemon)
    assert 'no mail for it has gone to a scheduler lately' in text
    send(daemon, 4)
    receiver.wait(4)
    say(daemon, 'close', receiver.nexthop, '--source', 's1', '--reason', 'D-9')
    text = daemon.command('explain', 'x.test').stdout.decode()
    assert f'lane {receiver.nexthop} from s1: closed, again in 59m' in text
    assert '    closed: by order, opens in 59m' in text and 'by local: D-9' in text
    assert 'from s2: open, window' in text and '5000/d of the source, 499' in text
    assert 'pool "all" at' in text and 'source "s1" at' in text and '5000/d' in text
    answer = json.loads(daemon.command('explain', 'x.test', '--tenant', 'acme', '--json').stdout)
    assert answer['pool']['name'] == 'one' and [one['name'] for one in answer['sources']] == ['s2']
    assert [(one['source'], one['state']) for one in answer['lanes']] == [('s2', 'open')]
    daemon.stop()
    text = daemon.command('explain', 'x.test')
    assert text.returncode == 0 and not text.stderr and b'now' not in text.stdout.split(b'\n')


def test_names(place):
    """A provider before its mail, with the sources there are; a destination; what is unknown is told with
    what is near."""
    receiver, daemon = start(place, providers={'bigmail': {'mx': ['*.big.test']},
                                               'domains': {'domains': ['one.test']}})
    send(daemon, 2)
    receiver.wait(2)
    said = say(daemon, 'close', 'bigmail', '--for', '1d')
    assert 'lane provider:bigmail from s1: closed' in said and 'from s2: closed' in said
    remembered = [one for one in daemon.query('lanes', 'bigmail')]
    assert {one['state'] for one in remembered} == {'closed'} and len(remembered) == 2
    assert {one['provider'] for one in remembered} == {'bigmail'}
    assert 'known once mail goes there' in say(daemon, 'close', 'domains', code=66)
    assert 'did you mean "bigmail"' in say(daemon, 'close', 'bigmial', code=66)
    assert f'names: {receiver.nexthop}' in say(daemon, 'open', '127.0.0', code=66)
    assert 'did you mean "s1"' in say(daemon, 'close', receiver.nexthop, '--source', 's11', code=66)
    assert 'one of s1, s2' in say(daemon, 'pace', receiver.nexthop, '5/s', code=64)
    assert 'RATE is missing' in say(daemon, 'pace', receiver.nexthop, code=64)
    assert 'such as' in say(daemon, 'pace', receiver.nexthop, 'fast', '--source', 's1', code=64)
    assert 'SITE is missing' in say(daemon, 'open', code=64)
    assert say(daemon, '--destination', receiver.nexthop, '--state', 'open').count('open') == 2
    assert say(daemon, 'nowhere').strip() == 'no such lane is known'
    connection = Connection(daemon)
    for body, status, text in (
            (b'{"order": "close", "site": "bigmail", "source": "s1", "for": "90s"}', 200, b'"by":"local"'),
            (b'{"order": "close", "site": "bigmail", "fro": "90s"}', 422, b'fro: there is no such member'),
            (b'{"order": "stop", "site": "bigmail"}', 422, b'one of open, close, pace'),
            (b'{"order": "close", "site": "bigmail", "for": 0}', 422, b'longer than 0'),
            (b'{"order": "open"}', 422, b'site: ')):
        connection.request('POST', '/v1/lanes', body, {'Content-Type': 'application/json'})
        answer = connection.getresponse()
        said = answer.read()
        assert (answer.status, text in said) == (status, True), (body, answer.status, said)
    connection.close()
    status, found = ask(daemon, '/v1/lanes', state='shut')
    assert status == 400


def test_sets_of_hosts(place):
    """A provider that its domains alone name has lanes for each set of hosts; an order by its name is for
    all of them, and one for a destination for its set alone. One by hosts is closed before its mail."""
    net = Net(place)
    for number in (1, 2):
        net.host(f'mx{number}.test')
        net.mx(f'd{number}.test', f'mx{number}.test')
    net.host('mx.big.test')
    net.mx('big.test', 'mx.big.test')
    net.start(providers={'few': {'domains': ['d1.test', 'd2.test']}, 'big': {'mx': ['*.big.test']}},
              options={'minimal_backoff_time': '300s', 'maximal_backoff_time': '300s'})
    daemon = net.daemon
    for number in (1, 2):
        net.deliver(f'd{number}.test')
    found = {one['site']: one for one in daemon.query('lanes', 'few')}
    assert {site: one['hosts'] for site, one in found.items()} == \
        {'provider:few/mx1.test': 'mx1.test', 'provider:few/mx2.test': 'mx2.test'}
    assert say(daemon, 'close', 'few', '--for', '1h').count(': closed') == 2
    assert say(daemon, 'open', 'd1.test').splitlines() == ['lane provider:few/mx1.test from -: open']
    assert [one['state'] for one in daemon.query('lanes', '--destination', 'd2.test')] == ['closed']
    assert say(daemon, 'open', 'provider:few/mx2.test', '--source', '-').count(': open') == 1
    say(daemon, 'close', 'big', '--for', '1h', '--reason', 'not yet')
    net.send('big.test')
    assert net.result('big.test')['type'] == 'TransientFailure'
    assert 'by local: not yet' in str(net.result('big.test')['response'])
    assert [one['state'] for one in daemon.query('lanes', 'big')] == ['closed']
    say(daemon, 'close', 'few')
    assert 'there is no source "s9"' in say(daemon, 'open', '--source', 's9', code=66)
    assert say(daemon, 'open', '--source', '-').count(': open') == 3
    assert say(daemon, 'open', '--source', '-').strip() == 'nothing holds a lane of it back'
    assert 'SITE is missing' in say(daemon, 'close', '--source', '-', code=64)
    daemon.command('flush', '--domain', 'big.test')
    daemon.wait_event('Delivery', 'user@big.test')
