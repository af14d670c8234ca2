"""Every fault at every point of the dialogue with a server (support/fault_table.py). Each cell has
two domains: one with the faulty server alone, one with a good server behind it. All run at once in
one daemon; each cell is judged by the event log and by what the servers heard."""
import re

import pytest

from support import fault_table
from support.certificate import server_context
from support.client import Client, message, submit
from support.daemon import status_of
from support.net import Net
from support.peer import MARK, FullHost, Peer
from support.report import Report
from support.wait import until

CELLS = fault_table.outcomes()
TIMED = ('silent', 'drip')
ONE_SERVER_ONLY = ('QUIT', 'idle', 'RSET', 'reuse')
SHOWN_BY_NEXT = ('QUIT', 'idle', 'reuse')
BIG = (b'y' * 98 + b'\r\n') * 65000
MEMORY_GROWTH = 64 << 20  # bytes: nothing that a server sends is kept


class Cell:
    """One row and column at one or two servers."""

    def __init__(self, row, column, has_next):
        self.row, self.column, self.has_next = row, column, has_next
        word = re.sub('[!>*&]', {'!': '-tls', '>': '-group', '*': '-chunk',
                                  '&': '-stream'}.get(row[-1], ''), row)
        self.domain = f'{word}-{column}-{"two" if has_next else "one"}.test'.lower()
        self.names = ['a', 'b', 'c'] if row == 'RCPT' else ['a']
        self.server = None
        self.is_body = fault_table.is_body(row)
        self.stays_open = CELLS[row, column].endswith('+')

    @property
    def outcome(self):
        # With an RSET, whose reply is new, the end must be in the words of the first. Whether there
        # is one depends on whether the second message came before the reply to the first.
        if (self.row, self.column) == ('BDAT&', 'extra') and \
                'RSET' not in self.server.transcripts[0]:
            return 'OK'
        return CELLS[self.row, self.column].rstrip('+')

    @property
    def recipients(self):
        return [f'{name}@{self.domain}' for name in self.names]

    @property
    def sender(self):
        return f'{"body" if self.is_body else self.domain[:-5]}@back.test'

    @property
    def first_recipient(self):
        return f'first@{self.domain}'

    @property
    def next_recipient(self):
        return f'next@{self.domain}'

    @property
    def last_recipient(self):
        return f'last@{self.domain}'

    def outcome_of(self, recipient):
        """Only the second of three recipients meets a refusal."""
        if self.row == 'RCPT' and recipient != self.recipients[1] and self.stays_open:
            return 'OK'
        return 'OK' if self.row in SHOWN_BY_NEXT else self.outcome

    def copies(self, recipient):
        """Messages that the faulty server took for it."""
        count = 0
        for number, transcript in enumerate(getattr(self.server, 'transcripts', [])):
            to = []
            for line in transcript:
                if line.startswith('MAIL'):
                    to = []
                elif line.startswith('RCPT') and not (
                        number == 0 and self.row == 'RCPT' and len(to) == 1 and
                        recipient in line and MARK in transcript and
                        transcript.index(MARK) == transcript.index(line) + 1):
                    to.append(line)
                elif line.startswith(('body', 'BDAT')) and not (number == 0 and self.is_body):
                    count += sum(f'<{recipient}>' in one for one in to)
        return count


