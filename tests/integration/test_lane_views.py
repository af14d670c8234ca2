"""Lanes as they are looked at: the worst first, in `sluice top`, and on the page."""
import os
import re
import time
import urllib.parse

import pytest
from selenium.webdriver.common.by import By

from support.api import ask
from support.browser import DESK, PHONE, open_browser
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
    status, rows = ask(scene.daemon, '/v1/lanes', site=scene.slow.nexthop)
    assert status == 200 and {row['site'] for row in rows[:-1]} == {scene.slow.nexthop} and len(rows) == 3
    assert len(ask(scene.daemon, '/v1/lanes', site=scene.slow.nexthop[:-1])[1]) == 1
    text = scene.daemon.command('lanes', '--sort', 'worst').stdout.decode()
    assert text.index(scene.strict.nexthop) < text.index(scene.slow.nexthop)


def test_worst_sites(scene):
    """All lanes of a site together, also those of which nothing stands."""
    def sites(**params):
        status, [*rows, end] = ask(scene.daemon, '/v1/lanes', sort='worst-sites', **params)
        assert status == 200
        return [(row['site'], row['source'], row['state']) for row in rows], end['more']
    strict, slow, good = scene.strict.nexthop, scene.slow.nexthop, scene.good.nexthop
    rows, more = sites()
    assert rows == [(strict, 's1', 'closed'), (strict, 's2', 'open'), ('provider:far', 's2', 'closed'),
                    (slow, 's2', 'paced'), (slow, 's1', 'open'), (good, 's1', 'open'),
                    (good, 's2', 'open')] and not more, rows
    assert sites(limit=1) == (rows[:2], True)
    assert sites(match=slow) == (rows[3:5], False)
    assert sites(state='closed')[0] == [rows[0], rows[2]]


def test_top_has_lanes(scene, place):
    """On 80 columns, with the cause; the closed one first and red; Enter tells all that stands."""
    top = Terminal([PROGRAM, 'top', '-c', scene.daemon.config_path], columns=80, lines=24)
    place.closers.append(top.close)
    top.shows('live', '7 lanes')
    top.press('7')
    top.shows('SITE', 'SOURCE', 'STATE', 'CAUSE', 'by worst', scene.strict.nexthop[:12], 'closed ',
              '554 5.7.1', 'by local: asked', '50/s')
    assert all(len(line) <= 80 for line in top.lines())

    def states():
        found = [re.search(r'\b(closed|paced|open)\b', line) for line in top.lines()]
        return [one[1] for one in found if one][:4]
    until(lambda: states() == ['closed', 'closed', 'paced', 'open'], top.text)  # it may be in the middle of drawing
    line, _ = until(lambda: top.line_with('s1      closed'), top.text)
    until(lambda: top.look(line + 1, 0)[0] == 'red', lambda: f'red: {top.look(line + 1, 0)}')
    top.press('enter')
    top.shows(f'lane {scene.strict.nexthop} from s1', 'state    closed', '127.0.0.11', 'accepted')
    top.press('esc', '/', scene.slow.nexthop[-5:], 'enter')
    top.shows('paced', '50/s', without=['554 5.7.1'])
    top.press('q')
    assert top.wait_exit() == 0


# --- the page --------------------------------------------------------------------------------------

SCREENSHOTS = os.environ.get('SLUICE_SCREENSHOTS')  # a folder for those of docs/
MAP = """
const rows = [...document.querySelectorAll('#lanes tbody tr')];
return {columns: [...document.querySelectorAll('#lanes thead th')].map(th => th.textContent),
        rows: rows.map(row => [...row.cells].map(cell => {
          const button = cell.querySelector('button');
          return button ? [button.textContent, button.className.split(' ').pop(), getComputedStyle(button).color,
                           button.title, button.getAttribute('aria-label')] : cell.textContent; }))}
"""


@pytest.fixture(scope='module')
def chromium(module_place):
    browser = open_browser(module_place.subfolder('browser'), DESK)
    module_place.closers.append(browser.quit)
    return browser


@pytest.fixture
def browse(scene, chromium):
    """browse(address, size) -> the one browser, with the page opened anew"""
    def open_page(address='', size=DESK):
        chromium.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
            'width': size[0], 'height': size[1], 'deviceScaleFactor': 1, 'mobile': size == PHONE})
        chromium.get('about:blank')
        chromium.get(f'http://127.0.0.1:{scene.daemon.http_port}/{address}')
        until(lambda: chromium.find_element(By.ID, 'state').text == 'live', 'live')
        return chromium
    return open_page


def map_of(browser, count):
    """{site: {source: (figure, state, color, facts, label)}} once it has so many rows"""
    def found():
        shown = browser.execute_script(MAP)
        return shown if len(shown['rows']) == count and len(shown['columns']) > 1 else None
    shown = until(found, lambda: f'{count} rows: {browser.execute_script(MAP)}')
    return {row[0]: dict(zip(shown['columns'][1:], row[1:])) for row in shown['rows']}


def shows(browser, identifier, *wanted):
    def seen():
        shown = browser.find_element(By.ID, identifier).text
        return all(w in shown for w in wanted)
    until(seen, lambda: f'{wanted} in {browser.find_element(By.ID, identifier).text}')


