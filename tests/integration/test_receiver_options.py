"""What a provider and a domain say of deliveries and connections, each by a reload of one daemon; and
rules for replies that are wrong, which change nothing."""
import os
import time

import pytest

from support.client import message, submit
from support.providers import Providers
from support.reloading import reload
from support.wait import is_ever_below, until
from test_clock import Clock

REAL = {'big': (['a.test', 'b.test'], ['mx1.big.test'])}


class Mails:
    """Of one scene: messages of so many recipients to a domain, and what its host saw of them."""

    def __init__(self, place, **settings):
        self.world = Providers(place, real=REAL, lookalike={})
        own = self.world.settings()
        own['options'].update(settings.pop('options', {}), workers=1)
        self.daemon = place.sluice(**own, providers={'big': {'mx': ['*.big.test']}}, **settings)
        self.count = 0

    def __call__(self, messages, recipients=1, domain='a.test', **options):
        """(lines of the ledger, connections) of those that are sent under these options of the provider"""
        self.daemon.providers['big'] = {'mx': ['*.big.test'], **options}
        reload(self.daemon)
        before, opened = len(self.world.sink.lines()), self.connections()
        sent = []
        for _ in range(messages):
            self.count += 1
            sent.append([f'm{self.count}.{n}@{domain}' for n in range(recipients)])
            submit(self.daemon, 'a@sender.test', sent[-1], message())

        def new():
            return self.world.sink.lines()[before:]
        until(lambda: sum(len(line['recipients']) for line in new()) == messages * recipients,
              lambda: f'{options}: {new()}\n{self.daemon.log()}')
        until(lambda: sum(one['messages'] for one in self.world.clients().values()) == before + len(new()),
              'its figures')
        return new(), self.connections() - opened

    def connections(self):
        if not os.path.exists(self.world.live()):
            return 0
        return sum(one['connections'] for one in self.world.clients().values())


def test_options_of_a_provider(place):
    """The transport has none of them, and they go as they came."""
    send = Mails(place)
    _, opened = send(12, destination_concurrency_limit=1, pipeline_depth=1, smtp_connection_reuse_count_limit=3)
    assert opened >= 4
    _, opened = send(4, destination_concurrency_limit=1, smtp_connection_cache_time_limit='0s', pipeline_depth=1,
                     destination_rate_delay='50ms')
    assert opened == 4
    lines, _ = send(1, 10, destination_recipient_limit=3)
    assert sorted(len(line['recipients']) for line in lines) == [1, 3, 3, 3]
    lines, opened = send(1, 10)
    assert [len(line['recipients']) for line in lines] == [10]
    begun = time.monotonic()
    send(5, destination_rate_delay='300ms')
    assert time.monotonic() - begun > 4 * 0.3 - 0.1
    send.daemon.domains['a.test'] = {'max_message_rate': '5/s'}  # the provider has it: a bound beside its own
    begun = time.monotonic()
    send(8)
    took = time.monotonic() - begun
    assert took > 7 / 5 - 0.1

    def others():
        begun = time.monotonic()
        send(8, domain='b.test')
        return time.monotonic() - begun
    assert is_ever_below(took, others, 5)
    send.daemon.domains.clear()
    _, opened = send(5)
    assert opened <= 5
    # Its hosts have IPv4 addresses only.
    daemon = send.daemon
    daemon.providers['big'] = {'mx': ['*.big.test'], 'inet_protocols': 'ipv6'}
    reload(daemon)
    submit(daemon, 'a@sender.test', ['last@b.test'], message())
    event = daemon.wait_event('TransientFailure', 'last@b.test')
    assert 'inet_protocols' in event['response']['content']
    daemon.providers['big'] = {'mx': ['*.big.test']}
    reload(daemon)
    daemon.command('flush')
    daemon.wait_event('Delivery', 'last@b.test')
    assert daemon.stop() == 0


