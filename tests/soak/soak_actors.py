"""Who works on the soak's daemon: injectors, readers, and an operator who changes everything."""
import http.client
import json
import random
import signal
import subprocess
import threading
import time
import urllib.parse

from soak_world import BACK, KINDS, domains
from support import injection
from support.api import Connection

TENANTS = [f't{n}' for n in range(1, 6)]
CAMPAIGNS = [f'c{n}' for n in range(1, 9)]
READS = ('/v1/status', '/v1/counts?by=tenant,state', '/v1/counts?by=destination,state',
         '/v1/counts?by=domain&tenant=t1', '/v1/messages?limit=100',
         '/v1/messages?state=deferred&limit=20', '/v1/messages?tenant=t2&limit=20',
         '/v1/destinations', '/v1/destinations?sort=load&limit=20', '/v1/hosts', '/v1/transports',
         '/v1/sources', '/v1/tenants', '/v1/responses', '/v1/series', '/v1/events?after=start',
         '/v1/events/consumers', '/v1/config', '/v1/orders', '/metrics', '/', '/healthz', '/readyz',
         '/v1/why?tenant=t1', '/v1/why?tenant=t3',
         '/v1/why?destination={destination}', '/v1/windows?destination={destination}',
         '/v1/trace?destination={destination}&limit=100', '/v1/messages/{message}',
         '/v1/why?message={message}')
COMMANDS = (('status',), ('counts', '--by', 'tenant,state'), ('messages',), ('tenants',),
            ('transports',), ('sources',), ('responses',), ('orders',), ('hosts',),
            ('why', 'chunks.small.test'), ('why', '-t', 't2'), ('trace', 'defers.small.test'),
            ('destinations', 'small'), ('explain', 'plain.many.test'), ('check',), ('events', 'consumers'))
# done; no such thing; cannot answer now; later; what is no mistake of the command
COMMAND_CODES = {0, 66, 69, 75}
# The operator's lists, as the configuration's options.
LIMITS = {'destination_recipient_limit': (1, 2, 5, 10, 50, 100, 0),
          'destination_concurrency_limit': (1, 2, 5, 20), 'pipeline_depth': (1, 4, 16),
          'initial_destination_concurrency': (1, 3, 5), 'process_limit': (20, 60, 100),
          'concurrency_feedback_rule': ('readme', 'postfix3'),
          'scheduler': ('preemptive', 'preemptive', 'fifo', 'round_robin'), 'delivery_slot_cost': (0, 5),
          'recipient_limit': (100, 20000), 'host_concurrency_limit': (0, 2, 10)}
TOP_LIMITS = {'message_active_limit': (100, 2000, 20000),
              'message_recipient_limit': (300, 4000, 50000),
              'minimal_backoff_time': ('1s', '2s', '4s')}


class Actor(threading.Thread):
    """Does something again and again. A fault in the dialogue with a daemon that was up all the
    time is a finding."""

    def __init__(self, soak, seed, pause):
        super().__init__(daemon=True)
        self.soak, self.chance, self.pause = soak, random.Random(seed), pause
        self.is_over = threading.Event()
        self.start()

    def run(self):
        while not self.is_over.wait(self.chance.uniform(0.5, 1.5) * self.pause):
            life = self.soak.life
            try:
                if self.soak.is_up:
                    self.act()
            except (OSError, http.client.HTTPException, ValueError, KeyError, AssertionError,
                    subprocess.TimeoutExpired) as error:
                if self.soak.is_up and self.soak.life == life:
                    time.sleep(0.5)  # a daemon that ends by itself is found by the main loop
                    if self.soak.is_up and self.soak.life == life and self.soak.daemon.is_alive():
                        self.soak.fail(f'{type(self).__name__}: {self.what}: {error!r}')

    what = ''

    def close(self):
        self.is_over.set()
        self.join(120)


