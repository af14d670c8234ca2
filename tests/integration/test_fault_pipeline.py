"""Faults while several messages are on their way on one connection. Each case has a domain, and a
server that first answers some messages from afar, so that the depth of the connection is known;
then it meets the flight of this case, and after its fault everything that comes is served well.

Nothing may be lost. Ambiguous are exactly the messages that were sent whole and got no answer; what
stood behind them comes again on a new connection, at its first attempt. A server that lost the
order of its replies gets one message at a time from then on.

421 is a case of its own: it is proof that nothing more was taken only when the end of the stream
follows it. It is met in clear, inside TLS, behind AUTH and through a proxy, and in the handshake of
each of these."""
import pytest

from support.api import ask
from support.certificate import server_context
from support.client import Client, message
from support.daemon import status_of
from support.net import Net
from support.peer import MARK
from support.proxy import SocksProxy
from support.reloading import reload
from support.wait import until

WARM = 30            # messages that show the depth
# What comes first on a connection that stood idle waits for its answers. Those of the one in front of a flight come
# late, so that all of the flight is handed to the connection before it would stand idle again, and begin with one alone.
FAR = f'serve {WARM} 0.15\nserve 1 4\n'
LATER = 8            # messages after the flight
BIG = (b'y' * 98 + b'\r\n') * 65000  # more than is sent before its envelope is answered

# Four whole messages and the envelope of a large one, nothing answered.
FLIGHT = 'hold 4 RCPT\n'
ALL_LOST = {'a': 'AMB', 'b': 'AMB', 'c': 'AMB', 'd': 'AMB', 'E': 'OK'}
FIRST_KEPT = {**ALL_LOST, 'a': 'OK'}
# The end of one message and the envelope of the next, nothing answered.
PAIR = 'envelope\ndata\nexpect MAIL\nexpect RCPT\nexpect DATA\n'
ONE_LOST = {'a': 'AMB', 'b': 'OK', 'c': 'OK'}

# How the server is reached (a transport): its first lines, and what it offers beside the rest. From
# afar are its first answers, too.
GREETING = 'send 220 peer.test ESMTP\n'
TLS_GREETING = (GREETING + 'expect EHLO\npause 0.15\nsend 250-peer.test\nsend 250 STARTTLS\n'
                'expect STARTTLS\nsend 220 go\nstarttls\n')
WAYS = {'plain': (GREETING, []), 'tls': (TLS_GREETING, []), 'auth': (GREETING, ['AUTH PLAIN']),
        'proxy': (GREETING, [])}

CASES = {}


def case(offer, name, script, outcomes, is_out_of_step=False, stays_open=False, way='plain'):
    """outcomes: {message: outcome}; a capital letter is a large one."""
    CASES[f'{offer}-{name}'] = (offer, script, outcomes, is_out_of_step, stays_open, way)


case('chunking', 'reset', FLIGHT + 'mark\nreset', ALL_LOST)
case('chunking', 'close', FLIGHT + 'mark\nclose', ALL_LOST)
case('chunking', 'stall', FLIGHT + 'mark\nsilence', ALL_LOST)
case('chunking', 'garbage', FLIGHT + 'answer\nmark\nsend what is this\nserve', FIRST_KEPT, True)
case('chunking', 'reply-too-many', FLIGHT + 'answer\nmark\nsend 354 go on\nserve', FIRST_KEPT, True)
# It shifts all that follow by one; the answer to a recipient stands where that to its message must.
case('chunking', 'good-reply-too-many', FLIGHT + 'answer\nsend 250 2.0.0 again\n' + 'answer\n' * 3 +
     'mark\nserve', FIRST_KEPT, True)
# All that follows answers the command before its own.
case('chunking', 'reply-missing', FLIGHT + 'answer\nmark\nanswer RCPT=\nanswer\nanswer\nanswer\n'
     'silence', FIRST_KEPT, True)
case('chunking', 'early-250', FLIGHT + 'answer\n' * 5 + 'expect BDAT\nhear\nmark\n'
     'send 250 2.0.0 early\nwait', {'a': 'OK', 'b': 'OK', 'c': 'OK', 'd': 'OK', 'E': 'AMB'})
case('chunking', 'refusals', FLIGHT + 'answer\nanswer RCPT=550 BDAT=503\n'
     'answer MAIL=450 RCPT=503 BDAT=503\nanswer\nanswer\nchunk\nsend 250 2.0.0 kept\nmark\nserve',
     {'a': 'OK', 'b': 'BNC', 'c': 'DEF', 'd': 'OK', 'E': 'OK'}, stays_open=True)