class Stage:
    TRANSPORTS = {'QUIT': 'parting', 'AUTH': 'known', 'MAIL&': 'single', 'RCPT&': 'single',
                  'BDAT&': 'single'}

    def __init__(self, place):
        self.place = place
        self.net = Net(place)
        self.tls = server_context(place.subfolder('tls'))
        self.back = place.receiver()
        self.witness = self.net.host(
            'witness.test', tls=self.tls, extensions=('PIPELINING', '8BITMIME', 'AUTH PLAIN'),
            answers=lambda verb, *_: '235 2.7.0 in' if verb == 'AUTH' else None)
        self.cells = {(row, column, has_next): self.set_up(Cell(row, column, has_next))
                      for row, column in CELLS for has_next in (False, True)
                      if not (has_next and row in ONE_SERVER_ONLY)}
        self.daemon = self.start()

    def set_up(self, cell):
        row, column, name = cell.row, cell.column, f'mx.{cell.domain}'
        if row == 'connect':
            cell.address = self.net.address(name)
            cell.full = (self.place.keep(FullHost(cell.address, self.net.port))
                         if column == 'silent' else None)
        else:
            cell.server = self.net.peer(
                name, fault_table.script(row, column), fault_table.later_script(row),
                tls=self.tls, receive_buffer=65536 if cell.is_body else None,
                extensions=['AUTH PLAIN'] if row == 'AUTH' else [])
        self.net.mx(cell.domain, name, *(['witness.test'] if cell.has_next else []))
        return cell

    def password_file(self):
        path = f'{self.place.subfolder("password")}/password'
        with open(path, 'w', encoding='ascii') as file:
            file.write('secret\n')
        return path

    def start(self):
        usual = {'process_limit': 1000, 'inet_protocols': 'ipv4',
                 'smtp_connection_cache_time_limit': '60s'}
        hasty = {f'smtp_{step}_timeout': '8s' for step in (
            'connect', 'helo', 'starttls', 'mail', 'rcpt', 'data_init', 'data_xfer', 'data_done',
            'rset')}
        strict = {'smtp_tls_security_level': 'encrypt'}
        known = {'smtp_auth_user': 'user', 'smtp_auth_password_file': self.password_file(),
                 'smtp_auth_requires_tls': False}
        # Its connections say QUIT after each message, and the next one waits for the slot.
        parting = {'smtp_connection_reuse_count_limit': 1, 'destination_concurrency_limit': 1}
        # A second message follows on the connection as soon as the first is over.
        single = {'destination_concurrency_limit': 1}
        transports = {name + suffix: {**usual, **options, **speed}
                      for name, options in (('usual', {}), ('strict', strict), ('known', known),
                                            ('parting', parting), ('single', single))
                      for suffix, speed in (('', {}), ('_hasty', hasty))}
        routes = {cell.domain: (
            self.TRANSPORTS.get(cell.row, 'strict' if cell.row.endswith('!') else 'usual') +
            ('_hasty' if cell.column in TIMED else ''), cell.domain)
            for cell in self.cells.values()}
        return self.net.start(
            transports, listener={'smtpd_recipient_limit': 0},
            routes={**routes, 'back.test': ('usual', self.back.nexthop)}).daemon

    def wait_results(self, recipients, kinds):
        waiting = set(recipients)

        def are_there():
            for recipient in list(waiting):
                if any(e['type'] in kinds for e in self.daemon.results(recipient)):
                    waiting.discard(recipient)
            return not waiting
        try:
            until(are_there, 'results')
        except AssertionError:
            pass  # the cell's own test says what is missing

    def open_port(self, cell):
        """Now somebody listens there."""
        if cell.full:
            cell.full.close()
        cell.server = self.place.keep(Peer('good', address=cell.address, port=self.net.port))

    def submit_two(self, cell):
        """The first is answered when the second is there, which then waits for nothing."""
        with Client(self.daemon) as client:
            client.ehlo()
            for recipient in (cell.first_recipient, *cell.recipients):
                client.mail(cell.sender, [recipient])
                client.data(message(cell.domain))
        cell.server.gate.set()

    def play(self):
        """All messages, then one more to each domain whose first had a final result, and a third
        where it takes that to see whether the connection is still in use."""
        cells = list(self.cells.values())
        for cell in cells:
            if fault_table.is_second(cell.row):
                self.submit_two(cell)
            elif not cell.is_body:
                submit(self.daemon, cell.sender, cell.recipients, message(cell.domain))
        large = [cell for cell in cells if cell.is_body]
        submit(self.daemon, large[0].sender, [r for c in large for r in c.recipients],
               message('body') + BIG)
        everybody = [r for cell in cells for r in cell.recipients]
        self.wait_results(everybody, ('Delivery', 'Bounce', 'TransientFailure'))
        for cell in cells:
            if cell.row == 'connect':
                self.open_port(cell)
        followed = [cell for cell in cells if not cell.has_next and all(
            self.daemon.results(r) and self.daemon.results(r)[0]['type'] != 'TransientFailure'
            for r in cell.recipients)]
        for cell in followed:
            submit(self.daemon, cell.sender, [cell.next_recipient], message('next'))
        self.wait_results(everybody + [cell.next_recipient for cell in followed],
                          ('Delivery', 'Bounce'))
        third = [cell for cell in followed if cell.row == 'reuse' and cell.outcome == 'BNC']
        for cell in third:
            submit(self.daemon, cell.sender, [cell.last_recipient], message('last'))
        self.wait_results([cell.last_recipient for cell in third], ('Delivery', 'Bounce'))


