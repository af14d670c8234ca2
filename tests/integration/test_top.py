"""`sluice top` on a terminal: what it shows of live traffic, its keys, resizes, a daemon that goes
away and comes back, and names that were made to harm terminals; and its snapshot."""
import json
import re

import pytest

from support import injection
from support.daemon import PROGRAM
from support.terminal import Terminal
from support.traffic import Traffic, refuse
from support.wait import settled, until


class Scene:
    def __init__(self, place):
        self.good, self.slow, self.strict = (
            place.receiver(), place.receiver(answers=refuse('451 4.7.1 too many from 192.0.2.7')),
            place.receiver(answers=refuse('550 5.1.1 no such user here')))
        ports = {'isp.example': self.good.port, 'busy.example': self.slow.port,
                 'strict.example': self.strict.port}
        # Nobody resolves this one: its scheduler knows it as dead.
        self.daemon = place.sluice(
            routes={**{domain: ('smtp', f'[127.0.0.1]:{port}') for domain, port in ports.items()},
                    'gone.example': ('smtp', None)},
            options={'allow_loopback': True, 'minimal_backoff_time': '60s',
                     'maximal_backoff_time': '120s'},
            transports={'smtp': {'destination_concurrency_failed_cohort_limit': 1}})
        self.names = {domain: f'[127.0.0.1]:{port}' for domain, port in ports.items()}
        self.daemon.command('suspend', '--tenant', 'initech', '--for', '2h', '--reason',
                            'complaints, T-123')
        self.daemon.command('suspend', '--destination', self.names['strict.example'],
                            '--for', '2h', '--reason', 'strict ones')
        injection.post(self.daemon, {
            'from': 'a@initech.test', 'recipients': ['b@isp.example'], 'tenant': 'initech',
            'text': 'held\n', 'headers': {'Subject': 'x'}}).expect(202)
        self.traffic = Traffic(self.daemon, [*ports, 'gone.example'])
        place.closers.append(self.traffic.close)


@pytest.fixture(scope='module')
def scene(module_place):
    return Scene(module_place)


@pytest.fixture
def terminal(place):
    """terminal(daemon, *arguments, columns=..., lines=...) -> a Terminal that runs top"""
    def run(daemon, *arguments, **settings):
        started = Terminal([PROGRAM, 'top', '-c', daemon.config_path, *arguments], **settings)
        place.closers.append(started.close)
        return started
    return run


def figure(terminal, name):
    """The number behind a word of the head."""
    found = re.search(rf'\b{name} ([0-9.]+)', '\n'.join(terminal.lines()[:3]))
    return float(found.group(1)) if found else None


# --- views -----------------------------------------------------------------------------------------

def test_live(scene, terminal):
    top = terminal(scene.daemon)
    top.shows('sluice 0.1.0 at relay.test', 'live every 2s', 'DESTINATION', scene.names['isp.example'])
    until(lambda: (figure(top, 'delivered') or 0) > 1, lambda: f'a rate\n{top.text()}')
    until(lambda: (figure(top, 'dead') or 0) == 1, lambda: f'a dead one\n{top.text()}')
    until(lambda: figure(top, 'orders') == 2 and (figure(top, 'suspended') or 0) >= 1 and (figure(top, 'queue') or 0) > 1,
          lambda: f'orders and mail\n{top.text()}')
    top.press('q')
    assert top.wait_exit() == 0
    assert b'\x1b[?1049l' in top.raw or b'\x1b[?1l' in top.raw or b'\x1b[?25h' in top.raw, \
        'the terminal is given back'


def test_views(scene, terminal):
    top = terminal(scene.daemon)
    top.shows('WINDOW', 'HELD BACK BY')
    top.press('2')
    top.shows('DESTINATION', 'RECIPIENTS', 'OLDEST', 'gone.example')
    top.press('2')
    top.shows('TENANT', 'RECIPIENTS', 'OLDEST', 'globex', 'initech')
    top.press('3')
    top.shows('AGE', '<1m', '>3d', '###')
    top.press('4')
    top.shows('TENANT', 'EXPIRED', 'acme', 'globex')
    top.press('5')
    top.shows('COUNT', '4.7.1', 'too many from *')
    top.press('6')
    top.shows('ORDER', 'tenant initech', 'complaints, T-123', 'strict ones')
    top.press('7')
    top.shows('7 lanes', 'SITE', 'CAUSE', 'by worst', scene.names['isp.example'])
    top.press('tab')
    top.shows('WINDOW', 'HELD BACK BY')


