"""Prints docs/daily-tasks.md: what an operator does in a day, each with its command, what that
prints on a relay with live traffic, and the same over HTTP.

usage: SLUICE_BUILD=build/release python3 tests/integration/daily_tasks.py > docs/daily-tasks.md

Everything runs on loopback and ends by itself. test_daily_tasks.py runs every task, and holds what
the page promises.
"""
import dataclasses
import datetime
import os
import re
import shlex
import socket
import subprocess
import sys
import textwrap
import threading

import dkim

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from conftest import end_place, make_place  # noqa: E402
from support import injection  # noqa: E402
from support.address import free_port  # noqa: E402
from support.client import Client  # noqa: E402
from support.daemon import PROGRAM, section  # noqa: E402
from support.dns_server import DnsServer  # noqa: E402
from support.wait import PATIENCE, until  # noqa: E402

HEAD = '''# The daily tasks

Each task has one command, and the same words over HTTP. What is shown below the table was printed by a relay that sends
for two tenants from two addresses to five providers: two are well, `busy.example` wants less, `strict.example` knows
nobody, `gone.example` does not answer; and to two more, of which `slow.example` has asked `mta1` to slow down and
`picky.example` does not want `mta2`. `--json` gives every answer as JSON, one object a line.

HTTP goes to the control socket (`curl --unix-socket /run/sluice/control http://localhost/v1/status`) or to an `http`
section of the configuration (`curl -H "Authorization: Bearer TOKEN" https://relay.example:8025/v1/status`); every path is
in [openapi.yaml](openapi.yaml).

Made with `SLUICE_BUILD=build/release python3 tests/integration/daily_tasks.py > docs/daily-tasks.md`; long answers are
cut (`...`).
'''

LINES_MAX = 16
WIDTH_MAX = 150
HTTP_PORT = '8025'  # in what is shown
TOKENS_PORT = '8026'  # of a door that wants tokens
CONFIG = '/etc/sluice/sluice.conf'
ACCOUNTING = '/var/log/sluice/accounting.csv'
RULES = '/etc/sluice/replies.conf'
TOKENS = '/etc/sluice/tokens'
SECRET = '6b1c2f0d9a3e4857'
KEY = '/etc/sluice/dkim/s1.pem'
KEY_NAME = 's1._domainkey.acme.example'

DOMAINS = ('mail.example', 'post.example', 'busy.example', 'strict.example', 'gone.example')
LANES = ('slow.example', 'picky.example')
BUSY = '450 4.2.0 this domain has no room now, come again'

SLOWER = '421 4.7.28 Too many messages from your address, slow down'
LISTED = '554 5.7.1 Service unavailable; Client host [127.0.0.2] blocked using zen.spamhaus.org'

NEW_REPLY = '450 4.3.0 Letters are taken from 22:00 on'
RULE = '''rule "night-shift" {
    code = 4xx
    text = 'letters are taken from'
    class = throttled
    action = "pause 30m after 3 in 10m"
    example = "450 4.3.0 Letters are taken from 22:00 on"
}
'''

COMPLAINT = '''From: feedback@mail.example
Subject: Abuse report
Content-Type: multipart/report; report-type=feedback-report; boundary=part

--part
Content-Type: message/feedback-report

Feedback-Type: abuse
User-Agent: mail.example/1.0
Version: 1

--part
Content-Type: message/rfc822

Return-Path: <{returned}>
To: cora@mail.example
Subject: Offer

Half off.
--part--
'''

CAMPAIGN = '''{"defaults": {"from": "news@acme.example", "headers": {"Subject": "Summer"},
              "text": "Everything is half off.", "expires_in": "12h"},
 "messages": [{"recipients": ["ann@mail.example"]}, {"recipients": ["bob@post.example"]}]}
'''


def answers_busy(verb, argument, session):
    """Takes a few messages, and then no more for now."""
    return BUSY if verb == 'RCPT' and len(session.receiver.messages) >= 12 else None


def answers_strict(verb, argument, session):
    return '550 5.1.1 no such user' if verb == 'RCPT' else None


def answers_slow(verb, argument, session):
    """Asks mta1 once to slow down."""
    if verb != 'MAIL' or session.peer[0] != '127.0.0.1':
        return None
    receiver = session.receiver
    with receiver.lock:
        receiver.count = getattr(receiver, 'count', 0) + 1
        return SLOWER if receiver.count == 4 else None


def answers_picky(verb, argument, session):
    return LISTED if verb == 'RCPT' and session.peer[0] == '127.0.0.2' else None


def can_bind(port):
    with socket.socket() as probe:
        try:
            probe.bind(('127.0.0.11', port))
        except OSError:
            return False
    return True


