"""Configurations at random, one after the other in one daemon, while mail flows and everybody looks:
whatever is loaded, reloaded and read, the daemon lives, every open transport goes on, and of what was
accepted nothing is lost and nothing comes twice without a mark. Made for a build with the address
sanitizer. RELOAD_PAIRS: how many pairs of configurations (or RELOAD_SECONDS: as many as fit);
SLUICE_SEED: which; RELOAD_EPOCH: only this daemon of them. With RELOAD_PAIRS each look runs every
reading command, or so many as RELOAD_COMMANDS says; else a few in turn."""
import json
import os
import random
import re
import subprocess
import threading
import time

from support import injection
from support.address import free_port
from support.api import Connection
from support.certificate import make_certificate
from support.client import Client, message
from support.daemon import PROGRAM, Sluice
from support.drawn_config import DOMAINS, Drawing, Drawn
from support.sanitizer import check_log
from support.signing_key import make_signing_key
from support.tools import Sink
from support.wait import until

PAIRS = int(os.environ.get('RELOAD_PAIRS', '0'))
SECONDS = float(os.environ.get('RELOAD_SECONDS', '12'))
SEED = int(os.environ.get('SLUICE_SEED', '0')) or random.SystemRandom().randrange(1 << 30)
ONLY = os.environ.get('RELOAD_EPOCH')
COMMANDS = int(os.environ.get('RELOAD_COMMANDS', '0')) or (1000 if PAIRS else 3)  # of a look, at most
PAIRS_OF_EPOCH = 20  # of one daemon, which then gets a configuration under which everything may go
PATIENCE = float(os.environ.get('RELOAD_PATIENCE', '60'))  # seconds for what must happen; it takes milliseconds when idle
FINAL = ('Delivery', 'Bounce', 'Expiration', 'AdminBounce', 'AdminDrop')
GOOD = ('--extensions', 'pipelining,chunking,8bitmime,size,smtputf8,enhancedstatuscodes')
BAD = ('--extensions', 'pipelining,chunking,8bitmime,size', '--fault=reset:0.02', '--fault=421:0.02',
       '--fault=close:0.05', '--defer=0.1', '--reject-rcpt=0.05:550:5.1.1 nobody',
       '--reject-rcpt=0.1:450:4.2.0 later')
WRITING = {'run', 'check', 'explain', 'reload', 'drain', 'restart', 'send', 'inject', 'suspend', 'bounce', 'drop', 'resume',
           'flush', 'suppress', 'unsuppress', 'trace', 'why', 'message', 'dkim', 'repair', 'completion', 'manual', 'help', 'top'}


def reading_commands():
    """Every command that only reads, with all that it can be asked for."""
    listed = subprocess.run([PROGRAM, '--help'], capture_output=True, check=True).stdout.decode()
    names = set(re.findall(r'^  ([a-z]+)  ', listed, re.M))
    assert {'status', 'counts', 'messages'} <= names, listed
    return [*sorted(names - WRITING - {'events'}), 'events --limit 100', 'top --once', 'check', 'check --explain', 'explain {recipient}',
            'trace {domain}', 'why -d {domain}', 'why -t acme', 'why {id}', 'message {id}',
            'counts --by tenant,destination,state', 'destinations --sort load']


class Mail(threading.Thread):
    """Mail all the time: of many recipients or one, over SMTP or injected, to all domains."""

    def __init__(self, daemon, chance, name):
        super().__init__(daemon=True)
        self.relay, self.chance, self.prefix = daemon, chance, name
        self.is_over = threading.Event()
        self.pause = threading.Event()
        self.is_resting = threading.Event()
        self.accepted = []  # recipients; their message's id is in the address
        self.count = self.refused = 0
        self.failure = None

    def run(self):
        try:
            while not self.is_over.wait(self.chance.uniform(0, 0.2)):
                if self.pause.is_set():
                    self.is_resting.set()
                    continue
                self.is_resting.clear()
                self.send()
        except Exception as error:  # pylint: disable=broad-except
            self.failure = error

    def send(self):
        self.count += 1
        name = f'{self.prefix}.{self.count}'
        size = self.chance.choice([1, 1, 1, 2, 2, 5, 5, 20, 20, 20, 150])
        domains = self.chance.sample(DOMAINS, self.chance.randint(1, 3))
        recipients = [f'{name}.{n}@{self.chance.choice(domains)}' for n in range(size)]
        if self.chance.random() < 0.5:
            answer = inject(self.relay, name, recipients)
        else:
            answer = self.submit(name, recipients)
        if answer:
            self.accepted += recipients
        else:
            self.refused += 1

    def submit(self, name, recipients):
        """False: refused by what the configuration says, wherever in the dialogue."""
        try:
            with Client(self.relay, patience=PATIENCE) as client:
                client.ehlo()
                client.mail('sender@sender.test', recipients)
                client.data(message(X_Sluice_Id=name, X_Tenant='acme'))
            return True
        except (AssertionError, EOFError, ConnectionError):
            return False


