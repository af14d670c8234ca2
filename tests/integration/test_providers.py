"""Domains that share hosts, beside one that only looks like them."""
import json
import os
import time

import pytest

from support.address import free_port, fresh_address
from support.client import message, submit
from support.providers import REAL, Providers, mx_sets
from support.tools import Sink, Zone
from support.wait import until

GOOD = {'gmx.de': 'gmx', 'web.de': 'gmx', 'gmail.com': 'google', 'shop.hosted.test': 'google',
        'a.b.hosted.test': 'google'}
BAD = ['gmx.evil.test', 'gmail.com.evil.test']


def test_a_lookalike_gets_no_mail_of_others(place):
    """A domain's mail goes to hosts that its own MX names, and to no other, whatever another domain
    whose name looks alike answers."""
    world = Providers(place)
    daemon = place.sluice(**world.settings())
    recipients = [f'u{n}@{domain}' for n in range(5) for domain in [*BAD, *GOOD]]
    for recipient in recipients:
        submit(daemon, 'a@sender.test', [recipient], message())
    good = [one for one in recipients if one.split('@')[1] in GOOD]
    until(lambda: len(world.delivered()) == len(good),
          lambda: f'{len(good)} deliveries: {world.delivered()}\n{daemon.log()}')
    for recipient, hosts in world.delivered().items():
        assert len(hosts) == 1 and hosts[0] in REAL[GOOD[recipient.split('@')[1]]][1]

    def got(host, what):
        return world.clients().get((host, '127.0.0.1'), {}).get(what, 0)
    until(lambda: got('mx.gmx.evil.test', 'refused') > 0 and
          sum(got(host, 'messages') for host in world.addresses) == len(good),
          lambda: f'a refusal and all deliveries: {world.clients()}')
    assert got('mx.gmx.evil.test', 'messages') == 0


@pytest.mark.parametrize('depth', [1, 16])
def test_a_provider_joins_windows_and_never_hosts(place, depth):
    """Two domains of one provider have different hosts. Connections to both are open, with room for
    more, and yet neither is offered mail of the other."""
    real = {'one': (['one.test'], ['mx1.big.test']), 'two': (['two.test'], ['mx2.big.test'])}
    open_to_all = 'extensions = {pipelining, chunking, 8bitmime} round_trip = 5-10'
    world = Providers(place, {name: open_to_all for name in real}, real=real, lookalike={})
    settings = world.settings()
    settings['transports']['smtp'].update(destination_concurrency_limit=4, pipeline_depth=depth)
    daemon = place.sluice(providers={'big': {'mx': ['*.big.test']}}, **settings)
    recipients = [f'u{n}@{domain}' for n in range(40) for domain in ('one.test', 'two.test')]
    for recipient in recipients:
        submit(daemon, 'a@sender.test', [recipient], message())
    until(lambda: len(world.delivered()) == len(recipients),
          lambda: f'{len(recipients)} deliveries: {world.delivered()}\n{daemon.log()}')
    own = {'one.test': 'mx1.big.test', 'two.test': 'mx2.big.test'}
    for recipient, hosts in world.delivered().items():
        assert hosts == [own[recipient.split('@')[1]]], recipient
    assert not daemon.of('TransientFailure')


def test_a_provider_by_domains_trusts_no_other_hosts(place):
    """The section says `domains` only, and carelessly so: the lookalike has what it teaches to itself,
    and mail for the real hosts does not notice."""
    world = Providers(place)
    settings = world.settings()
    settings['transports']['smtp'].update(destination_concurrency_failed_cohort_limit=1)
    daemon = place.sluice(providers={'gmx': {'domains': ['gmx.de', 'web.de', '*.evil.test']}},
                          **settings)
    for n in range(20):
        submit(daemon, 'a@sender.test', [f'u{n}@gmx.evil.test'], message())
    until(lambda: all(daemon.results(f'u{n}@gmx.evil.test') for n in range(20)),
          'what the lookalike refuses')
    good = [f'u{n}@{domain}' for n in range(20) for domain in ('gmx.de', 'web.de')]
    for recipient in good:
        submit(daemon, 'a@sender.test', [recipient], message())
    until(lambda: len(world.delivered()) == len(good),
          lambda: f'{len(good)} deliveries: {world.delivered()}\n{daemon.log()}')
    failed = {event['recipient'] for event in daemon.of('TransientFailure')}
    assert not failed & set(good)


def test_many_domains_at_few_mx_sets(place):
    """Each set of hosts has one window, however many domains it is for: a host that takes no more
    connections than that refuses none. SLUICE_SITE_DOMAINS=10000 is the whole of it."""
    domains = int(os.environ.get('SLUICE_SITE_DOMAINS', 400))
    sets, window, rounds = max(4, domains // 500), 20, 2
    rules, hosts = mx_sets(domains, sets, hosts=2)
    port, folder = free_port(), place.subfolder('sets')
    addresses = {host: fresh_address() for host in hosts}
    behaviour = os.path.join(folder, 'behaviour.conf')
    with open(behaviour, 'w', encoding='ascii') as file:
        file.write(f'default {{ connections = {window} delay_dot = 5-15 }}\n')
    first, *others = addresses.values()
    sink = place.keep(Sink(folder, *(word for one in others
                                     for word in ('--listen', f'{one}:{port}')),
                           '--behaviour', behaviour, '--json', os.path.join(folder, 'live.json'),
                           address=first, port=port))
    zone = place.keep(Zone(folder, rules + [f'{host} A {address}'
                                            for host, address in addresses.items()]))
    daemon = place.sluice(options={'allow_loopback': True}, dns={'servers': [zone.name]},
                          transports={'smtp': {'smtp_tcp_port': port, 'process_limit': 2000,
                                               'destination_concurrency_limit': window}})
    begun = time.monotonic()
    for _ in range(rounds):
        for begin in range(1, domains + 1, 1000):
            some = range(begin, min(begin + 1000, domains + 1))
            submit(daemon, 'a@sender.test', [f'u@d{n}.test' for n in some], message())
    until(lambda: sum(len(line['recipients']) for line in sink.lines()) == rounds * domains,
          lambda: f'all deliveries:\n{daemon.log()}', 120)
    seconds = time.monotonic() - begun
    names = {address: host for host, address in addresses.items()}
    for line in sink.lines():
        host = names[line['listener'].rpartition(':')[0]]
        assert host.startswith('mx1.')  # the best is there
        for recipient in line['recipients']:
            assert hosts[host] == int(recipient[3:].split('.')[0]) % sets + 1
    assert not daemon.of('TransientFailure'), daemon.of('TransientFailure')[0]
    assert sink.end() == 0
    with open(os.path.join(folder, 'live.json'), encoding='utf-8') as file:
        opened = sum(one['connections'] for one in json.load(file)['clients'])
    print(f'{domains} domains at {sets} MX sets: {rounds * domains} messages, {opened} connections, '
          f'{seconds:.1f} s')
    assert opened <= sets * window
