"""Certificates for servers of the tests: self-signed, made anew."""
import ssl
import subprocess


def make_certificate(folder, name):
    """Writes folder/cert and folder/key; returns their paths."""
    cert, key = f'{folder}/cert', f'{folder}/key'
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
                    'ec_paramgen_curve:prime256v1', '-nodes', '-subj', f'/CN={name}', '-days',
                    '10', '-keyout', key, '-out', cert], check=True, capture_output=True)
    return cert, key


def server_context(folder, name='peer.test'):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make_certificate(folder, name))
    return context