class Scene:
    """A relay with a queue: five providers, two tenants, two sources. port: of the providers"""

    def __init__(self, place, port):
        self.place = place
        self.dns = place.keep(DnsServer())
        self.port = port
        receivers = []
        for number, (domain, answers) in enumerate(zip(DOMAINS, (None, None, answers_busy, answers_strict))):
            receivers.append(place.receiver(address=f'127.0.0.{11 + number}', port=port, answers=answers))
            self.zone(domain, number)
        self.mailboxes = receivers[0]  # of mail.example
        self.zone('gone.example', 4)
        for number, (domain, answers) in enumerate(zip(LANES, (answers_slow, answers_picky)), len(DOMAINS)):
            place.receiver(address=f'127.0.0.{11 + number}', port=port, answers=answers)
            self.zone(domain, number)
        self.dns.zone['acme.example'] = [('MX', (10, 'mx.mail.example'))]
        self.csv = os.path.join(place.folder, 'accounting.csv')
        self.rules = os.path.join(place.folder, 'replies.conf')
        self.tokens = os.path.join(place.folder, 'tokens')
        self.tokens_port = free_port()
        self.key = os.path.join(place.folder, 's1.pem')
        self.write_rules('')
        self.write_tokens('anna:5f0c8f6e7d214b93\n')
        self.daemon = place.sluice(
            start=False, http={'trust_loopback': True}, replies={'files': [self.rules]}, dns={'servers': [self.dns.name]}, csvs={self.csv: {}},
            options={'hostname': 'relay.example', 'allow_loopback': True,
                     'minimal_backoff_time': '5m', 'maximal_backoff_time': '1h', 'queue_run_delay': '1m'},
            sources={'mta1': {'address': '127.0.0.1'}, 'mta2': {'address': '127.0.0.2'}},
            pools={'bulk': {'sources': ['mta1', 'mta2']}},
            transports={'smtp': {'source_pool': 'bulk', 'smtp_tcp_port': port,
                                 'destination_concurrency_limit': 20}})
        plain = self.daemon.config_text
        self.daemon.config_text = lambda: plain() + section(f'http "127.0.0.1:{self.tokens_port}"',
                                                            {'tokens_file': self.tokens})
        self.daemon.write_config()
        self.daemon.start()
        self.fill()
        self.values = self.find_values()

    def zone(self, domain, number):
        self.dns.zone[domain] = [('MX', (10, f'mx.{domain}'))]
        self.dns.zone[f'mx.{domain}'] = [('A', f'127.0.0.{11 + number}')]

    def fill(self):
        messages = []
        for number in range(200):
            domain = DOMAINS[number % len(DOMAINS)]
            messages.append({
                'from': 'news@acme.example', 'recipients': [f'user{number}@{domain}'],
                'headers': {'Subject': 'Spring'}, 'text': 'Everything is half off.\n',
                'tenant': 'globex' if number % 4 == 0 else 'acme', 'campaign': 'spring'})
        injection.post(self.daemon, {'messages': messages}).expect(202)
        until(lambda: self.daemon.totals()['incoming'] + self.daemon.totals()['active'] == 0,
              lambda: f'all were tried: {self.daemon.totals()}')
        # The first answer of a kind is remembered for a moment: the counts.
        until(lambda: self.rows('counts', '--by', 'state')[0]['state'] == 'deferred',
              lambda: 'the counts show it')

        self.fill_lanes()

    def fill_lanes(self):
        """A few messages at a time, so that both addresses have some of them."""
        for number in range(6):
            messages = [{'from': 'news@acme.example', 'recipients': [f'user{number}.{n}@{domain}'], 'tenant': 'acme',
                         'headers': {'Subject': 'Spring'}, 'text': 'Everything is half off.\n'}
                        for n in range(4) for domain in LANES]
            injection.post(self.daemon, {'messages': messages}).expect(202)
        until(lambda: {row['state'] for row in self.rows('lanes') if row['site'] in ('mx.slow.example', 'mx.picky.example')}
              == {'open', 'paced', 'closed'} and self.daemon.totals()['incoming'] + self.daemon.totals()['active'] == 0,
              lambda: f'one is closed and one is slow: {self.rows("lanes")}', 60)

    def rows(self, *args):
        return [row for row in self.daemon.query(*args) if not row.get('end')]

    def find_values(self):
        """What stands for the words in capitals of commands and paths."""
        waiting = self.rows('messages', '--domain', 'busy.example', '--tenant', 'acme', '--limit', '1')
        tomorrow = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
        return {'MESSAGE': waiting[0]['id'], 'ORDER': '1', 'CSV': self.csv, 'RULES': self.rules, 'TOKENS': self.tokens, 'KEY': self.key,
                'CONFIG': self.daemon.config_path,
                'TOMORROW': tomorrow.strftime('%Y-%m-%dT08:00:00Z')}

    def order(self):
        """The order that was given last."""
        self.values['ORDER'] = self.rows('orders')[-1]['id']

    def write_campaign(self):
        with open(os.path.join(self.daemon.folder, 'summer.json'), 'w', encoding='ascii') as file:
            file.write(CAMPAIGN)

    def write_rules(self, text=RULE):
        with open(self.rules, 'w', encoding='ascii') as file:
            file.write(text)

    def write_tokens(self, text=f'# who may do what at the doors\nanna:5f0c8f6e7d214b93\nread graphs:0d42b7aa19c3e5f6\n'
                                f'full tenant=acme shop:{SECRET}\n'):
        with open(self.tokens, 'w', encoding='ascii', opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write(text)

    def use_another(self):
        """A daemon of its own for what begins anew: this one's destinations are shown by other tasks."""
        self.daemon, self.usual = self.place.sluice(), self.daemon

    def be_busy(self):
        """With a delivery that does not end: a daemon that drains and has nothing to do ends."""
        is_asked, self.is_answered = threading.Event(), threading.Event()

        def answers(verb, argument, session):
            if verb == '.':
                is_asked.set()
                self.is_answered.wait(600)
        number = len(DOMAINS) + len(LANES)
        self.place.closers.append(self.is_answered.set)
        self.place.receiver(address=f'127.0.0.{11 + number}', port=self.port, answers=answers)
        self.zone('late.example', number)
        injection.post(self.daemon, {'from': 'news@acme.example', 'recipients': ['ann@late.example'], 'text': 'x'}).expect(202)
        assert is_asked.wait(PATIENCE)

    def answer_at_last(self):
        self.is_answered.set()

    def await_restart(self):
        until(lambda: self.daemon.log().count(' is running') == 2, lambda: self.daemon.log())

    def use_the_usual(self):
        self.daemon = self.usual

    def await_csv(self):
        """It is written behind the event log, a moment later."""
        def has_rows():
            with open(self.csv, encoding='utf-8') as file:
                return len(file.readlines()) > 3
        until(has_rows, lambda: 'rows in the accounting file')

    def lower_limit(self):
        self.daemon.transports['smtp']['destination_concurrency_limit'] = 5
        self.daemon.write_config()

    def add_provider(self):
        self.daemon.providers['busy'] = {'mx': ['*.busy.example'], 'max_message_rate': '10/s',
                                         'destination_concurrency_limit': 5}
        self.daemon.write_config()

    def prefer_resets(self):
        self.daemon.tenants['resets'] = {'class': 'urgent'}
        self.daemon.tenants['acme'] = {'class': 'bulk', 'weight': 3}
        self.daemon.write_config()
        with open(os.path.join(self.daemon.folder, 'reset.json'), 'w', encoding='ascii') as file:
            file.write('{"from": "login@acme.example", "recipients": ["ann@mail.example"], '
                       '"headers": {"Subject": "Your password"}, "text": "Click."}\n')

    def hold(self):
        """So that there is mail in memory to look at."""
        self.daemon.transports['smtp']['hold'] = True
        self.daemon.write_config()
        assert self.run('sluice reload')[0] == 0
        injection.post(self.daemon, {'messages': [
            {'from': 'news@acme.example', 'recipients': [f'wait{n}@mail.example'], 'text': 'x', 'tenant': tenant}
            for tenant in ('acme', 'globex') for n in range(3)]}).expect(202)
        until(lambda: {row['tenant'] for row in self.rows('tenants') if row.get('in_memory', 0) >= 3} >= {'acme', 'globex'},
              lambda: f'both wait: {self.rows("tenants")}')

    def open_again(self):
        del self.daemon.transports['smtp']['hold']
        self.daemon.write_config()
        assert self.run('sluice reload')[0] == 0

    def write_signed(self):
        with open(os.path.join(self.daemon.folder, 'signed.json'), 'w', encoding='ascii') as file:
            file.write('{"from": "news@acme.example", "recipients": ["ann@mail.example"], '
                       '"headers": {"Subject": "Signed greetings"}, "text": "Hello."}\n')

    def hear_complaints(self):
        self.daemon.listener['receives'] = ['bounces.acme.example', 'fbl.acme.example']
        self.daemon.tenants['acme']['verp'] = 'bounces@bounces.acme.example'
        self.daemon.suppressions['acme'] = {'complaint': '1', 'hard_bounce': '1'}
        self.daemon.write_config()
        with open(os.path.join(self.daemon.folder, 'offer.json'), 'w', encoding='ascii') as file:
            file.write('{"from": "news@acme.example", "recipients": ["cora@mail.example"], '
                       '"headers": {"Subject": "Offer"}, "text": "Half off."}\n')

    def complain(self):
        """Cora presses the button at her provider, which tells us."""
        until(lambda: self.mailboxes.to('cora@mail.example'), 'her copy')
        [mail] = self.mailboxes.to('cora@mail.example')
        with Client(self.daemon) as client:
            client.ehlo()
            client.mail('', ['complaints@fbl.acme.example'])
            client.data(COMPLAINT.format(returned=mail.sender).replace('\n', '\r\n').encode(), 250)

    def use_key(self):
        self.daemon.dkims[KEY_NAME] = {'key': self.key}
        self.daemon.tenants['acme']['from_domains'] = ['acme.example']
        self.daemon.write_config()

    def publish_key(self):
        record = self.run('sluice dkim --tenant acme --zone acme.example')[1]
        self.dns.zone[KEY_NAME] = [('TXT', ''.join(re.findall('"([^"]*)"', record)))]

    def await_signed(self):
        """The receiver verifies what it gets."""
        def newest():
            return next((message.content for message in reversed(self.mailboxes.messages)
                         if b'Signed greetings' in message.content), None)
        until(newest, lambda: 'the signed message is there')
        record = self.dns.zone[KEY_NAME][0][1].encode()
        assert dkim.verify(newest(), dnsfunc=lambda name, timeout=5: record)

    def limit_tenant(self):
        self.daemon.tenants['globex'] = {'max_message_rate': '5/s', 'queue_limit': 20000}
        self.daemon.write_config()

    def move_tenant(self):
        self.daemon.sources['own1'] = {'address': '127.0.0.3'}
        self.daemon.pools['globex'] = {'sources': ['own1']}
        self.daemon.tenants['globex']['pool'] = 'globex'
        self.daemon.write_config()

    def fill_in(self, text):
        return re.sub(r'\b(MESSAGE|ORDER|CSV|RULES|TOKENS|KEY|CONFIG|TOMORROW)\b', lambda word: self.values[word[0]], text)

    def run(self, command):
        """A line of the page: sluice, or another program. returns (exit code, what it printed)"""
        words = shlex.split(self.fill_in(command).replace(f':{HTTP_PORT}/', f':{self.daemon.http_port}/')
                            .replace(f':{TOKENS_PORT}/', f':{self.tokens_port}/'))
        if words[0] == 'sluice':
            words = [PROGRAM, words[1], '-c', self.daemon.config_path, *words[2:]]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False,
                              cwd=self.daemon.folder)
        return done.returncode, (done.stdout + done.stderr).decode()

    def shown(self, text, lines_max=LINES_MAX):
        """As a reader's own relay would print it, and not too much of it."""
        text = text.replace(self.daemon.config_path, CONFIG).replace(self.rules, RULES).replace(self.tokens, TOKENS).replace(self.key, KEY)
        lines = [line if len(line) <= WIDTH_MAX else line[:WIDTH_MAX - 3] + '...'
                 for line in map(str.rstrip, text.splitlines())]
        return '\n'.join(lines[:lines_max] + ['...'] if len(lines) > lines_max else lines)


