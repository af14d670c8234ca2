"""The page at /, in a real browser, over a relay with live traffic."""
import json
import os
import time
import urllib.parse

import pytest
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.common.by import By

from support import injection
from support.address import free_port
from support.browser import DESK, PHONE, open_browser
from support.traffic import Traffic, refuse
from support.wait import settled, until

SCREENSHOTS = os.environ.get('SLUICE_SCREENSHOTS')  # a folder for those of docs/


@pytest.fixture(scope='module')
def scene(module_place):
    place = module_place
    good = [place.receiver() for _ in range(3)]
    slow = place.receiver(answers=refuse('451 4.3.0 the server is busy with 192.0.2.7, see id 8fa3c2'))
    never = place.receiver(answers=refuse('550 5.1.1 no such user here'))
    ports = {f'isp{n}.example': receiver.port for n, receiver in enumerate(good)}
    ports |= {'busy.example': slow.port, 'strict.example': never.port, 'gone.example': free_port()}
    daemon = place.sluice(
        http={}, sources={'west': {'address': '127.0.0.1'}, 'east': {'address': '127.0.0.1'}},
        pools={'both': {'sources': ['west', 'east']}}, routes={domain: ('smtp', f'[127.0.0.1]:{port}') for domain, port in ports.items()},
        options={'allow_loopback': True, 'minimal_backoff_time': '20s', 'maximal_backoff_time': '60s'})
    daemon.command('suspend', '--tenant', 'initech', '--for', '2h', '--reason', 'complaints, T-123')
    daemon.command('suspend', '--source', 'east', '--for', '1h', '--reason', 'listed, T-124')
    daemon.command('suspend', '--transport', 'stmp', '--for', '1h', '--reason', 'mistyped')
    traffic = Traffic(daemon, list(ports))
    place.closers.append(traffic.close)
    injection.post(daemon, {'from': 'a@initech.test', 'recipients': ['b@isp0.example'], 'tenant': 'initech',
                            'text': 'held\n', 'headers': {'Subject': 'x'}}).expect(202)
    daemon.ports = ports
    daemon.nexthop = lambda domain: f'[127.0.0.1]:{ports[domain]}'
    return daemon


@pytest.fixture
def browse(scene, place):
    """browse(size) -> a browser that has the page open and has shown figures"""
    def open_page(size=DESK, **settings):
        browser = open_browser(place.subfolder('browser'), size, **settings)
        place.closers.append(browser.quit)
        browser.get(f'http://127.0.0.1:{scene.http_port}/')
        until(lambda: text(browser, 'state') == 'live', lambda: f'live; it says {text(browser, "state")}')
        return browser
    return open_page


def text(browser, identifier):
    return browser.find_element(By.ID, identifier).text


def shows(browser, identifier, *wanted):
    def seen():
        shown = text(browser, identifier)
        return all(w in shown for w in wanted)
    until(seen, lambda: f'{wanted} in {identifier}:\n{text(browser, identifier)}')


def press(browser, by, what):
    """Click on it. The page renews its tables, so what was found may be gone before it is clicked."""
    def pressed():
        try:
            browser.find_element(by, what).click()
        except (NoSuchElementException, StaleElementReferenceException):
            return False
        return True
    until(pressed, lambda: f'{what} to click on')


def press_name(browser, table, name):
    press(browser, By.XPATH, f'//table[@id="{table}"]//button[text()="{name}"]')


def complaints(browser):
    return [entry for entry in browser.get_log('browser') if entry['level'] == 'SEVERE']


def shoot(browser, name):
    if SCREENSHOTS:
        time.sleep(float(os.environ.get('SLUICE_SCREENSHOT_WAIT', 0)))  # for figures over time
        browser.save_screenshot(os.path.join(SCREENSHOTS, name))


