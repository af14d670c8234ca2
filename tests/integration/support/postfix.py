"""A Postfix of its own that delivers in an order that can be watched: each transport has one agent,
and its queue manager and its agents start when the test says so. Needs root, as Postfix does."""
import os
import pwd
import re
import signal
import subprocess

from support.address import free_port
from support.wait import until

PROGRAMS = '/usr/lib/postfix/sbin'

MAIN = '''\
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
command_directory = /usr/sbin
daemon_directory = {folder}/programs
mail_owner = postfix
setgid_group = postdrop
maillog_file = {folder}/log
maillog_file_prefixes = {folder}
myhostname = relay.test
mydestination =
mynetworks = 127.0.0.0/8
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
alias_maps =
alias_database =
local_recipient_maps =
smtpd_relay_restrictions = permit_mynetworks, reject
smtpd_recipient_limit = 100000
smtpd_peername_lookup = no
smtpd_tls_security_level = none
smtp_tls_security_level = none
smtp_dns_support_level = disabled
smtp_host_lookup = native
smtputf8_enable = no
transport_maps = texthash:{folder}/transport
in_flow_delay = 0
max_use = 1000000
max_idle = 600
'''

MASTER = '''\
127.0.0.1:{port} inet n - n - 1 smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 held-qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
proxymap unix - - n - - proxymap
retry unix - - n - - error
error unix - - n - - error
scache unix - - n - 1 scache
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
'''

# Started with -n and the name of the service.
HELD = '''\
#!/bin/sh
case " $*" in *" -n "*) name=${{*##*-n }}; name=${{name%% *}} ;; esac
until [ -e {folder}/go-${{name:-{program}}} ]; do sleep 0.01; done
exec {programs}/{program} "$@"
'''


def is_usable():
    return os.geteuid() == 0 and os.access(f'{PROGRAMS}/master', os.X_OK)


class Postfix:
    """transports: {name: parameters}; routes: {domain: "transport:nexthop"}"""

    def __init__(self, folder, transports, routes):
        self.folder = folder
        self.transports = transports
        # Postfix's own user works in there.
        os.chmod(os.path.dirname(folder), 0o711)
        os.chmod(folder, 0o711)
        for name in ('conf', 'queue', 'data', 'programs'):
            os.mkdir(self.path(name))
            os.chmod(self.path(name), 0o755)
        os.chown(self.path('data'), pwd.getpwnam('postfix').pw_uid, -1)
        for name in os.listdir(PROGRAMS):
            os.symlink(f'{PROGRAMS}/{name}', self.path('programs', name))
        for program in ('qmgr', 'smtp'):
            self.write(HELD.format(folder=folder, programs=PROGRAMS, program=program), 'programs',
                       f'held-{program}', mode=0o755)
        self.port = free_port()
        self.write(MAIN.format(folder=folder) + ''.join(
            f'{name}_{key} = {value}\n' for name, parameters in transports.items()
            for key, value in parameters.items()), 'conf', 'main.cf')
        self.write(MASTER.format(port=self.port) + ''.join(
            f'{name} unix - - n - 1 held-smtp\n' for name in transports), 'conf', 'master.cf')
        self.write(''.join(f'{domain} {route}\n' for domain, route in routes.items()), 'transport')

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, text, *names, mode=0o644):
        with open(self.path(*names), 'w', encoding='utf-8') as file:
            file.write(text)
        os.chmod(self.path(*names), mode)

    def command(self, *arguments):
        subprocess.run(['postfix', '-c', self.path('conf'), *arguments], check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=30)

    def start(self):
        self.command('start')
        until(lambda: 'daemon started' in self.log(), lambda: f'a start: {self.log()}')
        return self

    def close(self):
        """Ends master, which ends the others."""
        try:
            with open(self.path('queue', 'pid', 'master.pid'), encoding='ascii') as file:
                master = int(file.read())
        except FileNotFoundError:
            return
        for name in ('qmgr', *self.transports):
            self.release(name)
        try:
            os.kill(master, signal.SIGTERM)
            until(lambda: not os.path.exists(f'/proc/{master}'), 'the end of Postfix')
        except ProcessLookupError:
            pass
        os.remove(self.path('queue', 'pid', 'master.pid'))

    def log(self):
        try:
            with open(self.path('log'), encoding='utf-8') as log:
                return log.read()
        except FileNotFoundError:
            return ''

    def release(self, name):
        """The queue manager ("qmgr") or the agent of a transport."""
        self.write('', f'go-{name}')

    def active(self):
        """[(queue id, second of the log)] in the order in which messages entered the scheduler"""
        return [(found.group(2), found.group(1)) for found in re.finditer(
            r'^(\w+ +\d+ [\d:]+) \S+ postfix/qmgr\[\d+\]: (\w+): from=.*\(queue active\)$',
            self.log(), re.M)]
