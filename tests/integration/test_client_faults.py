"""Servers that misbehave at each point of the dialogue: what the log says, how often they were
called, how many copies they got, and that the mail arrives once they behave."""
import datetime

import pytest

from support.certificate import server_context
from support.client import message, submit
from support.peer import Peer
from support.report import Report
from support.wait import until

CASES = {}


def case(name, script, kind, code=None, status=None, text='', ambiguous=False, calls=1, copies=0,
         transport='smtp', hears=None):
    """script: of the first connection (and the others before `calls`); the next ones accept.
    kind: of the first result. copies: that the server got before the final delivery."""
    CASES[name] = locals()


# Where no reply is expected: nobody listens, nobody speaks, nobody stays.
case('refused', None, 'TransientFailure', status='4.4.1', calls=0, text='refused')
case('no banner', 'silence', 'TransientFailure', status='4.4.2', transport='hasty',
     text='timed out while receiving the initial server greeting')
case('banner closed', 'close', 'TransientFailure', status='4.4.2', text='lost connection')
# The reset may come before connect() has been seen to work, or after it: 4.4.1 or 4.4.2.
case('banner reset', 'reset', 'TransientFailure')
case('no ehlo reply', 'send 220 x\nexpect EHLO\nsilence', 'TransientFailure', status='4.4.2',
     transport='hasty')
case('ehlo closed', 'send 220 x\nexpect EHLO\nclose', 'TransientFailure', status='4.4.2')
case('mail closed', 'hello\nexpect MAIL\nclose', 'TransientFailure', status='4.4.2',
     text='sending MAIL FROM')
case('mail reset', 'hello\nexpect MAIL\nreset', 'TransientFailure', status='4.4.2')
case('no mail reply', 'hello\nexpect MAIL\nsilence', 'TransientFailure', status='4.4.2',
     transport='hasty')
case('rcpt closed', 'hello\nexpect MAIL\nsend 250 ok\nexpect RCPT\nclose', 'TransientFailure',
     status='4.4.2', text='sending RCPT TO')
case('no rcpt reply', 'plain\nexpect MAIL\nsend 250 ok\nexpect RCPT\nsilence', 'TransientFailure',
     status='4.4.2', transport='hasty')
case('data closed', 'plain\nexpect MAIL\nsend 250 ok\nexpect RCPT\nsend 250 ok\nexpect DATA\nclose',
     'TransientFailure', status='4.4.2', text='sending DATA command')
case('no data reply', 'plain\nexpect MAIL\nsend 250 ok\nexpect RCPT\nsend 250 ok\nexpect DATA\n'
     'silence', 'TransientFailure', status='4.4.2', transport='hasty')
case('body closed', 'hello\nenvelope\nclose', 'TransientFailure', status='4.4.2', ambiguous=None)
case('body reset', 'hello\nenvelope\nreset', 'TransientFailure', status='4.4.2', ambiguous=None)

# The message was there and the answer was not: it may have been taken.
case('dot closed', 'hello\nenvelope\ndata\nclose', 'TransientFailure', status='4.4.2',
     ambiguous=True, copies=1, text='end of data')
case('dot reset', 'hello\nenvelope\ndata\nreset', 'TransientFailure', status='4.4.2',
     ambiguous=True, copies=1)
case('no dot reply', 'hello\nenvelope\ndata\nsilence', 'TransientFailure', status='4.4.2',
     ambiguous=True, copies=1, transport='hasty')
case('dot garbage', 'hello\nenvelope\ndata\nsend what?\nwait', 'TransientFailure',
     ambiguous=True, copies=1)
case('dot 354', 'hello\nenvelope\ndata\nsend 354 more\nwait', 'TransientFailure', ambiguous=True,
     copies=1)

