"""What signatures cost (DKIM): --signed of a workload.

The systems sluice+rsa and sluice+ed25519 are sluice with one key that signs all mail, RSA of 2,048 bits or Ed25519.
The workload compares the CPU time of a message with that of sluice without keys in the same round, and the difference
with what `openssl speed` says of one signature, the mean of just before the run and just behind it: the speed of a
machine that shares its processors is another one seconds later. What is over in each round has its median; rounds go
forwards and backwards in turn, so that a machine that becomes slower or faster meanwhile favours nobody. `openssl speed`
is one process on a machine that does nothing else; what a signature takes while all processors sign, as they do in the
run, stands beside it. Where --relays names postfix there is also
postfix+opendkim: Postfix with OpenDKIM as a milter that signs all mail by an RSA key of 2,048 bits."""
import contextlib
import os
import re
import shutil
import socket
import statistics
import subprocess
import time

import measure
from load import free_port
from relay import Failure, Postfix

KEYS = {'+rsa': ('rsa2048', ('RSA', '-pkeyopt', 'rsa_keygen_bits:2048')), '+ed25519': ('ed25519', ('ED25519',))}
SIGNATURES = [{'key': 'signature_us', 'title': 'openssl us', 'better': None, 'digits': 1},
              {'key': 'signature_busy_us', 'title': 'on all CPUs', 'better': None, 'digits': 1}]
TIMES, BESIDES = 1.1, 6  # of a signature, and us for all else
POSTFIX = 'postfix+opendkim'
TIMES_POSTFIX = 3
OPENDKIM = '/usr/sbin/opendkim'
OPENDKIM_CONF = '''\
Mode s
Background no
UserID opendkim
Socket inet:{port}@127.0.0.1
KeyTable file:{folder}/keys
SigningTable refile:{folder}/senders
Canonicalization relaxed/relaxed
OversignHeaders From
InternalHosts 127.0.0.1
RequireSafeKeys no
Syslog no
'''


class SigningPostfix(Postfix):
    """A Postfix whose mail OpenDKIM signs. What OpenDKIM cannot sign Postfix does not take."""

    def __init__(self, folder, port, routes, settings):
        self.milter, self.milter_port = None, free_port()
        super().__init__(folder, port, routes, {**settings, 'milter_default_action': 'tempfail',
                                                'smtpd_milters': f'inet:127.0.0.1:{self.milter_port}'})
        key = make_key(folder, '+rsa')
        shutil.chown(key, 'opendkim')
        (folder / 'keys').write_text(f'all bench.test:s:{key}\n')
        (folder / 'senders').write_text('* all\n')
        (folder / 'opendkim.conf').write_text(OPENDKIM_CONF.format(port=self.milter_port, folder=folder))

    def start(self, account):
        with open(self.folder / 'milter.log', 'wb') as log:
            self.milter = subprocess.Popen([OPENDKIM, '-f', '-x', self.folder / 'opendkim.conf'], stdout=log, stderr=log,
                                           stdin=subprocess.DEVNULL, preexec_fn=account.enter)
        wait_for_listener(self.milter_port, self.milter)
        super().start(account)

    def stop(self):
        super().stop()
        if self.milter is not None:
            self.milter.terminate()
            self.milter.wait()


def wait_for_listener(port, process):
    """A milter says nothing before it is asked."""
    end = time.monotonic() + 10
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', port), 1):
            return
        time.sleep(0.05)
    raise Failure(f'OpenDKIM does not listen on port {port}')


def add_arguments(parser):
    parser.add_argument('--signed', action='store_true',
                        help='sluice without keys, with an RSA key of 2,048 bits and with an Ed25519 key; with postfix in --relays '
                             'also that, and with OpenDKIM')


def relays(args):
    """To be called before measure.check: who is measured."""
    if args.signed:
        args.relays = ['sluice', *('sluice' + suffix for suffix in KEYS),
                       *(name for name in ('postfix', POSTFIX) if 'postfix' in args.relays)]


def figures(args):
    return [*measure.THROUGHPUT, *SIGNATURES] if args.signed else measure.THROUGHPUT


def measured(run_one):
    """A run_one of measure.rounds that also measures one signature of the system's key, before it runs and behind it."""
    def run(args, name, setting):
        suffix = suffix_of(name)
        if suffix is None:
            return run_one(args, name, setting)
        key = KEYS[suffix][0]
        before, busy = signature_us(key, 1), signature_us(key, os.cpu_count())
        found = run_one(args, name, setting)
        found['figures'].update(signature_us=(before + signature_us(key, 1)) / 2, signature_busy_us=busy)
        return found
    return run


def signature_us(name, processes):
    """CPU time of one signature while so many processes sign; each counts its own and no other."""
    running = [subprocess.Popen(['openssl', 'speed', '-mr', '-seconds', '1', name], stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True) for _ in range(processes)]
    outs = [one.communicate()[0] for one in running]
    return statistics.mean(1e6 / float(re.search(r'^\+F\d+:\d+:\d+:(?:Ed25519:)?([\d.]+):', out, re.M)[1]) for out in outs)


def suffix_of(name):
    return next((suffix for suffix in KEYS if name.split('@')[0].endswith(suffix)), None)


def section(name, folder):
    """The section of a system's key."""
    suffix = suffix_of(name)
    if suffix is None:
        return ''
    return f'dkim "s._domainkey.bench.test" {{ key = "{make_key(folder, suffix)}" from_domains = {{"*"}} }}\n'


def make_key(folder, suffix):
    """The file of a new key."""
    path = folder / f'key{suffix}.pem'
    key = subprocess.run(['openssl', 'genpkey', '-algorithm', *KEYS[suffix][1]], capture_output=True, check=True).stdout
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'wb') as file:
        file.write(key)
    return path


def overs(runs, suffix):
    """What a signature takes in each undisturbed round beyond TIMES that of `openssl speed`, us of CPU."""
    figures = {(run['relay'], run['pair']): run['figures'] for run in runs if run['is_clean']}
    return [mine['cpu_us'] - figures['sluice', pair]['cpu_us'] - TIMES * mine['signature_us']
            for (name, pair), mine in figures.items() if name == 'sluice' + suffix]


def targets(args, rows, runs):
    found = []
    for suffix in KEYS if getattr(args, 'signed', False) else ():
        over = overs(runs, suffix)
        if over:
            found.append(measure.target(
                f'CPU us of a signature{suffix}, with all that belongs to it, beyond {TIMES} by openssl speed; '
                f'{min(over):.1f} to {max(over):.1f} in a round', f'<= {BESIDES}', statistics.median(over),
                statistics.median(over) <= BESIDES))
    ratio = measure.ratio_of(rows, 'sluice+rsa', POSTFIX, 'rate')
    if ratio is not None:
        found.append(measure.target('times the rate of Postfix with OpenDKIM, by RSA keys', f'>= {TIMES_POSTFIX}', ratio,
                                    ratio >= TIMES_POSTFIX))
    return found
