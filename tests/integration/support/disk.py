"""A disk whose power can be cut: a file system (ext4) of its own, of which nothing that was not synced is left. Takes root."""
import fcntl
import os
import shutil
import struct
import subprocess

import pytest

from support import mounts

SHUTDOWN = 0x8004587d  # EXT4_IOC_SHUTDOWN (fs/ext4/ext4.h): from now on nothing reaches the device
AT_ONCE = struct.pack('I', 2)  # EXT4_GOING_FLAGS_NOLOGFLUSH: nor the journal


class Disk:
    """In the file `image`, seen at `place`. What the file system had handed to the device stays, whether or not the device had been
    asked to flush it: the loss is of pages in memory, not of a drive's own cache."""

    def __init__(self, image, place, gigabytes=2):
        self.image, self.place = str(image), str(place)
        if os.geteuid() != 0:
            pytest.skip('only root may mount the disks whose power is cut')
        if shutil.which('mkfs.ext4', path=f'{os.environ["PATH"]}:/usr/sbin:/sbin') is None:
            pytest.skip('no mkfs.ext4 for the disks whose power is cut')
        if failure := mounts.make_private():
            pytest.skip(f'no mounts of its own: {failure}')
        os.makedirs(self.place, exist_ok=True)
        with open(self.image, 'wb') as file:
            file.truncate(gigabytes << 30)
        self._run('mkfs.ext4', '-q', '-F', self.image)
        failure = self._mount()
        if failure:
            pytest.skip(f'no disks whose power could be cut: {failure}')

    @staticmethod
    def _run(*command):
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL,
                       env={**os.environ, 'PATH': f'{os.environ["PATH"]}:/usr/sbin:/sbin'})

    def _mount(self):
        # commit: the journal is written when something is synced, and hardly ever by itself.
        done = subprocess.run(['mount', '-o', 'loop,commit=100', self.image, self.place], capture_output=True, text=True, check=False)
        return done.stderr.strip() if done.returncode != 0 else None

    def sync(self):
        self._run('sync', '-f', self.place)

    def cut(self):
        """The power fails. Whoever had files open there must be dead before the power returns."""
        folder = os.open(self.place, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.ioctl(folder, SHUTDOWN, AT_ONCE)
        os.close(folder)

    def restore_power(self):
        """Of a copy: the file system that was cut lives on where another mount namespace has it too, and would be found again."""
        self._run('umount', self.place)
        self._run('cp', '--sparse=always', self.image, f'{self.image}.cut')
        os.rename(f'{self.image}.cut', self.image)
        assert self._mount() is None

    def close(self):
        subprocess.run(['umount', '-l', self.place], stderr=subprocess.DEVNULL, check=False)
        os.unlink(self.image)
