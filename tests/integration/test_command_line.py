"""The commands as a user calls them."""
import json
import os
import socket
import subprocess

import pytest

from support.client import message, submit
from support.daemon import PROGRAM
from support.wait import PATIENCE, until


def run(*args, stdin=b'', env=None):
    return subprocess.run([PROGRAM, *args], input=stdin, capture_output=True, timeout=PATIENCE,
                          check=False, env=env)


def test_version():
    done = run('version')
    assert done.returncode == 0 and done.stdout.startswith(b'sluice ')
    assert json.loads(run('version', '--json').stdout)['name'] == 'sluice'


@pytest.mark.parametrize('args', [[], ['fly'], ['messages', 'fly'], ['version', 'x'], ['run', 'x'],
                                  ['message', 'nothing!'], ['hosts', 'a', 'b'],
                                  ['message'], ['messages', '--limit', 'x'],
                                  ['send', '--what'], ['send']])
def test_usage(args, place):
    daemon = place.sluice(start=False)
    done = run(*args, '-c', daemon.config_path)
    assert done.returncode == 64 and done.stderr and not done.stdout


@pytest.mark.parametrize('args', [['messages'], ['status'], ['destinations'], ['hosts'],
                                  ['transports'], ['sources'], ['message', '1'],
                                  ['send', '-f', 'a@a.test', 'b@b.test']])
def test_daemon_is_not_running(place, args):
    daemon = place.sluice(start=False)
    done = daemon.command(*args, stdin=message())
    assert done.returncode in (69, 75) and b'not running' in done.stderr


def test_no_configuration(place):
    done = run('check', '-c', os.path.join(place.folder, 'absent.conf'))
    assert done.returncode == 66 and b'absent.conf' in done.stderr


ERRORS = {
    'unknown': ('wibble = 3\n', 'wibble'),
    'type': ('workers = "many"\n', 'workers'),
    'range': ('workers = 100000\n', 'workers'),
    'time': ('queue_run_delay = "soon"\n', 'queue_run_delay'),
    'no transport': ('route "a.test" { transport = "nowhere" }\n', 'nowhere'),
    'twice': ('route "*" { transport = "smtp" }\n', 'title'),
    'network': ('listener "127.0.0.1:1" { relay_from = {"127.0.0.1/8"} }\n', 'relay_from'),
    'syntax': ('workers = = 1\n', ''),
    'feedback': ('destination_concurrency_positive_feedback = "2"\n', 'feedback'),
    'brace': ('transport more { process_limit = 1\n', ''),
}


@pytest.mark.parametrize('name', ERRORS)
def test_configuration_errors(place, name):
    daemon = place.sluice(start=False)
    text = daemon.config_text()
    line = text.count('\n') + 1
    with open(daemon.config_path, 'w', encoding='utf-8') as config:
        config.write(text + ERRORS[name][0])
    for command in ('check', 'run'):
        done = daemon.command(command)
        assert done.returncode == 78
        said = done.stderr.decode()
        assert said.startswith(f'{daemon.config_path}:')
        assert name == 'brace' or f'{daemon.config_path}:{line}: ' in said, said
        assert ERRORS[name][1] in said
    assert not os.path.exists(daemon.spool)


def test_all_errors_at_once(place):
    daemon = place.sluice(start=False)
    with open(daemon.config_path, 'a', encoding='utf-8') as config:
        config.write('wibble = 1\nworkers = 100000\nroute "a.test" { transport = "nowhere" }\n')
    done = daemon.command('check')
    assert done.returncode == 78
    for word in (b'wibble', b'workers', b'nowhere'):
        assert word in done.stderr


def test_check_of_a_good_configuration(place):
    done = place.sluice(start=False).command('check')
    assert done.returncode == 0, done.stderr


def test_second_daemon_on_the_same_spool(relay):
    daemon, _ = relay
    path = os.path.join(daemon.folder, 'other.conf')
    with open(path, 'w', encoding='utf-8') as config:
        config.write(daemon.config_text().replace(f'127.0.0.1:{daemon.port}',
                                                  f'127.0.0.3:{daemon.port}'))
    done = run('run', '-c', path)
    assert done.returncode == 75, done.stderr
    assert daemon.is_alive()
    submit(daemon, 'a@a.test', ['x@x.test'], message())
    daemon.wait_event('Delivery', 'x@x.test')


def test_port_is_taken(place):
    daemon = place.sluice(start=False)
    with socket.create_server(('127.0.0.9', 0)) as taken:
        daemon.address, daemon.port = taken.getsockname()
        daemon.write_config()
        done = daemon.command('run')
    assert done.returncode == 69 and str(daemon.port).encode() in done.stderr