def test_dead_ones_are_red_and_alone(scene, terminal):
    top = terminal(scene.daemon)
    top.shows(scene.names['isp.example'])
    top.press('d')
    top.shows('gone.example', 'dead ', 'held back only', without=[scene.names['isp.example']])
    top.press('/', 'gone', 'enter')
    top.shows('with "gone"', 'dead ', without=[scene.names['strict.example']])
    until(lambda: (at := top.line_with('gone.example')) and top.look(at[0], 0)[0] == 'red', lambda: f'red\n{top.text()}')
    top.press('esc', 'd')
    top.shows(scene.names['isp.example'])


def test_filter(scene, terminal):
    top = terminal(scene.daemon)
    top.press('4')
    top.shows('acme', 'globex')
    top.press('/', 'glox', 'backspace')
    top.shows('filter: glo_', 'globex', without=['acme'])
    top.press('enter')
    top.shows('with "glo"', '1 of', 'globex', without=['acme'])
    top.press('esc')
    top.shows('acme', 'globex', without=['with "glo"'])
    top.press('/', 'zzz', 'enter')
    top.shows('nothing fits the filter')
    top.press('/', 'esc')
    top.shows('acme', 'globex')
    top.press('1', '/', scene.names['busy.example'][-6:], 'enter')
    top.shows(scene.names['busy.example'], without=[scene.names['isp.example']])


def order_of(top, *names):
    """[] while one of them is not on the screen, as when that is being drawn."""
    found = [(top.line_with(name), name) for name in names]
    return [name for _, name in sorted((at[0], name) for at, name in found)] if all(at for at, _ in found) else []


def is_selected(top, name):
    return (at := top.line_with(name)) and top.look(at[0], 0)[2]


def test_sorting(scene, terminal):
    top = terminal(scene.daemon)
    top.press('4')
    top.shows('acme', 'globex', 'by messages')
    until(lambda: order_of(top, 'acme', 'globex') == ['acme', 'globex'], top.text)
    top.press('r')
    top.shows('by messages, reversed')
    until(lambda: order_of(top, 'acme', 'globex') == ['globex', 'acme'], top.text)
    top.press('s')
    top.shows('by TENANT', without=['reversed'])
    until(lambda: order_of(top, 'acme', 'globex') == ['acme', 'globex'], top.text)
    for title in ('WEIGHT', 'WAITING', 'CONNS', 'LONGEST', 'MESSAGES', 'RECIPIENTS', 'DELIVERED', 'DEFERRED',
                  'FAILED', 'EXPIRED', 'DROPPED', 'messages'):
        top.press('s')
        top.shows(f'by {title}')
    top.press('1', 's')
    top.shows('by DESTINATION')
    names = (scene.names['isp.example'], scene.names['busy.example'])
    top.shows(*names)
    until(lambda: order_of(top, *names) == sorted(names), top.text)


def test_selection_and_why(scene, terminal):
    top = terminal(scene.daemon)
    top.press('4')
    top.shows('acme', 'globex')
    until(lambda: is_selected(top, 'acme'), 'the first row is selected')
    top.press('down')
    until(lambda: is_selected(top, 'globex'), 'the second row is selected')
    top.press('home', 'end', 'page up', 'page down', 'up')
    top.press('/', 'initech', 'enter')
    top.press('2')
    top.shows('DESTINATION', 'OLDEST', 'nothing fits the filter')
    top.press('2')
    top.shows('TENANT', '1 of', 'RECIPIENTS', 'OLDEST')
    top.press('enter')
    top.shows('why: tenant initech', 'order 1: suspend', 'complaints, T-123', 'sluice resume 1')
    top.press('esc')
    top.shows('initech', without=['why: tenant'])
    top.press('esc', '6')
    top.shows('complaints, T-123', 'strict ones', without=['why: tenant'])
    top.press('enter')
    top.shows('order 1', 'reason', 'created', 'matched')
    top.press('esc', '3', 'enter')
    top.shows('There is nothing to look into.')