case('pipelining', 'reset', PAIR + 'mark\nreset', ONE_LOST)
case('pipelining', 'close', PAIR + 'mark\nclose', ONE_LOST)
case('pipelining', 'stall', PAIR + 'mark\nsilence', ONE_LOST)
case('pipelining', 'garbage', PAIR + 'mark\nsend what is this\nserve', ONE_LOST, True)
case('pipelining', 'wrong-class', PAIR + 'mark\nsend 354 go on\nserve', ONE_LOST, True)
# The 250 for RCPT stands where 354 must.
case('pipelining', 'reply-too-many', PAIR + 'send 250 2.0.0 kept\nmark\nsend 250 2.0.0 again\n'
     'send 250 2.1.0 ok\nsend 250 2.1.5 ok\nserve', {'a': 'OK', 'b': 'DEF', 'c': 'OK'}, True)
# The answer to MAIL stands where that to a message must.
case('pipelining', 'reply-missing', PAIR + 'mark\nsend 250 2.1.0 ok\nsend 250 2.1.5 ok\n'
     'send 354 go\nserve', {'a': 'AMB', 'b': 'OK', 'c': 'OK'}, True)
case('pipelining', 'early-250', PAIR + 'send 250 2.0.0 kept\nsend 250 2.1.0 ok\n'
     'send 250 2.1.5 ok\nsend 354 go\nhear\nmark\nsend 250 2.0.0 early\nwait',
     {'a': 'OK', 'B': 'AMB', 'c': 'OK'})
case('pipelining', 'refusals', PAIR + 'send 554 5.6.0 no\nsend 250 2.1.0 ok\nsend 250 2.1.5 ok\n'
     'send 354 go\ndata\nsend 250 2.0.0 kept\nmark\nserve',
     {'a': 'BNC', 'b': 'OK', 'c': 'OK'}, stays_open=True)

# 421, and what follows it. DOUBT: refused, and perhaps taken all the same.
SAYS_421 = 'mark\nsend 421 4.3.2 bye\n'
BEHIND_421 = {'close': 'close', 'on': 'answer\n' * 3 + 'wait', 'reset': 'reset',
              'stall': 'silence'}
# What was answered before it, what the message that it answers gets, and what was handed over then.
PLACES_421 = {'mail': ('', 'AMB', 'abcd'), 'rcpt': ('answer BDAT= RCPT=', 'DOUBT', 'bcd'),
              'end': ('answer BDAT=', 'DOUBT', 'bcd'), 'next': ('answer', 'OK', 'bcd')}


def cases_of_421(way, place, ends):
    before, hit, behind = PLACES_421[place]
    for then in ends:
        outcomes = {'a': hit, **dict.fromkeys('bcdE', 'OK')}
        if then == 'close':
            outcomes['a'] = {'AMB': 'OK', 'DOUBT': 'DEF'}.get(hit, hit)
        else:
            outcomes.update(dict.fromkeys(behind, 'AMB'))
        case('chunking', f'421-{place}-{then}-{way}',
             f'{FLIGHT}{before}\n{SAYS_421}{BEHIND_421[then]}', outcomes, then == 'on', way=way)


def cases_of_421_to_data(way, ends):
    for then in ends:
        script = BEHIND_421[then].replace('answer', 'send 250 2.0.0 kept', 1).replace('answer\n', '')
        case('pipelining', f'421-end-{then}-{way}', f'{PAIR}{SAYS_421}{script}',
             {'a': 'DEF' if then == 'close' else 'DOUBT', 'b': 'OK', 'c': 'OK'}, then == 'on',
             way=way)


for _place in PLACES_421:
    cases_of_421('plain', _place, BEHIND_421 if _place == 'next' else ['close', 'on'])
cases_of_421_to_data('plain', BEHIND_421)
for _way in ('tls', 'auth', 'proxy'):
    cases_of_421(_way, 'next', ['close', 'on', 'reset'])
    cases_of_421_to_data(_way, ['close', 'on'])
# It stays, and takes its leave when it is asked to: that is an end as well.
case('chunking', '421-alone-plain', 'hold 1\nanswer BDAT=\n' + SAYS_421 + 'expect QUIT\n'
     'send 221 2.0.0 bye\nclose', {'a': 'DEF'})

