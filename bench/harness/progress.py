"""What a long measurement says while it runs: one line that changes on a terminal, otherwise a line
every few seconds. On standard error, so that the tables stand alone."""
import sys
import time

PERIOD = 0.5
PLAIN_PERIOD = 5


class Progress:
    def __init__(self, title):
        self.title = title
        self.is_terminal = sys.stderr.isatty()
        self.begin = self.last_time = time.monotonic()
        self.last_count = 0
        self.next = self.begin + (0 if self.is_terminal else PLAIN_PERIOD)

    def show(self, what, count, wanted):
        """count: of what so far"""
        now = time.monotonic()
        if now < self.next:
            return
        rate = (count - self.last_count) / max(now - self.last_time, 1e-3)
        self.last_time, self.last_count = now, count
        self.next = now + (PERIOD if self.is_terminal else PLAIN_PERIOD)
        line = (f'{self.title}  {now - self.begin:5.1f} s  {what} {count:,} of {wanted:,}  '
                f'{max(rate, 0):,.0f}/s')
        print(f'\r{line}\x1b[K' if self.is_terminal else line,
              end='' if self.is_terminal else '\n', file=sys.stderr, flush=True)

    def clear(self):
        if self.is_terminal:
            print('\r\x1b[K', end='', file=sys.stderr, flush=True)