def test_trace(scene, terminal):
    top = terminal(scene.daemon)
    top.press('5', '/', 'too many', 'enter')
    top.shows('too many from', '1 of')
    top.press('t')
    top.shows('last session with', scene.names['busy.example'], '451 4.7.1 too many from 192.0.2.7',
              'EHLO relay.test')
    top.press('esc', 'enter')
    top.shows('response', 'destinations', 'example')
    top.press('esc', '4', 't')
    top.shows('select one')


def test_pause_interval_and_help(scene, terminal):
    top = terminal(scene.daemon, '--interval', '1s')
    top.shows('live every 1s')
    top.press('-')
    top.shows('live every 0.5s')
    top.press('+', '+')
    top.shows('live every 2s')
    top.press('p')
    top.shows('paused')
    up = top.lines()[0]
    before = scene.daemon.totals()['delivered']
    until(lambda: scene.daemon.totals()['delivered'] > before + 50, 'time passes')
    assert top.lines()[0] == up
    top.press('p')
    until(lambda: top.lines()[0] != up, 'it goes on')
    for key in 'h?':
        top.press(key)
        top.shows('PgUp, PgDn', 'pause, and go on')
        top.press('esc')
        top.shows('WINDOW', without=['PgUp, PgDn'])


# --- terminals -------------------------------------------------------------------------------------

def test_resizes_and_small_terminals(scene, terminal):
    top = terminal(scene.daemon)
    top.shows(scene.names['isp.example'], 'HELD BACK BY')
    top.resize(60, 15)
    top.shows('6 orders', 'WINDOW', scene.names['isp.example'], 'q quit', without=['HELD BACK BY'])
    assert all(len(line) <= 60 for line in top.lines())
    top.press('h')
    top.shows('help', '1 destinations   2 queue')
    top.press('page down', 'page down', 'page down')
    top.shows('those of 10 seconds.', without=['1 destinations   2 queue'])
    top.resize(20, 5)
    top.shows('too small')
    top.resize(200, 50)
    top.press('esc')
    top.shows('HELD BACK BY', scene.names['isp.example'])


def test_small_from_the_start(scene, terminal):
    top = terminal(scene.daemon, columns=60, lines=15)
    top.shows('live', 'dead', 'orders', '6 orders', 'DESTINATION', 'STATE', 'WINDOW', 'q quit')
    assert figure(top, 'failed') is not None


def test_terminal_that_is_not_known(scene, terminal):
    # ncurses keeps what it allocated for a terminal that it does not find.
    top = terminal(scene.daemon, env={'TERM': 'no-such-terminal', 'ASAN_OPTIONS': 'detect_leaks=0'})
    assert top.wait_exit() == 69
    top.shows('--once')


def test_terminal_that_goes_away(scene, terminal):
    top = terminal(scene.daemon)
    top.shows('live')
    top.hang_up()
    top.wait_exit()


# --- a daemon that is not there --------------------------------------------------------------------

def test_daemon_goes_and_comes_back(place, terminal):
    daemon = place.sluice()
    top = terminal(daemon, '--interval', '1s')
    top.shows('live every 1s', 'no destination is known')
    daemon.kill()
    top.shows('no daemon', 'the daemon is not running', 'trying again', 'no destination is known')
    top.press('4')
    top.shows('EXPIRED')
    daemon.start()
    top.shows('live every 1s', 'no mail came in since the start', without=['no daemon', 'trying again'])
    top.press('q')
    assert top.wait_exit() == 0


def test_no_daemon_at_first(place, terminal):
    daemon = place.sluice(start=False)
    top = terminal(daemon, '--interval', '1s')
    top.shows('no daemon', 'trying again')
    top.press('q')
    assert top.wait_exit() == 0


