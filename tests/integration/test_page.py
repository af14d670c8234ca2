"""The page at /, in a real browser, over a relay with live traffic."""
import json
import os
import time

import pytest
from selenium.webdriver.common.by import By

from support import injection
from support.address import free_port
from support.browser import DESK, PHONE, open_browser
from support.traffic import Traffic, refuse
from support.wait import until

SCREENSHOTS = os.environ.get('SLUICE_SCREENSHOTS')  # a folder for those of docs/


@pytest.fixture(scope='module')
def scene(module_place):
    place = module_place
    good = [place.receiver() for _ in range(3)]
    slow = place.receiver(answers=refuse('451 4.7.1 too many connections from 192.0.2.7, see id 8fa3c2'))
    never = place.receiver(answers=refuse('550 5.1.1 no such user here'))
    ports = {f'isp{n}.example': receiver.port for n, receiver in enumerate(good)}
    ports |= {'busy.example': slow.port, 'strict.example': never.port, 'gone.example': free_port()}
    daemon = place.sluice(
        http={}, routes={domain: ('smtp', f'[127.0.0.1]:{port}') for domain, port in ports.items()},
        options={'allow_loopback': True, 'minimal_backoff_time': '20s', 'maximal_backoff_time': '60s'})
    daemon.command('suspend', '--tenant', 'initech', '--for', '2h', '--reason', 'complaints, T-123')
    traffic = Traffic(daemon, list(ports))
    place.closers.append(traffic.close)
    injection.post(daemon, {'from': 'a@initech.test', 'recipients': ['b@isp0.example'], 'tenant': 'initech',
                            'text': 'held\n', 'headers': {'Subject': 'x'}}).expect(202)
    daemon.ports = ports
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
    shows(browser, 'responses', '451 4.7.1', 'too many connections from', '550 5.1.1', 'no such user here',
          'acme')
    shows(browser, 'tenants', 'acme', 'globex', 'initech')
    shows(browser, 'orders', 'suspend', 'tenant initech', 'complaints, T-123')
    shows(browser, 'queue', f'[127.0.0.1]:{scene.ports["gone.example"]}')
    shows(browser, 'queue-tenant', 'acme', 'globex')
    shows(browser, 'age', '<1m', '>3d')
    shows(browser, 'tiles', 'standing orders')
    until(lambda: len(browser.find_elements(By.CSS_SELECTOR, '#flow polyline')) == 4,
          lambda: 'four lines of throughput')
    assert complaints(browser) == []
    shoot(browser, 'page.png')


def test_one_click_tells_why(scene, browse):
    browser = browse()
    gone = f'[127.0.0.1]:{scene.ports["gone.example"]}'
    shows(browser, 'queue', gone)
    browser.find_element(By.XPATH, f'//table[@id="queue"]//button[text()="{gone}"]').click()
    shows(browser, 'detail', 'Why: destination', 'refused')
    browser.find_element(By.ID, 'close').click()
    busy = f'[127.0.0.1]:{scene.ports["busy.example"]}'
    shows(browser, 'destinations', busy)
    browser.find_element(By.XPATH, f'//table[@id="destinations"]//button[text()="{busy}"]').click()
    shows(browser, 'detail', busy, 'Window over time', 'What holds it back', '451 4.7.1')
    until(lambda: browser.find_elements(By.CSS_SELECTOR, '#detail polyline'), lambda: 'windows drawn')
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
