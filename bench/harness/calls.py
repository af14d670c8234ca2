"""Calls into the kernel of sluice by thread, counted in the process (bench/call_count.c), and how
often the kernel switched from a thread, of its own accord (voluntary) or for others."""
import contextlib
import pathlib
import struct

NAMES_BYTES, ROWS = 1024, 64
SWITCHES = {'voluntary_ctxt_switches': 'switch_own', 'nonvoluntary_ctxt_switches': 'switch_forced'}


def environment(build, folder):
    """Of a program that is to be counted."""
    return {'LD_PRELOAD': str((build / 'bench/call_count.so').resolve()),
            'CALL_COUNT_FILE': str(folder / 'calls')}


def switches(task):
    """{name: count} of a thread."""
    lines = (task / 'status').read_text().splitlines()
    return {SWITCHES[name]: int(value) for name, value in
            (line.split(':') for line in lines if ':' in line and line.split(':')[0] in SWITCHES)}


def read(folder, pid):
    """{thread's name: {call: count, "call bytes": count}} of this moment."""
    data = (folder / 'calls').read_bytes()
    names = data[:NAMES_BYTES].split(b'\0')[0].decode().split()
    width = 1 + 2 * len(names)
    found = {}
    for i in range(ROWS):
        row = struct.unpack_from(f'={width}Q', data, NAMES_BYTES + i * width * 8)
        task = pathlib.Path('/proc', str(pid), 'task', str(row[0]))
        with contextlib.suppress(OSError):
            mine = found.setdefault((task / 'comm').read_text().strip(), {})
            values = {**dict(zip(names, row[1:])),
                      **{f'{name} bytes': n for name, n in zip(names, row[1 + len(names):])},
                      **switches(task)}
            for name, count in values.items():
                mine[name] = mine.get(name, 0) + count
    return found


def between(before, after):
    """What happened meanwhile; nothing that did not."""
    return {thread: {name: count - before.get(thread, {}).get(name, 0)
                     for name, count in counts.items()
                     if count > before.get(thread, {}).get(name, 0)}
            for thread, counts in after.items()}