@dataclasses.dataclass
class Task:
    """commands: [(command, words that its output has[, what is done afterwards])]; the first one
    stands in the table. http: requests, with bodies where they matter."""
    question: str
    commands: list
    http: list
    note: str = ''
    before: object = None

    @property
    def anchor(self):
        words = re.sub(r'[^a-z0-9 _-]', '', self.question.lower())
        return words.replace(' ', '-')


TASKS = [
    Task('Is anything on fire?',
         [('sluice top --once', ['messages', 'a second', 'gone.example', 'acme', 'responses', 'orders']),
          ('sluice destinations --state dead', ['gone.example', 'refused'])],
         ['GET /v1/status', 'GET /v1/destinations?state=dead', 'GET /'],
         '`sluice top` in a terminal goes on, with what is dead or suspended in red, and says why by a key; `sluice '
         'status` has the totals alone. In a browser the page of an '
         '`http` section (`/`) shows the same, with figures of the last hour.'),
    Task('What is queued: whose, where to, how old?',
         [('sluice counts --by tenant,state', ['acme', 'globex', 'deferred']),
          ('sluice counts --by domain,age --state deferred', ['busy.example', '<1m'])],
         ['GET /v1/counts?by=tenant,state', 'GET /v1/counts?by=domain,age&state=deferred'],
         'Group by any of tenant, campaign, domain, destination, transport, source, state and age.'),
    Task('Why does mail for a destination wait?',
         [('sluice why busy.example', ['busy.example', 'come again'])],
         ['GET /v1/why?destination=busy.example']),
    Task('What do receivers say?',
         [('sluice responses', ['come again', 'no such user', 'Connection refused'])],
         ['GET /v1/responses?limit=50'],
         'What varies in a reply is `*`, so that equal ones count together.'),
    Task('A receiver says something new: teach it',
         [(f'sluice classify "{NEW_REPLY}"', ['no rule; by '], Scene.write_rules),
          ('cat RULES', ['night-shift']),
          (f'sluice classify "{NEW_REPLY}"', ['throttled', 'pause 30m after 3 in 10m', 'replies.conf:1']),
          ('sluice check', []),
          ('sluice reload', [])],
         ['POST /v1/reload'],
         'What no rule is about is judged by its code. A rule for it stands in a file of `replies { files = {...} }`, in '
         'front of those that sluice brings; with a mistake in it the old rules stay in force.'),
    Task('Where is this message?',
         [('sluice messages --recipient "*@busy.example" --limit 2', ['deferred', 'news@acme.example']),
          ('sluice message MESSAGE', ['busy.example', 'attempts']),
          ('sluice why MESSAGE', ['next one is due', 'minimal_backoff_time'])],
         ['GET /v1/messages?recipient=*@busy.example&limit=2', 'GET /v1/messages/MESSAGE',
          'GET /v1/why?message=MESSAGE']),
    Task('What was said in the last sessions?',
         [('sluice trace busy.example --last 1 --failed', ['> RCPT TO', '450 4.2.0']),
          ('sluice trace gone.example --last 1', ['Connection refused'])],
         ['GET /v1/trace?destination=busy.example&limit=1&failed=1'],
         '`-f` goes on with what is said from now on.'),
    Task('A tenant sends spam, or its key was stolen',
         [('sluice suspend --tenant acme --for 2h --reason "abuse report T-123" --dry-run',
           ['would suspend', 'recipients']),
          ('sluice suspend --tenant acme --for 2h --reason "abuse report T-123"', ['order', '2h00m'], Scene.order),
          ('sluice orders', ['suspend', 'tenant=acme', 'abuse report T-123']),
          ('sluice why --tenant acme', ['suspend', 'resume']),
          ('sluice resume ORDER --reason "the key was changed"', ['ended'])],
         ['POST /v1/orders {"order": "suspend", "tenant": "acme", "for": "2h", "reason": "abuse report T-123"}',
          'GET /v1/orders', 'GET /v1/why?tenant=acme', 'DELETE /v1/orders/ORDER?reason=the+key+was+changed'],
         'New mail is taken in and kept as well; what is in flight finishes.'),
    Task('A source address is on a block list',
         [('sluice suspend --source mta1 --for 1d --reason "listed, D-9"', ['order', 'source=mta1'], Scene.order),
          ('sluice sources', ['mta1', 'bulk']),
          ('sluice resume ORDER --reason "off the list"', ['ended'])],
         ['POST /v1/orders {"order": "suspend", "source": "mta1", "for": "1d", "reason": "listed, D-9"}',
          'GET /v1/sources'],
         'No new connection is made from it; its mail goes out from the others of its pool.'),
    Task('A provider says slow down',
         [('sluice suspend --destination busy.example --for 15m --reason "asked to wait"', ['order'], Scene.order),
          ('sluice resume ORDER', ['ended']),
          ('sluice check', []),
          ('sluice reload', ['force'])],
         ['POST /v1/orders {"order": "suspend", "destination": "busy.example", "for": "15m", "reason": "asked to wait"}',
          'POST /v1/reload', 'GET /v1/windows?destination=busy.example'],
         'For now: an order. For good: a lower limit in the configuration (here `destination_concurrency_limit = 5` '
         'of the transport), checked and put in force without a restart. Windows shrink by themselves when a '
         'provider refuses connections; `/v1/windows` and the page say when and why.', Scene.lower_limit),
    Task('Who throttles us, and since when?',
         [('sluice lanes --state paced', ['mx.slow.example', 'mta1', 'since', '421 4.7.28']),
          ('sluice why slow.example', ['lane mta1 of mx.slow.example', 'a second', '421 4.7.28'])],
         ['GET /v1/lanes?state=paced', 'GET /v1/why?destination=slow.example'],
         'A lane is one of our addresses at one receiver. What a receiver asked for holds for that lane alone, is found by '
         'itself and forgotten by itself; nothing of it counts as an attempt.'),
    Task('Why is an address closed at a receiver?',
         [('sluice lanes --state closed', ['mx.picky.example', 'mta2', 'by the receiver', 'blocked using']),
          ('sluice lanes mx.picky.example --source mta2', ['closed', 'tried in', 'blocked using']),
          ('sluice why picky.example', ['lane mta2 of mx.picky.example is closed', 'blocked using']),
          ('sluice lanes open --source mta2 --reason "off the list, D-9"', ['mx.picky.example from mta2: open'])],
         ['GET /v1/lanes?state=closed', 'GET /v1/why?destination=picky.example', 'GET /v1/lanes?match=picky&source=mta2',
          'POST /v1/lanes {"order": "open", "source": "mta2", "reason": "off the list, D-9"}'],
         'Its mail goes by the other addresses of the pool. After `block_pause` one message at a time tries whether it is '
         'wanted again; who knows that it is opens it, at one receiver or everywhere.'),
    Task('Close a lane, and open it again',
         [('sluice lanes close mail.example --source mta1 --for 2h --reason "their postmaster asked, P-3"',
           ['closed, again in']),
          ('sluice lanes --destination mail.example', ['closed: by order', 'by local: their postmaster asked', 'mta2']),
          ('sluice lanes open mail.example --source mta1 --reason "they called back"', ['mta1: open'])],
         ['POST /v1/lanes {"order": "close", "site": "mail.example", "source": "mta1", "for": "2h", "reason": "P-3"}',
          'GET /v1/lanes?destination=mail.example',
          'POST /v1/lanes {"order": "open", "site": "mail.example", "source": "mta1"}'],
         'A destination stands for its whole receiver; a provider (`sluice lanes close google`) can be closed before it '
         'has mail. `sluice lanes pace SITE --source mta1 20/s` tells a receiver\'s limit before it has to.'),
    Task('Give one provider its own limit now',
         [('grep -A 4 ^provider CONFIG', ['busy.example', '10/s']),
          ('sluice check', []),
          ('sluice reload', ['force']),
          ('sluice explain busy.example --mx mx.busy.example', ['provider busy at', 'site provider:busy'])],
         ['POST /v1/reload', 'GET /v1/config'],
         'A `provider` section by its MX hosts or its domains: window, rates, timeouts of all that goes there; a `domain` '
         'section says the same of one domain. What waits moves to its new window.', Scene.add_provider),
    Task('What applies to a domain, and from which line?',
         [('sluice explain busy.example', ['destination_concurrency_limit', 'sluice.conf:'])],
         ['GET /v1/config']),
    Task('A receiver is back: try its mail now',
         [('sluice flush --domain gone.example --dry-run', ['recipients']),
          ('sluice flush --domain gone.example', ['now'])],
         ['POST /v1/flush {"domain": "gone.example"}']),
    Task('Was it delivered?',
         [('sluice events --after start --type Delivery --limit 2', ['Delivery', '250 2.0.0']),
          ('sluice events --json --after start --type Delivery --limit 1', ['"egress_source"', '"response"'])],
         ['GET /v1/events?after=start&type=Delivery&limit=2'],
         '`-f` waits for more. Programs read on from the cursor of the last line, or get events posted by a '
         '`webhook` section.'),
    Task('A campaign for tomorrow, and a look at it',
         [('sluice inject summer.json --tenant acme --campaign summer --at TOMORROW', ['0']),
          ('sluice counts --by campaign,state', ['summer', 'scheduled']),
          ('sluice messages --campaign summer', ['scheduled'])],
         ['POST /v1/inject?campaign=summer&not_before=TOMORROW {"defaults": {}, "messages": []}',
          'GET /v1/counts?by=campaign,state', 'GET /v1/messages?campaign=summer'],
         '`summer.json` has `"expires_in": "12h"`: what is not delivered by then goes back.', Scene.write_campaign),
    Task('A campaign was a mistake: give it back',
         [('sluice bounce --campaign summer --for 0 --reason "wrong price" --dry-run', ['would bounce']),
          ('sluice bounce --campaign summer --for 0 --reason "wrong price" --yes', ['order', 'campaign=summer'])],
         ['POST /v1/orders {"order": "bounce", "campaign": "summer", "for": "0", "reason": "wrong price"}'],
         '`--for 0` is what is queued now, scheduled mail too; with `--for 2h` also what comes in that time. '
         'Each sender gets a notice.'),
    Task('Mail that nobody may see any more: drop it',
         [('sluice drop --tenant globex --domain busy.example --for 0 --reason "legal, L-7" --yes', ['order', 'globex'])],
         ['POST /v1/orders {"order": "drop", "tenant": "globex", "domain": "busy.example", "for": "0", "reason": "L-7"}'],
         'No notice; the event log has a line for each recipient.'),
    Task('Whose mail went how, for the report?',
         [('sluice tenants', ['acme', 'globex']),
          ('head -n 3 CSV', ['type,timeLogged', 'acme'])],
         ['GET /v1/tenants'],
         'The counts go on over restarts. A `csv` section keeps an accounting file in PowerMTA\'s manner.',
         Scene.await_csv),
    Task('Give transactional mail priority',
         [('grep -A 2 ^tenant CONFIG', ['resets', 'urgent', 'acme', 'bulk', '3']),
          ('sluice check', []),
          ('sluice reload', ['force']),
          ('sluice inject reset.json --tenant resets', ['0']),
          ('sluice tenants', ['resets'])],
         ['POST /v1/reload', 'POST /v1/inject?tenant=resets {"from": "login@acme.example", "class": "urgent"}'],
         'Urgent mail goes before normal, and that before bulk, which keeps its floors (`class_floor`); tenants of a class share '
         'by `weight`, campaigns of a tenant alike. The class of a message is also said by the request, a header field '
         '(`class_header`) or MT-PRIORITY, as far as the tenant\'s `classes` allow.', Scene.prefer_resets),
    Task('Each tenant\'s share and wait',
         [('sluice tenants', ['WEIGHT', 'WAITING', 'LONGEST']),
          ('sluice why --tenant globex', ['globex'], Scene.open_again)],
         ['GET /v1/tenants', 'GET /v1/why?tenant=globex'],
         'Of tenants with mail in memory: weight, recipients in memory and waiting, connections, and the longest wait in seconds; '
         '`sluice_waiting_seconds` has the last by class for the monitoring.', Scene.hold),
    Task('Limit one tenant',
         [('grep -A 3 ^tenant CONFIG', ['globex', '5/s', '20000']),
          ('sluice check', []),
          ('sluice reload', ['force']),
          ('sluice tenants', ['globex'])],
         ['POST /v1/reload', 'GET /v1/tenants'],
         'Its rate holds over all receivers and addresses together; mail beyond `queue_limit` is refused with 452 or 429, and '
         'others do not notice. `inject = no` takes no mail of it at all.', Scene.limit_tenant),
    Task('Move a tenant to its own addresses',
         [('grep -A 4 ^tenant CONFIG', ['pool = "globex"']),
          ('sluice check', []),
          ('sluice reload', ['force']),
          ('sluice explain mail.example --tenant globex', ['pool "globex"', 'own1'])],
         ['POST /v1/reload', 'GET /v1/config'],
         'A `source` for each address, a `pool` of them, and the pool in the section of the tenant. What is queued leaves '
         'from there when it comes to its turn.', Scene.move_tenant),
    Task('Give a tenant a token of its own',
         [('cat TOKENS', ['full tenant=acme shop:']),
          ('sluice reload', []),
          (f'curl -s -H "Authorization: Bearer {SECRET}" "http://127.0.0.1:{TOKENS_PORT}/v1/counts?by=campaign"',
           ['recipients', '"end":true']),
          (f'curl -s -H "Authorization: Bearer {SECRET}" "http://127.0.0.1:{TOKENS_PORT}/v1/counts?tenant=globex"',
           ['bound to acme', 'forbidden'])],
         ['GET /v1/counts?by=campaign', 'POST /v1/reload'],
         'A line of `tokens_file`: `full`, `read` or `inject`, then the tenant, the name, and the token or its SHA-256. '
         'Such a token injects as its tenant, and reaches the tenant\'s messages, counts, why, events and orders, and '
         'nothing of others: the rest is 403, counted as `sluice_denied_total`, and in the log.', Scene.write_tokens),
    Task('Sign the mail of a domain',
         [('openssl genpkey -quiet -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out KEY', [], Scene.use_key),
          ('grep -A 2 ^dkim CONFIG', ['s1._domainkey.acme.example', 'key = ']),
          ('grep from_domains CONFIG', ['acme.example']),
          ('sluice check', []),
          ('sluice dkim --tenant acme --zone acme.example', ['IN TXT ( "v=DKIM1; k=rsa; p='], Scene.publish_key),
          ('sluice dkim --tenant acme acme.example', ['rsa-sha256, 2048 bits', 'the published record fits the key']),
          ('sluice reload', ['force']),
          ('sluice inject signed.json --tenant acme', ['0'], Scene.await_signed)],
         ['POST /v1/reload', 'GET /metrics'],
         'The line goes to the zone of the domain before the reload: what is signed by a key that nobody can find counts as '
         'forged. A receiver then says `dkim=pass` in the Authentication-Results of what it got. Another key, Ed25519 beside RSA, '
         'is another section: all keys of a domain sign. `from_domains` of a tenant says that nobody else\'s mail is signed for them.',
         Scene.write_signed),
    Task('A recipient complains',
         [('grep -e verp -e receives -e complaint CONFIG', ['bounces@bounces.acme.example', 'fbl.acme.example']),
          ('sluice check', []),
          ('sluice reload', ['force']),
          ('sluice inject offer.json --tenant acme --campaign summer', ['0'], Scene.complain),
          ('sluice events --after start --type Feedback', ['Feedback', 'cora@mail.example']),
          ('sluice suppressions --tenant acme', ['cora@mail.example', 'complaint']),
          ('sluice unsuppress cora@mail.example --tenant acme', [])],
         ['POST /v1/reload', 'GET /v1/events?after=start&type=Feedback', 'GET /v1/suppressions?tenant=acme'],
         'The MX of both domains is this relay. With `verp` each copy has a return address that only we can write, so a complaint is '
         'believed when the message in it has one: from that moment on nothing goes to her for this tenant, also not what is '
         'queued. Bounces that come later are heard in the same way (`OOB`), by their class.', Scene.hear_complaints),
    Task('Take a node out of service',
         [('sluice drain --for 10m', ['draining', 'or at']),
          ('sluice status', ['draining']),
          ('sluice drain --off', ['mail is taken'], Scene.answer_at_last)],
         ['POST /v1/drain {"for": "10m"}', 'GET /v1/status', 'DELETE /v1/drain'],
         'Clients and the balancer go elsewhere, what is due goes out, and then the daemon ends; what is deferred or held stays '
         'in the spool for the next start. After `--off` it takes mail again.', Scene.be_busy),
    Task('Upgrade in place',
         [('sluice restart', ['restarting'], Scene.await_restart),
          ('sluice status', ['since start'], Scene.use_the_usual)],
         ['POST /v1/restart', 'GET /v1/status'],
         'After the package was upgraded: the daemon ends in order and becomes the new program, with its sockets, so that '
         'connections wait and none is refused. With a mistake in the configuration nothing happens.', Scene.use_another),
    Task('Figures for the monitoring, and health',
         [(f'curl -s http://127.0.0.1:{HTTP_PORT}/metrics', ['sluice_recipients_delivered_total']),
          (f'curl -s http://127.0.0.1:{HTTP_PORT}/readyz', ['ready'])],
         ['GET /metrics', 'GET /healthz', 'GET /readyz'],
         'Rules for alerts: [alerts.yml](alerts.yml).'),
]


