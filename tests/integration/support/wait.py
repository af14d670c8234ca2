"""Waiting for what must happen, with a limit; tests wait for events and never for durations."""
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
