"""Run test files side by side, each by a pytest of its own.

usage: side_by_side.py JOBS FOLDER TEST_FILE...

Most of these tests wait for clocks and disks and compute little, so JOBS of them share the
processors. A file is the unit: what its tests share, they still share. FOLDER gets NAME.xml (JUnit)
and NAME.log of each; NAME.xml is there from the beginning and says that the file did not end, until
its pytest writes its own. TEST_FILE in the order in which they begin: the longest first, or one of
them is alone at the end. Prints the logs of what failed, then of each file the seconds and the
seconds of processor."""
import concurrent.futures
import os
import shutil
import signal
import subprocess
import sys
import time

SHOWN_LINES = 200
NOT_ENDED = '<testsuite><testcase name="{}"><error message="did not end"/></testcase></testsuite>\n'


def name_of(path):
    return os.path.splitext(os.path.basename(path))[0]


class Run:
    def __init__(self, path, folder):
        self.path, self.name = path, name_of(path)
        self.log, self.xml = (os.path.join(folder, self.name + end) for end in ('.log', '.xml'))
        self.status = self.seconds = self.processor = None
        with open(self.xml, 'w', encoding='utf-8') as file:
            file.write(NOT_ENDED.format(self.name))

    def __call__(self):
        begin = time.monotonic()
        with open(self.log, 'wb') as log:
            process = subprocess.Popen(
                [sys.executable, '-m', 'pytest', self.path, '-q', '-p', 'no:cacheprovider',
                 '--junitxml=' + self.xml], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = self.status = os.waitstatus_to_exitcode(status)
        self.seconds = time.monotonic() - begin
        self.processor = usage.ru_utime + usage.ru_stime

    def show(self):
        print(f'---- {self.path}: status {self.status}')
        if os.path.exists(self.log):
            with open(self.log, encoding='utf-8', errors='replace') as log:
                print(''.join(log.readlines()[-SHOWN_LINES:]))


def end_at_signal(*_):
    sys.exit(1)


def main():
    jobs, folder, files = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    signal.signal(signal.SIGTERM, end_at_signal)
    runs = [Run(path, folder) for path in files]
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        for future in [pool.submit(run) for run in runs]:
            future.result()
    finally:
        for run in runs:
            if run.status != 0:
                run.show()
        for run in sorted(runs, key=lambda run: -(run.seconds or 0)):
            if run.status is not None:
                print(f'{run.name}: {run.seconds:.0f} s, processor {run.processor:.0f} s')
        sys.stdout.flush()
        # Not by the end of the interpreter, which would begin what has not begun.
        os._exit(0 if all(run.status == 0 for run in runs) else 1)


main()
