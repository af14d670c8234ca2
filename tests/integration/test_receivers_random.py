"""Random providers, domains, sources, pools, tenants and rates, one reload after the other while mail
flows to receivers that are found by MX records: nothing is lost, nothing comes twice without a mark,
and the daemon ends well. RECEIVERS_SECONDS: how long; SLUICE_SEED: which. Made for a build with the
address sanitizer."""
import os
import random
import time

from support.address import fresh_address
from support.client import message, submit
from support.injection import post
from support.providers import Providers
from support.reloading import reload
from support.sanitizer import check_log
from support.wait import until

SECONDS = float(os.environ.get('RECEIVERS_SECONDS', '6'))
SEED = int(os.environ.get('SLUICE_SEED', '0')) or random.SystemRandom().randrange(1 << 30)
PATIENCE = float(os.environ.get('RECEIVERS_PATIENCE', '60'))
REAL = {f'p{n}': ([f'a{n}.test', f'b{n}.test', f'c{n}.test'], [f'mx1.p{n}.test', f'mx2.p{n}.test'])
        for n in range(4)}
DOMAINS = [domain for domains, _ in REAL.values() for domain in domains]
FINAL = ('Delivery', 'Bounce', 'Expiration')
KEYS = 'round_trip = 1-20 extensions = {pipelining, chunking, 8bitmime}'
# By chance: what waits for the retry schedule goes with the flush at the end.
ROUGH = KEYS + ' reject = {"rcpt:0.05:450 4.2.0 later", "mail:0.02:451 4.3.0 later"}'
RATES = ['40/s', '3000/min', '200/s, burst 5', '90000/h', 'none']
QUOTAS = ['100000/d', '5000/h', 'none']
OPTIONS = {
    'destination_concurrency_limit': lambda c: c.randint(1, 6),
    'initial_destination_concurrency': lambda c: c.randint(1, 3),
    'site_concurrency_limit': lambda c: c.randint(0, 5),
    'destination_recipient_limit': lambda c: c.randint(1, 60),
    'destination_rate_delay': lambda c: c.choice(['0s', '20ms']),
    'pipeline_depth': lambda c: c.choice([1, 4, 16]),
    'concurrency_feedback_rule': lambda c: c.choice(['readme', 'postfix3']),
    'lane_memory': lambda c: c.choice(['0s', '1s', '1h']),
    'smtp_connection_cache_time_limit': lambda c: c.choice(['0s', '1s', '5s']),
    'smtp_connection_reuse_time_limit': lambda c: c.choice(['1s', '300s']),
    'smtp_connection_reuse_count_limit': lambda c: c.randint(0, 4),
    'smtp_rcpt_timeout': lambda c: c.choice(['300s', '310s']),
    'smtp_mx_address_limit': lambda c: c.randint(0, 5),
    'inet_protocols': lambda c: c.choice(['all', 'ipv4']),
    'block_pause': lambda c: c.choice(['1s', '15m']),
    'max_message_rate': lambda c: c.choice(RATES),
    'max_recipient_rate': lambda c: c.choice(RATES),
    'max_connection_rate': lambda c: c.choice(RATES),
    'site_message_rate': lambda c: c.choice(RATES),
    'max_message_quota': lambda c: c.choice(QUOTAS),
}


def some(chance, names, density):
    return [name for name in names if chance.random() < density]


def draw_options(chance):
    return {name: OPTIONS[name](chance) for name in some(chance, OPTIONS, chance.choice([0.1, 0.4]))}


