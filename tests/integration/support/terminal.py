"""A program on a terminal of its own, and what the terminal shows."""
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import threading

import pyte

from support.wait import PATIENCE, until

KEYS = {'up': '\x1b[A', 'down': '\x1b[B', 'page up': '\x1b[5~', 'page down': '\x1b[6~',
        'home': '\x1b[1~', 'end': '\x1b[4~', 'enter': '\r', 'esc': '\x1b', 'tab': '\t',
        'backspace': '\x7f'}


class Terminal:
    """Reads all the time, so that the program never waits for it."""

    def __init__(self, argv, columns=120, lines=40, env=None):
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.lock = threading.Lock()
        self.raw = bytearray()
        self.master, slave = pty.openpty()
        self._set_size(columns, lines)
        self.process = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={**os.environ, 'TERM': 'linux', 'LC_ALL': 'C.UTF-8', **(env or {})})
        os.close(slave)
        self.is_closing = threading.Event()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _set_size(self, columns, lines):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack('HHHH', lines, columns, 0, 0))

    def _read(self):
        while not self.is_closing.is_set():
            ready, _, _ = select.select([self.master], [], [], 0.1)
            try:
                data = os.read(self.master, 65536) if ready else None
            except OSError:
                return  # the program has ended
            if data == b'':
                return
            if data:
                with self.lock:
                    self.raw += data
                    self.stream.feed(data)

    def lines(self):
        with self.lock:
            return [line.rstrip() for line in self.screen.display]

    def text(self):
        return '\n'.join(self.lines())

    def press(self, *keys):
        for key in keys:
            os.write(self.master, KEYS.get(key, key).encode())

    def resize(self, columns, lines):
        with self.lock:
            self.screen.resize(lines, columns)
        self._set_size(columns, lines)  # the kernel sends SIGWINCH

    def shows(self, *wanted, without=(), patience=PATIENCE):
        def seen():
            shown = self.text()
            return all(w in shown for w in wanted) and not any(w in shown for w in without)
        until(seen, lambda: f'{wanted} without {without} on\n{self.text()}', patience)

    def line_with(self, text):
        """(its number, the line), the first"""
        found = [(n, line) for n, line in enumerate(self.lines()) if text in line]
        return found[0] if found else None

    def look(self, line, column):
        """(foreground, bold, reverse) of a character"""
        with self.lock:
            char = self.screen.buffer[line][column]
        return char.fg, char.bold, char.reverse

    def is_running(self):
        return self.process.poll() is None

    def wait_exit(self):
        code = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)  # what it printed last
        return code

    def hang_up(self):
        if self.master is not None:
            self.is_closing.set()
            self.reader.join()  # else it would read from what gets this number next
            os.close(self.master)
            self.master = None

    def close(self):
        if self.is_running():
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self.hang_up()
