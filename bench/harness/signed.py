"""What signatures cost (DKIM): --signed of a workload.

The systems sluice+rsa and sluice+ed25519 are sluice with one key that signs all mail, RSA of 2,048 bits or Ed25519.
The workload compares the CPU time of a message with that of sluice without keys, and the difference with what
`openssl speed` says of one signature on the same machine before the run."""
import os
import re
import subprocess

import measure

KEYS = {'+rsa': ('rsa2048', ('RSA', '-pkeyopt', 'rsa_keygen_bits:2048')), '+ed25519': ('ed25519', ('ED25519',))}
TIMES, BESIDES = 1.1, 6  # of a signature, and us for all else


def add_arguments(parser):
    parser.add_argument('--signed', action='store_true',
                        help='sluice without keys, with an RSA key of 2,048 bits and with an Ed25519 key')


def relays(args):
    """To be called before measure.check: who is measured."""
    if args.signed:
        args.relays = ['sluice', *('sluice' + suffix for suffix in KEYS)]
        args.signature_us = {suffix: signature_us(name) for suffix, (name, _) in KEYS.items()}
        for suffix, (name, _) in KEYS.items():
            print(f'openssl speed {name}: {args.signature_us[suffix]:.1f} us a signature', flush=True)


def signature_us(name):
    """CPU time of one signature; openssl counts that and no other."""
    out = subprocess.run(['openssl', 'speed', '-mr', '-seconds', '3', name], capture_output=True, text=True,
                         check=True).stdout
    per_second = re.search(r'^\+F\d+:\d+:\d+:(?:Ed25519:)?([\d.]+):', out, re.M)
    return 1e6 / float(per_second[1])


def suffix_of(name):
    return next((suffix for suffix in KEYS if name.split('@')[0].endswith(suffix)), None)


def section(name, folder):
    """The section of a system's key."""
    suffix = suffix_of(name)
    if suffix is None:
        return ''
    path = folder / f'key{suffix}.pem'
    key = subprocess.run(['openssl', 'genpkey', '-algorithm', *KEYS[suffix][1]], capture_output=True, check=True).stdout
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'wb') as file:
        file.write(key)
    return f'dkim "s._domainkey.bench.test" {{ key = "{path}" from_domains = {{"*"}} }}\n'


def targets(args, rows):
    found = []
    without = measure.figure_of(rows, 'sluice', 'cpu_us')
    for suffix in KEYS if getattr(args, 'signed', False) and without is not None else ():
        cpu = measure.figure_of(rows, 'sluice' + suffix, 'cpu_us')
        most = TIMES * args.signature_us[suffix] + BESIDES
        if cpu is not None:
            found.append(measure.target(f'CPU us of a signature{suffix}, with all that belongs to it',
                                        f'<= {most:.1f} ({TIMES} x {args.signature_us[suffix]:.1f} + {BESIDES})',
                                        cpu - without, cpu - without <= most))
    return found