def test_an_answer_that_never_comes(place, terminal):
    """Keys work on, and nothing more is asked meanwhile."""
    daemon = place.sluice()
    top = terminal(daemon, '--interval', '1s')
    top.shows('live every 1s')
    daemon.signal(19)  # SIGSTOP
    top.shows('waiting ')
    top.press('h')
    top.shows('pause, and go on')
    top.press('q')
    assert top.wait_exit() == 0
    daemon.signal(18)  # SIGCONT


# --- hostile names ---------------------------------------------------------------------------------

EVIL = '451 4.7.1 \x1b]0;owned\x07\x1b[31mred\x1b[2J\u202egnp\u202c\u009b5m ' + 'w\u4e2d' * 150


def test_hostile_bytes(place, terminal):
    evil = place.receiver(answers=refuse(EVIL))
    daemon = place.sluice(routes={'*': ('smtp', evil.nexthop)}, options={'minimal_backoff_time': '60s'})
    tenant = '<%s%n$(reboot)`x`' + 'W' * 40
    for more in ({'tenant': tenant}, {}):
        injection.post(daemon, {'from': 'a@a.test', 'recipients': ['b@b.test'], 'text': 'x\n',
                                'headers': {'Subject': 'x'}, **more}).expect(202)
    daemon.wait_events('TransientFailure', count=2)
    daemon.command('suspend', '--tenant', 'x*', '--reason', 'r\u202e\u4e2d' + 'z' * 300)
    top = terminal(daemon, columns=70, lines=20)
    top.press('4')
    top.shows('<%s%n$(reboot)')
    top.press('5')
    top.shows('4.7.1')
    top.press('enter')
    top.shows('example', 'owned')
    top.press('esc', 't')
    top.shows('last session')
    top.press('esc', '6')
    top.shows('tenant x*')
    shown = bytes(top.raw)
    assert b'\x1b]' not in shown and b'\x07' not in shown and b'\xe2\x80\xae' not in shown
    assert b'\xc2\x9b' not in shown
    once = daemon.command('top', '--once')
    assert once.returncode == 0
    assert not any(b in once.stdout for b in (b'\x1b', b'\x07', b'\xe2\x80\xae', b'\xc2\x9b'))


# --- the snapshot ----------------------------------------------------------------------------------

def test_once(scene):
    name = scene.names['isp.example']
    until(lambda: name in scene.daemon.command('top', '--once').stdout.decode(), 'its destination')
    done = scene.daemon.command('top')  # no terminal
    assert done.returncode == 0 and done.stderr == b''
    text = done.stdout.decode()
    for title in ('destinations, the busiest first', 'queue by destination', 'queue by tenant',
                  'queue by age', 'tenants', 'responses', 'standing orders', 'complaints, T-123',
                  'lanes, the worst first',
                  'a second, over the last 10'):
        assert title in text

    def check(args):
        done = scene.daemon.command('top', *args)
        assert done.returncode == 0
        one = json.loads(done.stdout)
        assert set(one) == {'status', 'destinations', 'queue', 'queue_by_tenant', 'ages', 'tenants',
                            'responses', 'orders', 'lanes'}
        assert one['status']['orders'] == 2 and len(one['orders']) == 2 and len(one['ages']) == 8
        assert {'acme', 'globex', 'initech'} <= {t['tenant'] for t in one['tenants']}
    for args in (('--once', '--json'), ('--json',)):
        settled(lambda args=args: check(args))


def test_once_on_a_terminal(scene, terminal):
    top = terminal(scene.daemon, '--once', columns=200, lines=100)
    assert top.wait_exit() == 0
    top.shows('standing orders', 'complaints, T-123', 'lanes, the worst first')


def test_once_without_a_daemon(place):
    daemon = place.sluice(start=False)
    for args in (('--once',), ('--json',)):
        done = daemon.command('top', *args)
        assert done.returncode == 69 and b'not running' in done.stderr and not done.stdout


@pytest.mark.parametrize('args', [['--interval', '0s'], ['--interval', '2h'], ['now'],
                                  ['--interval', 'x']])
def test_usage(place, args):
    daemon = place.sluice(start=False)
    assert daemon.command('top', *args).returncode == 64
