"""Exim and OpenSMTPD as receivers, from Debian's packages, unpacked and not installed. Their paths
and users are built in, so each runs in a mount namespace of its own, where they are ours; that
needs root. Neither delivers: what was accepted stays in the spool, where it is read."""
import os
import pathlib
import re
import signal
import subprocess

from support.address import free_port
from support.wait import until

SOURCE = pathlib.Path(__file__).resolve().parents[3]
PROGRAMS = SOURCE / 'build' / 'peers' / 'usr' / 'sbin'
USERS = {'opensmtpd': 64001, 'opensmtpq': 64002, 'Debian-exim': 64003}
ADDRESS = '127.0.0.1'


def unpack():
    """Fetch the packages unless they are there; raises CalledProcessError when they cannot be had."""
    subprocess.run(['bash', '-c', '. .ci/packages && '
                    'unpack_packages build/peers "${unpacked_packages[@]}"'],
                   cwd=SOURCE, check=True, stdin=subprocess.DEVNULL)


class UnpackedServer:
    """modes: {name of a port: whatever configure() makes of it}"""
    mounts = {}  # {file of the folder: path that it is for the server}

    def __init__(self, folder, modes):
        self.folder = pathlib.Path(folder)
        self.ports = {mode: free_port() for mode in modes}
        os.chmod(self.folder.parent, 0o711)
        os.chmod(self.folder, 0o711)
        for name in ('lib', 'run', 'spool'):
            (self.folder / name).mkdir(mode=0o755)
        self.add_users()
        command = self.configure(modes)
        mounts = {'passwd': '/etc/passwd', 'group': '/etc/group', 'lib': '/var/lib', 'run': '/run',
                  'spool': '/var/spool', **self.mounts}
        script = ' && '.join(f'mount --bind {self.folder}/{name} {path}'
                             for name, path in mounts.items()) + f' && exec {command}'
        with open(self.folder / 'output', 'wb') as output:
            self.process = subprocess.Popen(
                ['unshare', '-m', '--propagation', 'private', 'sh', '-c', script],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
        until(self.is_listening, lambda: f'{command}: {self.log()}')

    def add_users(self):
        for name, line in (('passwd', '{0}:x:{1}:{1}::/nonexistent:/usr/sbin/nologin\n'),
                           ('group', '{0}:x:{1}:\n')):
            (self.folder / name).write_text(
                pathlib.Path('/etc', name).read_text('utf-8') +
                ''.join(line.format(*user) for user in USERS.items()), 'utf-8')

    def write(self, name, text, user=None):
        path = self.folder / name
        path.write_text(text, 'utf-8')
        if user:
            os.chown(path, USERS[user], USERS[user])
        return path

    def is_listening(self):
        assert self.process.poll() is None, self.log()
        with open('/proc/net/tcp', encoding='ascii') as table:
            listening = re.findall(r' 0100007F:(\w{4}) 00000000:0000 0A', table.read())
        return {f'{port:04X}' for port in self.ports.values()} <= set(listening)

    def log(self):
        return (self.folder / 'output').read_text('utf-8', 'replace')[-3000:]

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
        self.process.wait()


class Exim(UnpackedServer):
    """modes: {name: (extensions offered, of 'pipelining', 'chunking', 'tls')}"""

    def configure(self, modes):
        user = USERS['Debian-exim']
        for name in ('exim', 'exim/log'):
            (self.folder / name).mkdir()
            os.chown(self.folder / name, user, user)
        # Exim reads the key as its own user.
        for name in ('cert', 'key'):
            self.write(f'exim/{name}', (self.folder / name).read_text(), 'Debian-exim')

        def offered(extension):
            ports = [self.ports[mode] for mode, extensions in modes.items()
                     if extension in extensions]
            tests = ''.join(f'{{={{$received_port}}{{{port}}}}}' for port in ports)
            return f'${{if or{{{tests}}}{{*}}{{}}}}' if ports else ''
        config = self.write('exim.conf', f'''\
primary_hostname = exim.test
spool_directory = {self.folder}/exim
log_file_path = {self.folder}/exim/log/%slog
pid_file_path = {self.folder}/exim/pid
queue_only
smtp_accept_max = 400
message_size_limit = 0
pipelining_advertise_hosts = {offered('pipelining')}
chunking_advertise_hosts = {offered('chunking')}
tls_advertise_hosts = {offered('tls')}
tls_certificate = {self.folder}/exim/cert
tls_privatekey = {self.folder}/exim/key
acl_smtp_rcpt = accept
acl_smtp_data = accept
keep_environment =
''')
        listed = ' : '.join(f'{ADDRESS}.{port}' for port in self.ports.values())
        return f"{PROGRAMS}/exim4 -C {config} -bdf -oX '{listed}'"

    def log(self):
        return super().log() + ''.join(path.read_text('utf-8', 'replace')[-3000:]
                                       for path in (self.folder / 'exim/log').glob('*'))

    def kept(self):
        for path in (self.folder / 'exim/input').glob('*-H'):
            envelope, fields = path.read_bytes().split(b'\n\n', 1)
            count, *recipients = envelope[envelope.index(b'\nXX\n') + 4:].decode().splitlines()
            assert len(recipients) == int(count), envelope
            # Each field with its length and a flag before it.
            fields = re.sub(rb'^\d{3,}.? ', b'', fields, flags=re.M)
            body = path.with_name(path.name[:-1] + 'D').read_bytes().split(b'\n', 1)[1]
            for recipient in recipients:
                yield recipient, fields + b'\n' + body


class VerifyingExim(Exim):
    """It writes what it thinks of signatures into Authentication-Results, and asks the name server at the address,
    port 53."""
    mounts = {'resolv.conf': '/etc/resolv.conf'}

    def __init__(self, folder, modes, resolver):
        self.resolver = resolver
        super().__init__(folder, modes)

    def configure(self, modes):
        command = super().configure(modes)
        self.write('resolv.conf', f'nameserver {self.resolver}\noptions timeout:5\n')
        config = self.folder / 'exim.conf'
        config.write_text(config.read_text().replace('acl_smtp_data = accept', 'acl_smtp_data = verified').replace(
            'tls_certificate', '#').replace('tls_privatekey', '#') + """\
begin acl
verified:
  accept add_header = :at_start:${authresults {exim.test}}
""")
        return command


class OpenSmtpd(UnpackedServer):
    """modes: {name: ('tls',) or ()}; it offers neither PIPELINING nor CHUNKING."""

    def configure(self, modes):
        (self.folder / 'lib/opensmtpd/empty').mkdir(parents=True, mode=0o755)
        for name in ('lib/opensmtpd', 'lib/opensmtpd/empty'):
            os.chmod(self.folder / name, 0o755)
        os.chmod(self.folder / 'key', 0o600)
        listens = ''.join(f'listen on {ADDRESS} port {port}' +
                          (' tls pki peer' if 'tls' in modes[mode] else '') + '\n'
                          for mode, port in self.ports.items())
        config = self.write('smtpd.conf', f'''\
pki peer cert "{self.folder}/cert"
pki peer key "{self.folder}/key"
{listens}action keep relay host smtp://127.0.0.1:9
match from any for any action keep
''')
        return f'{PROGRAMS}/smtpd -d -f {config} -P mta'

    def kept(self):
        for path in (self.folder / 'spool/smtpd/queue').glob('*/*/message'):
            message = path.read_bytes()
            for envelope in path.parent.glob('????????????????'):
                found = re.search(r'^dest: (.+)$', envelope.read_text(), re.M)
                yield found.group(1), message
