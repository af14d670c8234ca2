"""Waiting for what must happen, with a limit; tests wait for events and never for durations."""
import threading
import time

# Seconds. Nothing is to take so long: what never comes is told from what is late on a busy machine.
PATIENCE = 60.0
TICK = 0.005


def until(condition, what, patience=PATIENCE):
    """Call `condition` until it returns something true, and return that."""
    deadline = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            text = what() if callable(what) else what
            raise AssertionError(f'waited {patience} s in vain for {text}')
        time.sleep(TICK)


def settled(look, patience=PATIENCE):
    """Call `look`, which asks and asserts and changes nothing, until nothing of it fails, and return what it returns. For what
    several threads of a daemon show, each of them in its own time: an event is written before all of them have heard of it."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return look()
        except Exception:  # pylint: disable=broad-except
            if time.monotonic() > deadline:
                raise
        time.sleep(TICK)


def is_ever_below(limit, measure, tries=20):
    """Whether `measure` returns less than `limit` at some try. For an upper bound on a time: a busy
    machine makes any one try late, and what the bound is to find is late every time."""
    return any(measure() < limit for _ in range(tries))


def holds(condition, what, seconds):
    """Check that `condition` stays true; only for things that must never happen."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert condition(), what
        time.sleep(TICK)


def best_of(tries, experiment, is_right):
    """The first result of `experiment` that is right, or else the last one. For a span that is bounded on both sides, where
    a busy machine makes any one try late: what the bounds are to find is there every time."""
    for _ in range(tries):
        result = experiment()
        if is_right(result):
            break
    return result


class Pulse:
    """How late this process was at a time: what its threads saw then may have come so much earlier."""
    PERIOD = 0.01

    def __init__(self):
        self.late = []  # (begin, end) of what took longer than it should, time.monotonic()
        self.is_over = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        begin = time.monotonic()
        while not self.is_over.wait(self.PERIOD):
            end = time.monotonic()
            if end - begin > 2 * self.PERIOD:
                self.late.append((begin, end))
            begin = end

    def most(self, begin, end):
        """The longest of that span, seconds."""
        return max((e - b for b, e in self.late if b < end and e > begin), default=0)

    def close(self):
        self.is_over.set()