def test_port_of_another_daemon(place):
    """Workers share their address with each other, never with a second daemon."""
    first = place.sluice()
    second = place.sluice(start=False)
    second.address, second.port = first.address, first.port
    second.write_config()
    done = second.command('run')
    assert done.returncode == 69 and str(first.port).encode() in done.stderr
    assert first.is_alive()


# --- send ------------------------------------------------------------------------------------------

def test_send(relay):
    daemon, receiver = relay
    done = daemon.command('send', '-f', 'me@a.test', 'x@x.test', 'y@y.test',
                          stdin=b'Subject: hi\n\nHello,\n.. two dots\nbye\n')
    assert done.returncode == 0, done.stderr
    daemon.wait_events('Delivery', count=2)
    [received] = receiver.to('x@x.test')
    assert received.sender == 'me@a.test'
    assert b'Subject: hi\r\n' in received.body
    assert received.body.endswith(b'\r\n\r\nHello,\r\n.. two dots\r\nbye\r\n')
    for name in (b'Date: ', b'From: ', b'Message-'):
        assert b'\r\n' + name in received.body


def test_send_takes_recipients_from_the_header(relay):
    daemon, receiver = relay
    done = daemon.command('send', '-t', '-f', 'me@a.test', stdin=(
        b'From: me@a.test\nTo: Ann <ann@x.test>, "B, b" <bob@x.test>\nCc: eve@y.test\n'
        b'Bcc: secret@z.test\nSubject: to all\n\ntext\n'))
    assert done.returncode == 0, done.stderr
    names = {'ann@x.test', 'bob@x.test', 'eve@y.test', 'secret@z.test'}
    daemon.wait_events('Delivery', count=4)
    assert {r for m in receiver.messages for r in m.recipients} == names
    assert all(b'secret' not in m.body for m in receiver.messages)


def test_send_ends_at_a_dot_unless_told_otherwise(relay):
    daemon, receiver = relay
    for flag, recipient in ((None, 'dot@x.test'), ('-i', 'nodot@x.test')):
        args = ['-f', 'me@a.test'] + ([flag] if flag else []) + [recipient]
        assert daemon.command('send', *args, stdin=b'S: x\n\none\n.\ntwo\n').returncode == 0
    daemon.wait_events('Delivery', count=2)
    assert receiver.to('dot@x.test')[0].body.endswith(b'one\r\n')
    assert receiver.to('nodot@x.test')[0].body.endswith(b'one\r\n.\r\ntwo\r\n')


def test_send_of_a_large_message(relay):
    daemon, receiver = relay
    text = b'Subject: large\n\n' + (b'x' * 99 + b'\n') * 100000
    assert daemon.command('send', '-f', 'me@a.test', 'x@x.test', stdin=text).returncode == 0
    daemon.wait_event('Delivery', 'x@x.test')
    [received] = receiver.messages
    assert received.body.endswith(text.split(b'\n\n', 1)[1].replace(b'\n', b'\r\n'))


def test_send_from_nobody(relay):
    daemon, receiver = relay
    assert daemon.command('send', '-f', '<>', 'x@x.test', stdin=b'S: x\n\nx\n').returncode == 0
    [received] = receiver.wait()
    assert received.sender == ''


@pytest.mark.parametrize('args, code', [(['-f', 'a b@c', 'x@x.test'], 65), (['x@x@x'], 67),
                                        (['-f', 'a@a.test', '-t'], 64)])
def test_send_refuses(relay, args, code):
    daemon, _ = relay
    done = daemon.command('send', *args, stdin=b'Subject: nobody\n\nx\n')
    assert done.returncode == code and done.stderr
    assert not daemon.of('Reception')


def test_send_to_a_domain_without_route(place):
    receiver = place.receiver()
    daemon = place.sluice(routes={'a.test': ('smtp', receiver.nexthop)})
    done = daemon.command('send', '-f', 'a@a.test', 'x@a.test', 'x@b.test', stdin=b'S: x\n\nx\n')
    assert done.returncode == 67 and b'x@b.test' in done.stderr
    assert not daemon.of('Reception')


# --- the queue -------------------------------------------------------------------------------------

@pytest.fixture
def held(place):
    """Three messages that wait."""
    daemon = place.sluice(transports={'smtp': {'hold': True}})
    for n in range(3):
        submit(daemon, f's{n}@a.test', [f'x{n}@d{i}.test' for i in range(n + 1)], message(f'm{n}'))
    # They are in each thread's view.
    until(lambda: [m['state'] for m in daemon.query('messages')] == ['active'] * 3 and
          sum(d['todo'] for d in daemon.query('destinations')) == 6 and
          sum(t.get('entries_waiting', 0) for t in daemon.query('transports')) == 6, daemon.totals)
    return daemon