# Before MAIL a refusal is the host's: never a bounce.
case('banner 421', 'send 421 4.3.2 busy\nwait', 'TransientFailure', code=421, status='4.3.2')
case('banner 450', 'send 450 later\nwait', 'TransientFailure', code=450, status='4.0.0')
case('banner 554', 'send 554 5.7.1 blocked\nwait', 'TransientFailure', code=554, status='4.7.1',
     text='refused to talk to me')
case('banner garbage', 'send hello there\nwait', 'TransientFailure', status='4.5.0')
case('banner 354', 'send 354 go\nwait', 'TransientFailure', status='4.5.0')
case('ehlo 421', 'send 220 x\nexpect EHLO\nsend 421 4.3.2 no\nwait', 'TransientFailure', code=421)
case('ehlo and helo 4yz', 'send 220 x\nexpect EHLO\nsend 450 no\nexpect HELO\nsend 451 4.1.8 no\n'
     'wait', 'TransientFailure', code=451, status='4.1.8')
case('ehlo and helo 5yz', 'send 220 x\nexpect EHLO\nsend 502 no\nexpect HELO\nsend 550 5.1.8 no\n'
     'wait', 'TransientFailure', code=550, status='4.1.8')
case('two banners', 'raw 220 x\\r\\n220 y\\r\\n\nwait', 'TransientFailure', status='4.5.0')

# Good enough.
case('ehlo refused', 'send 220 x\nexpect EHLO\nsend 502 5.5.1 what\nexpect HELO\nsend 250 x\n'
     'envelope\ndata\nsend 250 ok\nwait', 'Delivery', copies=1)
case('no pipelining', 'plain\nenvelope\ndata\nsend 250 2.0.0 ok\nwait', 'Delivery', copies=1)
case('replies byte by byte', '\n'.join(f'raw {c}' if c != ' ' else 'raw \\x20' for c in '220 x') +
     '\nraw \\r\nraw \\n\nexpect EHLO\nsend 250 x\nenvelope\ndata\nraw 2\nraw 5\nraw 0\nraw \\r\n'
     'raw \\n\nwait', 'Delivery', copies=1)
case('bare codes', 'send 220\nexpect EHLO\nsend 250\nexpect MAIL\nsend 250\nexpect RCPT\nsend 250\n'
     'expect DATA\nsend 354\ndata\nsend 250\nwait', 'Delivery', copies=1)
case('bare lf', 'raw 220 x\\n\nexpect EHLO\nraw 250 x\\n\nexpect MAIL\nraw 250 x\\n\nexpect RCPT\n'
     'raw 250 x\\n\nexpect DATA\nraw 354 x\\n\ndata\nraw 250 x\\n\nwait', 'Delivery', copies=1)
case('long banner', '\n'.join(['send 220-' + 'x' * 500] * 20) + '\nsend 220 x\nexpect EHLO\n'
     'send 250 x\nenvelope\ndata\nsend 250 ok\nwait', 'Delivery', copies=1)
case('closed after 250', 'hello\nenvelope\ndata\nsend 250 2.0.0 kept\nclose', 'Delivery', copies=1)

# The transaction.
for _command, _before in {
        'mail': 'plain\nexpect MAIL\n',
        'rcpt': 'plain\nexpect MAIL\nsend 250 ok\nexpect RCPT\n',
        'data': 'plain\nexpect MAIL\nsend 250 ok\nexpect RCPT\nsend 250 ok\nexpect DATA\n'}.items():
    case(f'{_command} 4yz', _before + 'send 451 4.7.1 grey\nexpect RSET\nclose', 'TransientFailure', code=451,
         status='4.7.1', text='grey')
    case(f'{_command} 5yz', _before + 'send 550 5.1.1 nobody\nexpect RSET\nclose', 'Bounce', code=550,
         status='5.1.1', text='nobody')
    case(f'{_command} 421', _before + 'send 421 4.3.0 bye\nclose', 'TransientFailure', code=421)
    case(f'{_command} garbage', _before + 'send ok\nwait', 'TransientFailure', status='4.5.0')
    case(f'{_command} mixed', _before + 'raw 250-a\\r\\n550 b\\r\\n\nwait', 'TransientFailure',
         status='4.5.0')
    case(f'{_command} wrong class', _before + f'send {250 if _command == "data" else 354} x\nwait',
         'TransientFailure', status='4.5.0')
    case(f'{_command} wrong enhanced', _before + 'send 550 4.2.2 odd\nexpect RSET\nclose', 'Bounce', code=550,
         status='5.0.0')
