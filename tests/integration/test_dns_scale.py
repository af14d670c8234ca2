"""Thousands of domains are looked up side by side, and those whose name servers are slow, broken or
gone hold back nobody: what can be delivered is delivered while the dead names are still waited
for. Nothing here depends on how long anything takes but that."""
import pytest

from support.address import free_port, fresh_address
from support.client import message, submit
from support.daemon import status_of
from support.tools import Sink, Zone
from support.wait import until

HOPS = 10  # aliases that are followed (dns/dns_wire.h)

# kind: (domains, rules)
KINDS = {
    'ok': (1500, ['ok#.test MX 10 mx.ok#.test', 'mx.ok#.test A {sink}']),
    'slow': (300, ['slow#.test MX 10 mx.slow#.test', 'slow#.test DELAY 1000',
                   'mx.slow#.test A {sink}', 'mx.slow#.test DELAY 1000']),
    'large': (300, ['large#.test TC', 'large#.test MX 10 mx.large#.test', 'mx.large#.test TC',
                    'mx.large#.test A {sink}']),
    'alias': (150, ['alias#.test MX 10 a1.alias#.test',
                    *(f'a{n}.alias#.test CNAME a{n + 1}.alias#.test' for n in range(1, HOPS + 1)),
                    f'a{HOPS + 1}.alias#.test A {{sink}}']),
    'dead': (300, ['dead#.test DROP']),
    'mute': (150, ['mute#.test MX 10 mx.mute#.test', 'mx.mute#.test DROP']),
    'broken': (300, ['broken#.test SERVFAIL']),
}
GOOD, SILENT = ('ok', 'slow', 'large', 'alias'), ('dead', 'mute')
RECIPIENTS = 1000  # of one message


class Stage:
    def __init__(self, place, kinds, dns):
        address, port = fresh_address(), free_port()
        self.sink = place.keep(Sink(place.subfolder('sink'), address=address, port=port))
        rules = [rule.format(sink=address) for kind in kinds for rule in KINDS[kind][1]]
        self.zone = place.keep(Zone(place.subfolder('zone'), rules))
        self.daemon = place.sluice(
            options={'allow_loopback': True, 'minimal_backoff_time': '300s',
                     'maximal_backoff_time': '300s', 'smtp_tcp_port': port},
            dns={'servers': [self.zone.name], **dns}, listener={'smtpd_recipient_limit': 0})

    def send(self, domains):
        for at in range(0, len(domains), RECIPIENTS):
            submit(self.daemon, 'a@back.test', [f'u@{d}' for d in domains[at:at + RECIPIENTS]],
                   message())

    def wait(self, domains):
        until(lambda: all(self.daemon.results(f'u@{d}') for d in domains), 'results', 90)

    def result(self, domain):
        [event] = self.daemon.results(f'u@{domain}')
        return event


def domains_of(kind, count):
    return [f'{kind}{n}.test' for n in range(1, count + 1)]


def mixed(kinds):
    """All domains, the kinds evenly among each other."""
    places = [((n + 0.5) / count, domain) for kind, count in kinds.items()
              for n, domain in enumerate(domains_of(kind, count))]
    return [domain for _, domain in sorted(places)]


def assert_silent_ones_came_last(stage):
    """Every delivery was over before the first name was given up."""
    ends = [(e['type'], e['recipient']) for e in stage.daemon.events()
            if e['type'] not in ('Reception', 'Reaction')]
    silent = [n for n, (_, to) in enumerate(ends) if to.startswith(tuple(f'u@{k}' for k in SILENT))]
    last = max(n for n, (kind, _) in enumerate(ends) if kind == 'Delivery')
    assert last < silent[0], (last, silent[:5])


@pytest.fixture(scope='module')
def stage(module_place):
    made = Stage(module_place, KINDS, {'timeout': '20s', 'tries': 1})
    domains = mixed({kind: count for kind, (count, _) in KINDS.items()})
    assert len(domains) == 3000
    made.send(domains)
    made.wait(domains)
    return made


@pytest.mark.parametrize('kind', KINDS)
def test_kind(stage, kind):
    for domain in domains_of(kind, KINDS[kind][0]):
        event = stage.result(domain)
        if kind in GOOD:
            assert event['type'] == 'Delivery' and event['num_attempts'] == 1, event
        else:
            assert event['type'] == 'TransientFailure' and status_of(event) == '4.4.3', event


def test_nobody_was_held_back(stage):
    assert_silent_ones_came_last(stage)


def test_more_dead_names_than_questions_at_a_time(place):
    """A flood of mail to names that never answer, then some for others."""
    stage = Stage(place, ('dead', 'ok'), {'timeout': '25s', 'tries': 1})
    dead, good = domains_of('dead', 5000), domains_of('ok', 200)
    stage.send(dead)
    stage.send(good)
    for domain in good:
        stage.daemon.wait_event('Delivery', f'u@{domain}')
    assert not stage.daemon.of('TransientFailure')
