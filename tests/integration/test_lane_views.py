"""Lanes as they are looked at: the worst first, in `sluice top`, and on the page."""
import re

import pytest

from support.api import ask
from support.client import message, submit
from support.daemon import PROGRAM
from support.terminal import Terminal
from support.wait import until

LISTED = '554 5.7.1 Service unavailable; Client host [{}] blocked using zen.spamhaus.org'
SLOWER = '421 4.7.28 Too many messages, slow down'


class Scene:
    """Two sources and three receivers: one of which does not want s1, one that is slow for s2 by an order,
    one that takes everything; and two that nobody uses now."""

    def __init__(self, place):
        def strict(verb, argument, session):
            if verb == 'RCPT' and session.peer[0] == '127.0.0.11':
                return LISTED.format('127.0.0.11')
            return None
        self.strict, self.slow, self.good = (place.receiver(answers=strict), place.receiver(),
                                             place.receiver())
        routes = {'strict.test': self.strict, 'slow.test': self.slow, 'good.test': self.good}
        self.daemon = place.sluice(
            http={},
            routes={domain: ('smtp', receiver.nexthop) for domain, receiver in routes.items()},
            sources={'s1': {'address': '127.0.0.11'}, 's2': {'address': '127.0.0.12'}},
            pools={'all': {'sources': ['s1', 's2'], 'weights': [1, 1]}},
            providers={'far': {'mx': ['*.far.test']}},
            transports={'smtp': {'source_pool': 'all'}})
        for domain in routes:
            for n in range(6):
                submit(self.daemon, 'a@a.test', [f'{n}@{domain}'], message())
        self.daemon.wait_events('Delivery', count=18)
        self.order('pace', self.slow.nexthop, '50/s', '--source', 's2', '--reason', 'asked to')
        self.order('close', 'far', '--source', 's2', '--for', '2h', '--reason', 'for now')

    def order(self, *words):
        done = self.daemon.command('lanes', *words)
        assert done.returncode == 0, done.stderr

    def worst(self, **params):
        status, lines = ask(self.daemon, '/v1/lanes', sort='worst', **params)
        assert status == 200, lines
        assert lines[-1]['count'] == len(lines) - 1
        return lines[:-1], lines[-1]['more']


@pytest.fixture(scope='module')
def scene(module_place):
    return Scene(module_place)


def test_worst_first(scene):
    rows, more = scene.worst()
    found = [(row['site'], row['source'], row['state']) for row in rows]
    assert found[:3] == [(scene.strict.nexthop, 's1', 'closed'), ('provider:far', 's2', 'closed'),
                         (scene.slow.nexthop, 's2', 'paced')], found
    assert {row['state'] for row in rows[3:]} == {'open'} and len(rows) == 7 and not more
    assert len({(site, source) for site, source, _ in found}) == 7  # each once
    assert 'transport' not in rows[1] and rows[0]['transport'] == 'smtp'
    rows, more = scene.worst(limit=2)
    assert [row['state'] for row in rows] == ['closed', 'closed'] and more
    rows, _ = scene.worst(state='paced')
    assert [(row['site'], row['source']) for row in rows] == [(scene.slow.nexthop, 's2')]
    rows, _ = scene.worst(match=scene.good.nexthop)
    assert {row['site'] for row in rows} == {scene.good.nexthop}
    rows, _ = scene.worst(source='s1')
    assert {row['source'] for row in rows} == {'s1'} and rows[0]['state'] == 'closed'
    rows, _ = scene.worst(transport='smtp')
    assert 'provider:far' not in {row['site'] for row in rows} and len(rows) == 6
    assert ask(scene.daemon, '/v1/lanes', sort='best')[0] == 400
    text = scene.daemon.command('lanes', '--sort', 'worst').stdout.decode()
    assert text.index(scene.strict.nexthop) < text.index(scene.slow.nexthop)


def test_top_has_lanes(scene, place):
    """On 80 columns, with the cause; the closed one first and red; Enter tells all that stands."""
    top = Terminal([PROGRAM, 'top', '-c', scene.daemon.config_path], columns=80, lines=24)
    place.closers.append(top.close)
    top.shows('live', '7 lanes')
    top.press('7')
    top.shows('SITE', 'SOURCE', 'STATE', 'CAUSE', 'by worst', scene.strict.nexthop[:12], 'closed ',
              '554 5.7.1', 'by local: asked', '50/s')
    lines = top.lines()
    assert all(len(line) <= 80 for line in lines)
    rows = [line for line in lines if re.search(r'\b(closed|paced|open)\b', line)]
    assert [re.search(r'\b(closed|paced|open)\b', line)[1] for line in rows[:4]] == [
        'closed', 'closed', 'paced', 'open'], rows
    line, _ = top.line_with('s1      closed')
    until(lambda: top.look(line + 1, 0)[0] == 'red', lambda: f'red: {top.look(line + 1, 0)}')
    top.press('enter')
    top.shows(f'lane {scene.strict.nexthop} from s1', 'state    closed', '127.0.0.11', 'accepted')
    top.press('esc', '/', scene.slow.nexthop[-5:], 'enter')
    top.shows('paced', '50/s', without=['554 5.7.1'])
    top.press('q')
    assert top.wait_exit() == 0
