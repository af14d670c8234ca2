"""OpenDKIM as a milter that verifies, with what the DNS would say from a file: it adds Authentication-Results to the
message."""
import os
import pathlib
import subprocess

from support.address import free_port
from support.wait import until

PROGRAM = '/usr/sbin/opendkim'


class OpenDkim:
    def __init__(self, folder, records):
        """records: {name in the DNS: text of its TXT record}"""
        self.folder = pathlib.Path(folder)
        self.port = free_port()
        records = ''.join(f'{name} {text}\n' for name, text in records.items())
        (self.folder / 'records').write_text(records, 'ascii')
        config = self.folder / 'opendkim.conf'
        config.write_text(f'Mode v\nBackground no\nSocket inet:{self.port}@127.0.0.1\nTestDNSData file:{self.folder}/records\n'
                          'AuthservID verifier.test\nAlwaysAddARHeader yes\nMinimumKeyBits 1024\nUserID nobody\n'
                          'RequireSafeKeys no\nSyslog no\nOn-BadSignature accept\nMaximumHeaders 0\nMaximumSignaturesToVerify 8\n', 'ascii')
        os.chmod(self.folder, 0o755)
        with open(self.folder / 'output', 'wb') as output:
            self.process = subprocess.Popen([PROGRAM, '-f', '-x', config], stdin=subprocess.DEVNULL, stdout=output,
                                            stderr=output)
        until(self.is_listening, lambda: f'OpenDKIM: {self.log()}')

    def is_listening(self):
        assert self.process.poll() is None, self.log()
        with open('/proc/net/tcp', encoding='ascii') as table:
            return f' 0100007F:{self.port:04X} 00000000:0000 0A' in table.read()

    def log(self):
        return (self.folder / 'output').read_text('utf-8', 'replace')[-3000:]

    def close(self):
        self.process.terminate()
        self.process.wait()
