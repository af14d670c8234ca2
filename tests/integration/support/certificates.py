"""Certificates made on the spot by the openssl program, and their TLSA records."""
import hashlib
import os
import ssl
import subprocess

CURVE = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']


def openssl(*arguments, stdin=None):
    return subprocess.run(['openssl', *arguments], input=stdin, check=True,
                          capture_output=True).stdout


class Leaf:
    def __init__(self, cert, key):
        self.cert, self.key = cert, key

    def server(self):
        """What a server needs to show it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        return context

    def tlsa(self, usage=3, selector=1, matching=1):
        """The RDATA of a TLSA record for it, as a zone file has it."""
        data = openssl('x509', '-in', self.cert, '-outform', 'DER')
        if selector == 1:
            key = openssl('x509', '-in', self.cert, '-noout', '-pubkey')
            data = openssl('pkey', '-pubin', '-outform', 'DER', stdin=key)
        if matching:
            data = hashlib.new({1: 'sha256', 2: 'sha512'}[matching], data).digest()
        return f'{usage} {selector} {matching} {data.hex()}'


class Authority(Leaf):
    """A root, and the leaves that it signs."""

    def __init__(self, folder, name='Test Root'):
        self.folder = folder
        self.count = 0
        super().__init__(os.path.join(folder, 'root.pem'), os.path.join(folder, 'root.key'))
        openssl('req', '-x509', *CURVE, '-subj', f'/CN={name}', '-days', '10', '-keyout', self.key,
                '-out', self.cert)

    def leaf(self, *names, common_name='leaf', days=5, self_signed=False):
        """names: for the subject alternative name. The chain ends with the root."""
        self.count += 1
        stem = os.path.join(self.folder, f'leaf{self.count}')
        extension = []
        if names:
            kinds = ('IP' if name[-1].isdigit() else 'DNS' for name in names)
            alternatives = (f'{kind}:{name}' for kind, name in zip(kinds, names))
            extension = ['-addext', 'subjectAltName=' + ','.join(alternatives)]
        if self_signed:
            openssl('req', '-x509', *CURVE, '-subj', f'/CN={common_name}', *extension, '-keyout',
                    f'{stem}.key', '-out', f'{stem}.pem')
            return Leaf(f'{stem}.pem', f'{stem}.key')
        openssl('req', *CURVE, '-subj', f'/CN={common_name}', *extension, '-keyout',
                f'{stem}.key', '-out', f'{stem}.csr')
        signed = openssl('x509', '-req', '-in', f'{stem}.csr', '-CA', self.cert, '-CAkey',
                         self.key, '-set_serial', str(self.count), '-days', str(days),
                         '-copy_extensions', 'copy')
        with open(self.cert, 'rb') as root, open(f'{stem}.pem', 'wb') as chain:
            chain.write(signed + root.read())
        return Leaf(f'{stem}.pem', f'{stem}.key')
