"""The systems under test by the names that --relays takes, each set up alike: the same routes,
windows and limits.

sluice             the build of --build
sluice+configured  the same with limits and rules in force (--configured; needs root)
sluice+rsa, sluice+ed25519  the same with a key that signs all mail (--signed)
sluice@FOLDER      another build, so that one is compared with another
postfix            Debian's, with its defaults where they do not throttle
postfix-urgent     the same with a transport of its own for domains that are urgent
postfix-nocache    the same without connection cache: its fastest where connecting costs nothing
postfix+opendkim   the same with OpenDKIM as a milter that signs all mail (--signed)
HOST:PORT          a relay that runs already and routes as the note says that is printed; neither
                   its CPU time nor its memory is known
raw                no relay: sluice-source straight into the receiver, the ceiling for all others
"""
import contextlib
import os
import pathlib
import re
import socket

import calls
import configured
import signed
from load import free_port
from relay import Failure, Postfix, Sluice, postfix_version, running, wait_for_port

RAW = 'raw'
POSTFIX = {'postfix': {}, 'postfix-urgent': {},
           'postfix-nocache': {'smtp_connection_cache_on_demand': 'no'},
           signed.POSTFIX: {}}
OUTSIDE = re.compile(r'[^@/]+:\d+')


def is_sluice(name):
    return name.split('@')[0] in ('sluice', 'sluice' + configured.SUFFIX, *('sluice' + suffix for suffix in signed.KEYS))


def is_outside(name):
    return OUTSIDE.fullmatch(name) is not None


def build_of(args, name):
    return pathlib.Path(name.split('@', 1)[1]) if '@' in name else args.build


def check(args, names):
    """Raises Failure that says what would be right."""
    for name in names:
        if is_sluice(name):
            if not (build_of(args, name) / 'engine/sluice').exists():
                raise Failure(f'{name}: no build there; sluice@FOLDER wants one, such as '
                              'build/release')
        elif name in POSTFIX:
            if os.geteuid() != 0 or not postfix_version():
                raise Failure('Postfix must be installed and this run as root; or leave it out: '
                              '--relays raw,sluice')
            if name == signed.POSTFIX and not os.path.exists(signed.OPENDKIM):
                raise Failure(f'{name}: the package opendkim must be installed; or leave postfix out: --relays sluice')
        elif is_outside(name):
            if getattr(args, 'sink_port', None) is None:
                raise Failure(f'{name} must know the port of the receiver: --sink-port')
        elif name != RAW:
            raise Failure(f'{name}: not one of sluice, sluice@FOLDER, {", ".join(POSTFIX)}, '
                          'HOST:PORT, raw')


class Subject:
    """What is measured. to: "ADDR:PORT" where messages are offered; account: of its processes, None
    where there are none or, with is_seen false, none that can be looked at; pid, command(...): of
    sluice; options: of the source; calls(): calls.read of it, None: they are not counted"""

    def __init__(self, to, account=None, pid=None, command=None, options=(), is_seen=True, calls=None):
        self.to, self.account, self.pid, self.command = to, account, pid, command
        self.options, self.is_seen, self.calls = options, is_seen, calls


def make_sluice(args, name, setting, ends, port):
    transport = {'destination_concurrency_limit': setting.window,
                 'initial_destination_concurrency': setting.window,
                 'destination_recipient_limit': setting.batch,
                 'process_limit': setting.process_limit, **setting.transport}
    if ends.zone is None:
        return lambda folder: Sluice(build_of(args, name), folder, port, ends.routes, transport,
                                     setting.options, setting.sections + signed.section(name, folder), setting.listener)
    transport['smtp_tcp_port'] = ends.sink.port
    sections = f'dns {{ servers = {{"{ends.zone.address}:53"}} }}\n'
    if configured.is_wanted(name):
        more, options = configured.sections(args, setting, args.folder)
        sections += more
        transport.update(options)
    return lambda folder: Sluice(build_of(args, name), folder, port, [('*', None)], transport,
                                 setting.options, sections)


def make_postfix(name, setting, ends, port):
    settings = {'default_destination_concurrency_limit': setting.window,
                'initial_destination_concurrency': setting.window,
                'smtp_destination_recipient_limit': setting.batch,
                'default_process_limit': setting.process_limit,
                'qmgr_message_active_limit': setting.postfix_messages,
                'qmgr_message_recipient_limit': setting.postfix_recipients,
                'default_recipient_limit': setting.postfix_recipients,
                **POSTFIX[name], **setting.postfix}
    if name == signed.POSTFIX:
        return lambda folder: signed.SigningPostfix(folder, port, ends.routes, settings)
    if ends.zone is None:
        urgent = setting.urgent if name == 'postfix-urgent' else ()
        return lambda folder: Postfix(folder, port, ends.routes, settings, urgent=urgent)
    settings.update(smtp_dns_support_level='enabled', smtp_host_lookup='dns',
                    smtp_tcp_port=ends.sink.port)
    return lambda folder: Postfix(folder, port, [], settings, ends.zone.address)


def outside(name, setting, routes):
    if not routes:
        raise Failure(f'{name} would have to ask a name server that it does not know; leave it out')
    host, port = name.rsplit(':', 1)
    try:
        address = socket.gethostbyname(host)
    except OSError as error:
        raise Failure(f'{name}: {error}') from error
    first, last = routes[0], routes[-1]
    print(f'{name} must pass {first[0]} ... {last[0]} to {first[1]} ... {last[1]}, without MX, '
          f'over at most {setting.window} connections to each', flush=True)
    wait_for_port(int(port), host=address, seconds=5)
    return Subject(f'{address}:{port}', is_seen=False)


def counted(args, make):
    """The same with its calls into the kernel counted."""
    def make_counted(folder):
        relay = make(folder)
        relay.environment = calls.environment(args.build, folder)
        return relay
    return make_counted


def reader_of(relay):
    return lambda: calls.read(relay.folder, relay.process.pid)


@contextlib.contextmanager
def started(args, name, setting, ends):
    """ends: flow.Receivers. Yields a Subject that runs."""
    if name == RAW:
        yield Subject(f'{ends.sink.address}:{ends.sink.port}', options=['--pipelining'])
    elif is_outside(name):
        yield outside(name, setting, ends.routes)
    else:
        port = free_port()
        make = make_sluice(args, name, setting, ends, port) if is_sluice(name) else \
            make_postfix(name, setting, ends, port)
        is_counted = is_sluice(name) and args.calls
        with running(counted(args, make) if is_counted else make, args.dir) as (relay, account):
            to = f'127.0.0.1:{port}'
            yield Subject(to, account, relay.process.pid, relay.command, calls=reader_of(relay) if is_counted else None) \
                if is_sluice(name) else Subject(to, account)
