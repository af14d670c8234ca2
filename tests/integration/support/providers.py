"""Receivers with several hosts and many domains, and one that only looks like them: a name server with
their MX sets, and one sink that is all of their hosts, each at an address of its own.

The lookalike is a domain that anybody may register below a name that a careless pattern matches. Its MX
is its own, and it answers 421 and "554 blocked" to everything, hoping that somebody believes it."""
import json
import os

from support.address import free_port, fresh_address
from support.tools import Sink, Zone

BLOCKED = '554 5.7.1 Service unavailable; Client host [{client}] blocked using bl.evil.test'
SLOW_DOWN = '421 4.7.28 Our system has detected an unusual rate of mail originating from {client}'

# provider: (its domains, with '*.' for all customers below a name; its hosts, the best first)
REAL = {
    'gmx': (['gmx.de', 'gmx.net', 'web.de'], ['mx00.emig.gmx.net', 'mx01.emig.gmx.net']),
    'google': (['gmail.com', '*.hosted.test'], ['gmail-smtp-in.l.google.com',
                                                'alt1.gmail-smtp-in.l.google.com']),
}
LOOKALIKE = {'evil': (['gmx.evil.test', 'gmail.com.evil.test'], ['mx.gmx.evil.test'])}


def mx_sets(domains, sets, hosts=1):
    """Rules of d1.test to dN.test, whose mail goes to so many MX sets in turn, each of so many hosts:
    (rules, {host: set}). What addresses the hosts have is left to others."""
    assert 1 <= sets <= domains
    rules = [f'd#.test MX {10 * n} mx{n}.s#%{sets}+1.test' for n in range(1, hosts + 1)]
    names = {f'mx{n}.s{number}.test': number for number in range(1, sets + 1)
             for n in range(1, hosts + 1)}
    return rules, names


class Providers:
    """behaviours: {provider: keys of a section of the sink's behaviour file}; without one a real
    provider accepts everything"""

    def __init__(self, place, behaviours=None, real=None, lookalike=None, sink=()):
        self.real, self.lookalike = real or REAL, LOOKALIKE if lookalike is None else lookalike
        self.providers = {**self.real, **self.lookalike}
        self.port = free_port()
        hosts = [host for _, names in self.providers.values() for host in names]
        self.addresses = {host: fresh_address() for host in hosts}
        self.hosts = {address: host for host, address in self.addresses.items()}
        evil = f'reject = {{"mail:0.5:{SLOW_DOWN}", "mail:1:{BLOCKED}"}}'
        self.behaviours = {**{name: evil for name in self.lookalike}, **(behaviours or {})}
        self.folder = place.subfolder('providers')
        self.sink = place.keep(self.open_sink(sink))
        self.zone = place.keep(Zone(self.folder, self.rules()))

    def rules(self):
        found = [f'{domain} MX {10 * rank} {host}' for domains, hosts in self.providers.values()
                 for domain in domains for rank, host in enumerate(hosts, 1)]
        return found + [f'{host} A {address}' for host, address in self.addresses.items()]

    def open_sink(self, options):
        path = os.path.join(self.folder, 'behaviour.conf')
        with open(path, 'w', encoding='ascii') as file:
            for name, (_, hosts) in self.providers.items():
                for host in hosts:
                    keys = self.behaviours.get(name, '')
                    file.write(f'destination "{self.addresses[host]}" {{ {keys} }}\n')
        first, *others = self.addresses.values()
        listen = [word for address in others for word in ('--listen', f'{address}:{self.port}')]
        return Sink(self.folder, *listen, '--behaviour', path, '--json', self.live(), *options,
                    address=first, port=self.port)

    def settings(self):
        """Of place.sluice, so that it asks this name server and calls these hosts."""
        return {'options': {'allow_loopback': True}, 'dns': {'servers': [self.zone.name]},
                'transports': {'smtp': {'smtp_tcp_port': self.port}}}

    def live(self):
        return os.path.join(self.folder, 'numbers.json')

    def clients(self):
        """{(host, client): what it got}; a second old at most."""
        with open(self.live(), encoding='utf-8') as file:
            return {(self.hosts[one['destination']], one['client']): one
                    for one in json.load(file)['clients']}

    def delivered(self):
        """{recipient: the hosts that got it}"""
        found = {}
        for line in self.sink.lines():
            host = self.hosts[line['listener'].rpartition(':')[0]]
            for recipient in line['recipients']:
                found.setdefault(recipient, []).append(host)
        return found
