"""Fixtures: every daemon and peer of a test has its own folder and addresses and ends with it."""
import contextlib
import itertools
import os
import shutil
import sys
import tempfile

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path += [os.path.join(HERE, '../../bench', room) for room in ('', 'harness', 'report')]

from support.daemon import BUILD, PROGRAM, Sluice  # noqa: E402
from support.receiver import Receiver  # noqa: E402
from support.stutter import steady  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line('markers', 'steady: no daemon stutters in this test (support/stutter.py)')


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    with steady() if item.get_closest_marker('steady') else contextlib.nullcontext():
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        item.stash.setdefault(FAILED, True)


FAILED = pytest.StashKey()
TABLES = pytest.StashKey()
PRINTER = os.path.join(BUILD, 'tests', 'integration', 'print_bounce')
SIGNER = os.path.join(BUILD, 'tests', 'integration', 'sign_messages')
if os.path.exists(PRINTER):
    os.environ.setdefault('PRINT_BOUNCE', PRINTER)
    os.environ.setdefault('SIGN_MESSAGES', SIGNER)


class Place:
    """A temporary folder and what runs in it."""

    def __init__(self, folder):
        self.folder = folder
        self.closers = []
        self.numbers = itertools.count(1)

    def subfolder(self, name):
        path = os.path.join(self.folder, f'{name}{next(self.numbers)}')
        os.mkdir(path)
        return path

    def sluice(self, start=True, **settings):
        assert os.access(PROGRAM, os.X_OK), f'{PROGRAM}: build first, or set SLUICE_BUILD'
        daemon = Sluice(self.subfolder('sluice'), **settings)
        self.closers.append(daemon.kill)
        return daemon.start() if start else daemon

    def receiver(self, **settings):
        receiver = Receiver(**settings)
        self.closers.append(receiver.close)
        return receiver

    def keep(self, thing):
        """Close `thing` at the end."""
        self.closers.append(thing.close)
        return thing

    def close(self):
        for closer in reversed(self.closers):
            closer()


def make_place(parent=None):
    # Short: the control socket's path has a limit of 108 bytes.
    parent = parent or os.environ.get('SLUICE_TEST_FOLDER')
    return Place(tempfile.mkdtemp(prefix='sluice.', dir=parent))


def end_place(place, has_failed):
    place.close()
    if has_failed and os.environ.get('SLUICE_KEEP'):
        print(f'kept: {place.folder}')
    else:
        shutil.rmtree(place.folder, ignore_errors=True)


@pytest.fixture(scope='session')
def report_table(request):
    """Print a table when all tests are over: report_table(title, text)."""
    return lambda title, text: request.config.stash.setdefault(TABLES, []).append((title, text))


def pytest_terminal_summary(terminalreporter, config):
    for title, text in config.stash.get(TABLES, []):
        terminalreporter.section(title)
        terminalreporter.write_line(text)


@pytest.fixture
def place(request):
    made = make_place()
    yield made
    end_place(made, request.node.stash.get(FAILED, False))


@pytest.fixture(scope='module')
def module_place():
    made = make_place()
    yield made
    end_place(made, bool(os.environ.get('SLUICE_KEEP')))


@pytest.fixture(scope='module')
def memory_place(request):
    """In memory, for servers that write many files, when the module's MEMORY_PLACE (bytes) fit."""
    shared = '/dev/shm'
    has_room = os.path.isdir(shared) and \
        shutil.disk_usage(shared).free > request.module.MEMORY_PLACE
    made = make_place(shared if has_room else None)
    yield made
    end_place(made, False)


@pytest.fixture
def relay(place):
    """A running daemon that sends everything to a receiver: (daemon, receiver)."""
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)})
    return daemon, receiver