class Drawing:
    """Configurations of one daemon."""

    def __init__(self, daemon, chance):
        self.daemon, self.chance = daemon, chance
        self.addresses = [fresh_address() for _ in range(4)]
        self.transport = daemon.transports['smtp']

    def sources(self):
        chance = self.chance
        given = {f's{n}': {'address': address} for n, address in enumerate(self.addresses)}
        if chance.random() < 0.3:
            given['gone'] = {'address': '192.0.2.77'}
        for options in given.values():
            if chance.random() < 0.3:
                options['max_message_rate'] = chance.choice(RATES)
            if chance.random() < 0.2:
                options['warmup'], options['since'] = ['100000/d', 'none'], '2026-01-01'
        return given

    def draw(self):
        chance, daemon = self.chance, self.daemon
        daemon.sources = self.sources()
        names = list(daemon.sources)
        daemon.pools = {pool: {'sources': own, 'weights': [chance.randint(1, 5) for _ in own]}
                        for pool in ('one', 'two')
                        for own in [sorted({names[0], *some(chance, names, 0.5)})]}
        daemon.transports = {'smtp': {**self.transport, **draw_options(chance), **(
            {'source_pool': chance.choice(['one', 'two'])} if chance.random() < 0.8 else {})}}
        daemon.tenants = {'acme': {'pool': chance.choice(['one', 'two'])}} if chance.random() < 0.5 else {}
        daemon.providers = {
            name: {**draw_options(chance), **({'mx': [f'*.{name}.test']} if chance.random() < 0.7
                                              else {'domains': REAL[name][0][:chance.randint(1, 3)]})}
            for name in some(chance, REAL, 0.6)}
        daemon.domains = {domain: draw_options(chance) for domain in some(chance, DOMAINS, 0.3)}

    def calm(self):
        daemon = self.daemon
        daemon.sources = daemon.pools = daemon.tenants = daemon.providers = daemon.domains = {}
        daemon.transports = {'smtp': self.transport}


def send(daemon, chance, number):
    """The recipients of one message."""
    domains = chance.sample(DOMAINS, chance.randint(1, 3))
    recipients = [f'm{number}.{n}@{chance.choice(domains)}' for n in range(chance.choice([1, 1, 3, 30]))]
    if chance.random() < 0.5:
        submit(daemon, 'a@sender.test', recipients, message())
    else:
        answer = post(daemon, {'messages': [{'from': 'a@sender.test', 'recipients': recipients, 'tenant': 'acme',
                                             'text': 'x\n', 'headers': {'Subject': 'x'}}]})
        assert answer.status == 202, answer
    return recipients


def stuck(daemon):
    told = [daemon.command(*words).stdout.decode()[:3000] for words in
            (['status'], ['messages', '--limit', '5'], ['lanes'], ['sites'], ['destinations'])]
    ids = [line.split()[0] for line in told[1].splitlines()[1:3]]
    told += [daemon.command('why', id).stdout.decode() for id in ids]
    return '\n'.join(told) + daemon.log()[:3000]


def test_receivers_at_random(place):
    print(f'seed {SEED}')
    chance = random.Random(SEED)
    world = Providers(place, {name: ROUGH if n % 2 else KEYS for n, name in enumerate(REAL)}, real=REAL,
                      lookalike={})
    settings = world.settings()
    settings['options'].update(minimal_backoff_time='1s', maximal_backoff_time='1s', queue_run_delay='1s')
    daemon = place.sluice(http={}, tenants={}, **settings)
    drawing = Drawing(daemon, chance)
    sent, number, reloads, end = [], 0, 0, time.monotonic() + SECONDS
    while time.monotonic() < end or reloads < 3:
        drawing.draw()
        reload(daemon)
        reloads += 1
        for _ in range(chance.randint(1, 8)):
            number += 1
            sent += send(daemon, chance, number)
        for word in ('status', 'sites', 'lanes', 'transports'):
            assert daemon.command(word, timeout=PATIENCE).returncode == 0
        time.sleep(chance.uniform(0, 0.3))
    drawing.calm()
    reload(daemon)

    def is_empty():
        daemon.command('flush', timeout=PATIENCE)
        return daemon.totals()['messages'] == 0
    until(is_empty, lambda: f'seed {SEED}: the queue is empty:\n{stuck(daemon)}', PATIENCE)
    came = world.delivered()
    for recipient in sent:
        results = daemon.results(recipient)
        final = [e['type'] for e in results if e['type'] in FINAL]
        marks = sum(bool(e.get('is_ambiguous')) for e in results)
        assert final == ['Delivery'], (SEED, recipient, results)
        assert 1 <= len(came.get(recipient, [])) <= 1 + marks, (SEED, recipient, came.get(recipient), results)
        own = REAL[f'p{recipient.split("@")[1][1]}'][1]
        assert set(came[recipient]) <= set(own), (SEED, recipient, came[recipient])
    print(f'{reloads} reloads, {number} messages, {len(sent)} recipients')
    assert daemon.stop(PATIENCE) == 0
    check_log(daemon.log())
