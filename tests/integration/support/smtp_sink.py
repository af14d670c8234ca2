"""Postfix's test server, which can be told to misbehave."""
import os
import subprocess
import threading

from support.address import free_port
from support.wait import until


def tool(name):
    """A program of Postfix."""
    return os.path.join('/usr/sbin', name)


class SmtpSink:
    def __init__(self, *options, address='127.0.0.1', port=None):
        self.address, self.port = address, port or free_port()
        self.process = subprocess.Popen(
            [tool('smtp-sink'), '-u', 'root' if os.getuid() == 0 else os.environ['USER'], '-c',
             *options, f'{self.address}:{self.port}', '100'], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        self.text = b''
        threading.Thread(target=self.read, daemon=True).start()
        until(self.is_listening, 'smtp-sink')

    def read(self):
        while True:
            data = self.process.stdout.read1(4096)
            if not data:
                return
            self.text += data

    def is_listening(self):
        address = ''.join(f'{int(part):02X}' for part in reversed(self.address.split('.')))
        with open('/proc/net/tcp', encoding='ascii') as table:
            return f' {address}:{self.port:04X} 00000000:0000 0A' in table.read()

    def close(self):
        self.process.kill()
        self.process.wait()

    @property
    def nexthop(self):
        return f'[{self.address}]:{self.port}'
