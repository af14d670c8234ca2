"""Faults while several messages are on their way on one connection. Each case has a domain, and a
server that first answers some messages from afar, so that the depth of the connection is known;
then it meets the flight of this case, and after its fault everything that comes is served well.

Nothing may be lost. Ambiguous are exactly the messages that were sent whole and got no answer; what
stood behind them comes again on a new connection, at its first attempt. A server that lost the
order of its replies gets one message at a time from then on."""
import pytest

from support.client import message, submit
from support.daemon import status_of
from support.net import Net
from support.wait import until

WARM = 30            # messages that show the depth
# One more: what comes first on a connection that stood idle waits for its answers.
FAR = f'send 220 peer.test ESMTP\nserve {WARM + 1} 0.15\n'
LATER = 8            # messages after the flight
BIG = (b'y' * 98 + b'\r\n') * 65000  # more than is sent before its envelope is answered

# Four whole messages and the envelope of a large one, nothing answered.
FLIGHT = 'hold 4 RCPT\n'
ALL_LOST = {'a': 'AMB', 'b': 'AMB', 'c': 'AMB', 'd': 'AMB', 'E': 'OK'}
FIRST_KEPT = {**ALL_LOST, 'a': 'OK'}
# The end of one message and the envelope of the next, nothing answered.
PAIR = 'envelope\ndata\nexpect MAIL\nexpect RCPT\nexpect DATA\n'
ONE_LOST = {'a': 'AMB', 'b': 'OK', 'c': 'OK'}

CASES = {}


def case(offer, name, script, outcomes, is_out_of_step=False, stays_open=False):
    """outcomes: {message: outcome}; a capital letter is a large one."""
    CASES[f'{offer}-{name}'] = (offer, script, outcomes, is_out_of_step, stays_open)


case('chunking', 'reset', FLIGHT + 'mark\nreset', ALL_LOST)
case('chunking', 'close', FLIGHT + 'mark\nclose', ALL_LOST)
case('chunking', 'stall', FLIGHT + 'mark\nsilence', ALL_LOST)
case('chunking', 'garbage', FLIGHT + 'answer\nmark\nsend what is this\nserve', FIRST_KEPT, True)
case('chunking', 'reply-too-many', FLIGHT + 'answer\nmark\nsend 354 go on\nserve', FIRST_KEPT, True)
# It shifts all that follow by one; the answer to a recipient stands where that to its message must.
case('chunking', 'good-reply-too-many', FLIGHT + 'answer\nsend 250 2.0.0 again\n' + 'answer\n' * 3 +
     'mark\nserve', FIRST_KEPT, True)
case('chunking', '421', FLIGHT + 'answer\nmark\nsend 421 4.3.2 bye\nclose',
     {name: 'OK' for name in 'abcdE'})
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
case('pipelining', '421', PAIR + 'mark\nsend 421 4.3.2 bye\nclose',
     {'a': 'DEF', 'b': 'OK', 'c': 'OK'})
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


class Stage:
    def __init__(self, place):
        self.net = Net(place)
        self.peers = {}
        for name, (offer, script, *_) in CASES.items():
            extensions = ('PIPELINING', 'CHUNKING') if offer == 'chunking' else ('PIPELINING',)
            self.peers[name] = self.net.peer(
                f'mx.{name}.test', FAR + script,
                'send 220 peer.test ESMTP\nserve 1000 0.02', extensions=extensions,
                receive_buffer=65536)
            self.net.mx(f'{name}.test', f'mx.{name}.test')
        hasty = {f'smtp_{step}_timeout': '3s' for step in (
            'mail', 'rcpt', 'data_init', 'data_xfer', 'data_done', 'rset')}
        self.daemon = self.net.start(
            {'smtp': {'pipeline_depth': 16, 'initial_destination_concurrency': 1,
                      'destination_concurrency_limit': 1, 'inet_protocols': 'ipv4',
                      'smtp_connection_cache_time_limit': '60s', **hasty}},
            dns={'timeout': '5s'}).daemon

    def send(self, words):
        """A message a word to each domain; a word with a capital is a large message."""
        sent = [f'{word}@{name}.test' for name in CASES for word in words(name)]
        for recipient in sent:
            word = recipient.partition('@')[0]
            submit(self.daemon, '', [recipient],
                   message(word) + (BIG if word.isupper() else b''))
        return sent

    def wait_final(self, sent):
        waiting = set(sent)

        def is_over():
            waiting.difference_update([r for r in waiting if any(
                e['type'] in ('Delivery', 'Bounce') for e in self.daemon.results(r))])
            return not waiting
        try:
            until(is_over, 'results', 60)
        except AssertionError:
            pass  # the case's own test says what is missing

    def play(self):
        self.wait_final(self.send(lambda _: [f'w{number}' for number in range(WARM)]))
        self.wait_final(self.send(lambda name: ['z', *CASES[name][2]]))
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
    assert events[0]['num_attempts'] == 1, (word, events)
    assert [e.get('is_ambiguous', False) for e in events] == \
        [outcome == 'AMB'] + [False] * (len(events) - 1), (word, events)
    if outcome == 'AMB':
        assert status_of(events[0]) in ('4.4.2', '4.5.0'), (word, events)


@pytest.mark.parametrize('name', CASES)
def test_case(stage, name):
    _, _, outcomes, is_out_of_step, stays_open = CASES[name]
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
        is_unsettled = outcome in ('AMB', 'DEF') or (name == 'chunking-421' and word != 'a')
        assert copies(stage.peers[name], word) == 1 + (was_whole and is_unsettled), word
