"""The load source and the receiver of bench/, with their ledgers."""
import itertools
import json
import os
import signal
import subprocess

from support.address import free_port, free_port_of_both
from support.daemon import BUILD
from support.wait import PATIENCE, until

PRELOAD = os.path.join(BUILD, 'tests', 'fault', 'fault_preload.so')


def ledger_lines(path):
    """Complete lines; the last one may be cut off."""
    if not os.path.exists(path):
        return []
    with open(path, 'rb') as file:
        data = file.read()
    return [json.loads(line) for line in data[:data.rfind(b'\n') + 1].splitlines()]


class Program:
    """ready: what it says when it serves, which is waited for; else nothing is."""

    def __init__(self, arguments, log, ready=None):
        self.log = log
        with open(log, 'wb') as file:
            self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=file,
                                            stderr=file)
        if ready is not None:
            try:
                until(lambda: ready in self.said() or self.process.poll() is not None, self.said)
            except AssertionError:
                self.close()
                raise

    def said(self):
        with open(self.log, encoding='utf-8', errors='replace') as file:
            return file.read()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def end(self, number=signal.SIGTERM, patience=PATIENCE):
        self.process.send_signal(number)
        return self.process.wait(patience)


class Sink(Program):
    def __init__(self, folder, *options, address='127.0.0.1', port=None):
        self.address, self.port = address, port or free_port(address)
        self.ledger = os.path.join(folder, 'sink.ledger')
        super().__init__([os.path.join(BUILD, 'bench', 'sluice-sink'), '--listen',
                          f'{address}:{self.port}', '--ledger', self.ledger, *options],
                         os.path.join(folder, 'sink.log'), 'listening')

    @property
    def nexthop(self):
        return f'[{self.address}]:{self.port}'

    def lines(self):
        return ledger_lines(self.ledger)


class Zone(Program):
    """A name server with these rules (bench/zone/zone_rule.h)."""

    def __init__(self, folder, rules, ttl=60):
        self.port = free_port_of_both()
        file = os.path.join(folder, 'zone')
        with open(file, 'w', encoding='ascii') as zone:
            zone.write('\n'.join(rules) + '\n')
        super().__init__([os.path.join(BUILD, 'bench', 'sluice-zone'), '--listen', self.name,
                          '--ttl', str(ttl), '--file', file], os.path.join(folder, 'zone.log'), 'answering')

    @property
    def name(self):
        return f'127.0.0.1:{self.port}'


class Source(Program):
    def __init__(self, folder, name, target, *options):
        self.name = name
        self.ledger = os.path.join(folder, f'{name}.ledger')
        super().__init__([os.path.join(BUILD, 'bench', 'sluice-source'), '--to', target,
                          '--ledger', self.ledger, '--id-prefix', name, '--domains',
                          f'{name}.test', '--sender', f'{name}@sender.test', *options],
                         os.path.join(folder, f'{name}.log'))

    def lines(self):
        return ledger_lines(self.ledger)

    def wait(self, patience):
        until(lambda: self.process.poll() is not None, f'the end of source {self.name}', patience)


class Account:
    """What was offered, accepted and delivered, by (message, recipient)."""

    def __init__(self, sources, *sinks):
        self.offered, self.acked, self.events = {}, {}, {}
        for source in sources:
            for line in source.lines():
                self.events[line['event']] = self.events.get(line['event'], 0) + 1
                if line['event'] == 'offered':
                    self.offered[line['id']] = line
                elif line['event'] in ('acked', 'accepted'):
                    self.acked[line['id']] = line
        self.copies = {}
        self.wrong = []
        for line in itertools.chain.from_iterable(sink.lines() for sink in sinks):
            offer = self.offered.get(line['id'])
            if offer is None or line['sha256'] != offer['sha256'] or \
                    line['sender'] != offer['sender']:
                self.wrong.append(line)
                continue
            for recipient in line['recipients']:
                self.copies.setdefault((line['id'], recipient), []).append(line['time'])

    def lost(self):
        return [(id, recipient) for id, fate in self.acked.items()
                for recipient in self.offered[id]['recipients']
                if recipient not in fate.get('refused', ()) and (id, recipient) not in self.copies]

    def unexpected(self):
        return self.wrong + [key for key in self.copies
                             if key[1] not in self.offered[key[0]]['recipients']]

    def recovered(self):
        """Delivered although no 250 was read: the daemon had it, its client did not hear so."""
        return len({id for id, _ in self.copies if id not in self.acked})

    def duplicates(self):
        """Times of all copies beyond the first, with the time of the copy before."""
        return [(before, after) for times in self.copies.values()
                for before, after in zip(sorted(times), sorted(times)[1:])]
