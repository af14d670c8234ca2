#!/usr/bin/env python3
"""One message to very many recipients who are all refused, while other mail comes and goes.

usage: large_message.py fail|defer|expire RECIPIENTS

fail: for good; defer: for now; expire: for now, and the message is too old by then. Prints how long
other mail waited to be accepted, which is how long the spool writer did something else, what the daemon
took of memory beyond what it had, and what the notice is like. SLUICE_BUILD names the build."""
import os
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '..', 'integration')]

from conftest import BUILD, end_place, make_place  # noqa: E402
from support.address import free_port  # noqa: E402
from support.client import Client, message  # noqa: E402
from support.report import Report  # noqa: E402
from support.wait import until  # noqa: E402
from support.watch import Watch  # noqa: E402

REPLIES = {'fail': '550:5.1.1', 'defer': '450:4.2.1', 'expire': '450:4.2.1'}
ENDS = {'fail': 'Bounce', 'defer': 'TransientFailure', 'expire': 'Expiration'}
WORDS = 'what a server says of a recipient whom it does not take, with a link to its page'
# A few are tried twice, as they are not too old at first.
SHORT_LIFE = {'maximal_queue_lifetime': '1s', 'minimal_backoff_time': '3s', 'maximal_backoff_time': '3s'}
PIECE = 1000


class OtherMail(threading.Thread):
    """A message each 20 ms, and how long each waited for its reply."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.daemon_, self.waits, self.is_over = daemon, [], threading.Event()

    def run(self):
        with Client(self.daemon_, patience=300) as client:
            client.ehlo()
            while not self.is_over.wait(0.02):
                client.mail('a@other.test', ['u@good.test'])
                begin = time.monotonic()
                client.data(message('other'))
                self.waits.append(time.monotonic() - begin)

    def show(self, what):
        waits, self.waits = sorted(self.waits) or [0], []
        print(f'{what}: {len(waits)} other messages; accepted in {waits[len(waits) // 2] * 1e3:.1f} ms '
              f'(half), {waits[-1 - len(waits) // 100] * 1e3:.0f} ms (99 %), {waits[-1] * 1e3:.0f} ms (all)',
              flush=True)


class Lines:
    """Event lines of one kind, counted as they come."""

    def __init__(self, daemon, kind):
        self.path, self.word = daemon.events_path, f'"type":"{kind}"'.encode()
        self.read = self.count = 0

    def more(self):
        with open(self.path, 'rb') as file:
            file.seek(self.read)
            data = file.read(64 << 20)
        end = data.rfind(b'\n') + 1
        self.read += end
        self.count += data.count(self.word, 0, end)
        return self.count


def submit(daemon, count):
    with Client(daemon, patience=300) as client:
        client.ehlo()
        client.say('MAIL FROM:<sender@back.test>', 250)
        for begin in range(0, count, PIECE):
            several = range(begin, min(begin + PIECE, count))
            client.send(''.join(f'RCPT TO:<user-{n:07d}@bad.test>\r\n' for n in several))
            for _ in several:
                client.expect(250)
        client.data(message('large'))


def start(place, kind, processes):
    ports = {'bad': free_port(), 'good': free_port()}
    for name, port in ports.items():
        refusal = ['--reject-rcpt', f'1:{REPLIES[kind]} {WORDS}'] if name == 'bad' else []
        processes.append(subprocess.Popen(
            [os.path.join(BUILD, 'bench', 'sluice-sink'), '--listen', f'127.0.0.1:{port}', *refusal],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    back = place.receiver()
    daemon = place.sluice(
        listener={'smtpd_recipient_limit': 0}, event_log={'rotate_size': '0'},
        options={'minimal_backoff_time': '1h', 'maximal_backoff_time': '2h', 'map_size': '16G',
                 **(SHORT_LIFE if kind == 'expire' else {})},
        routes={'back.test': ('smtp', back.nexthop), **{
            f'{name}.test': ('smtp', f'[127.0.0.1]:{port}') for name, port in ports.items()}})
    return daemon, back


def play(place, kind, count, processes):
    daemon, back = start(place, kind, processes)
    other = OtherMail(daemon)
    other.start()
    time.sleep(3)
    other.show('before')
    with Watch(daemon) as watch:
        submit(daemon, count)
        other.show('while it was taken')
        begin, lines = time.monotonic(), Lines(daemon, ENDS[kind])
        until(lambda: lines.more() >= count, lambda: f'{count} {ENDS[kind]}: {lines.count}', 600)
        if kind != 'defer':
            until(lambda: back.messages, 'the notice', 60)
        print(f'{count} {ENDS[kind]} in {time.monotonic() - begin:.0f} s')
        other.show('until it was over')
        time.sleep(5)
        other.show('5 s behind it')
    other.is_over.set()
    other.join()
    print(f'memory of its own: {watch.growth >> 20} MB more; most resident, the spool\'s map with it: '
          f'{daemon.peak_memory() >> 20} MB')
    for notice in back.messages:
        told = Report(notice.content).recipients
        print(f'notice: {len(notice.content)} bytes, {len(told)} recipients')
    assert daemon.stop(60) == 0, daemon.log()


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in REPLIES:
        sys.exit(__doc__)
    place, processes = make_place(), []
    try:
        play(place, sys.argv[1], int(sys.argv[2]), processes)
    finally:
        for process in processes:
            process.terminate()
        end_place(place, False)


if __name__ == '__main__':
    main()
