"""An operator of NATS servers with one account, whose users have credentials: keys and tokens as nsc makes them (nkeys,
JWT), by the openssl program."""
import base64
import json
import struct
import time

from support.certificates import openssl

OPERATOR, ACCOUNT, USER, SEED = 14 << 3, 0, 20 << 3, 18 << 3


def _crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc


def _encode(data):
    return base64.b32encode(data + struct.pack('<H', _crc16(data))).decode().rstrip('=')


def _url64(data):
    return base64.urlsafe_b64encode(data).decode().rstrip('=')


class Key:
    def __init__(self, folder, kind, name):
        self.path = folder / f'{name}.key'
        openssl('genpkey', '-algorithm', 'ed25519', '-out', str(self.path))
        private = openssl('pkey', '-in', str(self.path), '-outform', 'DER')[-32:]
        public = openssl('pkey', '-in', str(self.path), '-pubout', '-outform', 'DER')[-32:]
        self.seed = _encode(bytes([SEED | kind >> 5, (kind & 31) << 3]) + private)
        self.public = _encode(bytes([kind]) + public)

    def sign(self, subject, name, claims):
        """A token that says so about another key, or this one."""
        parts = ({'typ': 'JWT', 'alg': 'ed25519-nkey'},
                 {'jti': f'{name}-{time.time_ns()}', 'iat': int(time.time()), 'iss': self.public, 'name': name,
                  'sub': subject.public, 'nats': {'version': 2, **claims}})
        text = '.'.join(_url64(json.dumps(part).encode()) for part in parts)
        document = self.path.with_suffix('.text')
        document.write_text(text, 'ascii')
        return f'{text}.{_url64(openssl("pkeyutl", "-sign", "-rawin", "-inkey", str(self.path), "-in", str(document)))}'


class Account:
    """Beside it is the one that servers want for themselves."""

    def __init__(self, folder):
        self.folder = folder
        self.operator = Key(folder, OPERATOR, 'operator')
        self.key, self.system = Key(folder, ACCOUNT, 'account'), Key(folder, ACCOUNT, 'system')

    def _token(self, key, name, *stores):
        bounds = ('subs', 'data', 'payload', 'imports', 'exports', 'conn', 'leaf', *stores)
        return self.operator.sign(key, name, {'type': 'account',
                                              'limits': {**dict.fromkeys(bounds, -1), 'wildcards': True}})

    @property
    def server_section(self):
        """What stands in the configuration of a server that knows the operator."""
        operator = self.operator.sign(self.operator, 'operator', {'type': 'operator'})
        mail = self._token(self.key, 'mail', 'mem_storage', 'disk_storage', 'streams', 'consumer')
        return (f'operator: "{operator}"\nresolver: MEMORY\nsystem_account: {self.system.public}\nresolver_preload {{ '
                f'{self.key.public}: "{mail}"\n{self.system.public}: "{self._token(self.system, "system")}" }}\n')

    def credentials(self, name):
        """The file of a new user."""
        user = Key(self.folder, USER, name)
        token = self.key.sign(user, name, {'type': 'user', 'subs': -1, 'data': -1, 'payload': -1, 'pub': {}, 'sub': {}})
        path = self.folder / f'{name}.creds'
        path.write_text(f'-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n'
                        f'-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n', 'ascii')
        return str(path)
