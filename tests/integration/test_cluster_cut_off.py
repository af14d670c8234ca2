"""A node is cut off from the servers as by a pulled cable, and still reaches its receivers: it ends its deliveries before others
begin to deliver its mail, and begins anew when the cable is back."""
import time

import pytest

from support.cables import Elsewhere
from support.client import message, submit
from support.nats import HASTE, NatsCluster, section
from support.wait import best_of, until
from test_log import refusal, wait_open

MESSAGES = 150 if HASTE > 5 else 400
SLOW = 1 if HASTE > 5 else 0  # seconds that the reaction of a busy machine may take beyond the span


@pytest.fixture
def elsewhere(place):
    return place.keep(Elsewhere(cables=2))


def cut_off(place, elsewhere):
    """Seconds from the cut until: no mail is accepted, a begins its last MAIL, b its first, all of it is there; and the copies
    that are too many, and that may be."""
    nats = place.keep(NatsCluster(place.subfolder('nats'), elsewhere=elsewhere))
    begun = {'a': [], 'b': []}

    def receiver_of(name):
        def answer(verb, argument, _):
            if verb == 'MAIL':
                begun[name].append(time.monotonic())
            elif verb == '.' and name == 'a':
                time.sleep(0.5)  # so that a has mail until its lease ends
        return place.receiver(answers=answer)

    receivers = {name: receiver_of(name) for name in begun}
    daemons = []
    for cable, (name, receiver) in enumerate(receivers.items()):
        servers = [f'nats://{elsewhere.address(cable)}:{server.port}' for server in nats.servers]
        daemons.append(place.sluice(cluster={**section(name, nats, log=True), 'servers': servers},
                                    routes={'*': ('smtp', receiver.nexthop)}, transports={'smtp': {'process_limit': 4}}))
    a, b = daemons
    wait_open(a)
    wait_open(b)
    assert a.command('suspend', '--all', '--reason', 'x', '--here').returncode == 0
    wanted = [f'r{i}@x.test' for i in range(MESSAGES)]
    for to in wanted:
        submit(a, 'a@a.test', [to], message())
    assert a.command('resume', '--all').returncode == 0
    until(lambda: len(begun['a']) > 4, a.log)

    elsewhere.pull(0)
    cut = time.monotonic()
    until(lambda: refusal(a) is not None, a.log)
    refused = time.monotonic() - cut
    got = lambda name: {to for one in receivers[name].messages for to in one.recipients}
    until(lambda: got('a') | got('b') >= set(wanted), lambda: f'{len(got("a"))} {len(got("b"))}\n{b.log()[-2000:]}', 90)
    last, first, all_there = max(begun['a']) - cut, begun['b'][0] - cut, time.monotonic() - cut
    assert refusal(a).startswith('451 ')

    elsewhere.plug(0)
    a.wait_log('has taken its mail over')
    until(lambda: a.log().count('log: it works') == 2, a.log)
    copies = [to for receiver in receivers.values() for one in receiver.messages for to in one.recipients]
    b.wait_log('is taken over: ')
    bound = int(b.log().split('is taken over: ')[1].split('at most ')[1].split()[0])
    assert len(copies) - len(wanted) <= bound
    a.wait_empty()
    for daemon in daemons:
        daemon.kill()
    nats.close()
    return refused, last, first, all_there, len(copies) - len(wanted), bound


def is_in_time(times):
    """a ends with its lease, which was at most 5 s old, and not before, and b begins when that is over."""
    _, last, first, *_ = times
    return 20 / HASTE < last <= 45 / HASTE + SLOW and 45 / HASTE < first


def test_cut_off(place, elsewhere, monkeypatch, report_table):
    """CLUSTER_HASTE=1: by the true clock; by a faster one a second of a busy machine is a third of all there is."""
    monkeypatch.setenv('SLUICE_CLUSTER_HASTE', str(HASTE))
    times = best_of(1 if HASTE == 1 else 4, lambda: cut_off(place, elsewhere), is_in_time)
    refused, last, first, all_there, repeated, allowed = times
    report_table('a node that is cut off', f'clock {HASTE} times as fast: no MAIL accepted after {refused:.1f} s; its own last MAIL '
                 f'after {last:.1f} s, the first by the other after {first:.1f} s, all of {MESSAGES} after {all_there:.1f} s; 0 lost, '
                 f'{repeated} repeated, at most {allowed} allowed')
    assert is_in_time(times), times
