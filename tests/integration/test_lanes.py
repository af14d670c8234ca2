"""What receivers allow of our addresses: asked to slow down nobody is refused and nothing is charged,
configured rates hold, a listing closes one address and no other, and all of it outlives a restart."""
import collections
import itertools
import threading
import time

import pytest

from support.client import Client, message, submit
from support.reloading import reload
from support.tools import Zone
from support.wait import PATIENCE, Pulse, is_ever_below, until
from test_clock import Clock

LISTED = '554 5.7.1 Service unavailable; Client host [{address}] blocked using zen.spamhaus.org'
CONTENT = '554 5.7.1 Blacklisted URL in message. (x.example) in black. See http://lookup.uribl.com.'
SLOWER = '421 4.7.28 Too many messages, slow down'


def send(daemon, count, domain='x.test', first=0):
    with Client(daemon) as client:
        client.ehlo('client.test')
        for n in range(first, first + count):
            client.mail('a@a.test', [f'{n}@{domain}'])
            client.data(message())


def delivered(daemon):
    return [e for e in daemon.of('Delivery')]


class Bucket:
    """So many MAILs a second, with a burst of `burst`; refused beyond."""

    def __init__(self, rate, burst):
        self.rate, self.burst, self.left, self.at = rate, burst, burst, time.monotonic()
        self.refused = 0

    def __call__(self, verb, argument, session):
        if verb != 'MAIL':
            return None
        now = time.monotonic()
        self.left = min(self.burst, self.left + (now - self.at) * self.rate)
        self.at = now
        if self.left >= 1:
            self.left -= 1
            return None
        self.refused += 1
        return SLOWER


def test_slow_down_is_nobodys_attempt(place):
    """Everything arrives as fast as the receiver lets it, in the first attempt of each message."""
    bucket = Bucket(20, 5)
    receiver = place.receiver(answers=bucket)
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          options={'minimal_backoff_time': '300s', 'maximal_backoff_time': '400s'})
    send(daemon, 1)
    daemon.wait_event('Delivery', '0@x.test')
    begun = time.monotonic()
    send(daemon, 100, first=1)
    until(lambda: len(delivered(daemon)) == 101, 'all')
    took = time.monotonic() - begun
    assert {e['num_attempts'] for e in delivered(daemon)} == {1}
    assert not daemon.of('TransientFailure') and not daemon.of('Bounce')
    # The receiver's own limit makes 5 s of it; the bounds of the design are 5 % and 20 s beyond.
    assert took < 5 * 1.05 + 20
    assert 0 < bucket.refused < 40


def test_one_domain_of_a_receiver_is_throttled(place):
    """Two domains at the same hosts: the one that its receiver throttles waits, the other one does not."""
    bucket = Bucket(0.25, 1)

    def answer(verb, argument, session):
        return bucket('MAIL', argument, session) if verb == 'RCPT' and 'slow.test' in argument else None
    receiver = place.receiver(answers=answer)
    zone = place.keep(Zone(place.folder, [
        'slow.test MX 10 mx.test', 'fast.test MX 10 mx.test', f'mx.test A {receiver.address}']))
    daemon = place.sluice(options={'allow_loopback': True}, dns={'servers': [zone.name]},
                          transports={'smtp': {'smtp_tcp_port': receiver.port}})
    send(daemon, 40, domain='slow.test')
    until(lambda: bucket.refused > 0, 'a refusal')
    send(daemon, 40, domain='fast.test')
    until(lambda: sum('fast.test' in e['recipient'] for e in delivered(daemon)) == 40, 'the other')
    assert len(delivered(daemon)) < 75  # the slow one takes minutes
    assert not daemon.of('TransientFailure') and not daemon.of('Bounce')


@pytest.mark.steady
def test_a_thousand_refused_at_mail(place):
    """As fast as the receiver lets them, in one attempt each, though a single failed cohort would make a
    destination dead."""
    bucket = Bucket(100, 10)
    receiver = place.receiver(answers=bucket)
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          transports={'smtp': {'destination_concurrency_failed_cohort_limit': 1}},
                          options={'minimal_backoff_time': '300s', 'maximal_backoff_time': '400s'})
    send(daemon, 1000)
    sent = time.monotonic()
    until(lambda: len(delivered(daemon)) == 1000, 'all')
    # The receiver's own limit makes 10 s of it at most; the bounds of the design are 5 % and 20 s beyond.
    assert time.monotonic() - sent < 10 * 1.05 + 20
    assert {e['num_attempts'] for e in delivered(daemon)} == {1}
    assert not daemon.of('TransientFailure') and bucket.refused > 0
    assert 'dead' not in [row['state'] for row in daemon.query('destinations')]