_all = 'hello\nexpect MAIL\nexpect RCPT\nexpect DATA\n'
case('pipelined mail 4yz', _all + 'send 450 4.1.8 x\nsend 503 x\nsend 503 x\nexpect RSET\nclose',
     'TransientFailure', code=450, status='4.1.8')
case('pipelined mail 5yz', _all + 'send 550 5.1.8 x\nsend 503 x\nsend 503 x\nexpect RSET\nclose', 'Bounce',
     code=550, status='5.1.8')
case('pipelined rcpt 5yz', _all + 'send 250 x\nsend 550 5.1.1 x\nsend 554 x\nexpect RSET\nclose', 'Bounce',
     code=550, status='5.1.1')
case('pipelined replies at once', _all + 'raw 250 x\\r\\n250 x\\r\\n354 x\\r\\n\ndata\n'
     'send 250 ok\nwait', 'Delivery', copies=1)
case('pipelined reply too many', _all + 'raw 250 x\\r\\n250 x\\r\\n354 x\\r\\n250 x\\r\\n\nwait',
     'TransientFailure', status='4.5.0', ambiguous=None)
case('dot 4yz', 'hello\nenvelope\ndata\nsend 452 4.2.2 full\nclose', 'TransientFailure', code=452,
     status='4.2.2', copies=1)
case('dot 5yz', 'hello\nenvelope\ndata\nsend 554 5.6.0 spam\nclose', 'Bounce', code=554,
     status='5.6.0', copies=1)
case('dot 421', 'hello\nenvelope\ndata\nsend 421 4.3.0 bye\nclose', 'TransientFailure', code=421,
     copies=1)
case('all rcpt refused, data 354', 'hello\nexpect MAIL\nsend 250 ok\nexpect RCPT\n'
     'send 550 5.1.1 nobody\nexpect DATA\nsend 354 go\nexpect .\nsend 554 5.5.1 nobody\nclose',
     'Bounce', code=550, status='5.1.1')
case('early 5yz', 'hello\nenvelope\nhear\nsend 552 5.3.4 too big\nclose', 'Bounce', code=552,
     status='5.3.4', hears='big')
case('size', 'send 220 x\nexpect EHLO\nsend 250-x\nsend 250 SIZE 100\nexpect QUIT', 'Bounce',
     status='5.3.4', text='exceeds size limit')
case('unclean text', 'plain\nexpect MAIL\nraw 550 5.7.1 a\\x00b\\x1bc\\xffd\\r\\n\nexpect RSET\nclose', 'Bounce',
     code=550, status='5.7.1')
case('endless reply', 'hello\nexpect MAIL\n' + 'raw ' + '250-x\\r\\n' * 5000 + '\nwait',
     'TransientFailure')
case('line without end', 'hello\nexpect MAIL\nraw 250 ' + 'x' * 300000 + '\nwait',
     'TransientFailure')

# TLS that does not work: in clear, on a new connection.
case('starttls 454', 'send 220 x\nexpect EHLO\nsend 250-x\nsend 250 STARTTLS\nexpect STARTTLS\n'
     'send 454 4.7.0 no\nenvelope\ndata\nsend 250 ok\nwait', 'Delivery', copies=1)
case('handshake garbage', 'send 220 x\nexpect EHLO\nsend 250-x\nsend 250 STARTTLS\n'
     'expect STARTTLS\nsend 220 go\nhear\nsend 554 not TLS\nwait', 'Delivery', calls=1, copies=0)
