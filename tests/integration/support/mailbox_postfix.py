"""A Postfix of our own that receives, and keeps mail in folders, one file a message. Needs root."""
import glob
import os
import pathlib
import re
import shutil
import subprocess

from support.address import free_port
from support.smtp_sink import tool
from support.wait import until


class MailboxPostfix:
    """ports: {port: parameters of main.cf that it has of its own}, besides `port`"""

    def __init__(self, folder, ports=None, **settings):
        self.folder = pathlib.Path(folder)
        self.address, self.port = '127.0.0.1', free_port()
        for name in ('etc', 'queue', 'data', 'mail'):
            (self.folder / name).mkdir()
        os.chmod(self.folder, 0o755)
        os.chmod(self.folder.parent, 0o755)
        shutil.chown(self.folder / 'data', 'postfix')
        shutil.chown(self.folder / 'mail', 'nobody')
        values = {
            'compatibility_level': '3.6', 'queue_directory': self.folder / 'queue',
            'data_directory': self.folder / 'data', 'myhostname': 'postfix.test',
            'mydestination': '', 'inet_interfaces': self.address, 'inet_protocols': 'ipv4',
            'mynetworks': '127.0.0.0/8', 'virtual_mailbox_domains': 'static:all',
            'virtual_mailbox_maps': 'static:all/', 'virtual_mailbox_base': self.folder / 'mail',
            'virtual_uid_maps': 'static:65534', 'virtual_gid_maps': 'static:65534',
            'virtual_mailbox_limit': '0', 'message_size_limit': '60000000',
            'mailbox_size_limit': '0', 'smtpd_recipient_restrictions': 'permit_mynetworks, reject',
            'alias_maps': '', 'alias_database': '', 'maillog_file': self.folder / 'maillog',
            'maillog_file_prefixes': self.folder, 'smtputf8_enable': 'yes',
            'local_header_rewrite_clients': '', 'header_size_limit': '1000000',
            'line_length_limit': '2048', **settings}
        (self.folder / 'etc/main.cf').write_text(
            ''.join(f'{key} = {value}\n' for key, value in values.items()))
        services = ''.join(
            f'{self.address}:{port} inet n - n - 50 smtpd' +
            ''.join(f' -o {key}={value}' for key, value in options.items()) + '\n'
            for port, options in {self.port: {}, **(ports or {})}.items())
        (self.folder / 'etc/master.cf').write_text(services + '''\
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
proxymap unix - - n - - proxymap
showq unix n - n - - showq
error unix - - n - - error
retry unix - - n - - error
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
tlsmgr unix - - n 1000? 1 tlsmgr
postlog unix-dgram n - n - 1 postlogd
''')
        done = self.control('start')
        assert done.returncode == 0, done.stderr
        until(lambda: 'daemon started' in self.log(), lambda: f'Postfix: {self.log()}')

    def control(self, verb):
        return subprocess.run([tool('postfix'), '-c', str(self.folder / 'etc'), verb],
                              capture_output=True, timeout=30, check=False)

    def log(self):
        path = self.folder / 'maillog'
        return path.read_text() if path.exists() else ''

    def close(self):
        self.control('abort')

    @property
    def nexthop(self):
        return f'[{self.address}]:{self.port}'

    def wait(self, recipient, patience=30):
        """The one message in the mailbox of a recipient, as it came (LF line ends)."""
        pattern = str(self.folder / 'mail' / recipient / 'new' / '*')
        [path] = until(lambda: glob.glob(pattern) or glob.glob(
            str(self.folder / 'mail' / '*' / 'new' / '*')),
                       lambda: f'mail to {recipient}: {self.log()[-2000:]}', patience)
        with open(path, 'rb') as file:
            data = file.read()
        os.unlink(path)
        return data

    def kept(self):
        """(recipient, message with LF line ends) of all that is there"""
        for path in glob.glob(str(self.folder / 'mail' / '*' / 'new' / '*')):
            message = pathlib.Path(path).read_bytes()
            yield re.search(rb'^Delivered-To: (.+)$', message, re.M).group(1).decode(), message

    def count(self):
        return len(glob.glob(str(self.folder / 'mail' / '*' / 'new' / '*')))