def test_the_page_shows_what_happens(scene, browse):
    browser = browse()
    shows(browser, 'host', 'relay.test')
    shows(browser, 'tiles', 'delivered a second', 'dead destinations')
    shows(browser, 'destinations', f'[127.0.0.1]:{scene.ports["isp0.example"]}')
    shows(browser, 'responses', '451 4.3.0', 'the server is busy with', '550 5.1.1', 'no such user here',
          'acme')
    shows(browser, 'tenants', 'acme', 'globex', 'initech')
    shows(browser, 'orders', 'suspend', 'tenant initech', 'complaints, T-123',
          'transport stmp: no transport of this name is configured')
    shows(browser, 'sources', 'west', 'open', 'both', 'east', 'closed, opens in ', 'listed, T-124')
    shows(browser, 'queue', f'[127.0.0.1]:{scene.ports["gone.example"]}')
    shows(browser, 'queue-tenant', 'acme', 'globex')
    shows(browser, 'age', '<1m', '>3d')
    shows(browser, 'tiles', 'standing orders')
    until(lambda: len(browser.find_elements(By.CSS_SELECTOR, '#flow polyline')) == 3 and
          len(browser.find_elements(By.CSS_SELECTOR, '#arrivals polyline')) == 1,
          lambda: 'four lines of throughput')
    assert complaints(browser) == []
    shoot(browser, 'page.png')


def test_one_click_tells_why(scene, browse):
    browser = browse()
    gone = f'[127.0.0.1]:{scene.ports["gone.example"]}'
    shows(browser, 'queue', gone)
    press_name(browser, 'queue', gone)
    shows(browser, 'detail', 'Why: destination', 'refused')
    browser.find_element(By.ID, 'close').click()
    busy = f'[127.0.0.1]:{scene.ports["busy.example"]}'
    shows(browser, 'destinations', busy)
    press_name(browser, 'destinations', busy)
    shows(browser, 'detail', busy, 'Window over time', 'What holds it back', '451 4.3.0')
    until(lambda: browser.find_elements(By.CSS_SELECTOR, '#detail polyline'), 'windows drawn')  # of two samples at least
    shoot(browser, 'page-destination.png')
    browser.find_element(By.ID, 'close').click()
    field = browser.find_element(By.CSS_SELECTOR, '#ask input')
    field.send_keys('initech\n')
    shows(browser, 'detail', 'Why: tenant initech', 'complaints, T-123')
    assert complaints(browser) == []


def test_it_works_on_a_phone(browse):
    browser = browse(PHONE)
    shows(browser, 'tenants', 'acme')
    width = browser.execute_script('return document.documentElement.scrollWidth')
    assert width <= PHONE[0], 'it scrolls sideways'
    shoot(browser, 'page-phone.png')


CARDS = """
const overflow = [...document.querySelectorAll('main .scroll')].filter(n => n.scrollWidth > n.clientWidth).length;
const cell = document.querySelector('#destinations tbody td:nth-child(2)');
return {overflow, head: getComputedStyle(document.querySelector('#destinations thead')).display,
        label: getComputedStyle(cell, '::before').content, empty: [...document.querySelectorAll('td:empty')]
        .filter(n => getComputedStyle(n).display !== 'none').length}
"""


def test_tables_are_cards_on_a_phone(scene, browse):
    browser = browse(PHONE)
    shows(browser, 'destinations', scene.nexthop('busy.example'))
    shows(browser, 'responses', '451 4.3.0')
    found = browser.execute_script(CARDS)
    assert found == {'overflow': 0, 'head': 'none', 'label': '"state: "', 'empty': 0}
    browser.execute_script('document.getElementById("destinations").scrollIntoView()')
    shoot(browser, 'page-phone-cards.png')


def cells(browser, name):
    """{title: (text, class of what is in it)} of a destination's row"""
    return browser.execute_script("""
        const row = [...document.querySelectorAll('#destinations tbody tr')].find(
            row => row.cells[0].querySelector('button').textContent === arguments[0]);
        return Object.fromEntries([...row.cells].map(cell =>
        [cell.dataset.label, [cell.textContent, cell.firstElementChild ? cell.firstElementChild.className : '']]))""",
                                  name)


def test_a_destination_that_defers_is_not_green(scene, browse):
    """What is put off again and again is ready, but it does not look as if all was well."""
    browser = browse()
    busy, good = scene.nexthop('busy.example'), scene.nexthop('isp0.example')
    shows(browser, 'destinations', busy, good)
    # Each has a share from its second figures on.
    until(lambda: all(cells(browser, name)['deferral share'][0] for name in (busy, good)), 'shares of both')

    def check():
        assert cells(browser, busy)['state'] == ['ready, defers', 'bad']
        assert cells(browser, busy)['deferral share'] == ['100 %', 'bad']
        assert cells(browser, good)['state'] == ['ready', 'good']
        assert cells(browser, good)['deferral share'] == ['0 %', 'good']
    settled(check)


