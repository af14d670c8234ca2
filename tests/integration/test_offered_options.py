"""Every option that help, completion and manual offer is one that the command takes, and what a
command says on the way names no option that it lacks."""
import re
import subprocess

import pytest

from support.client import message, submit
from support.daemon import PROGRAM
from support.wait import PATIENCE, until


def say(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, check=True).stdout


COMMANDS = [name for name in re.search(r'^    :\*\) words="(.*?)"', say('completion', 'bash'), re.M)[1]
            .split() if not name.startswith('-') and name != 'run']
VALUES = {'--limit': '5', '--last': '5', '--older': '1s', '--since': '1s', '--for': '1h', '--interval': '1s',
          '--by': 'state', '--type': 'Bounce', '--at': '2030-01-31T12:00:00Z', '--expires': '2h',
          '--state': 'deferred', '-i': '1s', '--file': '/dev/null', '--from': '1', '--after': '1'}
OPERANDS = {('lanes', '--for'): ['close', 'x'], ('lanes', '--reason'): ['close', 'x'],
            'explain': ['x.test'], 'message': ['00000000000000ff'], 'why': ['x'], 'trace': ['x.test'],
            'completion': ['bash'], 'send': ['a@x.test'], 'inject': ['/dev/null'],
            'suppress': ['a@x.test'], ('suppress', '--file'): [], ('suppress', '--from'): ['--file', '/dev/null'],
            'unsuppress': ['a@x.test'], ('unsuppress', '--file'): [],
            ('unsuppress', '--from'): ['--file', '/dev/null'],
            'heard': ['00000000000000ff'], ('heard', '--limit'): []}
ALSO = {'top': ['--once'], 'suspend': ['--dry-run'], 'bounce': ['--dry-run'], 'drop': ['--dry-run'],
        'resume': ['--dry-run'], 'flush': ['--dry-run']}
SELECTS = ('--tenant', '--campaign', '--domain', '--destination', '--transport', '--source', '--all')


def by_help(command):
    """{option: what stands behind it, or None}, each spelling"""
    found = {}
    for line in say(command, '--help').splitlines():
        match = re.match(r'  (-[^\s,]+)(?:, (--\S+))?(?: (\S+))?(?:  |$)', line)
        if match:
            found.update({option: match[3] for option in match.group(1, 2) if option})
    return found


def by_completion(command):
    words = re.search(rf'^    {command}:\*\) words="(.*?)"', say('completion', 'bash'), re.M)[1].split()
    return {word for word in words if word.startswith('-')} - {'-c', '--json', '--help'}


@pytest.fixture(scope='module')
def daemon(module_place):
    daemon = module_place.sluice(transports={'smtp': {'hold': True}})
    for n in range(3):
        submit(daemon, 'a@a.test', [f'r{n}@d{n}.test'], message())
    until(lambda: len(daemon.query('messages')) == 3, 'three messages')
    return daemon


def takes(daemon, command, option, value):
    also = [word for word in ALSO.get(command, []) if option not in (word, '-n')]
    if command in ('suspend', 'bounce', 'drop', 'resume') and option not in SELECTS:
        also += ['--all']
    operands = [] if (command, option) in (('top', '-i'),) else OPERANDS.get((command, option), OPERANDS.get(command, []))
    args = [PROGRAM, command, '-c', daemon.config_path, *also, option, *([value] if value else []), *operands]
    follows = option in ('-f', '--follow')
    try:
        done = subprocess.run(args, input='', capture_output=True, text=True,
                              timeout=5 if follows else PATIENCE)
    except subprocess.TimeoutExpired:
        return follows
    assert done.returncode != 64 and 'not understood' not in done.stderr, done
    return True


@pytest.mark.parametrize('command', COMMANDS)
def test_each_offered_option_is_taken(daemon, command):
    offered = by_help(command)
    assert set(offered) == by_completion(command)
    manual = say('help', '--man')
    for option, value in offered.items():
        assert option.replace('-', r'\-') in manual, option
        if command == 'inject' or (command == 'send' and option == '-t'):
            continue  # an input without a message is refused, whatever the options are
        if value and '|' in value:
            values = value.split('|')
        else:
            known = {'send': {}, 'events': {**VALUES, '--after': 'start'}}.get(command, VALUES)
            values = [known.get(option, 'x')] if value else [None]
        for one in values:
            assert takes(daemon, command, option, one), (command, option, one)


def test_an_option_that_a_command_lacks_is_refused(daemon):
    for command in ('trace', 'responses'):
        done = daemon.command(command, '--colour', *OPERANDS.get(command, []))
        assert done.returncode == 64 and b'--colour is not understood' in done.stderr


def test_what_shows_more_is_there(daemon):
    """After a list that was cut."""
    done = daemon.command('messages', '--limit', '1')
    assert b'there are more; see more with --limit or --after\n' in done.stderr
    done = daemon.command('destinations', '--limit', '1')
    assert b'there are more; see more with --limit\n' in done.stderr


def test_status_says_what_is_left(daemon):
    [totals] = daemon.query('status')
    assert totals['free_limit'] in ('disk', 'map')
    assert 0 < totals['free_bytes'] <= totals['map_bytes']
    assert b' MB left (then the ' in daemon.command('status').stdout
