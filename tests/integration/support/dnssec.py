"""A signed zone on loopback: ldns signs it; unbound, which the daemon under test asks, has it from a
file as if from a server, and validates it by an anchor of its own."""
import os
import shutil
import subprocess
import time

from dnslib import DNSRecord

from support.address import free_port_of_both
from support.wait import until


def path_of(program):
    return shutil.which(program, path='/usr/sbin:/usr/bin:/sbin:/bin')


def is_usable():
    return all(map(path_of, ('unbound', 'ldns-keygen', 'ldns-signzone')))


def answers(port, name, kind):
    try:
        return DNSRecord.parse(DNSRecord.question(name, kind).send('127.0.0.1', port,
                                                                   timeout=1)).header.rcode == 0
    except OSError:
        return False


class SignedZone:
    """records: lines of a zone file, names relative to `name`. spoil(line): changes a line of the
    signed zone, so that its signature is wrong. plain: {name: lines} of zones without signatures.
    """

    def __init__(self, folder, name, records, spoil=None, plain=None):
        self.folder, self.name = folder, name
        self.port = free_port_of_both()
        zones = {name: self.sign(records, spoil)}
        for other, lines in (plain or {}).items():
            zones[other] = self.write(f'{other}.zone', self.zone_text(other, lines))
        self.resolve(zones)
        for other in zones:
            until(lambda other=other: answers(self.port, other, 'SOA'), f'an answer about {other}')

    @property
    def resolver(self):
        return f'127.0.0.1:{self.port}'

    def close(self):
        self.process.kill()
        self.process.wait()

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, 'w', encoding='ascii') as file:
            file.write(text)
        return path

    @staticmethod
    def zone_text(name, records):
        head = (f'$ORIGIN {name}.\n$TTL 60\n@ SOA ns hostmaster {int(time.time())} 60 60 6000 1\n'
                '@ NS ns\nns A 127.0.0.1\n')
        return head + '\n'.join(records) + '\n'

    def sign(self, records, spoil):
        zone = self.write(f'{self.name}.zone', self.zone_text(self.name, records))

        def run(*arguments):
            return subprocess.run(arguments, cwd=self.folder, check=True, capture_output=True,
                                  text=True).stdout.strip()
        key = run('ldns-keygen', '-a', 'ECDSAP256SHA256', '-k', self.name)
        run('ldns-signzone', '-f', 'signed', zone, key)
        with open(os.path.join(self.folder, 'signed'), encoding='ascii') as file:
            lines = [spoil(line) if spoil else line for line in file]
        shutil.copy(os.path.join(self.folder, f'{key}.key'), os.path.join(self.folder, 'anchor'))
        return self.write('served', ''.join(lines))

    def resolve(self, zones):
        text = ('server:\n  interface: 127.0.0.1\n'
                f'  port: {self.port}\n  do-ip6: no\n  access-control: 127.0.0.0/8 allow\n'
                '  do-not-query-localhost: no\n  do-daemonize: no\n  use-syslog: no\n  logfile: ""\n'
                f'  chroot: ""\n  username: ""\n  directory: "{self.folder}"\n  pidfile: ""\n'
                f'  trust-anchor-file: "{self.folder}/anchor"\n'
                '  module-config: "validator iterator"\n  num-threads: 1\n  val-log-level: 2\n'
                '  local-zone: "test." nodefault\n  so-reuseport: no\n'
                'remote-control:\n  control-enable: no\n')
        for name in zones:
            text += (f'auth-zone:\n  name: "{name}"\n  zonefile: "{zones[name]}"\n'
                     '  for-downstream: no\n  for-upstream: yes\n  fallback-enabled: no\n')
        with open(os.path.join(self.folder, 'unbound.log'), 'wb') as log:
            self.process = subprocess.Popen(
                [path_of('unbound'), '-d', '-c', self.write('unbound.conf', text)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)
