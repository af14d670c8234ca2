"""`why` says which lane keeps mail, by whose word, since when, and when it goes on."""
import time

from support.api import ask
from support.client import message, submit
from support.wait import settled, until

SLOWER = '421 4.7.28 Too many messages, slow down'
# Another address than ours: it closes the lane to this destination only.
LISTED = '554 5.7.1 Service unavailable; Client host [192.0.2.9] blocked using zen.spamhaus.org'


def send(daemon, count, domain='x.test', first=0):
    for n in range(first, first + count):
        submit(daemon, 'a@a.test', [f'{n}@{domain}'], message())


def why(daemon, **asked):
    status, [answer] = ask(daemon, '/v1/why', **asked)
    assert status == 200, answer
    return answer


def why_recipient(daemon, recipient):
    # The event may be a moment earlier.
    [found] = until(lambda: ask(daemon, '/v1/messages', recipient=recipient, state='deferred')[1][:-1],
                    'it is deferred')
    return why(daemon, message=found['id'])


def link(answer, text):
    """The one link that says so."""
    found = [one for one in answer['chain'] if text in one['what']]
    assert len(found) == 1, answer['chain']
    return found[0]


def lanes_command(daemon, *arguments):
    done = daemon.command('lanes', *arguments)
    assert done.returncode == 0, done.stderr


def start(place, answers=None, options=None, **transport):
    receiver = place.receiver(answers=answers)
    daemon = place.sluice(
        routes={'*': ('smtp', receiver.nexthop)},
        sources={'s1': {'address': '127.0.0.11'}, 's2': {'address': '127.0.0.12'}},
        pools={'all': {'sources': ['s1', 's2']}},
        options={'minimal_backoff_time': '300s', 'maximal_backoff_time': '300s', **(options or {})},
        transports={'smtp': {'source_pool': 'all', **transport}})
    return receiver, daemon


def test_closed_by_order(place):
    receiver, daemon = start(place)
    send(daemon, 1)
    receiver.wait(1)
    lanes_command(daemon, 'close', receiver.nexthop, '--source', 's1', '--for', '2h', '--reason', 'D-9')

    def check():
        answer = why(daemon, destination=receiver.nexthop)
        closed = link(answer, 'lane s1 of ')
        assert 'is closed by order' in closed['what'] and closed['because'].startswith('by local: D-9 (since ')
        assert 7000 < closed['until'] - time.time() <= 7200 and 'open again' in closed['next']
        assert '1 of the 2 lanes' in link(answer, 'held back')['what']
    settled(check)
    # Nothing is left: its mail is deferred with the reason, and says so as a message too.
    lanes_command(daemon, 'close', receiver.nexthop, '--source', 's2', '--for', '1h')
    send(daemon, 1, first=10)
    daemon.wait_event('TransientFailure', '10@x.test')

    def check_recipient():
        answer = why_recipient(daemon, '10@x.test')
        assert 'by local' in answer['chain'][0]['because']
        assert 'closed by order' in link(answer, 'lane s2 of ')['what']
        assert answer['next_change'] <= time.time() + 310
    settled(check_recipient)


def test_paced_and_rated(place):
    """What waits for a slow lane goes back to the spool, untried; a message in memory has its turn."""
    receiver, daemon = start(place, options={'message_recipient_limit': 40, 'message_active_limit': 60},
                             max_message_rate='60/h')
    send(daemon, 6)
    until(lambda: len(receiver.messages) >= 2, 'those of the burst')

    def check_rated():
        answer = why(daemon, destination=receiver.nexthop)
        rated = [one for one in answer['chain'] if 'what its rate permits' in one['what']]
        assert len(rated) == 2 and rated[0]['because'] == '60/h messages of the lane'
        assert {'s1', 's2'} == {one['what'].split()[1] for one in rated}
        assert all(0 < one['until'] - time.time() <= 61 for one in rated)
        assert rated[0]['next'] == 'its next message goes then'
    settled(check_rated)
    lanes_command(daemon, 'pace', receiver.nexthop, '2/h', '--source', 's1', '--reason', 'asked')
    lanes_command(daemon, 'close', receiver.nexthop, '--source', 's2', '--for', '1h')
    send(daemon, 80, first=10)
    until(lambda: any(one.get('paced') for one in daemon.query('messages')), 'some left memory')
    paced = next(one for one in daemon.query('messages') if one.get('paced'))
    assert (paced['state'], paced['attempts']) == ('deferred', 0) and paced['due'] > time.time()

    def check_paced():
        answer = why(daemon, message=paced['id'])
        turn = link(answer, 'it was not tried')
        assert turn['until'] == paced['due'] and 'counts as none' in turn['next']
        pace = link(answer, 'may send 0.000556 messages a second')
        assert pace['because'].startswith('by local: asked (since ') and pace['until'] > time.time()
        assert 'waits for what its receiver lets through' in \
            daemon.command('message', paced['id']).stdout.decode()
    settled(check_paced)


def test_quota(place):
    receiver, daemon = start(place, max_message_quota='2/d')
    send(daemon, 8)
    receiver.wait(4)

    def check():
        answer = why(daemon, destination=receiver.nexthop)
        quota = link(answer, 'lane s1 of ')
        assert 'has used up its quota' in quota['what'] and quota['because'] == '2/d of the lane'
        assert (quota['until'] + 60) % 86400 < 120 and quota['next'] == 'its next message goes then'
        lane = daemon.query('lanes')[0]
        assert (lane['waits']['for'], lane['waits']['of']) == ('quota', 'lane') and lane['quotas'][0]['left'] == 0
    settled(check)


def test_throttled_and_avoided(place):
    state = {'left': 3}

    def answers(verb, argument, session):
        if verb == 'RCPT' and session.peer[0] == '127.0.0.11':
            return LISTED
        if verb == 'MAIL' and session.peer[0] == '127.0.0.12':
            state['left'] -= 1
            return SLOWER if state['left'] <= 0 else None
        return None
    receiver, daemon = start(place, answers)
    send(daemon, 12)
    until(lambda: {one['source']: one for one in daemon.query('lanes')}
          .get('s2', {}).get('paces'), lambda: f'a pace: {daemon.query("lanes")}')

    def check():
        answer = why(daemon, destination=receiver.nexthop)
        pace = link(answer, 'lane s2 of ')
        assert 'messages a second' in pace['what'] and 'slow down (' in pace['because']
        assert 'since ' in pace['because'] and 'until' in pace  # between two trials nothing waits for a time
        avoided = link(answer, 'lane s1 of ')
        assert 'is avoided by this destination' in avoided['what']
        assert 'blocked' in avoided['because'] and avoided['until'] > time.time() + 600
    settled(check)
