"""What was done about receivers' replies, as events: in the log, for webhooks that ask for it, and from
`sluice events`; and a flood of it, which holds nothing up."""
import os
import resource
import time

from support import api, exposition
from support.address import free_port, fresh_address
from support.client import message, submit
from support.tools import Sink, Zone
from support.wait import settled, until
from support.web_receiver import WebReceiver

LISTED = '554 5.7.1 Service unavailable; Client host [{address}] blocked using zen.spamhaus.org'
SLOWER = '421 4.7.28 Too many messages, slow down'
RULES = """rule "unwanted" {
    code = 554
    text = 'does not want'
    class = blocked
    scope = destination
    example = "554 5.7.1 d1.test does not want it"
}
"""


def memory_of(daemon):
    """Bytes that are its own."""
    with open(f'/proc/{daemon.process.pid}/statm', encoding='ascii') as file:
        figures = file.read().split()
    return (int(figures[1]) - int(figures[2])) * resource.getpagesize()


def refusing(verb, argument, session):
    """Our first address is listed; the second one is too fast for somebody."""
    if verb == 'RCPT' and session.peer[0] == '127.0.0.11':
        return LISTED.format(address=session.peer[0])
    if verb == 'RCPT' and 'fast' in argument:
        return SLOWER
    return None


def test_reactions_are_events(place):
    receiver = place.receiver(answers=refusing)
    asked, others = place.keep(WebReceiver()), place.keep(WebReceiver())
    daemon = place.sluice(
        routes={'*': ('smtp', receiver.nexthop)},
        sources={'s1': {'address': '127.0.0.11'}, 's2': {'address': '127.0.0.12'}},
        pools={'all': {'sources': ['s1', 's2'], 'weights': [1, 1]}},
        transports={'smtp': {'source_pool': 'all'}},
        webhooks={f'http://127.0.0.1:{asked.port}/': {'types': ['Reaction'], 'batch_wait': '0'},
                  f'http://127.0.0.1:{others.port}/': {'batch_wait': '0'}})
    for n in range(4):
        submit(daemon, 'a@a.test', [f'{n}@x.test'], message())
    closed = daemon.wait_event('Reaction', reaction='closed')
    assert (closed['cause'], closed['source'], closed['site']) == ('blocked', 's1', receiver.nexthop)
    assert '127.0.0.11' in closed['text'] and closed['rule']
    assert closed['until'] > closed['event_time'] and 'id' not in closed
    submit(daemon, 'a@a.test', ['fast@x.test'], message())
    paced = daemon.wait_event('Reaction', reaction='paced')
    assert (paced['cause'], paced['source'], paced['unit']) == ('throttled', 's2', 'messages')
    assert paced['value'] > 0 and 'slow down' in paced['text']
    # Counted by provider and source, each refused reply by what it means.
    def check():
        shown = exposition.parse(api.get(daemon, '/metrics').body)

        def figure(name, **labels):
            return exposition.value(shown, f'sluice_{name}', provider='', **labels)
        assert figure('lanes', source='s1', state='closed') == 1 == figure('lanes', source='s2', state='paced')
        assert figure('lanes', source='s1', state='open') == 0 == figure('lanes', source='s2', state='closed')
        assert figure('lane_reactions_total', source='s1', reaction='closed') == 1
        assert figure('lane_reactions_total', source='s2', reaction='paced') == 1
        assert figure('lane_refusals_total', source='s1') == figure(
            'lane_refusals_total', source='s1', **{'class': 'blocked'}) >= 1
        assert figure('lane_refusals_total', source='s2', **{'class': 'throttled'}) >= 1
        assert figure('lane_connections_total', source='s2') >= 1
        assert exposition.value(shown, 'sluice_limits_lanes') == 2 == exposition.value(
            shown, 'sluice_limits_sites') + 1
    settled(check)
    # Who asked for it gets it, and nothing else; who did not gets what is about mail.
    until(lambda: all(one in asked.events() for one in (closed, paced)), 'both of them')
    assert {e['type'] for e in asked.events()} == {'Reaction'}
    until(lambda: others.accepted, 'the other events')
    assert 'Reaction' not in {e['type'] for r in others.accepted for e in r.events}
    # The interface and the command have them by their type, and among all.
    listed = api.ask(daemon, '/v1/events', after='start', type='Reaction')[1][:-1]
    assert closed in listed and {e['type'] for e in listed} == {'Reaction'}
    shown = daemon.command('events', '--type', 'Reaction').stdout.decode().splitlines()
    assert any(f'Reaction closed until {closed["until"]}, blocked: s1 at {receiver.nexthop}' in line
               for line in shown), shown
    assert any('/s, throttled: s2 at ' in line for line in shown), shown


