"""Prints docs/daily-tasks.md: what an operator does in a day, each with its command, what that
prints on a relay with live traffic, and the same over HTTP.

usage: SLUICE_BUILD=build/release python3 tests/integration/daily_tasks.py > docs/daily-tasks.md

Everything runs on loopback and ends by itself. test_daily_tasks.py runs every task.
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from conftest import end_place, make_place  # noqa: E402
from support import injection  # noqa: E402
from support.address import free_port  # noqa: E402
from support.wait import until  # noqa: E402

HEAD = '''# The daily tasks

Each task has one command, and the same words over HTTP; what is shown was printed by a relay with live traffic.
`--json` gives every answer as JSON, one object a line. Made with
`SLUICE_BUILD=build/release python3 tests/integration/daily_tasks.py > docs/daily-tasks.md`; long answers are cut (`...`).
'''

LINES_MAX = 14


def answers(text):
    return lambda verb, argument, session: text if verb == 'RCPT' else None


class Scene:
    """Five providers: two are well, one is busy, one refuses, one is gone; three tenants; two sources."""

    def __init__(self, place):
        self.place = place
        self.well = [place.receiver(), place.receiver()]
        busy = place.receiver(answers=answers('451 4.7.1 too many connections from 192.0.2.7, slow down'))
        strict = place.receiver(answers=answers('550 5.1.1 no such user'))
        ports = {'mail.example': self.well[0].port, 'post.example': self.well[1].port,
                 'busy.example': busy.port, 'strict.example': strict.port, 'gone.example': free_port()}
        self.daemon = place.sluice(
            http={}, options={'allow_loopback': True, 'minimal_backoff_time': '5m',
                              'maximal_backoff_time': '1h', 'queue_run_delay': '1m'},
            sources={'mta1': {'address': '127.0.0.1'}, 'mta2': {'address': '127.0.0.2'}},
            pools={'bulk': {'sources': ['mta1', 'mta2']}},
            transports={'smtp': {'source_pool': 'bulk', 'destination_concurrency_limit': 20}},
            routes={domain: ('smtp', f'[127.0.0.1]:{port}') for domain, port in ports.items()})
        self.names = {f'[127.0.0.1]:{port}': domain for domain, port in ports.items()}
        self.ports = ports
        self.fill()

    def fill(self):
        messages = []
        for number in range(120):
            domain = list(self.ports)[number % 5]
            messages.append({
                'from': 'news@acme.example', 'recipients': [f'user{number}@{domain}'],
                'headers': {'Subject': 'Spring'}, 'text': 'Everything is half off.\n',
                'tenant': 'globex' if number % 4 == 0 else 'acme', 'campaign': 'spring'})
        self.ids = injection.post(self.daemon, {'messages': messages}).expect(202)['ids']
        self.daemon.wait_events('Delivery', count=48)
        until(lambda: self.daemon.totals()['active'] == 0, lambda: 'nothing active')
        # One that waits, for the tasks about a message.
        self.one = next(m['id'] for m in self.daemon.query('messages', '--domain', 'busy.example')
                        if 'id' in m)


def task(question, *commands, http):
    return question, commands, http


def tasks(scene):
    busy = f'[127.0.0.1]:{scene.ports["busy.example"]}'
    gone = f'[127.0.0.1]:{scene.ports["gone.example"]}'
    return [
        task('Is anything on fire?', ['status'], ['destinations', '--state', 'dead'],
             http='GET /v1/status, GET /v1/destinations?state=dead'),
        task('What is queued: whose, and in which state?', ['counts', '--by', 'tenant,state'],
             ['counts', '--by', 'age'], http='GET /v1/counts?by=tenant,state'),
        task('For whom?', ['counts', '--by', 'domain,destination'], http='GET /v1/counts?by=domain,destination'),
        task('Why does mail for a destination wait?', ['why', busy], http='GET /v1/why?destination=NAME'),
        task('What do receivers say?', ['responses'], http='GET /v1/responses'),
        task('Where is this message?', ['messages', '--recipient', f'*@busy.example', '--limit', '3'],
             ['message', scene.one], ['why', scene.one],
             http='GET /v1/messages?recipient=, GET /v1/messages/ID, GET /v1/why?message=ID'),
        task('What was said in the last session?', ['trace', gone, '--last', '1'], ['trace', busy, '--last', '1', '--failed'],
             http='GET /v1/trace?destination=NAME'),
        task('A tenant sends spam, or its key was stolen: how much would stop, stop it, and what is stopped?',
             ['suspend', '--tenant', 'acme', '--for', '2h', '--reason', 'abuse report T-123', '--dry-run'],
             ['suspend', '--tenant', 'acme', '--for', '2h', '--reason', 'abuse report T-123'],
             ['orders'], ['why', '-t', 'acme'], http='POST /v1/orders {"order": "suspend", ...}, GET /v1/orders'),
        task('It may go on.', ['resume', '1', '--reason', 'the key was changed'], http='DELETE /v1/orders/ID'),
        task('A campaign was a mistake: give what is queued of it back.',
             ['bounce', '--tenant', 'acme', '--campaign', 'spring', '--domain', 'busy.example', '--for', '0',
              '--reason', 'sent by mistake', '--yes'], http='POST /v1/orders {"order": "bounce", ...}'),
        task('Mail that nobody may see any more: remove it without a word.',
             ['drop', '--tenant', 'globex', '--domain', 'busy.example', '--for', '0', '--reason', 'legal, L-7', '--yes'],
             http='POST /v1/orders {"order": "drop", ...}'),
        task('A source address is on a list: no new connections from it.',
             ['suspend', '--source', 'mta1', '--for', '1d', '--reason', 'listed'], ['sources'],
             http='POST /v1/orders {"order": "suspend", "source": "mta1", ...}, GET /v1/sources'),
        task('A receiver is back: try its mail now.', ['flush', '--destination', gone], http='POST /v1/flush'),
        task('What will apply to a domain, and from which line of the configuration?', ['explain', 'busy.example'],
             http='GET /v1/config'),
        task('A provider wants less: change the file, check it, put it in force.', ['check'], ['reload'],
             http='POST /v1/reload'),
        task('Was it delivered?', ['events', '--after', 'start', '--type', 'Delivery', '--limit', '1'],
             http='GET /v1/events?after=start&type=Delivery'),
        task('Whose mail went how?', ['tenants'], http='GET /v1/tenants'),
        task('All figures for the monitoring.', http='GET /metrics, GET /healthz, GET /readyz'),
    ]


def shown(scene, text):
    """Names as a reader would have them, and not too many lines."""
    text = text.replace(scene.place.folder, '').replace(scene.daemon.config_path, '/etc/sluice/sluice.conf')
    text = re.sub(r'/sluice\d+/sluice\.conf', '/etc/sluice/sluice.conf', text)
    lines = [line.rstrip()[:150] for line in text.splitlines()]
    if len(lines) > LINES_MAX:
        lines = lines[:LINES_MAX] + ['...']
    return '\n'.join(lines)


def perform(scene, question, commands, http):
    """The task as Markdown."""
    text = f'\n## {question}\n\n'
    for command in commands:
        done = scene.daemon.command(*command)
        assert done.returncode in (0, 1), (command, done.returncode, done.stderr.decode())
        words = ' '.join(f'"{word}"' if ' ' in word or '*' in word or '[' in word else word for word in command)
        text += f'```\n$ sluice {words}\n{shown(scene, (done.stdout + done.stderr).decode())}\n```\n\n'
    return text + f'HTTP: `{http}`\n'


def main():
    place = make_place()
    try:
        scene = Scene(place)
        print(HEAD, end='')
        for item in tasks(scene):
            print(perform(scene, *item), end='')
    finally:
        end_place(place, False)


if __name__ == '__main__':
    main()