# 421 in the handshake of the first connection, while several messages wait for it.
SECRET_GREETING = 'send 220 peer.test ESMTP\nexpect EHLO\nsend 250-peer.test\n'
HANDSHAKES = {
    'greeting-plain': SAYS_421, 'greeting-proxy': SAYS_421,
    'starttls-tls': SECRET_GREETING + 'send 250 STARTTLS\nexpect STARTTLS\n' + SAYS_421,
    'ehlo-tls': 'secure\nexpect EHLO\n' + SAYS_421,
    'ehlo-plain': GREETING + 'expect EHLO\n' + SAYS_421,
    'login-auth': SECRET_GREETING + 'send 250 AUTH PLAIN\nexpect AUTH\n' + SAYS_421,
}
HANDSHAKE_CASES = {f'{name}-{then}': script + behind for name, script in HANDSHAKES.items()
                   for then, behind in {'close': 'close', 'on': 'send 250 ok\nwait'}.items()}
WAITING = 'vwx'  # messages at its beginning


class Stage:
    def __init__(self, place):
        self.place = place
        self.net = Net(place)
        self.tls = server_context(place.subfolder('tls'))
        self.proxy = place.keep(SocksProxy())
        self.peers, self.routes = {}, {}
        for name, (offer, script, *_, way) in CASES.items():
            self.set_up(name, way, WAYS[way][0] + FAR + script, [offer.upper()])
        for name, script in HANDSHAKE_CASES.items():
            self.set_up(name, name.split('-')[1], script, ['CHUNKING'])
        self.daemon = self.start()

    def set_up(self, name, way, script, offer):
        greeting, more = WAYS[way]
        self.peers[name] = self.net.peer(
            f'mx.{name}.test', script, greeting + 'serve 1000 0.02', tls=self.tls,
            extensions=[*more, 'PIPELINING', *offer], receive_buffer=65536)
        self.net.mx(f'{name}.test', f'mx.{name}.test')
        self.routes[f'{name}.test'] = (way, f'{name}.test')

    def start(self):
        password = f'{self.place.subfolder("password")}/password'
        with open(password, 'w', encoding='ascii') as file:
            file.write('secret\n')
        usual = {'pipeline_depth': 16, 'initial_destination_concurrency': 1,
                 'destination_concurrency_limit': 1, 'inet_protocols': 'ipv4',
                 'smtp_connection_cache_time_limit': '60s'}
        usual.update({f'smtp_{step}_timeout': '15s' for step in (
            'mail', 'rcpt', 'data_init', 'data_xfer', 'data_done', 'rset')})
        special = {'plain': {}, 'tls': {'smtp_tls_security_level': 'encrypt'},
                   'auth': {'smtp_auth_user': 'user', 'smtp_auth_password_file': password,
                            'smtp_auth_requires_tls': False},
                   'proxy': {'source_pool': 'out'}}
        return self.net.start(
            {way: {**usual, **options} for way, options in special.items()},
            sources={'socks': {'socks5': self.proxy.name}}, pools={'out': {'sources': ['socks']}},
            routes=self.routes).daemon

    def send(self, words, names=tuple(CASES)):
        """A message a word to each domain; a word with a capital is a large message."""
        sent = [f'{word}@{name}.test' for name in names for word in words(name)]
        with Client(self.daemon) as client:
            client.ehlo()
            for recipient in sent:
                word = recipient.partition('@')[0]
                client.mail('', [recipient])
                client.data(message(word) + (BIG if word.isupper() else b''))
        return sent

    def wait_final(self, sent):
        waiting = set(sent)

        def is_over():
            waiting.difference_update([r for r in waiting if any(
                e['type'] in ('Delivery', 'Bounce') for e in self.daemon.results(r))])
            return not waiting
        try:
            until(is_over, 'results')
        except AssertionError:
            pass  # the case's own test says what is missing

    def hold(self, is_on):
        for options in self.daemon.transports.values():
            options['hold'] = is_on
        reload(self.daemon)

    def todo(self):
        return sum(row.get('todo', 0) for row in ask(self.daemon, '/v1/destinations', limit=1000)[1])

    def play(self):
        met = self.send(lambda _: WAITING, HANDSHAKE_CASES)
        self.wait_final(met + self.send(lambda _: [f'w{number}' for number in range(WARM)]))
        # All of a flight is there before any of it goes: a connection that falls idle meanwhile would begin with one alone.
        self.hold(True)
        words = {name: ['z', *CASES[name][2]] for name in CASES}
        flights = []
        for place in range(max(map(len, words.values()))):  # one may overtake another on its way to the scheduler
            flights += self.send(lambda name, place=place: words[name][place:place + 1])
            until(lambda: self.todo() == len(flights), lambda: f'{len(flights)} wait for their servers, {self.todo()} do')
        self.hold(False)
        self.wait_final(flights)
        self.wait_final(self.send(lambda _: [f'l{number}' for number in range(LATER)]))
        return self


