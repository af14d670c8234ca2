"""Servers that are odd and must be served all the same, refusals that are easily taken for something
else, and connections in use: what the fault matrix (test_fault_matrix.py) has no cell for."""
import datetime

import pytest

from support.address import free_port
from support.certificate import server_context
from support.client import message, submit
from support.daemon import status_of
from support.peer import Peer
from support.report import Report
from support.wait import until

CASES = {}


def case(name, script, kind, code=None, status=None, text='', copies=0, body='x\r\n', repeat=1):
    """script: of the one connection. kind: of the result. copies: that the server got."""
    CASES[name] = locals()


# What servers do and must be allowed to.
case('replies byte by byte', '\n'.join(f'raw {c}' if c != ' ' else 'raw \\x20' for c in '220 x') +
     '\nraw \\r\nraw \\n\nexpect EHLO\nsend 250 x\nenvelope\ndata\nraw 2\nraw 5\nraw 0\nraw \\r\n'
     'raw \\n\nwait', 'Delivery', copies=1)
case('bare codes', 'send 220\nexpect EHLO\nsend 250\nexpect MAIL\nsend 250\nexpect RCPT\nsend 250\n'
     'expect DATA\nsend 354\ndata\nsend 250\nwait', 'Delivery', copies=1)
case('lines without text', r'raw 220-\r\n220\r\n' '\nexpect EHLO\n' r'raw 250-\r\n250-\r\n250\r\n'
     '\nexpect MAIL\n' r'raw 250-\r\n250 \r\n' '\nexpect RCPT\nsend 250\nexpect DATA\nsend 354\n'
     'data\n' r'raw 250-\r\n250\r\n' '\nwait', 'Delivery', copies=1)
for _size in (512, 1000, 4096):
    case(f'replies of {_size} bytes', f'send 220 {"x" * (_size - 6)}\nexpect EHLO\nsend 250 x\n'
         f'expect MAIL\nsend 250 {"x" * (_size - 6)}\nexpect RCPT\nsend 250 ok\nexpect DATA\n'
         f'send 354 ok\ndata\nsend 250 {"x" * (_size - 6)}\nwait', 'Delivery', copies=1)
case('long banner', '\n'.join(['send 220-' + 'x' * 500] * 20) + '\nsend 220 x\nexpect EHLO\n'
     'send 250 x\nenvelope\ndata\nsend 250 ok\nwait', 'Delivery', copies=1)
case('bare lf', 'raw 220 x\\n\nexpect EHLO\nraw 250 x\\n\nexpect MAIL\nraw 250 x\\n\nexpect RCPT\n'
     'raw 250 x\\n\nexpect DATA\nraw 354 x\\n\ndata\nraw 250 x\\n\nexpect QUIT', 'Delivery',
     copies=1)
case('small letters', 'send 220 x\nexpect EHLO\nsend 250-x\nsend 250-size 100000\n'
     'send 250 pipelining\nexpect MAIL FROM:<small-letters.test@bounce.test> SIZE=\nexpect RCPT\n'
     'expect DATA\nsend 250 ok\nsend 250 ok\nsend 354 go\ndata\nsend 250 ok\nwait', 'Delivery',
     copies=1)
case('many replies in one packet', 'hello\nexpect MAIL\nexpect RCPT\nexpect DATA\n'
     r'raw 250 x\r\n250 x\r\n354 x\r\n' '\ndata\nsend 250 ok\nwait', 'Delivery', copies=1)
case('no pipelining', 'plain\nenvelope\ndata\nsend 250 2.0.0 ok\nwait', 'Delivery', copies=1)
case('no ehlo', 'send 220 x\nexpect EHLO\nsend 502 5.5.1 what\nexpect HELO\nsend 250 x\n'
     'envelope\ndata\nsend 250 ok\nwait', 'Delivery', copies=1)
# As it came: nothing is rewritten, and nothing bounces for it.
case('no 8bitmime', 'plain\nexpect MAIL FROM:<no-8bitmime.test@bounce.test>\nsend 250 ok\n'
     'expect RCPT\nsend 250 ok\nexpect DATA\nsend 354 go\ndata\nsend 250 ok\nwait', 'Delivery',
     copies=1, text='ok', body='Grüße\r\n')
