"""Large messages: bodies of 100 KB to one destination, where bytes cost more than messages.

Each byte is written to the disk once and synced before its message is accepted. What the disk writes in sequence, with a sync for each
8 MB, is measured just before each run of sluice: more than that nobody can take."""
import os
import time

import measure
from flow import Setting, flow

TITLE = 'Bodies of 100 KB'
QUICK = {'pairs': 1, 'messages': 2000, 'messages_postfix': 500}
MB_RATE = {'key': 'mb_rate', 'title': 'MB/s', 'better': 'higher', 'digits': 1}
DISK = {'key': 'disk_mb_rate', 'title': 'disk MB/s', 'better': None, 'digits': 1}
FIGURES = [measure.RATE, MB_RATE, *measure.THROUGHPUT[1:], DISK]
DISK_SECONDS = 2
SYNC_BYTES = 8 << 20
FILE_BYTES = 1 << 30  # then from its start again, so that no disk becomes full
TIMES_POSTFIX, OF_DISK = 12, 0.8


def add_arguments(parser):
    measure.add_arguments(parser, measure.ALL, (20000, 4000))
    parser.set_defaults(size=102400)


def disk_mb_rate(folder):
    piece = os.urandom(1 << 20)
    path = folder / 'sequential'
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        written, start = 0, time.monotonic()
        while time.monotonic() < start + DISK_SECONDS:
            for at in range(0, SYNC_BYTES, len(piece)):
                os.pwrite(fd, piece, (written + at) % FILE_BYTES)
            os.fdatasync(fd)
            written += SYNC_BYTES
        return written / 1e6 / (time.monotonic() - start)
    finally:
        os.close(fd)
        path.unlink()


def bytes_flow(args, name, setting):
    disk = {DISK['key']: disk_mb_rate(args.folder)} if name == 'sluice' else {}
    found = flow(args, name, setting)
    found['figures'].update(disk, mb_rate=found['figures']['rate'] * setting.size / 1e6)
    return found


def targets_of(args):
    def targets(rows):
        ratio = measure.ratio_of(rows, 'sluice', 'postfix-nocache', 'rate')
        rate, disk = (measure.figure_of(rows, 'sluice', figure['key']) for figure in (MB_RATE, DISK))
        if None in (rate, disk) or args.size != 102400:
            return []
        instead = '' if ratio is None else f", or {TIMES_POSTFIX} times Postfix's rate ({ratio:.1f})"
        return [measure.target('bytes a second, as a share of what the disk writes in sequence', f'>= {OF_DISK}{instead}',
                               rate / disk, rate >= OF_DISK * disk or (ratio or 0) >= TIMES_POSTFIX, 2)]
    return targets


def run(args):
    measure.check(args)
    runs = measure.rounds(args, [Setting.of(args)], FIGURES, bytes_flow)
    return measure.result(args, (TITLE, __doc__), FIGURES, runs, targets_of(args))
