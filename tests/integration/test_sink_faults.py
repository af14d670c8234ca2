"""The fault matrix by a server that nobody here wrote: Postfix's smtp-sink disconnects, says 421,
5xx or 4xx at each command, is slow, deaf or old. Outcomes as in support/fault_table.py."""
import os

import pytest

from support.client import message, submit
from support.net import Net
from support.smtp_sink import SmtpSink, tool
from support.wait import until

pytestmark = pytest.mark.skipif(not os.path.exists(tool('smtp-sink')), reason='no Postfix')

OUTCOMES = '''
         connect ehlo helo mail rcpt data .    rset quit
-q       NEXT    NEXT NEXT NEXT NEXT NEXT AMB  BNC  OK
-Q       NEXT    NEXT NEXT NEXT NEXT NEXT NEXT BNC  OK
-f       NEXT    OK   NEXT BNC  BNC  BNC  BNC  BNC  OK
-r       NEXT    OK   NEXT NEXT NEXT NEXT NEXT BNC  OK
'''
CODES = {'-q': 0, '-Q': 421, '-f': 500, '-r': 450}

# Of the other flags: options, outcome, code. Seconds beyond the timers of the client, or below.
SLOW = '15'
OTHERS = {
    'slow data': (('-p', '-w', '1'), 'OK', 250),
    'slower data': (('-p', '-w', SLOW), 'NEXT', 0),
    'abort in data': (('-A', '1'), 'BNC', 550),
    'abort at once': (('-A', '0'), 'BNC', 550),
    'no esmtp': (('-e',), 'OK', 250),
    'no pipelining': (('-p',), 'OK', 250),
    'late reader': (('-H', '1', '-T', '1024'), 'OK', 250),
    'later reader': (('-H', SLOW, '-T', '1024'), 'NEXT', 0),
    'random stalls': (('-W', 'data:1:30'), 'OK', 250),
}
BIG = (b'y' * 98 + b'\r\n') * 65000  # more than buffers of both sides hold


def cells():
    """{name: (options, outcome, code)}"""
    head, *lines = OUTCOMES.strip('\n').splitlines()
    found = dict(OTHERS)
    for line in lines:
        flag, *outcomes = line.split()
        for command, outcome in zip(head.split(), outcomes):
            options = [flag, command]
            if command == 'helo':
                options.append('-e')
            elif command == 'rset':
                # RSET is said after a transaction that failed.
                options = ['-f', 'rcpt,rset'] if flag == '-f' else ['-f', 'rcpt', *options]
            code = 250 if outcome == 'OK' else 500 if command == 'rset' else CODES[flag]
            found[f'{flag} {command}'] = (options, outcome, code)
    return found


CELLS = cells()
SEEN = {}


def domain_of(name, has_next):
    word = name.replace('-Q', '421').replace('-', '').replace(' .', ' dot').replace(' ', '-')
    return f'{word}-{"two" if has_next else "one"}.test'


def is_big(name):
    return name in ('abort in data', 'abort at once', 'late reader', 'later reader')


@pytest.fixture(scope='module')
def stage(module_place, report_table):
    net = Net(module_place)
    net.witness = net.host('witness.test')
    net.back = module_place.receiver()
    routes = {'back.test': ('smtp', net.back.nexthop)}
    for name, (options, _, _) in CELLS.items():
        module_place.keep(SmtpSink(*options, address=net.address(f'mx.{domain_of(name, False)}'),
                                   port=net.port))
        for has_next in (False, True):
            domain = domain_of(name, has_next)
            net.mx(domain, f'mx.{domain_of(name, False)}', *(['witness.test'] if has_next else []))
            routes[domain] = ('parting' if name.endswith('quit') else 'smtp', None)
    usual = {'inet_protocols': 'ipv4', 'smtp_data_init_timeout': '10s',
             'smtp_data_xfer_timeout': '10s'}
    net.start({'smtp': usual, 'parting': {**usual, 'smtp_connection_reuse_count_limit': 1}},
              routes=routes)
    for name in CELLS:
        for has_next in (False, True):
            submit(net.daemon, f'{domain_of(name, has_next)[:-5]}@back.test',
                   [f'x@{domain_of(name, has_next)}'],
                   message(name) + (BIG if is_big(name) else b''))
    yield net
    lines = OUTCOMES.strip('\n').splitlines()
    head = lines[0].split()
    rows = [lines[0]] + [flag.ljust(9) + ' '.join(
        SEEN.get(f'{flag} {command}', '?').ljust(max(4, len(command))) for command in head)
        for flag in CODES]
    rows += [f'{name.ljust(16)} {SEEN.get(name, "?")}' for name in OTHERS]
    right = sum(SEEN.get(name) == CELLS[name][1] for name in CELLS)
    report_table('faults of smtp-sink', '\n'.join([*rows, f'{right} of {len(CELLS)} cells right']))


def first_result(net, domain):
    return until(lambda: net.daemon.results(f'x@{domain}'),
                 lambda: f'a result for {domain}:\n{net.daemon.log()[-2000:]}')[0]


@pytest.mark.parametrize('name', CELLS)
def test_cell(stage, name):
    _, outcome, code = CELLS[name]
    SEEN[name] = 'wrong'
    alone, served = domain_of(name, False), domain_of(name, True)
    event = first_result(stage, alone)
    kind = {'OK': 'Delivery', 'BNC': 'Bounce'}.get(outcome, 'TransientFailure')
    assert event['type'] == kind and event['response']['code'] == code, event
    assert event.get('is_ambiguous', False) == (outcome == 'AMB'), event
    assert event['num_attempts'] == 1, event
    if kind == 'TransientFailure':
        # It goes on failing: what is deferred is still there, with its first arrival.
        again = stage.daemon.wait_events('TransientFailure', f'x@{alone}', count=2)
        assert again[1]['num_attempts'] == 2 and again[1]['id'] == event['id']
    event = first_result(stage, served)
    expected = {'BNC': 'Bounce', 'AMB': 'TransientFailure'}.get(outcome, 'Delivery')
    assert event['type'] == expected and event['num_attempts'] == 1, event
    assert len(stage.witness.to(f'x@{served}')) == (outcome == 'NEXT')
    for domain in (alone, served):
        sender = f'{domain[:-5]}@back.test'
        if outcome == 'BNC':
            until(lambda s=sender: stage.back.to(s), f'a notice to {sender}')
        assert len(stage.back.to(sender)) == (outcome == 'BNC')
    SEEN[name] = outcome