def test_what_left_memory_comes_back_when_the_receiver_takes_more(place):
    """A backlog leaves memory while its receiver takes 4 a second. Turns that were reckoned with that are
    minutes away, the next scan for deferred mail too: nobody waits for either when it takes all."""
    bucket = Bucket(4, 1)
    receiver = place.receiver(answers=bucket)
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          options={'message_recipient_limit': 400, 'message_active_limit': 400,
                                   'queue_run_delay': '300s'})
    send(daemon, 1)
    daemon.wait_event('Delivery', '0@x.test')
    send(daemon, 500, first=1)
    until(lambda: daemon.totals()['deferred'] > 50, 'mail to leave memory')
    bucket.rate = bucket.burst = 1e6
    until(lambda: len(delivered(daemon)) == 501, 'all')
    assert {e['num_attempts'] for e in delivered(daemon)} == {1}
    assert not daemon.of('TransientFailure') and not daemon.of('Bounce')


def test_turns_behind_the_longest_delay_come_back_too(place):
    """No message waits longer than maximal_backoff_time: those whose turn is behind that are called back
    like the others when their rate is gone."""
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          transports={'smtp': {'max_message_rate': '60/min'}},
                          options={'message_recipient_limit': 40, 'message_active_limit': 60,
                                   'minimal_backoff_time': '100s', 'maximal_backoff_time': '100s',
                                   'queue_run_delay': '300s'})
    send(daemon, 150)
    until(lambda: daemon.totals()['deferred'] > 100, 'mail to leave memory')
    del daemon.transports['smtp']['max_message_rate']
    reload(daemon)
    receiver.wait(150)
    assert not daemon.of('TransientFailure') and not daemon.of('Bounce')


def test_a_recall_waits_for_what_is_under_way(place):
    """A message waits for its turn at one receiver when another one has answered for it. Called back
    before that, it comes back at once then."""
    def answer(verb, argument, session):
        if verb == 'RCPT':
            gate.wait(PATIENCE)
    gate = threading.Event()
    fast, slow = place.receiver(), place.receiver(answers=answer)
    daemon = place.sluice(transports={'smtp': {'max_message_rate': '60/min'}, 'other': {}},
                          routes={'*': ('smtp', fast.nexthop), 'slow.test': ('other', slow.nexthop)},
                          options={'message_recipient_limit': 40, 'message_active_limit': 60,
                                   'minimal_backoff_time': '600s', 'maximal_backoff_time': '1h',
                                   'queue_run_delay': '300s'})
    send(daemon, 50)
    for n in range(5):
        recipients = [f'both{n}@x.test', f'both{n}@slow.test']
        assert submit(daemon, 'a@sender.test', recipients, message()).code == 250
    send(daemon, 20, first=50)
    until(lambda: daemon.totals()['deferred'] > 20, 'mail to leave memory')
    del daemon.transports['smtp']['max_message_rate']
    reload(daemon)
    fast.wait(70)
    gate.set()
    fast.wait(75)
    assert not daemon.of('TransientFailure') and not daemon.of('Bounce')


def test_turns_of_an_earlier_run_do_not_count(place):
    """What left memory waits for a turn that was reckoned with a rate of then. Started again with another
    one, stopped or killed, all of it goes at once."""
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          transports={'smtp': {'max_message_rate': '60/min'}},
                          options={'message_recipient_limit': 40, 'message_active_limit': 60,
                                   'maximal_backoff_time': '1h', 'queue_run_delay': '300s'})
    for first, end in ((0, daemon.kill), (200, daemon.stop)):
        send(daemon, 200, first=first)
        until(lambda: daemon.totals()['deferred'] > 100, 'mail to leave memory')
        end()
        del daemon.transports['smtp']['max_message_rate']
        daemon.write_config()
        daemon.start()
        receiver.wait(first + 200)
        daemon.transports['smtp']['max_message_rate'] = '60/min'
        reload(daemon)
    assert not daemon.of('TransientFailure') and not daemon.of('Bounce')


