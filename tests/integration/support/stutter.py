"""A daemon that stands still again and again, as on a slow machine: SLUICE_STUTTER=SEED pytest ...

With this variable each daemon of a test stands still for 50 to 400 ms and runs for 100 to 800 ms, in
turns, at random from SEED: now all of it (SIGSTOP), now some of its threads (ptrace), so that others
are far ahead of those. What a test reads too early, or bounds too tightly, then fails here and
not once a month elsewhere. Without the variable nothing of this happens.

A daemon that is told to end, or whose end is waited for, is left alone from then on; one that the
test itself stops (SIGSTOP) until it goes on (SIGCONT). A test that measures time says that it cannot
live with this: `@pytest.mark.steady`, or `with steady():` around a part of it."""
import contextlib
import ctypes
import os
import random
import signal
import subprocess
import threading

SEED = os.environ.get('SLUICE_STUTTER')
STOPPED, RUNNING = (0.05, 0.4), (0.1, 0.8)  # seconds
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
MOST_THREADS = 4   # that stand still while others run
WALL = 0x40000000  # waitpid: threads as well
ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGABRT)

_libc = ctypes.CDLL(None, use_errno=True)
_numbers = iter(range(1, 1 << 30))
_lock = threading.RLock()  # over all that is below, and over every signal of this file
_steady = 0                # how many parts want no stops now
_going = set()             # the processes that stutter


def _trace(request, thread, data=0):
    """0, or an error's number."""
    failed = _libc.ptrace(request, ctypes.c_long(thread), None, ctypes.c_long(data))
    return ctypes.get_errno() if failed else 0


def _stop(thread):
    """What waitpid said of it, or None: it is not there any more."""
    if _trace(PTRACE_SEIZE, thread):
        return None
    _trace(PTRACE_INTERRUPT, thread)  # or it is about to end, which waitpid tells
    _, status = os.waitpid(thread, WALL)
    return status if os.WIFSTOPPED(status) else None


def _release(thread, status):
    """A signal that came before the stop is passed on; what was killed meanwhile is still to be waited for."""
    if _trace(PTRACE_DETACH, thread, 0 if status >> 16 else os.WSTOPSIG(status)):
        os.waitpid(thread, WALL)


def _name(process, thread):
    with open(f'/proc/{process}/task/{thread}/comm', encoding='utf-8', errors='replace') as file:
        return file.read()


class StutteringProcess(subprocess.Popen):
    def __init__(self, *args, **settings):
        self.is_over, self.is_awaited = threading.Event(), threading.Event()
        self.is_stopped = self.is_held = False
        super().__init__(*args, **settings)
        self.chance = random.Random(f'{SEED} {next(_numbers)}')
        with _lock:
            _going.add(self)
        threading.Thread(target=self._stutter, daemon=True).start()

    def _stutter(self):
        while not self.is_over.wait(self.chance.uniform(*RUNNING)) and self.returncode is None:
            if self.chance.random() < 0.5 or not self._stop_some():
                self._stop_all()
        self.leave_alone()

    def _may_stop(self):
        return not (_steady or self.is_held or self.is_over.is_set())

    def _stop_all(self):
        with _lock:
            if self._may_stop():
                super().send_signal(signal.SIGSTOP)
                self.is_stopped = True
        self._stand()
        self.go_on()

    def _stand(self):
        """For a while, or until it is to go on."""
        self.is_awaited.clear()
        with _lock:
            seconds = self.chance.uniform(*STOPPED) if self._may_stop() else 0
        self.is_awaited.wait(seconds)

    def _threads(self):
        """Not the first one, which others wait for and whose stops they would see; nor the allocator's."""
        try:
            threads = [int(name) for name in os.listdir(f'/proc/{self.pid}/task') if int(name) != self.pid]
            return [thread for thread in sorted(threads) if not _name(self.pid, thread).startswith('jemalloc')]
        except OSError:
            return []  # something has ended

    def _stop_some(self):
        """False: there are none."""
        threads = self._threads()
        if not threads or not self._may_stop():
            return False
        some = self.chance.sample(threads, min(len(threads), self.chance.randint(1, MOST_THREADS)))
        stopped = [(thread, _stop(thread)) for thread in some]
        self._stand()
        for thread, status in stopped:
            if status is not None:
                _release(thread, status)
        return True

    def go_on(self):
        self.is_awaited.set()
        with _lock:
            if self.is_stopped:
                self.is_stopped = False
                super().send_signal(signal.SIGCONT)

    def leave_alone(self):
        """From now on."""
        self.is_over.set()
        with _lock:
            self.go_on()
            _going.discard(self)

    def send_signal(self, sig):
        if sig in ENDS:
            self.leave_alone()
        with _lock:
            if sig in (signal.SIGSTOP, signal.SIGCONT):
                self.is_stopped, self.is_held = False, sig == signal.SIGSTOP
            super().send_signal(sig)

    def wait(self, timeout=None):
        self.leave_alone()
        return super().wait(timeout)


Process = StutteringProcess if SEED else subprocess.Popen


@contextlib.contextmanager
def steady():
    """No daemon is stopped meanwhile, whatever SLUICE_STUTTER says."""
    global _steady
    with _lock:
        _steady += 1
        for process in _going:
            process.go_on()
    try:
        yield
    finally:
        with _lock:
            _steady -= 1
