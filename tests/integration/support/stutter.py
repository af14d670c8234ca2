"""A daemon that stands still again and again, as on a slow machine: SLUICE_STUTTER=SEED pytest ...

With this variable each daemon of a test is stopped (SIGSTOP) for 50 to 400 ms and runs for 100 to
800 ms, in turns, both at random from SEED. What a test reads too early, or bounds too tightly, then
fails here and not once a month elsewhere. Without the variable nothing of this happens.

A daemon that is told to end, or whose end is waited for, is left alone from then on; one that the
test itself stops (SIGSTOP) until it goes on (SIGCONT). A test that measures time says that it cannot
live with this: `@pytest.mark.steady`, or `with steady():` around a part of it."""
import contextlib
import os
import random
import signal
import subprocess
import threading

SEED = os.environ.get('SLUICE_STUTTER')
STOPPED, RUNNING = (0.05, 0.4), (0.1, 0.8)  # seconds
ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGABRT)

_numbers = iter(range(1, 1 << 30))
_lock = threading.RLock()  # over all that is below, and over every signal of this file
_steady = 0                # how many parts want no stops now
_going = set()             # the processes that stutter


class StutteringProcess(subprocess.Popen):
    def __init__(self, *args, **settings):
        self.is_over, self.is_stopped, self.is_held = threading.Event(), False, False
        super().__init__(*args, **settings)
        self.chance = random.Random(f'{SEED} {next(_numbers)}')
        with _lock:
            _going.add(self)
        threading.Thread(target=self._stutter, daemon=True).start()

    def _stutter(self):
        while not self.is_over.wait(self.chance.uniform(*RUNNING)) and self.returncode is None:
            with _lock:
                if not (_steady or self.is_held or self.is_over.is_set()):
                    super().send_signal(signal.SIGSTOP)
                    self.is_stopped = True
            self.is_over.wait(self.chance.uniform(*STOPPED))
            self.go_on()
        self.leave_alone()

    def go_on(self):
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
