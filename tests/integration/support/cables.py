"""A network namespace with cables into this one, each of which can be pulled: no packet gets through, and no end is told. Takes root."""
import ipaddress
import os
import shutil
import subprocess

import pytest

from support import mounts

NETWORKS = 2 << 14  # of four addresses each in 198.18.0.0/15, which is for measurements (RFC 2544)
NAMES = '/run/netns'  # where a network namespace has its name: a file with a mount on it


class Elsewhere:
    """What is started by `inside` sees only its own loopback and the other ends of the cables.

    cables  how many, at most 4; of cable N (from 0) the end there has `address(N)`. Another process that has cables has other networks."""

    def __init__(self, cables):
        self.name, self.count = f'sluice-{os.getpid()}', cables
        if os.geteuid() != 0:
            pytest.skip('only root may make a network namespace')
        if shutil.which('ip', path=f'{os.environ["PATH"]}:/usr/sbin:/sbin') is None:
            pytest.skip('no ip (iproute2) to make a network namespace with')
        if failure := mounts.cover(NAMES):
            pytest.skip(f'no mounts of its own: {failure}')
        done = self._ip('netns', 'add', self.name)
        if done.returncode != 0:
            self.close()
            pytest.skip(f'no network namespace can be made: {done.stderr.strip()}')
        try:
            self._must('-n', self.name, 'link', 'set', 'lo', 'up')
            for n in range(cables):
                here, there = f'sl{os.getpid()}.{n}', f'end{n}'
                self._must('link', 'add', here, 'type', 'veth', 'peer', 'name', there, 'netns', self.name)
                self._must('addr', 'add', f'{self._address(n, 1)}/30', 'dev', here)
                self._must('link', 'set', here, 'up')
                self._must('-n', self.name, 'addr', 'add', f'{self.address(n)}/30', 'dev', there)
                self.plug(n)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _ip(*arguments):
        return subprocess.run(['ip', *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              env={**os.environ, 'PATH': f'{os.environ["PATH"]}:/usr/sbin:/sbin'})

    def _must(self, *arguments):
        done = self._ip(*arguments)
        assert done.returncode == 0, (arguments, done.stderr)

    @property
    def inside(self):
        return ['nsenter', f'--net={NAMES}/{self.name}']  # ip netns exec would take copies of all mounts along

    @staticmethod
    def _address(cable, end):
        return str(ipaddress.IPv4Address('198.18.0.0') + 4 * ((4 * os.getpid() + cable) % NETWORKS) + end)

    def address(self, cable):
        return self._address(cable, 2)

    def pull(self, cable):
        """This end keeps its address and its route, so that nothing looks for another way."""
        self._must('-n', self.name, 'link', 'set', f'end{cable}', 'down')

    def plug(self, cable):
        self._must('-n', self.name, 'link', 'set', f'end{cable}', 'up')

    def close(self):
        for n in range(self.count):
            self._ip('link', 'del', f'sl{os.getpid()}.{n}')
        self._ip('netns', 'del', self.name)
        subprocess.run(['umount', '-l', NAMES], stderr=subprocess.DEVNULL, check=False)
