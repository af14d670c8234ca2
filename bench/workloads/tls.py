"""TLS on every connection, a connection for every message, with and without session resumption.

resumed: the receiver gives out session tickets, and Postfix keeps sessions as sluice does
(smtp_tls_session_cache_database). full: it gives out none, so every handshake is a full one. plain: no TLS, also a
connection for every message; what the others take more CPU time than this is a handshake and what is encrypted. It is compared
with a connection of `openssl s_time`, measured just before each run: the same handshake, and a request of a few bytes where
sessions are resumed (tickets come after the handshake, in TLS 1.3)."""
import contextlib
import os
import re
import resource
import subprocess
import time

import measure
from flow import Setting, flow
from load import free_port, make_certificate
from relay import Failure

TITLE = 'TLS'
QUICK = {'pairs': 1, 'messages': 3000, 'messages_postfix': 500}
TIMES = 1.25  # of a connection of s_time
S_TIME = {'key': 's_time_us', 'title': 's_time us', 'better': None, 'digits': 1}
S_TIME_SECONDS = 2
# The handshake: options of (s_server, s_time).
KINDS = {'resumed': ((), ('-reuse', '-www', '/page')), 'full': (('-num_tickets', '0'), ('-new',))}
NO_TICKETS = '''\
openssl_conf = openssl_init
[openssl_init]
ssl_conf = ssl
[ssl]
system_default = no_tickets
[no_tickets]
Options = -SessionTicket
'''


def add_arguments(parser):
    measure.add_arguments(parser, ['sluice', 'postfix-nocache'], (20000, 4000))


def settings(args):
    config = args.folder / 'no_tickets.cnf'
    config.write_text(NO_TICKETS)
    sink = tuple(make_certificate(args.folder))
    transport = {'smtp_tls_security_level': '"encrypt"', 'smtp_connection_reuse_count_limit': 1}
    plain = {**transport, 'smtp_tls_security_level': '"none"'}
    postfix = {'smtp_tls_security_level': 'encrypt', 'smtp_connection_cache_on_demand': 'no',
               'smtp_tls_session_cache_database': 'btree:${data_directory}/smtp_scache'}
    return [Setting.of(args, case='plain', transport=plain, postfix={**postfix, 'smtp_tls_security_level': 'none'}),
            *(Setting.of(args, case=case, sink=sink, sink_environment=environment, transport=transport, postfix=postfix)
              for case, environment in (('resumed', None), ('full', {'OPENSSL_CONF': str(config)})))]


@contextlib.contextmanager
def openssl_server(folder, options):
    """The port of an s_server with the receiver's certificate, which serves the file `page`."""
    port = free_port()
    (folder / 'page').write_text('x\n')
    server = subprocess.Popen(['openssl', 's_server', '-accept', f'127.0.0.1:{port}', '-cert', 'cert.pem', '-key', 'key.pem',
                               '-quiet', '-WWW', *options],
                              cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield port
    finally:
        server.terminate()
        server.wait()


def s_time_us(folder, kind):
    """CPU time of s_time, user's and system's, for one of its connections."""
    of_server, of_client = KINDS[kind]
    with openssl_server(folder, of_server) as port:
        command = ['openssl', 's_time', '-connect', f'127.0.0.1:{port}', '-time', str(S_TIME_SECONDS), *of_client]
        end = time.monotonic() + 10
        while time.monotonic() < end:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            out = subprocess.run(command, capture_output=True, text=True).stdout
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found = re.search(r'^(\d+) connections in [\d.]+s', out, re.M)
            if found is not None and int(found[1]) > 0:
                return sum(getattr(after, key) - getattr(before, key) for key in ('ru_utime', 'ru_stime')) * 1e6 / int(found[1])
            time.sleep(0.05)  # the server does not listen yet
    raise Failure('openssl s_time reaches no openssl s_server')


def run_one(args, name, setting):
    """A run, and before sluice's what s_time takes."""
    figures = {S_TIME['key']: s_time_us(args.folder, setting.case)} if name == 'sluice' and setting.case in KINDS else {}
    found = flow(args, name, setting)
    found['figures'].update(figures)
    return found


def targets(rows):
    found = []
    plain = measure.figure_of(rows, 'sluice', 'cpu_us', 'plain')
    for kind in KINDS:
        cpu, s_time = (measure.figure_of(rows, 'sluice', key, kind) for key in ('cpu_us', S_TIME['key']))
        if None not in (plain, cpu, s_time):
            most = TIMES * s_time
            found.append(measure.target(f'CPU us of a {kind} handshake, and of what is encrypted',
                                        f'<= {most:.0f} ({TIMES} x {s_time:.0f})', cpu - plain, cpu - plain <= most))
    return found


def run(args):
    measure.check(args, without=('raw',))  # sluice-source speaks no TLS
    figures = [*measure.THROUGHPUT, S_TIME]
    runs = measure.rounds(args, settings(args), figures, run_one)
    return measure.result(args, (TITLE, __doc__), figures, runs, targets)
