"""Private keys that sign mail, and the records that publish them."""
import base64
import os
import subprocess


def openssl(*args):
    return subprocess.run(['openssl', *args], capture_output=True, check=True).stdout


def make_signing_key(path, bits=0):
    """A private key in PEM at the path, readable by its owner alone: Ed25519, or RSA of so many bits.
    Returns the text of its TXT record."""
    kind = ('RSA', '-pkeyopt', f'rsa_keygen_bits:{bits}') if bits else ('ED25519',)
    key = openssl('genpkey', '-algorithm', *kind)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'wb') as file:
        file.write(key)
    os.chmod(path, 0o600)
    public = openssl('pkey', '-in', path, '-pubout', '-outform', 'DER')
    if not bits:
        public = public[-32:]  # RFC 8463: the bare key
    return f'v=DKIM1; k={"rsa" if bits else "ed25519"}; p=' + base64.b64encode(public).decode()