def complaints(browser):
    return [entry for entry in browser.get_log('browser') if entry['level'] == 'SEVERE']


def test_the_map(scene, browse):
    """A row a receiver, a column an address; what it says is also said without color."""
    browser = browse()
    found = map_of(browser, 4)
    strict, slow, good = scene.strict.nexthop, scene.slow.nexthop, scene.good.nexthop
    assert list(found)[:3] == [strict, 'far', slow]  # the worst first
    assert found[strict]['s1'][1] == 'closed' and found[strict]['s1'][0].startswith('closed 1')
    assert '127.0.0.11' in found[strict]['s1'][3] and 'by the receiver' in found[strict]['s1'][3]
    assert found[strict]['s1'][4].startswith(f'{strict} from s1: closed')
    assert found[strict]['s2'][1] == 'open' and ' of ' in found[strict]['s2'][0]
    assert found['far']['s1'] == '' and found['far']['s2'][1] == 'closed'
    assert found[slow]['s2'][:2] == ['paced 50/s', 'paced'] and 'by local: asked to' in found[slow]['s2'][3]
    assert found[good]['s1'][1] == found[good]['s2'][1] == 'open'
    colors = {state: color for row in found.values() for _, state, color, *_ in filter(None, row.values())}
    assert len(set(colors.values())) == len(colors) == 3, colors
    assert complaints(browser) == []
    if SCREENSHOTS:
        browser.execute_script('document.getElementById("lanes-title").scrollIntoView()')
        time.sleep(float(os.environ.get('SLUICE_SCREENSHOT_WAIT', 0)))
        browser.save_screenshot(os.path.join(SCREENSHOTS, 'page-lanes.png'))


def test_the_map_is_searched_and_opened(scene, browse):
    browser = browse()
    strict, slow = scene.strict.nexthop, scene.slow.nexthop
    map_of(browser, 4)
    field = browser.find_element(By.ID, 'lanes-match')
    field.send_keys(slow)
    assert list(map_of(browser, 1)) == [slow]
    field.send_keys('x')
    shows(browser, 'lanes', 'no such lane')
    browser.execute_script("const f = document.getElementById('lanes-match'); f.value = '';"
                           "const s = document.getElementById('lanes-state'); s.value = 'closed';"
                           "s.dispatchEvent(new Event('input'))")
    assert set(map_of(browser, 2)) == {strict, 'far'}
    until(lambda: browser.execute_script(
        "const b = document.querySelector('#lanes button.closed'); if (b) b.click(); return b !== null"), 'a cell')
    shows(browser, 'detail', f'{strict} from s1', 'by the receiver', '127.0.0.11', 'window', 'last accepted')
    address = urllib.parse.quote(strict, safe='')
    assert browser.current_url.endswith(f'#lane/{address}/s1')
    browser.back()
    until(lambda: not browser.execute_script('return document.getElementById("detail").open'), 'closed')
    browse('#lane/provider%3Afar/s2')  # as it was sent to somebody
    shows(browser, 'detail', 'provider:far from s2', 'by local: for now', 'no transport uses it now')
    assert complaints(browser) == []


def test_the_map_on_a_phone(scene, browse):
    browser = browse(size=PHONE)
    map_of(browser, 4)
    found = browser.execute_script("""
        const cell = document.querySelector('#lanes tbody td:nth-child(2)');
        return {wide: document.documentElement.scrollWidth, label: getComputedStyle(cell, '::before').content,
                overflow: [...document.querySelectorAll('main .scroll')].filter(n => n.scrollWidth > n.clientWidth).length,
                empty: [...document.querySelectorAll('#lanes td:empty')].filter(n => getComputedStyle(n).display !== 'none').length}""")
    assert found == {'wide': PHONE[0], 'label': '"s1: "', 'overflow': 0, 'empty': 0}


def test_the_map_is_bounded(browse):
    """With many receivers and sources it has the worst of them, and says so."""
    browser = browse()
    map_of(browser, 4)
    shown = browser.execute_script("""
        const items = [];
        for (let n = 0; n < 20; n++)
          for (let s = 0; s < 40; s++)
            items.push({site: 'mx' + n + '.test', source: 'ip' + s, transport: 'smtp', window: 5, busy: 1, in_flight: 1,
                        connections: 1, state: s === 39 ? 'closed' : 'open', until: s === 39 ? now + 600 : undefined,
                        closed: s === 39 ? {by: 'receiver', since: now - 60, times: 1, text: '<b>554</b>'} : undefined});
        rounds = () => {}; draw_lanes = () => {}; map_number++;
        show_lanes({items, end: {more: true}});
        return """ + '[document.querySelectorAll("#lanes th").length, document.querySelectorAll("#lanes tbody tr").length,'
                                   ' document.querySelectorAll("#lanes button.closed").length,'
                                   ' document.querySelectorAll("#lanes b").length,'
                                   ' document.getElementById("lanes-more").textContent]')
    assert shown == [13, 20, 20, 0, 'these are the worst and the busiest: search for others; 28 more sources']