case('size of thirty digits', f'send 220 x\nexpect EHLO\nsend 250-x\nsend 250 SIZE {"9" * 30}\n'
     'envelope\ndata\nsend 250 ok\nwait', 'Delivery', copies=1)
case('size', 'send 220 x\nexpect EHLO\nsend 250-x\nsend 250 SIZE 100\nexpect QUIT', 'Bounce',
     status='5.3.4', text='exceeds size limit')
case('mixed lines that agree', 'hello\nenvelope\ndata\n' r'raw 250-2.0.0 a\r\n251-b\r\n250 c\r\n'
     '\nwait', 'Delivery', copies=1)
case('closed after 250', 'hello\nenvelope\ndata\nsend 250 2.0.0 kept\nclose', 'Delivery', copies=1)
case('tls works', 'secure\nexpect EHLO\nsend 250-x\nsend 250 STARTTLS\nenvelope\ndata\n'
     'send 250 2.0.0 kept\nwait', 'Delivery', copies=1)

# Refusals that are not what they seem.
for _command, _before in {
        'mail': 'plain\nexpect MAIL\n',
        'rcpt': 'plain\nexpect MAIL\nsend 250 ok\nexpect RCPT\n',
        'data': 'plain\nexpect MAIL\nsend 250 ok\nexpect RCPT\nsend 250 ok\nexpect DATA\n'}.items():
    case(f'{_command} wrong enhanced', _before + 'send 550 4.2.2 odd\nexpect RSET\nclose', 'Bounce',
         code=550, status='5.0.0')
case('all rcpt refused, data 354', 'hello\nexpect MAIL\nsend 250 ok\nexpect RCPT\n'
     'send 550 5.1.1 nobody\nexpect DATA\nsend 354 go\nexpect .\nsend 554 5.5.1 nobody\nclose',
     'Bounce', code=550, status='5.1.1')
case('rcpt 552', 'plain\nexpect MAIL\nsend 250 ok\nexpect RCPT\nsend 552 5.2.2 full\nexpect RSET\n'
     'close', 'Bounce', code=552, status='5.2.2')
# In one packet with 354, and so before anything of the body.
case('refused with the 354', 'plain\nexpect MAIL\nsend 250 ok\nexpect RCPT\nsend 250 ok\nexpect DATA\n'
     r'raw 354 go\r\n554 5.7.1 no\r\n' '\nwait', 'Bounce', code=554, status='5.7.1')
# The refusal comes first, then the connection is lost while the body is on its way.
case('early 5yz', 'hello\nenvelope\nhear\nsend 552 5.3.4 too big\nclose', 'Bounce', code=552,
     status='5.3.4', body='y' * 98 + '\r\n', repeat=200000)


@pytest.fixture(scope='module')
def server_tls(module_place):
    return server_context(module_place.subfolder('tls'))


def recipient_of(name):
    return 'user@' + name.replace(' ', '-').replace(',', '') + '.test'


@pytest.fixture(scope='module')
def stage(module_place, server_tls):
    """All cases at once, each with a domain and a server of its own."""
    bounces = module_place.receiver()
    peers, routes = {}, {'bounce.test': ('smtp', bounces.nexthop)}
    for name, one in CASES.items():
        peers[name] = module_place.keep(Peer(one['script'], tls=server_tls))
        routes[recipient_of(name).partition('@')[2]] = ('smtp', peers[name].nexthop)
    daemon = module_place.sluice(routes=routes)
    for name, one in CASES.items():
        sender = f'{recipient_of(name).partition("@")[2]}@bounce.test'
        submit(daemon, sender, [recipient_of(name)],
               message(name, one['body'] * one['repeat']), ' BODY=8BITMIME')
    return daemon, peers, bounces


@pytest.mark.parametrize('name', CASES)
def test_case(stage, name):
    daemon, peers, bounces = stage
    one, recipient, peer = CASES[name], recipient_of(name), peers[name]
    [event] = until(lambda: daemon.results(recipient),
                    lambda: f'a result of {recipient}:\n{daemon.log()}')
    response = event['response']
    assert event['type'] == one['kind'], str(event)
    assert one['code'] is None or response['code'] == one['code'], str(event)
    assert one['status'] is None or status_of(event) == one['status'], str(event)
    assert one['text'] in response['content'] and response['content'].isprintable(), str(event)
    assert 'is_ambiguous' not in event, str(event)
    assert peer.connections == 1 and len(peer.bodies) == one['copies'] and not peer.errors
    if event['type'] == 'Delivery':
        assert peer.bodies[0].endswith(f'\r\n\r\n{one["body"] * one["repeat"]}'.encode()[:-2])
    else:
        check_bounce(daemon, bounces, event, recipient)


