"""A machine whose power can be cut: user-mode Linux with a raw disk image of its own.

The root of the guest is the host's, through hostfs: programs are found there, and what the guest
writes there is the host's at once. A cut is SIGKILL to the whole process group, so that the page
cache of the disk and its journal in memory vanish.
"""
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

MAKE_FS = {'ext4': ['mkfs.ext4', '-q', '-F'], 'xfs': ['mkfs.xfs', '-q', '-f'],
           'btrfs': ['mkfs.btrfs', '-q', '-f']}


class Guest:
    """A folder with the disk, the mount point, the init and the console; and the running guest."""

    def __init__(self, parent, file_system, image_bytes):
        self.work = tempfile.mkdtemp(prefix='power.', dir=parent)
        self.file_system = file_system
        self.image = self.path('disk')
        self.mount = self.path('mnt')
        self.init = self.path('init')
        self.console = open(self.path('console'), 'ab')
        self.process = None
        self.rest = b''
        os.mkdir(self.mount)
        with open(self.image, 'wb') as disk:
            disk.truncate(image_bytes)
        subprocess.run(MAKE_FS[file_system] + [self.image], check=True)

    def path(self, name):
        return os.path.join(self.work, name)

    def remove(self):
        self.console.close()
        shutil.rmtree(self.work)

    def write_init(self, script):
        """script: what runs with the disk mounted (and its journal replayed; no fsck)."""
        with open(self.init, 'w', encoding='ascii') as init:
            init.write('#!/bin/sh\n'
                       'mount -t proc proc /proc\n'
                       'echo "guest: mounting"\n'
                       f'mount -t {self.file_system} -o noatime /dev/ubda {self.mount} || '
                       '{ echo "failed: mount"; exec sleep 1000; }\n'
                       f'{script}\n'
                       'exec sleep 1000\n')
        os.chmod(self.init, 0o755)

    def boot(self, **environment):
        """environment: of the init; no spaces."""
        self.process = subprocess.Popen(
            ['linux.uml', 'mem=256M', f'ubd0={self.image}', 'root=/dev/root', 'rootfstype=hostfs',
             'rootflags=/', 'rw', 'quiet', 'con=null', 'con0=null,fd:1', f'init={self.init}',
             *(f'{name}={value}' for name, value in environment.items())],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True, env=dict(os.environ, TMPDIR=self.work))
        self.rest = b''

    def _split(self, data):
        self.console.write(data)
        *lines, self.rest = (self.rest + data).split(b'\n')
        return [line.decode('ascii', 'replace').strip() for line in lines]

    def lines(self, deadline):
        """Lines of the console until deadline() (time.monotonic) or the end of the guest."""
        fd = self.process.stdout.fileno()
        while True:
            left = deadline() - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                return
            data = os.read(fd, 65536)
            if not data:
                return
            yield from self._split(data)

    def cut(self):
        """returns the lines that the console had passed on before the cut: they count as told"""
        # The kernel first: it would panic over the death of its processes.
        self.process.kill()
        os.killpg(self.process.pid, signal.SIGKILL)
        lines = self._split(self.process.stdout.read())
        self.process.wait()
        self.process.stdout.close()
        self.console.flush()
        return lines
