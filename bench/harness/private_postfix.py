"""A Postfix in a folder of its own, for the benchmarks and for the tests. Nothing of the system's
Postfix is used or changed but its programs. Needs root, as Postfix does."""
import pathlib
import shutil
import subprocess

PROGRAMS = '/usr/lib/postfix/sbin'

# no DNS, no TLS, no reverse lookups: of one that sends mail on to receivers that its routes name
RELAY = {
    'myhostname': 'relay.test', 'local_recipient_maps': '',
    'smtpd_relay_restrictions': 'permit_mynetworks, reject', 'smtpd_peername_lookup': 'no',
    'smtpd_tls_security_level': 'none', 'smtp_tls_security_level': 'none',
    'smtp_dns_support_level': 'disabled', 'smtp_host_lookup': 'native', 'smtputf8_enable': 'no',
    'in_flow_delay': '0'}

SERVICES = '''\
cleanup unix n - n - 0 cleanup
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
proxymap unix - - n - - proxymap
error unix - - n - - error
retry unix - - n - - error
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
'''


class PrivatePostfix:
    """settings: {name: value} for main.cf; services: lines for master.cf; both are added to what
    every one has. The folder must let Postfix's own user through."""

    def __init__(self, folder, settings, services):
        self.folder = pathlib.Path(folder)
        for name in ('conf', 'queue', 'data'):
            (self.folder / name).mkdir()
        shutil.chown(self.folder / 'data', 'postfix')
        values = {
            'compatibility_level': '3.6', 'queue_directory': self.folder / 'queue',
            'data_directory': self.folder / 'data', 'command_directory': '/usr/sbin',
            'daemon_directory': PROGRAMS, 'mail_owner': 'postfix', 'setgid_group': 'postdrop',
            'maillog_file': self.folder / 'mail.log', 'maillog_file_prefixes': self.folder,
            'mydestination': '', 'mynetworks': '127.0.0.0/8', 'inet_interfaces': '127.0.0.1',
            'inet_protocols': 'ipv4', 'alias_maps': '', 'alias_database': '', **settings}
        (self.folder / 'conf/main.cf').write_text(
            ''.join(f'{name} = {value}\n' for name, value in values.items()))
        (self.folder / 'conf/master.cf').write_text(services + SERVICES)

    def command(self, program, *arguments, **how):
        """Run one of its programs; how: of subprocess.run."""
        how = {'check': True, 'timeout': 120, 'stdout': subprocess.PIPE,
               'stderr': subprocess.STDOUT, **how}
        return subprocess.run([f'/usr/sbin/{program}', '-c', self.folder / 'conf', *arguments],
                              stdin=subprocess.DEVNULL, **how)

    def launch(self, resolver=None, **how):
        """resolver: of a name server that this Postfix asks in place of the system's; it gets a
        resolv.conf of its own in a mount namespace."""
        if resolver is None:
            return self.command('postfix', 'start', **how)
        conf = self.folder / 'conf/resolv.conf'
        conf.write_text(f'nameserver {resolver}\noptions timeout:2 attempts:2\n')
        return subprocess.run(
            ['unshare', '--mount', 'sh', '-c', 'mount --bind "$0" /etc/resolv.conf && exec "$@"', conf,
             '/usr/sbin/postfix', '-c', self.folder / 'conf', 'start'],
            stdin=subprocess.DEVNULL, check=True, timeout=120, **how)

    def log(self):
        path = self.folder / 'mail.log'
        return path.read_text() if path.exists() else ''

    def master(self):
        """The number of its first process; None when it was not started."""
        path = self.folder / 'queue/pid/master.pid'
        return int(path.read_text()) if path.exists() else None