def inject(daemon, name, recipients):
    answer = injection.post(daemon, {'messages': [
        {'from': 'sender@sender.test', 'recipients': recipients, 'text': 'hello\n', 'tenant': 'acme',
         'campaign': name[:1], 'headers': {'Subject': 'x', 'X-Sluice-Id': name}}]})
    assert answer.status < 500 or answer.status == 503, answer
    return answer.status == 202


class Epoch:
    """One daemon and its configurations."""

    def __init__(self, place, sinks, files, number):
        self.number, self.sinks = number, sinks
        self.chance = random.Random(f'{SEED}/{number}')
        self.daemon = place.sluice(start=False, http={}, transports={'t0': {}})
        self.drawing = Drawing(self.daemon, files, sinks[0].port, sinks[1].port, free_port())
        self.names = [f't{n}' for n in range(self.chance.randint(1, 4))]
        self.daemon.config_text = lambda: self.now.text()
        self.draw_start()
        self.mail = Mail(self.daemon, random.Random(f'{SEED}/{number}/mail'), f'e{number}')
        self.probes = []
        self.commands = reading_commands()
        self.next_command = self.chance.randrange(len(self.commands))
        self.counts = {'reloads': 0, 'refused': 0, 'reads': 0, 'probes': 0, 'pairs': 0, 'commands': 0}

    # --- reload ------------------------------------------------------------------------------

    def draw_start(self):
        """Until one has no mistake: the grammar does not know the rules between options."""
        is_right = False
        while not is_right:
            self.now = Drawn(self.drawing, self.chance, self.names, at_start=True)
            self.daemon.write_config()
            is_right = self.daemon.command('check').returncode == 0

    def draw(self):
        # Some of those of the start may be missing, others be there, and all take mail at once.
        names = list(self.names)
        if self.chance.random() < 0.3:
            names += [f'new{n}' for n in range(self.chance.choice([1, 2, 40]))]
        if self.chance.random() < 0.4:
            names = self.chance.sample(names, self.chance.randint(1, len(names)))
        self.chance.shuffle(names)
        return Drawn(self.drawing, self.chance, names, at_start=False)

    def put(self, drawn):
        """Reload; false: it was refused, and the old one stays."""
        before, self.now = self.now, drawn
        self.daemon.write_config()
        status, answer = self.tell('POST', '/v1/reload')
        assert status in (200, 422), answer
        self.counts['reloads'] += 1
        if status == 422:
            assert answer['complaints'], answer
            self.counts['refused'] += 1
            self.now = before
            return False
        return True

    def tell(self, method, path, body=None):
        """(status, object)"""
        control = Connection(self.daemon, PATIENCE)
        control.request(method, path, json.dumps(body) if body is not None else None,
                        {'Content-Type': 'application/json'} if body is not None else {})
        response = control.getresponse()
        answer = json.loads(response.read())
        control.close()
        return response.status, answer

    # --- reading -----------------------------------------------------------------------------

    def read_all(self):
        """Every GET route there is, with what it can be asked for, and the commands whose turn it is."""
        control = Connection(self.daemon, PATIENCE)
        found = self.look(control, '/v1/messages?limit=200')
        ids = re.findall(rb'"id":"([0-9a-f]{16})"', found) or [b'0000000000000001']
        id = self.chance.choice(ids).decode()
        domain = self.chance.choice([*DOMAINS, self.drawing.good(1), self.drawing.bad(2)])
        routes = [json.loads(line) for line in self.look(control, '/v1').splitlines()]
        paths = [r['path'].replace(':id', id) for r in routes if r.get('method') == 'GET']
        assert len(paths) > 20, routes
        asked = [f'/v1/why?message={id}', f'/v1/why?destination={domain}', '/v1/why?tenant=acme',
                 '/v1/counts?by=tenant,transport,source,state', '/v1/counts?state=suspended,active',
                 f'/v1/windows?destination={domain}', f'/v1/trace?destination={domain}',
                 f'/v1/messages?transport={self.names[-1]}&source=s*', '/v1/destinations?sort=load',
                 f'/v1/destinations?transport={self.names[0]}']
        for path in paths + asked:
            self.look(control, path)
        control.close()
        for _ in range(min(COMMANDS, len(self.commands))):
            self.run_command(domain, id)

    def run_command(self, domain='d1.test', id='0000000000000001'):
        """The next one in turn."""
        recipient = f'x@{domain}' if '[' not in domain else 'x@d1.test'
        text = self.commands[self.next_command % len(self.commands)]
        self.next_command += 1
        command = text.format(domain=domain, recipient=recipient, id=id).split()
        done = self.daemon.command(*command, timeout=PATIENCE)
        check_log(done.stderr.decode())
        assert done.returncode in (0, 1, 64, 65, 66, 68, 69, 78), (command, done)
        self.counts['reads'] += 1
        self.counts['commands'] += 1

    def look(self, control, path):
        control.request('GET', path, headers={'Host': 'localhost'})
        response = control.getresponse()
        body = response.read()
        is_off = path.startswith('/v1/trace') and b'trace_memory is 0' in body
        assert response.status < 500 or path == '/readyz' or is_off, (path, response.status, body[:500])
        self.counts['reads'] += 1
        return body

    # --- progress ----------------------------------------------------------------------------

    def probe(self):
        """Mail of every open transport to a server that takes everything comes there."""
        held = len(self.mail.accepted) + 100
        sent = []
        for domain, transport in self.now.probes.items():
            if self.now.is_open(transport) and self.now.active_limit() > held:
                name = f'p{self.number}.{len(self.probes) + len(sent) + 1}'
                recipient = f'{name}.0@{domain}'
                if inject(self.daemon, name, [recipient]):
                    sent.append(recipient)
        for recipient in sent:
            def is_done(recipient=recipient):
                assert self.daemon.is_alive(), self.daemon.log()[-6000:]
                return any(e['type'] == 'Delivery' for e in self.daemon.results(recipient))
            until(is_done, lambda recipient=recipient: self.stuck(recipient), PATIENCE)
        self.probes += sent
        self.counts['probes'] += len(sent)

    def stuck(self, recipient):
        control = Connection(self.daemon, PATIENCE)
        control.request('GET', f'/v1/messages?recipient={recipient}')
        found = control.getresponse().read()
        id = (re.findall(rb'"id":"([0-9a-f]{16})"', found) or [b'0'])[0].decode()
        return (f'{recipient}: {self.daemon.results(recipient)}\n{found}\n'
                f'{self.look(control, f"/v1/why?message={id}").decode()}\n'
                f'{self.look(control, "/v1/transports").decode()}\n{self.daemon.log()[-3000:]}')

    def give_order(self):
        domain = self.chance.choice(DOMAINS)
        status, answer = self.tell('POST', '/v1/orders', {'order': 'suspend', 'domain': domain, 'reason': 'x'})
        assert status in (200, 201), answer

    def settle(self):
        """The faults end: the queue gets empty."""
        self.mail.pause.set()
        until(self.mail.is_resting.is_set, 'the last message', PATIENCE)
        assert self.mail.failure is None, repr(self.mail.failure)
        assert self.put(self.drawing.calm(self.chance, self.names))
        control = Connection(self.daemon, PATIENCE)
        for order in [json.loads(line) for line in self.look(control, '/v1/orders').splitlines()]:
            if 'id' in order:
                assert self.tell('DELETE', f'/v1/orders/{order["id"]}?reason=over')[0] == 200
        flushed = [0.0]

        def is_empty():
            if time.monotonic() - flushed[0] > 1:
                flushed[0] = time.monotonic()
                assert self.tell('POST', '/v1/flush', {})[0] == 202
            return json.loads(self.look(control, '/v1/status'))['messages'] == 0
        until(is_empty, lambda: self.stuck('*'), PATIENCE)
        control.close()

    # --- the account -------------------------------------------------------------------------

    def account(self, copies):
        accepted = self.mail.accepted + self.probes
        for recipient in accepted:
            results = self.daemon.results(recipient)
            final = [e['type'] for e in results if e['type'] in FINAL]
            marks = sum(bool(e.get('is_ambiguous')) for e in results)
            came = copies.get(recipient, 0)
            assert len(final) == 1, (recipient, results)
            assert came - (final[0] == 'Delivery') <= marks, (recipient, came, results)
            assert came > 0 or final[0] != 'Delivery', (recipient, results)
        return len(accepted)

    def put_one(self):
        while not self.put(self.draw()):
            pass

    def look_on(self):
        if self.chance.random() < 0.1:
            self.give_order()
        self.probe()
        self.read_all()
        assert self.mail.failure is None, repr(self.mail.failure)

    def run(self, pairs, deadline):
        self.daemon.start()
        self.mail.start()
        for _ in range(pairs):
            first = self.now
            self.put_one()
            self.look_on()
            assert self.put(first)
            self.look_on()
            self.counts['pairs'] += 1
            if time.monotonic() > deadline:
                break
            self.put_one()  # the next pair begins with another one
        while self.counts['commands'] < len(self.commands):
            self.run_command()
        self.settle()
        assert self.daemon.stop(PATIENCE) == 0
        check_log(self.daemon.log())
        self.mail.is_over.set()
        self.mail.join()