SEEN = {}


@pytest.fixture(scope='module')
def stage(module_place, report_table):
    made = Stage(module_place)
    made.memory = made.daemon.peak_memory()
    made.play()
    yield made
    report_table('faults at each point of the dialogue: what came of them', table())


def table():
    columns = list(dict.fromkeys(column for _, column in CELLS))
    width = [max(7, len(column) + 1) for column in columns]
    lines = [' ' * 11 + ''.join(c.ljust(w) for c, w in zip(columns, width))]
    for row in dict.fromkeys(row for row, _ in CELLS):
        lines.append(row.ljust(11) + ''.join(
            SEEN.get((row, c), '?' if (row, c) in CELLS else '-').ljust(w)
            for c, w in zip(columns, width)))
    right = sum(SEEN.get(cell) == outcome for cell, outcome in CELLS.items())
    return '\n'.join([*lines, fault_table.NOTES, f'{right} of {len(CELLS)} cells right'])


def check_first(stage, cell, recipient):
    """The first result, at one server."""
    outcome = cell.outcome_of(recipient)
    events = stage.daemon.results(recipient)
    assert events, f'no result:\n{stage.daemon.log()[-2000:]}'
    if fault_table.is_second(cell.row):
        before = stage.daemon.results(cell.first_recipient)
        assert [e['type'] for e in before] == ['Delivery'], before
    first, last = events[0], events[-1]
    kind = {'OK': 'Delivery', 'BNC': 'Bounce'}.get(outcome, 'TransientFailure')
    assert first['type'] == kind, f'{outcome} expected: {first}'
    assert first['response']['content'].isprintable(), first
    assert first.get('is_ambiguous', False) == (outcome == 'AMB'), first
    check_reply(cell, recipient, outcome, first)
    if outcome in ('OK', 'BNC'):
        assert len(events) == 1, events
    else:
        assert last['type'] == 'Delivery', f'never delivered: {events}'
        # A port where nobody listens is called until somebody does.
        assert cell.row == 'connect' or len(events) == 2, events
    at_end = fault_table.is_whole(cell.row) and (outcome != 'OK' or cell.column in ('4yz', '421'))
    assert cell.copies(recipient) == at_end + (outcome != 'BNC'), cell.server.transcripts


def check_reply(cell, recipient, outcome, event):
    if outcome == 'OK':
        assert event['response']['code'] == 250 and event['num_attempts'] == 1, event
        return
    code, status = fault_table.reply(cell.row, cell.column, outcome)
    if cell.row == 'RCPT' and cell.column == '421' and recipient != cell.recipients[1]:
        code, status = fault_table.LOST
    statuses = {status}
    if (cell.row, cell.column) == ('banner', 'reset'):
        statuses.add('4.4.1')  # the reset may come before connect() has been seen to work
    assert code is None or event['response']['code'] == code, event
    assert status_of(event) in statuses, event