READING = re.compile(r'sluice (counts|destinations|events|explain|messages?|orders|responses|sources|status|suppressions|tenants|'
                     r'top|trace|why)\b|sluice lanes (?!open|close)|(cat|curl|head) ')


def say(scene, command, promised):
    """What it prints. What the command before it has done may be seen a moment later; only commands that change
    nothing are given again."""
    def look():
        code, said = scene.run(command)
        assert code == 0, (command, code, said)
        return said, [word for word in promised if word not in said]
    if READING.match(command):
        return until(lambda: (seen := look())[1] == [] and seen, lambda: f'{promised} from {command}: {look()}')[0]
    said, missing = look()
    assert not missing, (command, missing, said)
    return said


def perform(scene, task):
    """The task as Markdown. Fails when a command does, or does not say what it should."""
    text = f'\n## {task.question}\n\n'
    if task.note:
        text += textwrap.fill(task.note, 118, break_long_words=False, break_on_hyphens=False) + '\n\n'
    if task.before is not None:
        task.before(scene)
    for command, promised, *after in task.commands:
        said = say(scene, command, promised)
        shown = scene.fill_in(command).replace(scene.daemon.config_path, CONFIG)
        line = f'$ {shown.replace(scene.csv, ACCOUNTING).replace(scene.rules, RULES).replace(scene.tokens, TOKENS).replace(scene.key, KEY)}'
        text += '```\n' + '\n'.join(filter(None, [line, scene.shown(said, 60 if ' top' in command else LINES_MAX)])) + '\n```\n\n'
        for step in after:
            step(scene)
    return text + 'Over HTTP:\n\n```\n' + ''.join(f'{shown_request(r)}\n' for r in task.http) + '```\n'


def shown_request(request):
    return re.sub(r'\b(MESSAGE|ORDER)\b', 'ID', request)


def paths(task):
    """["GET /v1/messages/{id}"], each once."""
    bare = [request.split(' {')[0].split('?')[0] for request in task.http]
    return list(dict.fromkeys(re.sub(r'\b(MESSAGE|ORDER)\b', '{id}', path) for path in bare))


def table():
    lines = ['', '| task | command | HTTP |', '|---|---|---|']
    for task in TASKS:
        command = task.commands[0][0].split(' --reason')[0].replace(' --dry-run', '').replace(' --once', '')
        lines.append(f'| [{task.question}](#{task.anchor}) | `{command}` | '
                     + ', '.join(f'`{path}`' for path in paths(task)) + ' |')
    return '\n'.join(lines) + '\n'


def main():
    place = make_place()
    try:
        scene = Scene(place, 25 if can_bind(25) else free_port())
        sections = [perform(scene, task) for task in TASKS]
        print(HEAD + table() + ''.join(sections), end='')
    finally:
        end_place(place, False)


if __name__ == '__main__':
    main()
