"""A Postfix of our own that receives, and keeps mail in folders, one file a message. Needs root."""
import glob
import os
import pathlib
import re
import shutil

from private_postfix import PrivatePostfix

from support.address import free_port
from support.wait import PATIENCE, until

SERVICES = '''\
pickup unix n - n 60 1 pickup
qmgr unix n - n 300 1 qmgr
verify unix - - n - 1 verify
showq unix n - n - - showq
virtual unix - n n - - virtual
tlsmgr unix - - n 1000? 1 tlsmgr
'''


class MailboxPostfix(PrivatePostfix):
    """ports: {port: parameters of main.cf that it has of its own}, besides `port`"""

    def __init__(self, folder, ports=None, **settings):
        self.address, self.port = '127.0.0.1', free_port()
        mail = pathlib.Path(folder, 'mail')
        mail.mkdir()
        os.chmod(folder, 0o755)
        os.chmod(os.path.dirname(folder), 0o755)
        shutil.chown(mail, 'nobody')
        listeners = ''.join(
            f'{self.address}:{port} inet n - n - 50 smtpd' +
            ''.join(f' -o {key}={value}' for key, value in options.items()) + '\n'
            for port, options in {self.port: {}, **(ports or {})}.items())
        super().__init__(folder, {
            'myhostname': 'postfix.test', 'virtual_mailbox_domains': 'static:all',
            'virtual_mailbox_maps': 'static:all/', 'virtual_mailbox_base': mail,
            'virtual_uid_maps': 'static:65534', 'virtual_gid_maps': 'static:65534',
            'virtual_mailbox_limit': '0', 'message_size_limit': '60000000',
            'mailbox_size_limit': '0', 'smtpd_recipient_restrictions': 'permit_mynetworks, reject',
            'smtputf8_enable': 'yes', 'local_header_rewrite_clients': '',
            'header_size_limit': '1000000', 'line_length_limit': '2048', **settings},
                         listeners + SERVICES)
        done = self.command('postfix', 'start', check=False)
        assert done.returncode == 0, done.stdout
        until(lambda: 'daemon started' in self.log(), lambda: f'Postfix: {self.log()}')

    def close(self):
        self.command('postfix', 'abort', check=False)

    @property
    def nexthop(self):
        return f'[{self.address}]:{self.port}'

    def wait(self, recipient, patience=PATIENCE):
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
