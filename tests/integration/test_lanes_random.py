"""Orders on lanes, reloads that add and take away sources, pools, providers and transports, orders on mail, and
receivers that slow down, list and throttle, all at once: nothing is lost or done twice, every answer is sound, and in
the end everything goes out.

LANES_RANDOM_SECONDS (5) of trouble, by LANES_RANDOM_SEED (of the clock; it is printed). With LANES_RANDOM_KILL the daemon
is also killed now and then; a message may then come twice.
"""
import itertools
import json
import os
import random
import threading
import time

from support.api import Connection, ask
from support.client import message, submit
from support.net import Net
from support.reloading import reload
from support.sanitizer import check_log
from support.wait import until

SECONDS = float(os.environ.get('LANES_RANDOM_SECONDS', '5'))
SEED = int(os.environ.get('LANES_RANDOM_SEED') or time.time_ns() % 1_000_000)
KILLS = bool(os.environ.get('LANES_RANDOM_KILL'))
PATIENCE = 60 + SECONDS
HOSTS = ('mx1.big.test', 'mx2.big.test', 'mx.one.test', 'mx.two.test', 'mx.three.test')
DOMAINS = {'a.big.test': HOSTS[:2], 'b.big.test': HOSTS[:1], 'one.test': HOSTS[2:3], 'two.test': HOSTS[3:4],
           'three.test': HOSTS[4:], 'also.three.test': HOSTS[4:]}
SOURCES = [f's{n}' for n in range(1, 5)]
STATES = {'open', 'paced', 'paused', 'closed', 'probing', 'dead'}
FINAL = ('Delivery', 'Bounce', 'AdminBounce', 'AdminDrop', 'Expiration')


class Trouble:
    """What receivers say, as long as it lasts."""

    def __init__(self, chance):
        self.chance, self.is_over = chance, False

    def __call__(self, verb, argument, session):
        roll = 1.0 if self.is_over else self.chance.random()
        if verb == 'MAIL' and roll < 0.08:
            return '421 4.7.28 Too many messages, slow down'
        if verb == '' and roll < 0.02:
            return '421 4.7.0 too many connections from your address'
        if verb == 'RCPT' and roll < 0.03:
            return f'554 5.7.1 Service unavailable; Client host [{session.peer[0]}] blocked using zen.spamhaus.org'
        if verb == 'RCPT' and roll < 0.05:
            return '450 4.2.0 come again' if roll < 0.04 else '550 5.1.1 no such user'
        return None


def configure(daemon, chance):
    """Some of the sources, at least one; pools of them; a provider, or none; rates, or none."""
    some = chance.sample(SOURCES, chance.randint(1, len(SOURCES)))
    daemon.sources = {name: {'address': f'127.0.0.{20 + int(name[1])}'} for name in some}
    if chance.random() < 0.3:
        daemon.sources[some[0]]['max_message_rate'] = chance.choice(['5/s', '50/s', '300/min'])
    daemon.pools = {'all': {'sources': some}, 'one': {'sources': some[:1]}}
    daemon.tenants = {'acme': {'pool': 'one'}} if chance.random() < 0.5 else {}
    daemon.providers = {}
    if chance.random() < 0.6:
        daemon.providers['big'] = {'mx': ['*.big.test']}
    if chance.random() < 0.6:
        daemon.providers['few'] = {'domains': ['one.test', 'two.test'],
                                   **({'max_message_rate': '20/s'} if chance.random() < 0.5 else {})}
    for name in ('smtp', 'bulk'):
        if name == 'bulk' and chance.random() < 0.3:
            daemon.transports.pop('bulk', None)
            daemon.routes = {'*': ('smtp', None)}
            continue
        daemon.transports[name] = {
            'smtp_tcp_port': daemon.transports['smtp']['smtp_tcp_port'], 'source_pool': chance.choice(['all', 'one']),
            'site_rollup': chance.random() < 0.8, 'block_pause': chance.choice(['1s', '3s', '900s']),
            'destination_concurrency_limit': chance.randint(1, 20)}
        if chance.random() < 0.3:
            daemon.transports[name]['max_message_rate'] = chance.choice(['10/s', '200/s'])
        daemon.routes = {'*': ('smtp', None), 'one.test': ('bulk', None), 'b.big.test': ('bulk', None)}
    if 'bulk' not in daemon.transports:
        daemon.routes = {'*': ('smtp', None)}


class Mail(threading.Thread):
    def __init__(self, daemon, chance):
        super().__init__(daemon=True)
        self.relay, self.chance, self.accepted = daemon, chance, []
        self.is_over = threading.Event()

    def run(self):
        for number in itertools.count():
            if self.is_over.wait(self.chance.uniform(0, 0.05)):
                return
            recipient = f'u{number}@{self.chance.choice(list(DOMAINS))}'
            try:
                if submit(self.relay, 'a@sender.test', [recipient], message()).code == 250:
                    self.accepted.append(recipient)
            except (OSError, EOFError, AssertionError):
                time.sleep(0.1)  # it is started again


def check_lane(lane):
    assert lane['state'] in STATES, lane
    assert ('closed' in lane) == (lane['state'] in ('closed', 'probing')), lane
    for pace in lane.get('paces', []):
        assert pace['per_second'] > 0 and pace['of'] in ('messages', 'recipients', 'connects'), lane
    assert ('window' in lane) == ('transport' in lane), lane
    assert lane['closed_destinations'] >= len(lane.get('destinations', [])), lane