def test_what_happens_before_a_stop_is_written(place):
    receiver = place.receiver(answers=lambda verb, *_: SLOWER if verb == 'MAIL' else None)
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)})
    submit(daemon, 'a@a.test', ['1@x.test'], message())
    daemon.wait_event('TransientFailure', '1@x.test')
    daemon.stop()
    assert daemon.of('Reaction', reaction='paced')


def test_a_flood_holds_nothing_up(place):
    """A receiver that closes one destination after the other, each an event, beside one that takes mail.
    SLUICE_REACTIONS=20000 is a flood; -s prints what it took."""
    count = int(os.environ.get('SLUICE_REACTIONS', 1500))
    folder, port = place.subfolder('flood'), free_port()
    bad, good = fresh_address(), fresh_address()
    behaviour, rules = os.path.join(folder, 'behaviour.conf'), os.path.join(folder, 'rules.conf')
    with open(behaviour, 'w', encoding='ascii') as file:
        file.write(f'destination "{bad}" {{ reject = {{"rcpt:1:554 5.7.1 {{domain}} does not want it"}} }}\n')
    with open(rules, 'w', encoding='ascii') as file:
        file.write(RULES)
    sink = place.keep(Sink(folder, '--listen', f'{bad}:{port}', '--behaviour', behaviour,
                           address=good, port=port))
    zone = place.keep(Zone(folder, ['d#.test MX 10 bad.test', f'bad.test A {bad}',
                                    'good.example MX 10 mx.good.example',
                                    f'mx.good.example A {good}']))
    daemon = place.sluice(options={'allow_loopback': True}, dns={'servers': [zone.name]},
                          replies={'files': [rules]},
                          transports={'smtp': {'smtp_tcp_port': port}})

    def deliver():
        begun, before = time.monotonic(), len(daemon.of('Delivery'))
        for n in range(100):
            submit(daemon, 'a@a.test', [f'{n}@good.example'], message())
        daemon.wait_events('Delivery', count=before + 100)
        return time.monotonic() - begun
    alone, small = deliver(), memory_of(daemon)
    begun = time.monotonic()
    for first in range(1, count + 1, 500):
        some = range(first, min(first + 500, count + 1))
        submit(daemon, 'a@a.test', [f'u@d{n}.test' for n in some], message())
    beside = deliver()

    def told():
        events = daemon.of('Reaction')
        return len(daemon.of('Reaction', reaction='destination-closed')) + sum(
            e['count'] for e in events if e['reaction'] == 'lost')
    until(lambda: told() >= count, lambda: f'{count} reactions: {told()}\n{daemon.log()}', 120)
    took, lost = time.monotonic() - begun, told() - len(daemon.of('Reaction', reaction='destination-closed'))
    grown = memory_of(daemon) - small
    print(f'{count} reactions in {took:.1f} s, {lost} counted as lost; 100 deliveries took {alone:.2f} s '
          f'before and {beside:.2f} s beside them; {grown / 1e6:.1f} MB more')
    assert told() == count
    assert len(daemon.of('Delivery', queue='good.example')) == 200
    assert not daemon.of('TransientFailure', queue='good.example')
    assert sink.end() == 0
