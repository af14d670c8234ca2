"""The windows of an engine over time: `sluice destinations` each second, or less often where that
would cost more than a hundredth of a CPU."""
import json
import os
import pathlib
import subprocess
import threading
import time

PERIOD = 1
SHARE = 0.01  # of one CPU


class Windows(threading.Thread):
    """command: asks the engine with that pid"""

    def __init__(self, command, pid):
        super().__init__(daemon=True)
        self.command = command
        self.control = self.find_control(pid)
        self.samples = []  # (wall clock, {nexthop: window})
        self.ended = threading.Event()

    @staticmethod
    def find_control(pid):
        """What the scheduler of the system says of the engine's threads that answer."""
        return [task / 'schedstat' for task in pathlib.Path('/proc', str(pid), 'task').iterdir()
                if (task / 'comm').read_text().strip() in ('clerk', 'http')]

    def control_seconds(self):
        try:
            return sum(int(one.read_text().split()[0]) for one in self.control) / 1e9
        except OSError:
            return 0

    def run(self):
        pause = 0
        while not self.ended.wait(pause):
            cost = -self.control_seconds() - time.thread_time()
            asked = subprocess.Popen(self.command, stdout=subprocess.PIPE,
                                     stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            text = asked.stdout.read()
            _, asked.returncode, usage = os.wait4(asked.pid, 0)
            asked.stdout.close()
            if asked.returncode == 0:
                objects = map(json.loads, text.splitlines())
                self.samples.append((time.time(), {one['destination']: one['window']
                                                   for one in objects if 'window' in one}))
            cost += usage.ru_utime + usage.ru_stime + self.control_seconds() + time.thread_time()
            pause = max(PERIOD, cost / SHARE)

    def along(self, nexthop, start, interval, count):
        """One window for each interval from a wall clock on; None where nothing is known."""
        found = [None] * count
        for wall, windows in self.samples:
            index = int((wall - start) // interval)
            if 0 <= index < count:
                found[index] = windows.get(nexthop, found[index])
        return found

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()