@pytest.fixture(scope='module')
def stage(module_place):
    return Stage(module_place).play()


def copies(peer, word):
    return sum(f'Subject: {word}\r\n'.encode() in body for body in peer.bodies + peer.held)


def check_message(stage, name, word, outcome):
    peer, events = stage.peers[name], stage.daemon.results(f'{word}@{name}.test')
    assert events, f'{word}: no result; heard {peer.transcripts} {peer.errors}'
    kinds = [e['type'] for e in events]
    assert kinds == {'OK': ['Delivery'], 'BNC': ['Bounce']}.get(
        outcome, ['TransientFailure', 'Delivery']), (word, events)
    assert [e['num_attempts'] for e in events] == list(range(1, len(events) + 1)), (word, events)
    assert [e.get('is_ambiguous', False) for e in events] == \
        [outcome in ('AMB', 'DOUBT')] + [False] * (len(events) - 1), (word, events)
    if outcome == 'AMB':
        assert status_of(events[0]) in ('4.4.2', '4.5.0'), (word, events)
    if outcome == 'DOUBT':
        assert (events[0]['response']['code'], status_of(events[0])) == (421, '4.3.2'), events


@pytest.mark.parametrize('name', CASES)
def test_case(stage, name):
    _, _, outcomes, is_out_of_step, stays_open, _ = CASES[name]
    peer = stage.peers[name]
    for number in range(WARM):
        check_message(stage, name, f'w{number}', 'OK')
    for word, outcome in outcomes.items():
        check_message(stage, name, word, outcome)
        assert copies(peer, word) >= 1 or outcome == 'BNC', f'{word} is lost'
    for number in range(LATER):
        check_message(stage, name, f'l{number}', 'OK')
    assert not peer.errors, peer.errors
    first = peer.transcripts[0]
    assert bool([line for line in first.after() if line.startswith('MAIL')]) == stays_open
    if is_out_of_step:
        assert [t.deepest for t in peer.transcripts[1:]] == [1] * (peer.connections - 1)


@pytest.mark.parametrize('name', CASES)
def test_copies(stage, name):
    """One of each message; one more of what was there whole and was not settled by an answer."""
    offer, _, outcomes, *_ = CASES[name]
    for word, outcome in outcomes.items():
        was_whole = word in ('abcd' if offer == 'chunking' else 'a')
        is_returned = name.startswith('chunking-421') and (word != 'a' or '-mail-' in name)
        is_unsettled = outcome in ('AMB', 'DEF', 'DOUBT') or is_returned
        assert copies(stage.peers[name], word) == 1 + (was_whole and is_unsettled), word


@pytest.mark.parametrize('name', HANDSHAKE_CASES)
def test_421_in_the_handshake(stage, name):
    """What waits for the connection goes out once and without a mark, however often it was deferred."""
    peer, said = stage.peers[name], set()
    for word in WAITING:
        *refused, last = stage.daemon.results(f'{word}@{name}.test')
        assert last['type'] == 'Delivery', last
        assert all(e['type'] == 'TransientFailure' for e in refused), refused
        assert not any(e.get('is_ambiguous') for e in (*refused, last)), (refused, peer.transcripts)
        assert copies(peer, word) == 1, word
        said.update(e['response']['content'].partition(': ')[::2] for e in refused)
    reasons = [reason for who, reason in said if 'suspended' not in who]
    assert reasons, said
    for reason in reasons:
        assert reason == '421 4.3.2 bye' or (name.endswith('-on') and 'sent more than one' in reason)
    assert not peer.errors, peer.errors
    assert peer.transcripts[0][-2:] == [MARK, 'lost'], peer.transcripts


def test_the_proxy_was_used(stage):
    assert len(stage.proxy.requests) >= sum(way == 'proxy' for *_, way in CASES.values())
    assert not stage.proxy.errors