def test_rate_of_a_transport(place):
    """Spread evenly, by due times: a tenth of a second's worth at once."""
    times, pulse = [], place.keep(Pulse())

    def note(verb, argument, session):
        if verb == 'MAIL':
            times.append(time.monotonic())
    receiver = place.receiver(answers=note)
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)},
                          transports={'smtp': {'max_message_rate': '20/s'}})
    begun = time.monotonic()
    send(daemon, 60)
    until(lambda: len(delivered(daemon)) == 60, 'all')
    assert max(times) - begun > 57 / 20 - 0.2
    busiest, begin = max((sum(1 for t in times if begin <= t < begin + 1), begin) for begin in times)
    assert busiest <= 20 + 2 + 2 + 20 * pulse.most(begin, begin + 1)  # rate, burst, and what the clock and the machine blur


def listing(listed, counts, reply=LISTED):
    """Refuses recipients that come from one address."""
    def answer(verb, argument, session):
        client = session.peer[0]
        if verb == 'RCPT':
            counts[client] += 1
            if client == listed['address']:
                return reply.format(address=client)
        return None
    return answer


@pytest.mark.parametrize('scope', ['listing', 'content'])
def test_one_of_three_addresses_is_listed(place, scope):
    """The other two carry its mail, in the same attempt: nobody bounces, nobody waits. A text about a
    URL says nothing of the address."""
    addresses = [f'127.0.0.{n}' for n in (11, 12, 13)]
    listed, counts = {'address': addresses[0]}, collections.Counter()
    receiver = place.receiver(answers=listing(listed, counts, LISTED if scope == 'listing' else CONTENT))
    daemon = place.sluice(
        routes={'*': ('smtp', receiver.nexthop)},
        sources={f's{n}': {'address': address} for n, address in enumerate(addresses)},
        pools={'all': {'sources': ['s0', 's1', 's2'], 'weights': [1, 1, 1]}},
        transports={'smtp': {'source_pool': 'all'}})
    send(daemon, 60)
    until(lambda: len(delivered(daemon)) + len(daemon.of('Bounce')) >= 60, 'all')
    if scope == 'content':
        assert daemon.of('Bounce')
        return
    assert not daemon.of('Bounce') and not daemon.of('TransientFailure')
    assert {e['num_attempts'] for e in delivered(daemon)} == {1}
    assert 1 <= counts[addresses[0]] <= 15  # those that were under way when it was said; its part of all would be 20
    assert min(counts[addresses[1]], counts[addresses[2]]) >= 15
    before = counts[addresses[0]]
    daemon.stop()
    daemon.start()
    send(daemon, 20, first=60)
    until(lambda: len(delivered(daemon)) == 80, 'all')
    assert counts[addresses[0]] == before  # it is known over the restart
    assert not daemon.of('Bounce') and not daemon.of('TransientFailure')


class Stream:
    """90 messages at 60 a second to a receiver that takes them from three addresses, and lists the first of these when
    it has 30."""

    def __init__(self, place, domain, addresses):
        self.domain, self.addresses = domain, addresses
        self.lock = threading.Lock()
        self.listed_at, self.is_listed_for = None, 0
        self.given, self.taken, self.after = {}, {}, collections.Counter()
        self.receiver = place.receiver(answers=self.answer)

    def answer(self, verb, argument, session):
        if verb != 'RCPT':
            return None
        client, recipient, now = session.peer[0], argument[4:-1], time.monotonic()
        with self.lock:
            if self.listed_at is None and len(self.taken) >= 30:
                self.listed_at = now
            if self.listed_at is not None and client == self.addresses[0]:
                self.is_listed_for += 1
                return LISTED.format(address=client)
            self.taken[recipient] = now
            self.after[client] += self.listed_at is not None
        return None

    def run(self, daemon):
        """The longest that one of them was with the daemon since the address was listed."""
        begin = time.monotonic()
        with Client(daemon) as client:
            client.ehlo('client.test')
            for n in range(90):
                time.sleep(max(0, begin + n / 60 - time.monotonic()))
                recipient = f'{n}@{self.domain}'
                self.given[recipient] = time.monotonic()
                client.mail('a@a.test', [recipient])
                client.data(message())
        until(lambda: len(self.taken) == 90, lambda: f'{len(self.taken)} of 90')
        return max(at - max(self.given[who], self.listed_at) for who, at in self.taken.items()
                   if at >= self.listed_at)