class Injector(Actor):
    """Messages over HTTP: batches, campaigns, some scheduled, some with a life of their own."""

    def __init__(self, soak, seed, rate):
        self.offered, self.accepted, self.number = {}, [], 0
        self.names = list(domains('http'))
        self.weights = list(domains('http').values())
        super().__init__(soak, seed, 8 / rate)

    def message(self):
        self.number += 1
        id = f'h{self.number}'
        count = self.chance.choice((1, 1, 1, 1, 3, 12))
        names = self.chance.choices(self.names, self.weights, k=count)
        self.offered[id] = [f'{id}.{n}@{name}' for n, name in enumerate(names)]
        one = {'recipients': self.offered[id], 'text': 'x' * self.chance.choice((10, 3000, 50000)),
               'headers': {'Subject': id, 'X-Sluice-Id': id},
               'campaign': self.chance.choice(CAMPAIGNS), 'tenant': self.chance.choice(TENANTS)}
        if self.chance.random() < 0.1:
            one['not_before'] = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(
                time.time() + self.chance.uniform(3, self.soak.lifetime / 2)))
        if self.chance.random() < 0.05:
            one['expires_in'] = f'{self.chance.randint(5, self.soak.lifetime)}s'
        return id, one

    def act(self):
        made = [self.message() for _ in range(self.chance.choice((1, 1, 10, 20)))]
        self.what = f'{len(made)} messages from {made[0][0]}'
        answer = injection.post(self.soak.daemon, {
            'defaults': {'from': f'bounce+http@{BACK}'}, 'messages': [one for _, one in made]})
        if answer.status == 202:
            self.accepted += [id for id, _ in made]
        elif answer.status == 207:
            self.accepted += [id for (id, _), result in zip(made, answer.object['results'])
                              if 'id' in result]
        else:
            assert answer.status in (429, 503), answer


class Reader(Actor):
    """Reads everything, and notes how long that takes."""

    def __init__(self, soak, seed):
        self.took, self.messages, self.destinations = [], [], ['chunks.small.test']
        super().__init__(soak, seed, 0.3)

    def act(self):
        path = self.chance.choice(READS)
        if '{message}' in path and not self.messages:
            return
        path = path.format(
            destination=urllib.parse.quote(self.chance.choice(self.destinations), safe=''),
            message=self.chance.choice(self.messages) if self.messages else '')
        self.what = path
        connection = Connection(self.soak.daemon)
        connection.timeout = self.soak.read_limit
        begin = time.monotonic()
        try:
            connection.request('GET', path)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        took = time.monotonic() - begin
        assert response.status in (200, 404) or \
            response.status == 503, f'{response.status} {body[:300]!r}'
        self.took.append((took, path))
        if path.startswith(('/v1/messages?', '/v1/destinations')) and response.status == 200:
            lines = [json.loads(line) for line in body.splitlines()]
            assert lines[-1]['end'] is True
            if path.startswith('/v1/messages?'):
                self.messages = [line['id'] for line in lines[:-1]] or self.messages
            else:
                self.destinations = [line['destination'] for line in lines[:-1]] or self.destinations


class Caller(Actor):
    """The commands themselves: their programs are sanitized, too."""

    def __init__(self, soak, seed):
        self.count = 0
        super().__init__(soak, seed, 4)

    def act(self):
        command = self.chance.choice(COMMANDS)
        self.what = ' '.join(command)
        done = self.soak.daemon.command(*command, timeout=self.soak.read_limit)
        self.count += 1
        text = done.stdout + done.stderr
        assert done.returncode in COMMAND_CODES and b'Sanitizer' not in text, \
            f'exit {done.returncode}: {text[-2000:]!r}'