def check_bounce(daemon, bounces, event, recipient):
    daemon.wait_event('Delivery', event['sender'])
    [bounce] = bounces.to(event['sender'])
    assert bounce.sender == ''
    report = Report(bounce.content)
    about = report.recipient(recipient)
    assert about['Action'] == 'failed'
    assert about['Status'] == status_of(event)
    date = report.message['Date'].datetime
    assert abs(datetime.datetime.now(datetime.timezone.utc) - date).total_seconds() < 300


def test_refused_port_is_tried_again(place):
    """Nobody listens at first; then somebody does."""
    peer = Peer('accept', port=free_port())  # which nobody else takes meanwhile
    peer.close()
    daemon = place.sluice(routes={'*': ('smtp', peer.nexthop)})
    submit(daemon, 'a@a.test', ['x@x.test'], message())
    daemon.wait_events('TransientFailure', 'x@x.test', count=2)
    peer = place.keep(Peer('accept', address=peer.address, port=peer.port))
    daemon.wait_event('Delivery', 'x@x.test')
    assert len(peer.bodies) == 1


def test_an_end_that_cannot_be_believed_is_asked_for_by_data(place):
    """The server answers the end of a message by BDAT with the code of a recipient: it may have taken it, or not.
    The next attempt uses DATA, where that can be told, so that the message does not come again and again."""
    envelope = 'chunks\nexpect MAIL\n{}send 250 2.1.0 ok\nsend 250 2.1.5 ok\n'
    by_data = envelope.format('expect RCPT\nexpect DATA\n') + 'send 354 go\ndata\nsend 250 2.1.5 queued 2\nwait'
    peer = place.keep(Peer(envelope.format('expect RCPT\n') + 'chunk\nsend 250 2.1.5 queued 1\nwait', by_data))
    daemon = place.sluice(routes={'*': ('smtp', peer.nexthop)})
    submit(daemon, 'a@a.test', ['x@x.test'], message())
    assert daemon.wait_event('TransientFailure', 'x@x.test')['is_ambiguous']
    daemon.wait_event('Delivery', 'x@x.test')
    assert len(peer.bodies) == 2 and peer.connections == 2 and not peer.errors
    [host] = daemon.query('hosts')
    assert 'DATA instead of BDAT' in host['notes']


def test_partial_rejection(place):
    def answers(verb, argument, session):
        if verb == 'RCPT' and 'bad' in argument:
            return '550 5.1.1 nobody'
        if verb == 'RCPT' and 'later' in argument and not session.receiver.messages:
            return '450 4.2.0 later'
        return None
    receiver = place.receiver(answers=answers)
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)})
    names = [f'{kind}{n}@x.test' for n in range(3) for kind in ('good', 'bad', 'later')]
    submit(daemon, 'me@a.test', names, message())
    daemon.wait_events('Delivery', count=7)
    got = [r for m in receiver.messages for r in m.recipients]
    assert sorted(got) == sorted([n for n in names if 'bad' not in n] + ['me@a.test'])
    assert len(daemon.of('Bounce')) == 3 and len(daemon.of('TransientFailure')) == 3
    [bounce] = receiver.to('me@a.test')
    report = Report(bounce.content)
    assert {r['Final-Recipient'] for r in report.recipients} == \
        {f'rfc822; bad{n}@x.test' for n in range(3)}


@pytest.mark.parametrize('reply', ['452 4.5.3 too many', '552 5.5.3 too many',
                                   '451 4.5.3 too many'])