def test_the_share_of_a_listed_address_goes_by_the_others_within_a_second(place):
    """All of the rate, what the address was refused among it: neither bounces nor waits for a retry, minutes away, or for
    the end of the pause."""
    addresses = [f'127.0.0.{n}' for n in (11, 12, 13)]
    streams = [Stream(place, f'x{n}.test', addresses) for n in range(8)]
    daemon = place.sluice(
        routes={s.domain: ('smtp', s.receiver.nexthop) for s in streams},
        sources={f's{n}': {'address': address} for n, address in enumerate(addresses)},
        pools={'all': {'sources': ['s0', 's1', 's2']}}, transports={'smtp': {'source_pool': 'all'}},
        options={'minimal_backoff_time': '300s', 'maximal_backoff_time': '400s'})
    sent = 0

    def longest():
        nonlocal sent
        stream = streams[sent]
        sent += 1
        took = stream.run(daemon)
        # Its part of what is left would be 20; refused is what was on its way when it was said.
        assert 1 <= stream.is_listed_for <= 15
        assert stream.after[addresses[0]] == 0 and min(stream.after[a] for a in addresses[1:]) >= 15
        return took
    assert is_ever_below(1, longest, len(streams))
    until(lambda: len(delivered(daemon)) == 90 * sent, 'all are told of')
    assert {e['num_attempts'] for e in delivered(daemon)} == {1}
    assert not daemon.of('Bounce') and not daemon.of('TransientFailure')


@pytest.mark.parametrize('is_spare', [True, False], ids=['a source is spare', 'no source is spare'])
def test_quota_and_warmup_over_midnight_and_a_restart(place, is_spare):
    """Each source sends exactly what its quota or the day of its warm-up allows, counted over a restart; the rest
    goes by the pool's source that has none, or behind midnight UTC where there is none, in its first attempt."""
    day = 86400
    by_source = collections.Counter()

    def count(verb, argument, session):
        if verb == 'RCPT':
            by_source[session.peer[0][-1]] += 1
    clock = Clock(place.subfolder('clock'))
    clock.set(int(day / 2 - time.time() % day))  # noon
    receiver = place.receiver(answers=count)
    sources = {'quota': {'address': '127.0.0.11', 'max_message_quota': '6/d'},
               'warm': {'address': '127.0.0.12', 'warmup': ['3/d', '5/d'],
                        'since': time.strftime('%Y-%m-%d', time.gmtime(clock.now()))},
               **({'spare': {'address': '127.0.0.13'}} if is_spare else {})}
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)}, env=clock.env, sources=sources,
                          pools={'all': {'sources': list(sources)}},
                          transports={'smtp': {'source_pool': 'all'}})

    def sent(first, number, total):
        send(daemon, number, first=first)
        until(lambda: by_source.total() == total, lambda: f'{total} of {by_source}')
    sent(0, 20, 20 if is_spare else 9)
    daemon.stop()
    daemon.start()
    if is_spare:
        sent(20, 10, 30)
    assert by_source == collections.Counter({'1': 6, '2': 3, **({'3': 21} if is_spare else {})})
    today = clock.now() // day
    clock.set(int(clock.offset + day - clock.now() % day - 4))  # a few seconds before midnight
    reload(daemon)  # who waits for hours looks at a clock that was set every five minutes
    if is_spare:
        until(lambda: clock.now() // day > today, 'midnight')
        sent(30, 20, 50)
    else:
        until(lambda: by_source.total() == 20, lambda: f'the rest of {by_source}')
        assert clock.now() // day == today + 1
    assert by_source == collections.Counter({'1': 12, '2': 8, **({'3': 30} if is_spare else {})})
    until(lambda: len(delivered(daemon)) == by_source.total(), 'all of it')
    assert {e['num_attempts'] for e in delivered(daemon)} == {1}
    assert not daemon.of('Bounce') and not daemon.of('TransientFailure')


def test_refused_greeting_is_no_connection(place):
    """A connection that the greeting refused counts no more, so the one that the receiver allows is made."""
    greetings = itertools.count()

    def answers(verb, argument, session):
        if verb == '' and next(greetings) < 4:
            return '421 4.7.0 too many connections from your address'
        return None
    receiver = place.receiver(answers=answers)
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)})
    for number in range(30):
        submit(daemon, 'a@a.test', [f'b{number}@b.test'], message())
    until(lambda: len(receiver.messages) == 30, lambda: daemon.query('lanes'))