class Operator:
    """One change at a time, called by the main loop; what it changes it also ends."""

    def __init__(self, soak, chance):
        self.soak, self.chance = soak, chance
        self.counts, self.later = {}, []
        self.rotations = 0

    def act(self):
        self.run_due()
        kinds = [self.reload] * 4 + [self.order] * 6 + [self.rotate, self.receiver_down, self.flush,
                                                       self.freeze_zone, self.low_disk,
                                                       self.full_disk, self.resume]
        act = self.chance.choice(kinds)
        life = self.soak.life
        try:
            act()
        except (OSError, http.client.HTTPException, AssertionError, ValueError) as error:
            time.sleep(0.5)
            if self.soak.life == life and self.soak.daemon.is_alive():
                self.soak.fail(f'operator: {act.__name__}: {error!r}')
            return
        self.counts[act.__name__] = self.counts.get(act.__name__, 0) + 1

    def after(self, seconds, what):
        self.later.append((time.monotonic() + seconds, what))

    def run_due(self, is_end=False):
        due = [item for item in self.later if is_end or item[0] <= time.monotonic()]
        for item in due:
            self.later.remove(item)
            item[1]()

    def ask(self, method, path, body=None, statuses=(200, 201, 202)):
        connection = Connection(self.soak.daemon)
        connection.timeout = self.soak.read_limit
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None,
                               {'Content-Type': 'application/json'})
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        assert response.status in statuses, f'{method} {path} {body}: {response.status} {text[:500]}'
        return text

    # --- configuration ---------------------------------------------------------------------------

    def reload(self):
        daemon, chance = self.soak.daemon, self.chance
        kind = chance.choice(('limits', 'limits', 'limits', 'top', 'route', 'weights', 'transport'))
        if kind == 'limits':
            options = daemon.transports[chance.choice(('smtp', 'bulk', 'slow'))]
            for name in chance.sample(sorted(LIMITS), 3):
                options[name] = chance.choice(LIMITS[name])
        elif kind == 'top':
            name = chance.choice(sorted(TOP_LIMITS))
            daemon.options[name] = chance.choice(TOP_LIMITS[name])
        elif kind == 'route':
            where = f'{chance.choice(sorted(KINDS))}.{chance.choice(("small", "chunk", "http"))}.test'
            daemon.routes[where] = (chance.choice(('smtp', 'bulk', 'slow')), None)
        elif kind == 'weights':
            daemon.pools['both']['weights'] = chance.choice(([1, 1], [3, 1], [1, 0]))
        elif len(daemon.transports) < 8:
            # In force only from the next start on; what reads must bear it until then.
            daemon.transports[f'extra{len(daemon.transports)}'] = dict(daemon.transports['slow'])
        daemon.write_config()
        self.ask('POST', '/v1/reload')

    def calm(self):
        """Limits with which everything that is left can leave."""
        daemon = self.soak.daemon
        for name in ('smtp', 'bulk', 'slow'):
            for option in LIMITS:
                daemon.transports[name].pop(option, None)
        daemon.options.update(message_active_limit=20000, message_recipient_limit=50000)
        daemon.write_config()
        self.ask('POST', '/v1/reload')

    # --- orders ----------------------------------------------------------------------------------

    def selector(self):
        kind = self.chance.choice(('tenant', 'campaign', 'domain', 'destination', 'transport',
                                   'source'))
        value = {'tenant': self.chance.choice(TENANTS), 'campaign': self.chance.choice(CAMPAIGNS),
                 'domain': f'{self.chance.choice(sorted(KINDS))}.small.test',
                 'destination': f'{self.chance.choice(sorted(KINDS))}.chunk.test',
                 'transport': self.chance.choice(('bulk', 'slow')),
                 'source': self.chance.choice(('one', 'two'))}[kind]
        selector = {kind: value}
        if kind in ('tenant', 'domain') and self.chance.random() < 0.3:
            selector['campaign'] = self.chance.choice(CAMPAIGNS)
        return selector

    def order(self):
        order = self.chance.choice(('suspend', 'suspend', 'suspend', 'bounce', 'drop'))
        selector = self.selector()
        span = f'{self.chance.randint(3, 25)}s'
        if order != 'suspend':
            span = self.chance.choice(('0', '2s'))
            while 'source' in selector or 'transport' in selector:
                selector = self.selector()
        # A full disk takes no order: it has to be on the disk before it works.
        self.ask('POST', '/v1/orders', {'order': order, 'for': span, 'reason': 'soak', **selector,
                                        'dry_run': self.chance.random() < 0.1},
                 statuses=(200, 201, 503) if self.soak.disk.is_filled() else (200, 201))

    def orders(self):
        lines = [json.loads(line) for line in self.ask('GET', '/v1/orders').splitlines()]
        return [line['id'] for line in lines[:-1]]

    def resume(self):
        orders = self.orders()
        if orders:
            self.ask('DELETE', f'/v1/orders/{self.chance.choice(orders)}', statuses=(200, 404))

    def resume_all(self):
        for id in self.orders():
            self.ask('DELETE', f'/v1/orders/{id}', statuses=(200, 404))

    def flush(self):
        self.ask('POST', '/v1/flush', self.chance.choice((
            {'transport': 'smtp'}, {'tenant': 't1'}, {'destination': 'down.small.test'})))

    # --- the world -------------------------------------------------------------------------------

    def rotate(self):
        self.rotations += 1
        self.soak.rename_log(self.rotations)

    def receiver_down(self):
        self.soak.receivers.bring_up()
        self.soak.receivers.take_down()
        self.after(self.chance.uniform(2, 30), self.soak.receivers.bring_up)

    def freeze_zone(self):
        zone = self.soak.receivers.zone.process
        zone.send_signal(signal.SIGSTOP)
        self.after(self.chance.uniform(1, 6), lambda: zone.send_signal(signal.SIGCONT))

    def low_disk(self):
        self.fill(32 << 20)

    def full_disk(self):
        self.fill(0)

    def fill(self, left):
        self.soak.disk.fill(left)
        self.after(self.chance.uniform(2, 10), self.soak.disk.free)