def test_quota_of_a_domain_inside_a_provider(place):
    """It bounds that destination over a restart, whatever the rest of its provider sends: what exceeds it waits for
    the next day, in its first attempt, and `why` and `explain` say so."""
    world = Providers(place, real=REAL, lookalike={})
    clock = Clock(place.subfolder('clock'))
    clock.set(int(43200 - time.time() % 86400))  # noon
    own = world.settings()
    own['options'].update(workers=1)
    daemon = place.sluice(**own, env=clock.env, providers={'big': {'mx': ['*.big.test']}},
                          domains={'a.test': {'max_message_quota': '3/d'}})

    def send(numbers, domain):
        for number in numbers:
            submit(daemon, 'a@sender.test', [f'm{number}@{domain}'], message())

    def arrive(a, b):
        def counts():
            got = [line['recipients'][0].split('@')[1] for line in world.sink.lines()]
            return got.count('a.test'), got.count('b.test')
        until(lambda: counts() == (a, b), lambda: f'{counts()}, not {a} and {b}: {daemon.log()}')
    send(range(2), 'a.test')
    arrive(2, 0)
    daemon.stop()
    daemon.start()
    send(range(2, 6), 'a.test')
    send(range(6), 'b.test')
    arrive(3, 6)
    why = until(lambda: [link for link in daemon.query('why', 'a.test')[0]['chain'] if 'quota' in link['what']],
                lambda: daemon.query('why', 'a.test'))[0]
    assert (why['limit'], why['value']) == ('max_message_quota', '3/d'), why
    assert abs(why['until'] - (clock.now() // 86400 + 1) * 86400) < 2
    said = daemon.command('explain', 'a.test', '--mx', 'mx1.big.test').stdout.decode()
    assert 'bounds of its own within the provider' in said and 'max_message_quota' in said
    daemon.domains['a.test'] = {'max_message_quota': '4/d'}
    reload(daemon)
    arrive(4, 6)  # at once
    clock.set(int(clock.offset + 86400 - clock.now() % 86400 + 1))
    reload(daemon)
    arrive(6, 6)
    until(lambda: len(daemon.of('Delivery')) == 12, 'their events')
    assert {e['num_attempts'] for e in daemon.of('Delivery')} == {1} and not daemon.of('TransientFailure')
    assert daemon.stop() == 0


def test_rate_of_a_domain_inside_a_provider(place):
    """It is one for all transports, each of which has a scheduler of its own here; they take turns, and `why`
    names it."""
    world = Providers(place, real=REAL, lookalike={})
    own = world.settings()
    smtp = own['transports']['smtp']
    own['transports'] = {'smtp': smtp, 'other': smtp}
    own['options'].update(workers=1, scheduler_threads=2)
    daemon = place.sluice(**own, providers={'big': {'mx': ['*.big.test']}}, listener={'tenant_header': 'X-Tenant'},
                          tenants={'t0': {'transport': 'smtp'}, 't1': {'transport': 'other'}},
                          domains={'a.test': {'max_message_rate': '10/s'}})
    begun = time.monotonic()
    for number in range(36):
        tenant = f't{number % 2}'
        submit(daemon, 'a@sender.test', [f'{tenant}.{number}@a.test'], message(X_Tenant=tenant))
        submit(daemon, 'a@sender.test', [f'{tenant}.{number}@b.test'], message(X_Tenant=tenant))

    def got(domain):
        names = [line['recipients'][0] for line in world.sink.lines()]
        return [name[:2] for name in names if name.endswith(domain)]
    until(lambda: [link for link in daemon.query('why', 'a.test')[0]['chain']
                   if (link.get('limit'), link.get('value')) == ('max_message_rate', '10/s')],
          lambda: daemon.query('why', 'a.test'))
    until(lambda: len(got('b.test')) == 36, 'what is not bounded')
    until(lambda: len(got('a.test')) == 36, lambda: f'{got("a.test")}')
    assert time.monotonic() - begun > 35 / 10 - 0.1
    first = got('a.test')[:20]
    assert min(first.count('t0'), first.count('t1')) >= 4, first  # 2 where one takes all of its 18 first
    assert not daemon.of('TransientFailure')
    assert daemon.stop() == 0


RULE = "rule {name} {{\n text = '{text}'\n class = {rest} }}\n"
WRONG = {
    'no expression': (RULE.format(name='r', text='(a', rest='full'), 'text', 'missing closing parenthesis'),
    'a catastrophe': (RULE.format(name='r', text='(a+)+[bc]', rest='full'), 'text', 'needs more than'),
    'no class': (RULE.format(name='r', text='a', rest='nonsense'), 'class', 'write throttled, blocked'),
    'no action': (RULE.format(name='r', text='a', rest="full action = 'explode'"), 'action', 'write slow, pause'),
    'two units': (RULE.format(name='r', text='a', rest="full action = 'pause 5m3s'"), 'action', 'two units'),
    'no time': (RULE.format(name='r', text='a', rest="full action = 'close 0s'"), 'action', 'write at least'),
    'negative': (RULE.format(name='r', text='a', rest="full action = 'slow -1'"), 'action', 'from 0.05 to'),
    'too long': (RULE.format(name='r', text='a', rest="full action = 'close 1000d'"), 'action', 'at most 7d'),
    'no scope': (RULE.format(name='r', text='a', rest='throttled scope = elephant'), 'scope', 'write messages'),
    'about all': ("rule r {\n class = full }\n", 'rule', 'write at least one of code'),
    'no rule': ('nonsense = 1\n', 'syntax', 'write rule "NAME"'),
    'binary': ('\0\1\2', 'files', 'text file'),
    'missing': (None, 'files', 'text file'),
    'a folder': ('FOLDER', 'files', 'text file'),
    'a gigabyte': ('GIGABYTE', 'files', 'no larger than'),
}


@pytest.fixture(scope='module')
def taught(module_place):
    """A daemon with a rule of its own."""
    receiver = module_place.receiver(answers=lambda verb, argument, session:
                                     '450 4.9.9 kwyjibo' if verb == 'RCPT' else None)
    mine = os.path.join(module_place.folder, 'mine.conf')
    with open(mine, 'w', encoding='ascii') as file:
        file.write(RULE.format(name='mine', text='kwyjibo', rest='full'))
    daemon = module_place.sluice(replies={'files': [mine]}, routes={'*': ('smtp', receiver.nexthop)})
    yield daemon
    assert daemon.stop() == 0


@pytest.mark.parametrize('name', WRONG)
def test_wrong_rules_keep_the_old_set(taught, name):
    text, key, right = WRONG[name]
    wrong = os.path.join(taught.folder, f'{name}.conf')
    if text == 'FOLDER':
        os.mkdir(wrong)
    elif text is not None:
        with open(wrong, 'w', encoding='ascii') as file:
            file.write('' if text == 'GIGABYTE' else text)
            if text == 'GIGABYTE':
                file.truncate(1 << 30)
    mine = taught.replies['files']
    taught.replies['files'] = [wrong]
    answer = reload(taught, 422)
    taught.replies['files'] = mine
    taught.write_config()
    [said] = answer['complaints']
    assert f'{wrong}:' in said and f' {key}: ' in said and right in said, said
    recipient = f'{name.replace(" ", "-")}@x.test'
    submit(taught, 'a@a.test', [recipient], message())
    assert taught.wait_event('TransientFailure', recipient)['bounce_classification'] == 'full'