def rows(daemon, path, **params):
    """Over the control socket: a process for each question would be most of the test under a sanitizer."""
    status, found = ask(daemon, path, **params)
    assert status == 200 and found[-1]['end'], (path, found[-1:])
    return found[:-1]


def post(daemon, path, body):
    connection = Connection(daemon)
    connection.request('POST', path, json.dumps(body), {'Content-Type': 'application/json'})
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def look(daemon, chance):
    what = chance.randrange(5)
    if what == 0:
        for lane in rows(daemon, '/v1/lanes', **chance.choice([{}, {'state': 'closed'}, {'sort': 'load'}])):
            check_lane(lane)
    elif what == 1:
        for site in rows(daemon, '/v1/sites'):
            assert site['closed_lanes'] + site['paced_lanes'] <= site['lanes'], site
    elif what == 2:
        status, [answer] = ask(daemon, '/v1/why', destination=chance.choice(list(DOMAINS)))
        assert status == 200 and answer['chain'], answer
    else:
        words = chance.choice([['lanes'], ['lanes', '--state', 'closed'], ['explain', 'one.test'], ['sites']])
        done = daemon.command(*words)
        assert done.returncode == 0, (words, done.stderr)


def order(daemon, chance):
    """Of whatever name: known, not known any more, or not yet."""
    body = {'site': chance.choice([*DOMAINS, *HOSTS, 'big', 'few', 'provider:few/mx.one.test', 'nobody']),
            'reason': 'random',
            **chance.choice([{'order': 'open'}, {'order': 'close', 'for': chance.choice(['1s', '2s', '1h'])},
                             {'order': 'pace', 'rate': chance.choice(['none', '1/s', '20/s', '2/h'])}])}
    if chance.random() < 0.6:
        body['source'] = chance.choice([*SOURCES, '', 's9'])
    if body['order'] == 'open' and 'source' in body and chance.random() < 0.3:
        del body['site']
    status, answer = post(daemon, '/v1/lanes', body)
    assert status in (200, 404, 422), (body, answer)
    for lane in answer.get('lanes', []):
        check_lane(lane)


def withdraw(daemon, chance):
    """Mail that a scheduler has is taken back from it; or all is tried."""
    domain, source = chance.choice(list(DOMAINS)), chance.choice(SOURCES)
    body = chance.choice([{'order': 'suspend', 'domain': domain, 'for': '2s'},
                          {'order': 'suspend', 'source': source, 'for': '2s'},
                          {'order': 'drop', 'domain': domain, 'for': '0'}, {}])
    status, answer = post(daemon, '/v1/orders', {**body, 'reason': 'random'}) if body else post(daemon, '/v1/flush', {})
    assert status in (201, 202), (body, answer)


def settle(daemon, net):
    """A plain configuration, and nothing that holds anything back: all of it goes."""
    daemon.sources = {'s1': {'address': '127.0.0.21'}}
    daemon.pools, daemon.tenants, daemon.providers = {'all': {'sources': ['s1']}}, {}, {}
    daemon.transports = {'smtp': {'smtp_tcp_port': net.port, 'source_pool': 'all'}}
    daemon.routes = {'*': ('smtp', None)}
    reload(daemon)

    def is_empty():
        daemon.command('resume', '--all')
        for site in {lane['site'] for lane in rows(daemon, '/v1/lanes', limit=10000) if lane['state'] != 'open'}:
            status, answer = post(daemon, '/v1/lanes', {'order': 'open', 'site': site})
            assert status == 200, answer
        post(daemon, '/v1/flush', {})
        return daemon.totals()['messages'] == 0
    until(is_empty, lambda: f'all is sent: {daemon.totals()} {daemon.query("lanes")}', PATIENCE)


def test_orders_on_lanes_among_everything(place):
    print(f'seed {SEED}')
    chance = random.Random(SEED)
    trouble = Trouble(random.Random(SEED + 1))
    net = Net(place)
    receivers = [net.host(name, answers=trouble) for name in HOSTS]
    for domain, hosts in DOMAINS.items():
        net.mx(domain, *hosts)
    daemon = net.start(options={'minimal_backoff_time': '1s', 'maximal_backoff_time': '2s', 'queue_run_delay': '1s'}).daemon
    configure(daemon, chance)
    reload(daemon)
    mail = Mail(daemon, random.Random(SEED + 2))
    mail.start()
    counts = {'order': 0, 'reload': 0, 'withdraw': 0, 'look': 0, 'restart': 0, 'kill': 0}
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        kind = chance.choices(['order', 'reload', 'withdraw', 'look', 'restart', 'kill'],
                              [50, 20, 12, 17, 1, int(KILLS)])[0]
        counts[kind] += 1
        if kind == 'order':
            order(daemon, chance)
        elif kind == 'reload':
            configure(daemon, chance)
            reload(daemon)
        elif kind == 'withdraw':
            withdraw(daemon, chance)
        elif kind == 'look':
            look(daemon, chance)
        else:
            check_log(daemon.log())
            if kind == 'kill':
                daemon.kill()
            else:
                assert daemon.stop() == 0
            daemon.start()
    mail.is_over.set()
    mail.join()
    trouble.is_over = True
    settle(daemon, net)
    print(counts, len(mail.accepted), sum(len(r.messages) for r in receivers))
    done = {}
    for event in daemon.events():
        if event['type'] in FINAL:
            done[event['recipient']] = done.get(event['recipient'], 0) + 1
    assert not [one for one in mail.accepted if one not in done], 'each ends'
    assert KILLS or not [one for one in mail.accepted if done[one] != 1], 'and once'
    assert daemon.stop() == 0
    check_log(daemon.log())
