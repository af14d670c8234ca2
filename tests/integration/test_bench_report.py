"""The report of sluice-bench: whatever a result holds, the page is sound and says it."""
import copy
import html.parser
import itertools
import json
import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

import report
import report_plot
import report_run
import report_text

PROGRAM = os.path.join(os.path.dirname(report.__file__), 'report.py')
HOSTILE = '</script><b a="1">&amp;\'x\' \x00\x1b\ud800 <svg onload=alert(1)>'
VOID = {'meta', 'br', 'input', 'link', 'img'}


class Page(html.parser.HTMLParser):
    """Tags of a page must be balanced; keeps its text, its attributes and its elements."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.stack, self.words, self.attributes, self.elements = [], [], [], []
        self.table_rows = []
        self.feed(text)
        self.close()
        assert not self.stack
        self.text = ' '.join(' '.join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.stack.append(tag)
        if tag == 'tr':
            self.table_rows.append([])
        if tag in ('td', 'th'):
            self.table_rows[-1].append('')

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.stack and self.stack.pop() == tag

    def handle_data(self, data):
        if self.stack and self.stack[-1] in ('style', 'script'):
            return
        self.words.append(data)
        if 'td' in self.stack or 'th' in self.stack:
            self.table_rows[-1][-1] += data

    def count(self, tag, style=''):
        return sum(name == tag and style in (attrs.get('class') or '').split()
                   for name, attrs in self.elements) if style else \
            sum(name == tag for name, _ in self.elements)


def check(text):
    """The page, sound in every respect that does not depend on the result."""
    page = Page(text)
    assert page.count('html') == page.count('main') == page.count('script') == 1
    for drawing in re.findall(r'<svg.*?</svg>', text, re.S):
        tree = ElementTree.fromstring(drawing)
        left, top, width, height = map(float, tree.get('viewBox').split())
        assert (left, top) == (0, 0) and width > 0 and height > 0
        assert not re.search(r'nan|inf', ' '.join(path.get('d') for path in tree.iter('path')))
    for name, value in page.attributes:
        assert name not in ('src', 'srcset', 'action', 'style') and not name.startswith('on')
        assert name != 'href' or value.startswith('#')
    for own in re.findall(r'<(?:style|script)>(.*?)</(?:style|script)>', text, re.S):
        assert not re.search(r'https?:|url\(|@import|src=|fetch|XMLHttp', own)
    return page


def destination(name, messages, deferred=0):
    return {'name': name, 'messages': messages, 'recipients': messages, 'rate': messages / 8,
            'latency': {'p50': 0.02, 'p90': 0.05, 'p99': 0.35, 'max': 1.4}, 'deferred': deferred,
            'rejected': 0, 'connections': 3, 'max_open': 2, 'refused': 1}


def series(messages):
    return {'messages': messages, 'open': [2] * len(messages), 'deferred': [0, 3, None, 0, 0],
            'latency_p50': [None, 0.02, 0.03, None, 0.02],
            'latency_p99': [None, 0.3, 0.35, None, 0.1], 'window': [5, None, None, 6, 7]}


def run(relay, pair, rate, **more):
    return {'relay': relay, 'pair': pair, 'case': 'full', 'is_clean': pair != 2,
            'figures': {'rate': rate, 'cpu_us': None if pair == 2 else 83.63}, **more}


@pytest.fixture
def result():
    return {
        'where': {'workload': 'limited', 'date': '2026-11-22', 'cpus': 2, 'fsync_ms': 0.2513,
                  'postfix': None, 'command': 'limited --pairs 2'},
        'title': 'Limits of receivers', 'description': 'What it is.\n\nHow it goes.',
        'figures': [{'key': 'rate', 'title': 'messages/s', 'better': 'higher', 'digits': 1},
                    {'key': 'cpu_us', 'title': 'CPU us', 'better': 'lower', 'digits': 0}],
        'runs': [
            run('sluice', 1, 13033.26, threads={'worker': 4.25, 'intake': 1.5},
                destinations=[destination('a.test', 40, 3), destination('b.test', 9)],
                timeline={'interval': 2, 'start': 1.5, 'destinations': {
                    'a.test': series([5, 0, 12, None, 23]), 'b.test': series([9, 0, 0])}}),
            run('postfix', 1, 871.44, destinations=[destination('a.test', 38)]),
            run('sluice', 2, 12000), run('postfix', 2, 905.5)],
        'summary': [
            {'case': 'full', 'relay': 'sluice', 'figures': {'rate': 12516.63, 'cpu_us': 83.63},
             'ratios': {'postfix': {'rate': {'median': 14.12, 'least': 13.25, 'most': 14.98},
                                    'cpu_us': {'median': 0.125, 'least': 0.12, 'most': 0.13}}}},
            {'case': 'full', 'relay': 'postfix', 'figures': {'rate': 888.47, 'cpu_us': None}}],
        'targets': [
            {'what': 'beside Postfix', 'wanted': '15 times', 'measured': '14.1', 'is_met': False},
            {'what': 'lost', 'wanted': 'none', 'measured': '0', 'is_met': True},
            {'what': 'memory', 'wanted': '50 MB', 'measured': None, 'is_met': None}]}


def test_page_says_what_was_measured(result):
    text = report.render([result])
    page = check(text)
    assert not re.search(r'https?://|src=|url\(', text)
    for words in ('Limits of receivers', 'What it is.', 'How it goes.', '0.251 ms',
                  'bench/sluice-bench limited --pairs 2', '1 of 2 targets met', 'not judged',
                  'wanted 15 times', 'pair 1', '5.75 s in all'):
        assert words in page.text
    lines = page.table_rows
    assert ['sluice', '12,516.6', '84'] in lines
    assert ['ratio to postfix', '14.1 (13.2–15.0)', '0.12 (0.12–0.13)'] in lines
    assert ['postfix', '888.5', '–'] in lines
    assert ['a.test', '40', '40', '5', '20 ms', '50 ms', '350 ms', '1.4 s', '3', '0', '1', '3',
            '2'] in lines
    # Every run, marked by pair; the ones that were not clean are hollow.
    assert page.count('path', 'hollow') == 2
    for hint in ('sluice, pair 1: 13,033.3', 'postfix, pair 2: 905.5, not clean'):
        assert hint in page.text
    assert page.count('details', 'run') == 2  # those of which more is known than figures
    assert page.count('figure', 'time') == 3  # two destinations and their sum


def test_names_cannot_break_the_page(result):
    plain = check(report.render([result]))

    def spoiled(value):
        if isinstance(value, dict):
            return {key: spoiled(item) for key, item in value.items()}
        if isinstance(value, list):
            return [spoiled(item) for item in value]
        if not isinstance(value, str) or value in ('rate', 'cpu_us', 'higher', 'lower'):
            return value
        return HOSTILE + value
    hostile = spoiled(result)
    for one in hostile['runs']:
        if 'threads' in one:
            one['threads'] = {HOSTILE + name: value for name, value in one['threads'].items()}
        if 'timeline' in one:
            one['timeline']['destinations'] = {
                HOSTILE + name: data for name, data in one['timeline']['destinations'].items()}
    text = report.render([hostile])
    text.encode('utf-8')
    page = check(text)
    # Each word of the command is a span, and there are more words now.
    tags, plain_tags = ([tag for tag, _ in one.elements if tag != 'span'] for one in (page, plain))
    assert tags == plain_tags
    assert '</script><b a="1">&amp;\'x\' \ufffd\ufffd\ufffd <svg onload=alert(1)>' in page.text


def paths_of(value, prefix=()):
    """Of every key, and of the first element of every list."""
    yield prefix
    items = value.items() if isinstance(value, dict) else \
        enumerate(value[:1]) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths_of(item, (*prefix, key))


def test_any_part_may_be_missing_or_odd(result):
    """Each part of a result in turn is left out, null, and of a type that nobody expects."""
    missing = object()
    for path in itertools.islice(paths_of(result), 1, None):
        for odd in (missing, None, [], {}, 'word', -3, 10 ** 400, float('nan'), [None], [[1]]):
            spoiled = copy.deepcopy(result)
            place = spoiled
            for key in path[:-1]:
                place = place[key]
            if odd is missing:
                del place[path[-1]]
            else:
                place[path[-1]] = odd
            check(report.render([spoiled]))
    assert 'Result' in check(report.render([{}])).text


def test_workloads_may_have_tables_of_their_own():
    page = check(report.render([{
        'where': {'workload': 'rtt'},
        'cells': [{'relay': 'raw', 'mode': 'lockstep', 'round_trip_ms': 0, 'rate': 2764.2,
                   'is_short': False}, {'relay': 'sluice', 'mode': '<', 'rate': None}],
        'summary': [{'mode': 'lockstep', 'missed': ['rate', 'ratio']}]}]))
    assert page.table_rows == [
        ['relay', 'mode', 'round trip ms', 'rate', 'is short'],
        ['raw', 'lockstep', '0', '2,764', 'False'], ['sluice', '<', '', '', ''],
        ['mode', 'missed'], ['lockstep', 'rate, ratio']]


def test_ten_thousand_destinations(result):
    bins, one = 60, result['runs'][0]
    one['destinations'] = [destination(f'd{k}.test', 200000 // k, deferred=k == 7777)
                           for k in range(1, 10001)]
    one['timeline'] = {'interval': 1, 'start': 0, 'destinations': {
        f'd{k}.test': {'messages': [200000 // k // bins] * bins, 'open': [k % 20] * bins,
                       'deferred': [int(k == 7777)] + [0] * (bins - 1),
                       'latency_p50': [0.01 + k / 1e5] * bins,
                       'latency_p99': [0.02 + k / 1e5] * bins}
        for k in range(1, 10001)}}
    text = report.render([result])
    assert len(text.encode()) < 3e6
    page = check(text)
    rows = {row[0]: row for row in page.table_rows}
    amounts = sorted(200000 // k for k in range(1, 10001))
    assert rows['messages'][1:] == [f'{amount:,}' for amount in (
        sum(amounts), 20, amounts[999], amounts[2499], amounts[4999], amounts[7499],
        amounts[8999], amounts[9899], 200000)]
    assert '50 with most messages' in page.text and 'd50.test' in rows and 'd51.test' not in rows
    plots = [attrs['data-name'] for tag, attrs in page.elements
             if tag == 'figure' and 'data-name' in attrs]
    assert plots[:5] == [f'd{k}.test' for k in range(1, 6)] and 'd7777.test' in plots
    assert len(plots) <= 12
    assert f'The other {10000 - len(plots):,} destinations' in page.text
    # 24 of them have a row each, the last of 16 groups ends with the last of them.
    assert f'–{10000 - len(plots):,}' in page.text


def test_program_joins_results(result, tmp_path):
    first, second, page = (str(tmp_path / name) for name in ('1.json', '2.json', 'report.html'))
    for path, title in ((first, 'One'), (second, 'Two')):
        with open(path, 'w', encoding='utf-8') as file:
            json.dump({**result, 'title': title}, file)

    def run_program(*args):
        return subprocess.run(['/usr/bin/python3', PROGRAM, *args], capture_output=True, text=True,
                              timeout=60, env={**os.environ, 'PYTHONDONTWRITEBYTECODE': '1'})
    done = run_program(first, second, '-o', page)
    assert (done.returncode, done.stdout, done.stderr) == (0, '', '')
    with open(page, encoding='utf-8') as file:
        text = file.read()
    assert check(text).count('article') == 2
    assert text == report.render([{**result, 'title': title} for title in ('One', 'Two')])
    report.write({**result, 'title': 'One'}, page)
    with open(page, encoding='utf-8') as file:
        assert check(file.read()).count('article') == 1
    for content, reason in (('{', 'not JSON'), ('[]', 'not an object'), (None, 'No such file')):
        wrong = str(tmp_path / 'wrong.json')
        if content is None:
            os.unlink(wrong)
        else:
            with open(wrong, 'w', encoding='utf-8') as file:
                file.write(content)
        done = run_program(first, wrong, '-o', page)
        assert done.returncode == 1 and wrong in done.stderr and reason in done.stderr
        assert 'sluice-bench --json' in done.stderr
    done = run_program(first, '-o', str(tmp_path / 'no/where.html'))
    assert done.returncode == 1 and 'where.html: No such file' in done.stderr


def paced(relay, case, limits):
    """A run with a hidden limit, as the workload pace has it."""
    length = len(limits)
    return {'relay': relay, 'case': case, 'pair': 1, 'is_clean': True, 'figures': {},
            'timeline': {'interval': 1, 'start': 0, 'destinations': {case: {
                'messages': [90] * length, 'refused': [3] * length, 'limit': limits}}}}


def test_a_hidden_limit_is_drawn(result):
    run = paced('sluice', 'halved', [None, 200, 200, 150, 100])
    bins = report_run.Timeline(run, 3).bins_of('halved')
    assert bins['limit'] == [200, 175, 100] and bins['refused'] == [3, 3, 3]
    page = check(report.render([{**result, 'runs': [run]}]))
    assert 'hidden limit' in page.text and 'refused' in page.text
    assert [attrs['data-v'] for tag, attrs in page.elements
            if attrs.get('data-name') == 'hidden limit'] == [',200,200,150,100']


def test_plots_for_a_document(result, tmp_path):
    """One SVG that stands alone: a row for each case, a column for each system."""
    systems, cases = ('sluice', HOSTILE), ('R = 2', 'R < 20')
    result['runs'] = [paced(name, case, [20, 20]) for name in systems for case in cases]
    source, plots = tmp_path / 'r.json', tmp_path / 'r.svg'
    source.write_text(json.dumps(result))
    command = ['/usr/bin/python3', os.path.join(os.path.dirname(PROGRAM), 'report_svg.py'),
               str(source), '-o', str(plots)]

    def draw(*more):
        return subprocess.run([*command, *more], capture_output=True, text=True, timeout=60,
                              env={**os.environ, 'PYTHONDONTWRITEBYTECODE': '1'})
    assert draw().returncode == 0
    text = plots.read_text()
    tree = ElementTree.fromstring(text)
    inner = [one for one in tree if one.tag.endswith('svg')]
    places = [(float(one.get('x')), float(one.get('y'))) for one in inner]
    assert len(set(places)) == 4 and [len(set(axis)) for axis in zip(*places)] == [2, 2]
    assert len({(one.get('width'), one.get('height')) for one in inner}) == 1
    assert not re.search(r'data-|https?:(?!//www.w3.org/2000/svg")|url\(|<script', text)
    assert '--sheet: #ffffff' in text and '.grid {' in text and 'hidden limit' in text
    assert draw('--cases', 'R < 20').returncode == 0
    assert plots.read_text().count('<svg ') == 3
    done = draw('--cases', 'nothing')
    assert done.returncode == 1 and 'no course over time of nothing' in done.stderr


def test_ticks_are_round():
    assert report_plot.linear_ticks(0, 13033) == [0, 5000, 10000]
    assert report_plot.linear_ticks(0, 0.3, 3) == [0, 0.1, 0.2, 0.3]
    assert report_plot.linear_ticks(-4, 11) == [0, 5, 10]
    assert report_plot.linear_ticks(0, 20, 4) == [0, 5, 10, 15, 20]
    assert report_plot.log_ticks(0.001, 30) == [0.001, 0.01, 0.1, 1, 10]
    assert report_plot.log_ticks(3, 40) == [5, 10, 20]
    assert report_plot.log_ticks(1e-6, 1e6) == [1e-6, 1e-3, 1, 1e3, 1e6]
    assert report_plot.root_ticks(2400) == [0, 200, 1000, 2000]
    assert report_plot.clock_ticks(95) == [0, 20, 40, 60, 80]
    assert report_plot.clock_ticks(3000) == [0, 600, 1200, 1800, 2400, 3000]
    assert report_plot.clock_ticks(1.5, 3) == [0, 0.5, 1, 1.5]
    assert report_plot.clock_ticks(10 * 86400) == [day * 86400 for day in (0, 2, 4, 6, 8, 10)]
    assert [report_plot.clock_text(value, 3000) for value in (0, 600, 90)] == ['0', '10 min',
                                                                            '1.5 min']
    assert report_plot.heat_limits([0, None, 1, 30, 700]) == [3, 10, 30, 100, 300]
    assert report_plot.heat_limits([0, None]) == []


def test_scales_hold_every_value():
    for kind, values in (('linear', [3, 13900]), ('linear', [-7, 2]), ('linear', [-7, -3]),
                         ('linear', [0, 0]), ('sqrt', [0, 9]), ('log', [8, 79]), ('log', [5]),
                         ('log', [1e-3, 4e5]), ('log', [])):
        scale = report_plot.Scale(kind, values, (10, 110))
        places = [scale(value) for value in sorted(values)]
        assert places == sorted(places) and all(10 <= place <= 110 for place in places)
        assert len(set(places)) == len(set(values))
        assert len(scale.ticks) >= 2 and scale.ticks == sorted(scale.ticks)
        assert all(scale.low <= tick <= scale.high * (1 + 1e-9) for tick in scale.ticks)
    assert report_plot.Scale('linear', [13900], (0, 150)).high == 15000
    assert report_plot.Scale('sqrt', [100], (0, 100))(25) == 50
    assert report_plot.Scale('log', [1, 100], (0, 100))(10) == 50


def test_numbers_in_words():
    assert [report_text.seconds(value) for value in (
        0, 3.5e-4, 9.999e-4, 0.0123, 0.9999, 1, 64, 600, 7200, 1e7, None)] == [
            '0 s', '350 µs', '1 ms', '12.3 ms', '1 s', '1 s', '64 s', '10 min', '2 h', '2,778 h',
            '–']
    assert [report_text.number(*value) for value in (
        (13033.26, 0), (13033.26, 1), (2764.2,), (0.0523,), (5,), (0,), (None, 2), (True, 2))] == [
            '13,033', '13,033.3', '2,764', '0.0523', '5', '0', '–', '–']
    assert [report_text.axis_number(value) for value in (0, 0.05, 20000, 1.5e6)] == [
        '0', '0.05', '20,000', '1.5M']
    assert report_text.shortened('abcdefghij', 7) == 'abc…hij'


def test_gaps_stay_gaps():
    def same(value):
        return value
    assert report_plot.step_path([None, 3, 3, None, 5], same, same) == 'M1 3H3M4 5H5'
    assert report_plot.step_path([2, 4], same, same, base=9) == 'M0 9V2H1V4H2V9z'
    assert report_plot.line_path([1, None, 2, 3], same, same) == 'M0.5 1h0M2.5 2L3.5 3'


def test_intervals_are_joined():
    timeline = report_run.Timeline({'timeline': {'interval': 0.5, 'destinations': {'a': {
        'messages': [1, 3, None, None, 8], 'open': [4, 2, None, None, 1],
        'window': [5, 6, None, None, 7], 'latency_p50': [1, 2, None, None, 3],
        'latency_p99': [9, 4, None, None, 5]}}}}, 3)
    assert (timeline.factor, timeline.bins, timeline.interval) == (2, 3, 1)
    data = timeline.bins_of('a')
    assert data['rate'] == [4, None, 16]  # the last one lasts half as long
    assert data['p50'] == [1.75, None, 3]
    assert (data['p99'], data['open'], data['window']) == ([9, None, 5], [4, None, 1], [6, None, 7])
    assert data['deferred'] == []