@pytest.mark.parametrize('hello', ['plain', 'hello'])
def test_recipients_beyond_the_limit_of_a_transaction(place, hello, reply):
    """They go with the next transactions on the same connection; no attempt is counted."""
    def answers(verb, argument, session):
        return reply if verb == 'RCPT' and len(session.recipients) == 2 else None
    receiver = place.receiver(answers=answers, extensions=('PIPELINING',) if hello == 'hello' else
                              ('8BITMIME',))
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)})
    names = [f'r{number}@x.test' for number in range(5)]
    submit(daemon, 'me@a.test', names, message())
    events = daemon.wait_events('Delivery', count=5)
    assert sorted(e['recipient'] for e in events) == names
    assert all(e['num_attempts'] == 1 for e in events) and not daemon.of('TransientFailure')
    assert [m.recipients for m in receiver.messages] == [names[:2], names[2:4], names[4:]]
    assert receiver.connections == 1
    daemon.wait_empty()


def test_limits_of_recipients(place):
    """LIMITS RCPTMAX is honoured before it is hit."""
    receiver = place.receiver(extensions=('PIPELINING', 'LIMITS RCPTMAX=2'))
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)})
    names = [f'r{number}@x.test' for number in range(5)]
    submit(daemon, 'me@a.test', names, message())
    daemon.wait_events('Delivery', count=5)
    assert [len(m.recipients) for m in receiver.messages] == [2, 2, 1]
    assert receiver.connections == 1


def test_what_is_refused_is_not_ambiguous(place):
    """Beside recipients whose message was lost behind its end."""
    peer = place.keep(Peer('plain\nexpect MAIL\nsend 250 ok\nexpect RCPT\nsend 250 ok\nexpect RCPT\n'
                           'send 550 5.1.1 nobody\nexpect DATA\nsend 354 go\ndata\nclose', 'good'))
    daemon = place.sluice(routes={'*': ('smtp', peer.nexthop)})
    submit(daemon, '', ['a@x.test', 'b@x.test'], message())
    assert 'is_ambiguous' not in daemon.wait_event('Bounce', 'b@x.test')
    assert daemon.wait_event('TransientFailure', 'a@x.test')['is_ambiguous']
    assert 'is_ambiguous' not in daemon.wait_event('Delivery', 'a@x.test')


def test_421_on_a_reused_connection(place):
    """The server gave up the idle connection: once more on a new one, no attempt is counted."""
    once = 'envelope\ndata\nsend 250 2.0.0 kept'
    peer = place.keep(Peer(f'hello\n{once}\nexpect MAIL\nsend 421 4.3.0 idle too long\nclose',
                           'accept'))
    daemon = place.sluice(routes={'*': ('smtp', peer.nexthop)},
                          transports={'smtp': {'smtp_connection_cache_time_limit': '60s'}})
    submit(daemon, 'a@a.test', ['one@x.test'], message())
    daemon.wait_event('Delivery', 'one@x.test')
    submit(daemon, 'a@a.test', ['two@x.test'], message())
    event = daemon.wait_event('Delivery', 'two@x.test')
    assert event['num_attempts'] == 1
    assert not daemon.of('TransientFailure')
    assert peer.connections == 2 and len(peer.bodies) == 2 and not peer.errors


def test_idle_connection_closed_by_the_server(place):
    once = 'envelope\ndata\nsend 250 2.0.0 kept'
    peer = place.keep(Peer(f'hello\n{once}\nclose', 'accept'))
    daemon = place.sluice(routes={'*': ('smtp', peer.nexthop)},
                          transports={'smtp': {'smtp_connection_cache_time_limit': '60s'}})
    submit(daemon, 'a@a.test', ['one@x.test'], message())
    daemon.wait_event('Delivery', 'one@x.test')
    submit(daemon, 'a@a.test', ['two@x.test'], message())
    daemon.wait_event('Delivery', 'two@x.test')
    assert not daemon.of('TransientFailure')
    assert peer.connections == 2


def test_connections_are_reused(place):
    peer = place.keep(Peer('hello\n' + 'envelope\ndata\nsend 250 2.0.0 kept\n' * 5 + 'wait'))
    daemon = place.sluice(routes={'*': ('smtp', peer.nexthop)},
                          transports={'smtp': {'smtp_connection_cache_time_limit': '60s'}})
    for n in range(5):
        submit(daemon, 'a@a.test', [f'r{n}@x.test'], message())
        daemon.wait_event('Delivery', f'r{n}@x.test')
    assert peer.connections == 1 and not peer.errors