case('handshake closed', 'send 220 x\nexpect EHLO\nsend 250-x\nsend 250 STARTTLS\n'
     'expect STARTTLS\nsend 220 go\nclose', 'Delivery', calls=1, copies=0)
case('starttls injection', 'send 220 x\nexpect EHLO\nsend 250-x\nsend 250 STARTTLS\n'
     'expect STARTTLS\nraw 220 go\\r\\n250 injected\\r\\n\nwait', 'TransientFailure',
     status='4.5.0')
case('tls works', 'send 220 x\nexpect EHLO\nsend 250-x\nsend 250 STARTTLS\nexpect STARTTLS\n'
     'send 220 go\nstarttls\nexpect EHLO\nsend 250-x\nsend 250 STARTTLS\nenvelope\ndata\n'
     'send 250 2.0.0 kept\nwait', 'Delivery', copies=1)


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
        scripts = [one['script']] * one['calls'] + ['accept']
        if one['script'] is None:
            closed = Peer('accept')
            closed.close()
            nexthop = closed.nexthop
        else:
            peers[name] = module_place.keep(Peer(*scripts, tls=server_tls))
            nexthop = peers[name].nexthop
        routes[recipient_of(name).partition('@')[2]] = (one['transport'], nexthop)
    hasty = {f'smtp_{step}_timeout': '1s' for step in
             ('helo', 'starttls', 'mail', 'rcpt', 'data_init', 'data_xfer', 'data_done')}
    daemon = module_place.sluice(routes=routes, transports={'smtp': {}, 'hasty': hasty})
    for name, one in CASES.items():
        body = message(name, 'x' * 70 + '\r\n')
        if one['hears'] == 'big':
            body += (b'y' * 98 + b'\r\n') * 200000
        sender = f'{recipient_of(name).partition("@")[2]}@bounce.test'
        submit(daemon, sender, [recipient_of(name)], body)
    return daemon, peers, bounces


def status_of(event):
    code = event['response'].get('enhanced_code')
    return f'{code["class"]}.{code["subject"]}.{code["detail"]}' if code else None


@pytest.mark.parametrize('name', CASES)
def test_fault(stage, name):
    daemon, peers, bounces = stage
    one, recipient, peer = CASES[name], recipient_of(name), peers.get(name)
    first = until(lambda: [e for e in daemon.of(recipient=recipient) if e['type'] != 'Reception'],
                  lambda: f'a result of {recipient}:\n{daemon.log()}')[0]
    response = first['response']
    assert first['type'] == one['kind'], str(first)
    assert one['code'] is None or response['code'] == one['code'], str(first)
    assert one['status'] is None or status_of(first) == one['status'], str(first)
    assert one['text'] in response['content'], str(first)
    assert response['content'].isprintable(), str(first)
    if one['ambiguous'] is not None:
        assert first.get('is_ambiguous', False) == one['ambiguous'], str(first)
    if first['type'] == 'TransientFailure' and peer is not None:
        daemon.wait_event('Delivery', recipient)
        assert len(peer.bodies) == one['copies'] + 1
        assert peer.connections == one['calls'] + 1
    if first['type'] == 'Delivery':
        assert len(peer.bodies) == 1
    if first['type'] == 'Bounce':
        assert peer.connections == one['calls']
        assert len(peer.bodies) == one['copies']
        check_bounce(daemon, bounces, first, recipient)
    assert peer is None or not peer.errors


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
    peer = Peer('accept')
    peer.close()
    daemon = place.sluice(routes={'*': ('smtp', peer.nexthop)})
    submit(daemon, 'a@a.test', ['x@x.test'], message())
    daemon.wait_events('TransientFailure', 'x@x.test', count=2)
    peer = place.keep(Peer('accept', address=peer.address, port=peer.port))
    daemon.wait_event('Delivery', 'x@x.test')
    assert len(peer.bodies) == 1


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