SHARE = """
lately = new Map();
const at = (time, delivered, deferred) => {
  now = time;
  const d = {transport: 't', destination: 'd', state: 'ready', delivered, deferred};
  remember([d]);
  return [percent(deferral_share(d)), state_class(d)];
};
return [at(1000, 0, 0), at(1010, 900, 9), at(1020, 900, 100), at(1090, 900, 200), at(1095, 1900, 205), at(1200, 1900, 205)];
"""


def test_the_share_of_deferrals_is_that_of_the_last_minute(browse):
    shares = browse().execute_script(SHARE)
    assert shares == [['', 'good'], ['< 1 %', 'good'], ['10 %', 'warn'], ['18 %', 'warn'], ['< 1 %', 'good'],
                      ['9 %', 'good']]


HIGHEST = "return Math.max(...[...document.querySelectorAll('#' + arguments[0] + ' text[text-anchor=end]')]" \
    ".map(n => n.textContent.includes(':') ? 0 : Number(n.textContent.replace(/,/g, ''))))"


def test_a_burst_of_injections_flattens_nothing_else(scene, browse):
    browser = browse()
    for _ in range(5):
        injection.post(scene, {'defaults': {'from': 'a@initech.test', 'tenant': 'initech', 'text': 'held\n'},
                               'messages': [{'recipients': [f'u{n}@isp0.example']} for n in range(1000)]}).expect(202)
    until(lambda: browser.execute_script(HIGHEST, 'arrivals') >= 1000,
          lambda: f"a burst: {browser.execute_script(HIGHEST, 'arrivals')}")
    assert browser.execute_script(HIGHEST, 'flow') <= 500
    assert text(browser, 'arrivals-legend') == 'received' and 'received' not in text(browser, 'flow-legend')


def is_open(browser):
    return browser.execute_script('return document.getElementById("detail").open')


def test_the_address_names_what_is_open(scene, browse):
    browser = browse()
    here = browser.current_url
    busy = scene.nexthop('busy.example')
    shows(browser, 'destinations', busy)
    press_name(browser, 'destinations', busy)
    shows(browser, 'detail', busy, 'Window over time')
    assert browser.current_url == f'{here}#destination/{urllib.parse.quote(busy, safe="")}'
    sent = browser.current_url
    browser.back()
    until(lambda: not is_open(browser), lambda: 'closed by the back button')
    browser.forward()
    shows(browser, 'detail', busy, 'What holds it back')
    browser.find_element(By.ID, 'close').click()
    until(lambda: browser.current_url == here, lambda: f'no name: {browser.current_url}')
    browser.back()
    shows(browser, 'detail', busy)
    # A colleague, to whom an address was sent.
    for address, *wanted in ((sent, busy, 'Window over time', '451 4.3.0'),
                             (f'{here}#why/tenant/initech', 'Why: tenant initech', 'T-123'),
                             (f'{here}#recipient/b%40isp0.example', 'Recipient b@isp0.example', 'suspended')):
        browser.get('about:blank')
        browser.get(address)
        shows(browser, 'detail', *wanted)
    for nonsense in ('%', 'why/nothing/x', 'constructor/x', 'destination'):
        browser.get('about:blank')
        browser.get(f'{here}#{nonsense}')
        shows(browser, 'state', 'live')
        assert not is_open(browser)
    assert complaints(browser) == []


def test_a_recipient_can_be_looked_for(browse):
    browser = browse()
    field = browser.find_element(By.CSS_SELECTOR, '#ask input')
    field.send_keys('b@isp0.example\n')
    shows(browser, 'detail', 'Recipient b@isp0.example', 'a@initech.test', 'suspended')
    press(browser, By.CSS_SELECTOR, '#detail td button')
    shows(browser, 'detail', 'Why: message', 'complaints, T-123')
    browser.back()
    shows(browser, 'detail', 'Recipient b@isp0.example')
    browser.find_element(By.ID, 'close').click()
    field.clear()
    field.send_keys('nobody@isp0.example\n')
    shows(browser, 'detail', 'Recipient nobody@isp0.example', 'Nothing is queued for it')
    assert complaints(browser) == []


