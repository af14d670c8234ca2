"""A Postfix of its own that delivers in an order that can be watched: each transport has one agent,
and its queue manager and its agents start when the test says so. Needs root, as Postfix does."""
import os
import re
import signal

from private_postfix import PROGRAMS, RELAY, PrivatePostfix

from support.address import free_port
from support.wait import until

SERVICES = '''\
127.0.0.1:{port} inet n - n - 1 smtpd
qmgr unix n - n 300 1 held-{manager}
scache unix - - n - 1 scache
'''

# Started with -n and the name of the service.
HELD = '''\
#!/bin/sh
case " $*" in *" -n "*) name=${{*##*-n }}; name=${{name%% *}} ;; esac
until [ -e {folder}/go-${{name:-{program}}} ]; do sleep 0.01; done
{settings} exec {programs}/{program} "$@"
'''


def is_usable():
    return os.geteuid() == 0 and os.access(f'{PROGRAMS}/master', os.X_OK)


class Postfix(PrivatePostfix):
    """transports: {name: parameters}; routes: {domain: "transport:nexthop"}; manager: qmgr, oqmgr;
    preload: a library for it"""

    def __init__(self, folder, transports, routes, manager='qmgr', preload=None):
        self.transports = transports
        self.port = free_port()
        self.seen, self.log_read = [], 0  # of active(), and up to which byte of the log
        # Postfix's own user works in there.
        os.chmod(os.path.dirname(folder), 0o711)
        os.chmod(folder, 0o711)
        super().__init__(
            folder,
            {**RELAY, 'daemon_directory': f'{folder}/programs', 'smtpd_recipient_limit': '100000',
             'transport_maps': f'texthash:{folder}/transport', 'max_use': '1000000',
             'max_idle': '600', **{f'{name}_{key}': value for name, parameters in transports.items()
                                   for key, value in parameters.items()}},
            SERVICES.format(port=self.port, manager=manager) +
            ''.join(f'{name} unix - - n - 1 held-smtp\n' for name in transports))
        programs = self.folder / 'programs'
        programs.mkdir()
        for name in os.listdir(PROGRAMS):
            (programs / name).symlink_to(f'{PROGRAMS}/{name}')
        for program in (manager, 'smtp'):
            held = programs / f'held-{program}'
            settings = f'LD_PRELOAD={preload}' if preload and program == manager else ''
            held.write_text(HELD.format(settings=settings, folder=folder, programs=PROGRAMS, program=program))
            held.chmod(0o755)
        (self.folder / 'transport').write_text(
            ''.join(f'{domain} {route}\n' for domain, route in routes.items()))

    def start(self):
        self.command('postfix', 'start')
        until(lambda: 'daemon started' in self.log(), lambda: f'a start: {self.log()}')
        return self

    def close(self):
        """Ends master, which ends the others."""
        master = self.master()
        if master is None:
            return
        for name in ('qmgr', *self.transports):
            self.release(name)
        try:
            os.kill(master, signal.SIGTERM)
            until(lambda: not os.path.exists(f'/proc/{master}'), 'the end of Postfix')
        except ProcessLookupError:
            pass
        (self.folder / 'queue/pid/master.pid').unlink()

    def release(self, name):
        """The queue manager ("qmgr") or the agent of a transport."""
        (self.folder / f'go-{name}').touch()

    def active(self):
        """[(queue id, second of the log)] in the order in which messages entered the scheduler"""
        with open(self.folder / 'mail.log', encoding='utf-8') as log:
            log.seek(self.log_read)
            new = log.read()
        # Only what is new, in whole lines: this is asked while a second must not pass.
        new = new[:new.rfind('\n') + 1]
        self.log_read += len(new.encode())
        self.seen += [(found.group(2), found.group(1)) for found in re.finditer(
            r'^(\w+ +\d+ [\d:]+) \S+ postfix/o?qmgr\[\d+\]: (\w+): from=.*\(queue active\)$',
            new, re.M)]
        return self.seen
