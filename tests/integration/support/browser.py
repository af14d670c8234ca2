"""Chromium without a window, from Debian's packages."""
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

DESK = (1280, 1400)
PHONE = (390, 844)


def open_browser(folder, size=DESK, is_dark=False):
    options = Options()
    options.binary_location = '/usr/bin/chromium'
    for argument in ('--headless=new', '--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu',
                     '--disable-background-networking', '--no-first-run', '--hide-scrollbars',
                     f'--user-data-dir={folder}', f'--window-size={size[0]},{size[1]}'):
        options.add_argument(argument)
    if is_dark:
        options.add_argument('--force-dark-mode')
    options.set_capability('goog:loggingPrefs', {'browser': 'ALL', 'performance': 'ALL'})
    browser = webdriver.Chrome(service=Service('/usr/bin/chromedriver'), options=options)
    browser.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
        'width': size[0], 'height': size[1], 'deviceScaleFactor': 1, 'mobile': size == PHONE})
    return browser