def test_feedback_of_one_cause_is_one_line(scene, browse):
    browser = browse()
    changes = [(1, 5, 4, 'negative: 451 4.7.1 id 8fa3c2'), (2, 4, 3, 'negative: 451 4.7.1 id 99ab01'),
               (3, 3, 4, 'positive'), (4, 4, 3, 'negative: 421 4.7.1 id 8fa3c2'), (5, 3, 2, 'negative: 451 4.7.1')]
    folded = browser.execute_script('return runs(arguments[0]).map(r => [r.first, r.last, r.from, r.to, r.count])', [
        dict(zip(('time', 'from', 'to', 'cause'), change)) for change in changes])
    assert folded == [[5, 5, 3, 2, 1], [4, 4, 4, 3, 1], [3, 3, 3, 4, 1], [1, 2, 5, 3, 2]]
    turns = [{'time': n, 'from': 5 + n % 2, 'to': 6 - n % 2, 'cause': 'forgotten' if n % 2 else 'positive'} for n in range(9)]
    folded = browser.execute_script('return runs(arguments[0]).map(r => [r.first, r.last, r.cause, r.count])', turns)
    assert folded == [[1, 8, 'forgotten, positive, in turn', 4], [0, 0, 'positive', 1]]
    # A destination as it is.
    good = scene.nexthop('isp0.example')
    shows(browser, 'destinations', good)
    press_name(browser, 'destinations', good)
    shows(browser, 'detail', 'Feedback', 'positive')
    causes = browser.execute_script(
        "return [...document.querySelectorAll('#detail td[data-label=because]')].map(cell => cell.textContent)")
    assert all(a != b for a, b in zip(causes, causes[1:])), causes


def test_it_asks_nobody_else(scene, browse):
    browser = browse()
    shows(browser, 'tenants', 'acme')
    asked = set()
    for entry in browser.get_log('performance'):
        message = json.loads(entry['message'])['message']
        if message['method'] == 'Network.requestWillBeSent':
            asked.add(message['params']['request']['url'].split('?')[0])
    here = f'http://127.0.0.1:{scene.http_port}/'
    assert here in asked and f'{here}v1/status' in asked
    assert [url for url in asked if url.startswith('http') and not url.startswith(here)] == []


def test_mail_cannot_put_markup_into_it(scene, browse):
    injection.post(scene, {'from': 'a@b.test', 'recipients': ['c@strict.example'], 'text': 'x\n',
                           'tenant': '<img/src=x/onerror=document.title=1>', 'headers': {'Subject': 'x'}}).expect(202)
    browser = browse()
    shows(browser, 'tenants', '<img/src=x')
    assert browser.find_elements(By.CSS_SELECTOR, 'main img') == []
    assert complaints(browser) == []


def test_it_says_when_the_daemon_is_gone(place):
    daemon = place.sluice(http={})
    browser = open_browser(place.subfolder('browser'))
    place.closers.append(browser.quit)
    browser.get(f'http://127.0.0.1:{daemon.http_port}/')
    shows(browser, 'state', 'live')
    daemon.kill()
    shows(browser, 'state', 'no answer')


def test_suppressed_recipients(browse, scene):
    scene.command('suppress', 'joe@isp0.example', '--tenant', 'acme', '--reason', 'complaint')
    scene.command('suppress', '@isp9.example')
    browser = browse()
    until(lambda: 'joe@isp0.example' in text(browser, 'suppressed'), lambda: text(browser, 'suppressed'))
    assert 'complaint' in text(browser, 'suppressed') and '@isp9.example' in text(browser, 'suppressed')
    browser.find_element(By.ID, 'suppressed-match').send_keys('@isp')
    until(lambda: 'joe' not in text(browser, 'suppressed') and '@isp9' in text(browser, 'suppressed'),
          lambda: text(browser, 'suppressed'))
    # Without trust_loopback a browser only looks.
    browser.find_element(By.CSS_SELECTOR, '#suppressed-form button').click()
    until(lambda: text(browser, 'suppressed-more') != '', 'the refusal')
    assert scene.query('suppressions', '@isp')[0]['address'] == '@isp9.example'
