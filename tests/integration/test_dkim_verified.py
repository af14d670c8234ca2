"""Signatures of net/dkim are verified by python3-dkim, which shares nothing with it: random messages of every shape, with
an RSA and an Ed25519 key each, in each canonical form; and a signed message that was changed is not.
DKIM_MESSAGES: how many in each form (default 100)."""
import base64
import os
import random
import struct
import subprocess

import dkim
import pytest

from support.random_mail import draw_message

MESSAGES = int(os.environ.get('DKIM_MESSAGES', '100'))
DOMAIN = 'sender.test'


@pytest.fixture(scope='module')
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp('keys')
    records = {}
    for name, options in (('rsa', ['-algorithm', 'RSA', '-pkeyopt', 'rsa_keygen_bits:2048']), ('ed25519', ['-algorithm', 'ED25519'])):
        path = folder / f'{name}.pem'
        subprocess.run(['openssl', 'genpkey', *options, '-out', path], check=True, capture_output=True)
        der = subprocess.run(['openssl', 'pkey', '-in', path, '-pubout', '-outform', 'DER'], check=True,
                             capture_output=True).stdout
        public = der[-32:] if name == 'ed25519' else der
        records[f'{name}._domainkey.{DOMAIN}.'.encode()] = (
            f'v=DKIM1; k={name}; p={base64.b64encode(public).decode()}'.encode())
    return folder, records


def sign(folder, form, messages):
    frames = b''.join(struct.pack('>I', len(m)) + m for m in messages)
    out = subprocess.run([os.environ['SIGN_MESSAGES'], DOMAIN, form, f'rsa={folder}/rsa.pem', f'ed25519={folder}/ed25519.pem'],
                         input=frames, capture_output=True, check=True, timeout=300).stdout
    signed = []
    while out:
        length, = struct.unpack('>I', out[:4])
        signed.append(out[4:4 + length])
        out = out[4 + length:]
    assert len(signed) == len(messages)
    return signed


def is_verified(message, records, index):
    try:
        return dkim.DKIM(message, timeout=0).verify(idx=index, dnsfunc=lambda name, timeout=0: records[name])
    except dkim.ValidationError:  # another body
        return False


@pytest.mark.parametrize('form', ['relaxed/relaxed', 'simple/simple', 'relaxed/simple', 'simple/relaxed'])
def test_another_implementation_verifies(keys, form):
    folder, records = keys
    seed = random.randrange(1 << 30)
    rng = random.Random(seed)
    messages = [draw_message(rng) for _ in range(MESSAGES)]
    for message, signed in zip(messages, sign(folder, form, messages)):
        assert signed.endswith(message)
        for index in (0, 1):
            assert is_verified(signed, records, index), (seed, index, signed)


def test_a_change_is_noticed(keys):
    folder, records = keys
    message = b'From: a@sender.test\r\nSubject: one\r\nX-Other: two\r\n\r\nThe body.\r\n'
    signed, = sign(folder, 'relaxed/relaxed', [message])
    for old, new, verified in ((b'The body', b'the body', False), (b'one', b'One', False), (b'X-Other: two', b'X-Other: 2', True),
                               (b'Subject: one', b'SUBJECT:\t one ', True), (b'The body.', b'The  body. ', True),
                               (b'\r\n\r\n', b'\r\nFrom: b@other.test\r\n\r\n', False),
                               (b'\r\n\r\n', b'\r\nTo: b@other.test\r\n\r\n', False),
                               (b'\r\n\r\n', b'\r\nX-New: b\r\n\r\n', True)):
        changed = signed.replace(old, new, 1)
        assert changed != signed
        assert [is_verified(changed, records, index) for index in (0, 1)] == [verified, verified], (old, new)