def test_messages(held):
    messages = held.query('messages')
    assert [m['sender'] for m in messages] == ['s0@a.test', 's1@a.test', 's2@a.test']
    assert [m['recipients'] for m in messages] == [1, 2, 3]
    assert all(m['state'] == 'active' for m in messages)
    assert held.query('messages', '--limit', '1') == messages[:1]
    assert held.query('messages', '--after', messages[0]['id']) == messages[1:]
    text = held.command('messages').stdout.decode()
    for one in messages:
        assert one['id'] in text and one['sender'] in text


def test_message(held):
    last = held.query('messages')[-1]
    [one] = held.query('message', last['id'])
    recipients = one['list']
    assert one['sender'] == 's2@a.test' and one['peer_name'] == 'client.test'
    assert one['protocol'] == 'ESMTP' and one['expires'] - one['created'] == pytest.approx(432000)
    assert [r['recipient'] for r in recipients] == ['x2@d0.test', 'x2@d1.test', 'x2@d2.test']
    assert [r['destination'] for r in recipients] == ['d0.test', 'd1.test', 'd2.test']
    assert all(r['state'] == 'pending' for r in recipients) and not one['more']
    text = held.command('message', last['id']).stdout.decode()
    assert 'x2@d1.test' in text and 's2@a.test' in text
    missing = held.command('message', 'ffffffffffff')
    assert missing.returncode == 66 and b'no such message' in missing.stderr


def test_destinations_and_status(held):
    destinations, [totals] = held.query('destinations'), held.query('status')
    assert totals['messages'] == 3 and totals['entries_in_flight'] == 0
    assert totals['gates'] == [] and totals['started'] <= totals['now']
    assert {d['destination'] for d in destinations} == {'d0.test', 'd1.test', 'd2.test'}
    assert sum(d['todo'] for d in destinations) == 6
    assert all(d['transport'] == 'smtp' and d['why'] for d in destinations)
    assert [d['destination'] for d in held.query('destinations', 'd1')] == ['d1.test']
    assert held.query('destinations', '--state', 'dead') == []
    assert len(held.query('destinations', '--transport', 'smtp')) == 3
    names = [d['destination'] for d in held.query('destinations', '--sort', 'name', '--limit', '2')]
    assert names == ['d0.test', 'd1.test']
    loads = [d['todo'] for d in held.query('destinations', '--sort', 'load')]
    assert len(loads) == 3 and loads == sorted(loads, reverse=True)
    few = held.command('destinations', '--limit', '1')
    assert few.returncode == 0 and len(few.stdout.splitlines()) == 2 and b'more' in few.stderr
    assert held.command('destinations', '--sort', 'size').returncode == 64
    assert 'd1.test' in held.command('destinations').stdout.decode()
    assert 'messages 3:' in held.command('status').stdout.decode()


def test_transports(held):
    [smtp] = [t for t in held.query('transports') if t['transport'] == 'smtp']
    assert smtp['hold'] is True and smtp['destinations'] == 3 and smtp['entries_waiting'] == 6
    assert held.command('transports').stdout.decode().split()[0] == 'TRANSPORT'
    assert b'no source' in held.command('sources').stdout


def test_queue_is_empty(relay):
    daemon, _ = relay
    done = daemon.command('messages')
    assert done.returncode == 0 and b'nothing is queued' in done.stdout
    assert daemon.query('messages') == []


def test_manual_page_is_well_formed(tmp_path):
    page = tmp_path / 'sluice.1'
    page.write_bytes(run('help', '--man').stdout)
    done = subprocess.run(['groff', '-man', '-Tascii', '-ww', str(page)], capture_output=True,
                          timeout=PATIENCE, check=False)
    assert done.returncode == 0 and done.stderr == b'' and b'sluice' in done.stdout


def test_bash_completes(tmp_path):
    """As bash does it: commands, then the options of one."""
    script = tmp_path / 'sluice'
    script.write_bytes(run('completion', 'bash').stdout)
    asks = ('source "$1"; COMP_WORDS=("${@:2}"); COMP_CWORD=$(($# - 2)); _sluice; '
            'echo "${COMPREPLY[@]}"')

    def complete(*words):
        done = subprocess.run(['bash', '-c', asks, 'bash', str(script), *words],
                              capture_output=True, timeout=PATIENCE, check=True)
        return done.stdout.decode().split()
    assert complete('sluice', 'susp') == ['suspend']
    assert '--tenant' in complete('sluice', 'suspend', '--te')
    assert complete('sluice', 'destinations', '--state', 'de') == ['dead']


def test_a_control_socket_without_its_folder(place):
    daemon = place.sluice(start=False)
    with open(daemon.config_path, 'a', encoding='utf-8') as config:
        config.write(f'control {{ path = "{place.folder}/absent/control" }}\n')
    done = daemon.command('run')
    assert done.returncode == 71
    assert b'absent/control' in done.stderr and b'make its folder' in done.stderr