def check_connection(stage, cell):
    """Whether the connection was used after the fault, by the retry or by the next message."""
    if cell.row == 'connect':
        return
    assert not cell.server.errors, cell.server.errors
    used = [line for line in cell.server.transcripts[0].after() if line.startswith('MAIL')]
    assert bool(used) == cell.stays_open, cell.server.transcripts
    if not cell.stays_open:
        assert len(cell.server.transcripts) >= 2, cell.server.transcripts


def check_next(stage, cell):
    """The next message to a domain whose first had a final result."""
    events = stage.daemon.results(cell.next_recipient)
    assert events, 'the next message has no result'
    outcome = cell.outcome if cell.row == 'reuse' else 'OK'
    kind = {'OK': 'Delivery', 'BNC': 'Bounce'}.get(outcome, 'TransientFailure')
    assert events[0]['type'] == kind and events[0]['num_attempts'] == 1, events
    if outcome != 'OK':
        check_reply(cell, cell.next_recipient, outcome, events[0])
    assert cell.copies(cell.next_recipient) == (outcome != 'BNC'), cell.server.transcripts


def check_second_server(stage, cell):
    """With a good server behind the faulty one."""
    for recipient in cell.recipients:
        outcome, events = cell.outcome_of(recipient), stage.daemon.results(recipient)
        assert events, 'no result'
        at_witness = len(stage.witness.to(recipient))
        assert at_witness == (outcome == 'NEXT'), events
        kind = {'BNC': 'Bounce', 'AMB': 'TransientFailure'}.get(outcome, 'Delivery')
        assert events[0]['type'] == kind, events
        assert events[-1]['type'] == ('Bounce' if outcome == 'BNC' else 'Delivery'), events
        assert len(events) == (2 if outcome == 'AMB' else 1), events
        at_end = fault_table.is_whole(cell.row) and (outcome != 'OK' or cell.column in ('4yz', '421'))
        assert cell.copies(recipient) == at_end + (outcome in ('OK', 'AMB')), events


def check_notice(stage, cell, recipient, is_bounced):
    """A sender hears of what was refused for good, once, and of nothing else."""
    def notices():
        return [n for n in stage.back.to(cell.sender)
                if any(recipient in r['Final-Recipient'] for r in Report(n.content).recipients)]
    if is_bounced:
        until(notices, f'a notice about {recipient}')
    assert len(notices()) == is_bounced, notices()


@pytest.mark.parametrize('row,column', CELLS, ids=lambda word: word)
def test_cell(stage, row, column):
    cell = stage.cells[row, column, False]
    SEEN[row, column] = 'wrong'
    for recipient in cell.recipients:
        check_first(stage, cell, recipient)
        check_notice(stage, cell, recipient, cell.outcome_of(recipient) == 'BNC')
    if all(cell.outcome_of(recipient) in ('OK', 'BNC') for recipient in cell.recipients):
        check_next(stage, cell)
        check_notice(stage, cell, cell.next_recipient, row == 'reuse' and cell.outcome == 'BNC')
    check_connection(stage, cell)
    if row not in ONE_SERVER_ONLY:
        check_second_server(stage, stage.cells[row, column, True])
    SEEN[row, column] = CELLS[row, column]


def test_nothing_is_left(stage):
    """Nothing lost, nothing twice, and memory does not hold what servers sent."""
    stage.daemon.wait_empty()
    assert stage.daemon.peak_memory() - stage.memory < MEMORY_GROWTH


def test_a_silent_server_holds_up_nobody_else(place):
    """Its deliveries are under way, and stay so; mail to another one passes."""
    silent, good = place.keep(Peer('silence')), place.keep(Peer('good'))
    daemon = place.sluice(routes={'silent.test': ('smtp', silent.nexthop),
                                  '*': ('smtp', good.nexthop)})
    for number in range(40):
        submit(daemon, 'a@a.test', [f'{number}@silent.test'], message())
    until(lambda: silent.connections >= 5, 'a window full of connections to the silent server')
    submit(daemon, 'a@a.test', ['x@good.test'], message())
    daemon.wait_event('Delivery', 'x@good.test')
    assert not [e for e in daemon.events() if e['type'] == 'TransientFailure']
