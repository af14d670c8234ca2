"""A small internet: a name server, hosts that all listen on one port, and a relay that asks the one
and calls the others."""
from support.address import free_port, fresh_address
from support.client import message, submit
from support.dns_server import DnsServer
from support.peer import Peer
from support.wait import until


class Net:
    def __init__(self, place):
        self.place = place
        self.dns = place.keep(DnsServer())
        self.port = free_port()
        self.daemon = None

    def start(self, transports=None, options=None, dns=None, **settings):
        """The relay. Its transports use the port of this net."""
        self.daemon = self.place.sluice(
            options={'allow_loopback': True, **(options or {})},
            dns={'servers': [self.dns.name], 'timeout': '3s', 'tries': 5, **(dns or {})},
            transports={name: {'smtp_tcp_port': self.port, **more}
                        for name, more in (transports or {'smtp': {}}).items()}, **settings)
        return self

    def address(self, name):
        """A fresh one, which `name` has from now on."""
        address = fresh_address()
        self.dns.zone[name] = [('A', address)]
        return address

    def host(self, name, **settings):
        return self.place.receiver(address=self.address(name), port=self.port, **settings)

    def peer(self, name, *scripts, **settings):
        return self.place.keep(Peer(*scripts, address=self.address(name), port=self.port,
                                    **settings))

    def absent(self, name):
        """A host where nobody listens."""
        self.address(name)

    def mx(self, domain, *names):
        """The best first."""
        self.dns.zone[domain] = [('MX', (10 * (i + 1), name)) for i, name in enumerate(names)]

    def send(self, domain):
        submit(self.daemon, 'a@sender.test', [f'user@{domain}'], message())

    def result(self, domain):
        recipient = f'user@{domain}'
        return until(lambda: self.daemon.results(recipient),
                     lambda: f'a result of {recipient}:\n{self.daemon.log()}')[0]

    def deliver(self, domain):
        self.send(domain)
        event = self.result(domain)
        assert event['type'] == 'Delivery', str(event)
        return event