def start_sinks(place, folder):
    certificate, key = make_certificate(folder, 'peer.test')
    good, bad = free_port(), free_port()
    tls = ('--tls-cert', certificate, '--tls-key', key)
    sinks = [place.keep(Sink(place.subfolder('good'), *GOOD, *tls, '--listen',
                             f'127.21.1.1-127.21.1.250:{good}', port=good)),
             place.keep(Sink(place.subfolder('bad'), *BAD, '--seed', str(SEED % 65536), '--listen',
                             f'127.21.2.1-127.21.2.20:{bad}', port=bad))]
    files = {'certificate': certificate, 'key': key, 'signing': os.path.join(folder, 'signing.pem')}
    make_signing_key(files['signing'])
    for name, text in (('users', 'u:$6$abcdefgh$' + 'x' * 86 + '\n'), ('tokens', 'name:0123456789abcdef0123\n'),
                       ('password', 'secret\n')):
        files[name] = os.path.join(folder, name)
        with open(files[name], 'w', encoding='ascii') as file:
            file.write(text)
        os.chmod(files[name], 0o600)
    return sinks, files


def copies_of(sinks, seen, copies):
    """{recipient: copies}, of the lines since the last call"""
    for n, sink in enumerate(sinks):
        with open(sink.ledger, 'rb') as file:
            file.seek(seen[n])
            data = file.read()
        seen[n] += len(data)
        for line in data.splitlines():
            for recipient in json.loads(line)['recipients']:
                copies[recipient] = copies.get(recipient, 0) + 1
    return copies


def test_reloads_at_random(place):
    print(f'seed {SEED}')
    sinks, files = start_sinks(place, place.subfolder('files'))
    total, seen, copies = {}, [0, 0], {}
    deadline = time.monotonic() + (1e9 if PAIRS else SECONDS)
    number = int(ONLY or 0)
    while total.get('pairs', 0) < (PAIRS or 1) or (not PAIRS and time.monotonic() < deadline):
        epoch = Epoch(place, sinks, files, number)
        try:
            epoch.run(min(PAIRS_OF_EPOCH, PAIRS - total.get('pairs', 0)) if PAIRS else PAIRS_OF_EPOCH, deadline)
            epoch.counts['recipients'] = epoch.account(copies_of(sinks, seen, copies))
        except BaseException:
            print(f'seed {SEED}, epoch {number}, pair {epoch.counts["pairs"]}; in force:\n{epoch.now}')
            print(epoch.daemon.log()[-5000:])
            raise
        for key, value in epoch.counts.items():
            total[key] = total.get(key, 0) + value
        number += 1
        if PAIRS:
            print(f'epoch {number}: {total}', flush=True)
        if ONLY:
            break
    print(f'{total}')
    assert total['refused'] < total['reloads'] / 2 and total['recipients'] > 0
