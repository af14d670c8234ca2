#!/usr/bin/python3
"""Turn result files of sluice-bench into one HTML file that needs nothing beside it.

The file opens from disk: plots are inline SVG, style and a little script (sorting, filtering,
values under the pointer) are inside, and everything can be read without the script. Parts that a
result lacks are left out, values that are null are gaps.
"""
import argparse
import json
import pathlib
import statistics
import sys

import report_run
from report_plot import spread
from report_text import GAP, count, escape, is_number, known, number, rows, seconds, table_of

HERE = pathlib.Path(__file__).resolve().parent
# Keys of a result that have a place of their own; other lists of objects become plain tables.
PLACED = {'where', 'title', 'description', 'figures', 'runs', 'summary', 'targets'}
PLAIN_ROWS = 500
# Points of a line: so many in the whole report, so that many runs do not make the file huge.
POINTS, MOST_POINTS, LEAST_POINTS = 2000, 140, 48
BETTER = {'higher': ('↑', 'more is better'), 'lower': ('↓', 'less is better')}


class Result:
    """One result file, its parts in the types that the schema wants."""

    def __init__(self, source, index):
        self.source, self.anchor = source, f'r{index}'
        self.where = table_of(source, 'where')
        self.title = str(source.get('title') or self.where.get('workload') or 'Result')
        self.runs = rows(source, 'runs')
        self.summary = [row for row in rows(source, 'summary') if 'figures' in row]
        self.targets = rows(source, 'targets')
        self.figures = [{**figure, 'key': str(figure['key'])}
                        for figure in rows(source, 'figures') if 'key' in figure]
        if not self.figures:
            keys = {key: None for row in [*self.summary, *self.runs]
                    for key, value in table_of(row, 'figures').items()}
            self.figures = [{'key': key} for key in keys]
        relays = {str(row.get('relay', '')): None for row in [*self.summary, *self.runs]}
        relays = sorted(relays, key=lambda relay: relay != 'sluice')
        self.colours = {relay: index % 6 + 1 for index, relay in enumerate(relays)}
        self.cases = list({case_of(row): None for row in [*self.summary, *self.runs]})

    def swatch(self, relay):
        return f'<i class="dot c{self.colours.get(relay, 6)}"></i>'


def case_of(row):
    return str(row.get('case') or '')


def is_clean(run):
    return run.get('is_clean') is not False


def title_of(figure):
    return str(figure.get('title') or figure['key'])


def better(figure):
    return BETTER.get(str(figure.get('better')), ('', ''))


def figure_of(row, figure):
    value = table_of(row, 'figures').get(figure['key'])
    return value if is_number(value) else None


# ---- what was measured

def header(result):
    words = ''.join(f'<p>{escape(part)}</p>' for part in
                    str(result.source.get('description') or '').split('\n\n') if part.strip())
    facts = []
    for key, value in result.where.items():
        if key == 'command' or value is None or value == '':
            continue
        label = {'fsync_ms': 'fsync', 'cpus': 'processors'}.get(key, str(key).replace('_', ' '))
        value = f'{number(value)} ms' if key == 'fsync_ms' and is_number(value) else plain(value)
        facts.append(f'<div><dt>{escape(label)}</dt><dd>{escape(value)}</dd></div>')
    command = str(result.where.get('command') or '')
    if command and command.split()[0] == result.where.get('workload'):
        command = f'bench/sluice-bench {command}'
    if command:
        command = ' '.join(f'<span>{escape(word)}</span>' for word in command.split(' '))
        command = f'<pre class="command"><code>{command}</code></pre>'
    facts = f'<dl class="facts">{"".join(facts)}</dl>' if facts else ''
    return f'<h2>{escape(result.title)}</h2><div class="lead">{words}</div>{facts}{command}'


def plain(value):
    if isinstance(value, float):
        return number(value)
    if isinstance(value, list) and all(not isinstance(item, (list, dict)) for item in value):
        return ', '.join(map(str, value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else str(value)


def targets(result):
    if not result.targets:
        return ''
    out = []
    for target in result.targets:
        is_met = target.get('is_met')
        state, word = ('met', 'met') if is_met is True else \
            ('missed', 'missed') if is_met is False else ('open', 'not judged')
        measured = target.get('measured')
        out.append(f'<li class="{state}"><b class="state">{word}</b>'
                   f'<span class="what">{escape(target.get("what") or "")}</span>'
                   f'<span class="wanted">wanted {escape(plain(target.get("wanted", GAP)))}</span>'
                   f'<span class="measured">{escape(GAP if measured is None else plain(measured))}'
                   '</span></li>')
    return f'<h3>Targets</h3><ul class="targets">{"".join(out)}</ul>'


def verdict(result):
    judged = [target for target in result.targets if isinstance(target.get('is_met'), bool)]
    if not judged:
        return ''
    met = sum(target['is_met'] for target in judged)
    state = 'met' if met == len(judged) else 'missed'
    return f'<span class="badge {state}">{met} of {count(len(judged), "target")} met</span>'


# ---- figures

def figure_heads(result):
    out = []
    for figure in result.figures:
        sign, hint = better(figure)
        hint = f' <abbr title="{hint}">{sign}</abbr>' if sign else ''
        out.append(f'<th scope="col">{escape(title_of(figure))}{hint}</th>')
    return ''.join(out)


def ratio_text(ratio):
    parts = [ratio.get(key) for key in ('median', 'least', 'most')]
    if not is_number(parts[0]):
        return ''
    digits = 0 if abs(parts[0]) >= 100 else 1 if abs(parts[0]) >= 3 else 2
    span = f' <small>({number(parts[1], digits)}–{number(parts[2], digits)})</small>' \
        if is_number(parts[1]) and is_number(parts[2]) else ''
    return f'{number(parts[0], digits)}{span}'


def summary(result):
    if not result.summary:
        return ''
    width, out = len(result.figures) + 1, []
    for case in result.cases:
        lines = [row for row in result.summary if case_of(row) == case]
        if lines and case:
            out.append(f'<tr class="case"><th colspan="{width}" scope="rowgroup"><span>'
                       f'{escape(case)}</span></th></tr>')
        for row in lines:
            relay = str(row.get('relay', ''))
            out.append(f'<tr><th scope="row">{result.swatch(relay)}{escape(relay)}</th>')
            out += [f'<td>{number(figure_of(row, figure), figure.get("digits"))}</td>'
                    for figure in result.figures]
            out.append('</tr>')
            for peer, ratios in table_of(row, 'ratios').items():
                if not isinstance(ratios, dict):
                    continue
                out.append(f'<tr class="ratio"><th scope="row">ratio to {escape(peer)}</th>')
                out += [f'<td>{ratio_text(table_of(ratios, figure["key"]))}</td>'
                        for figure in result.figures]
                out.append('</tr>')
    note = 'Medians of the runs.'
    if any(table_of(row, 'ratios') for row in result.summary):
        note += ' A ratio is that of two neighbouring runs; in parentheses the smallest and the ' \
                'largest of a pair.'
    return (f'<h3>Summary</h3><p class="note">{note}</p><div class="scroll"><table class="summary">'
            f'<thead><tr><th scope="col"></th>{figure_heads(result)}</tr></thead>'
            f'<tbody>{"".join(out)}</tbody></table></div>')


def spreads(result):
    out = []
    for case in result.cases:
        cards = []
        for figure in result.figures:
            relays = []
            for relay, colour in result.colours.items():
                runs = [(str(run.get('pair', index + 1)), figure_of(run, figure),
                         is_clean(run)) for index, run in enumerate(
                             run for run in result.runs
                             if case_of(run) == case and str(run.get('relay', '')) == relay)]
                values = known(value for _, value, _ in runs)
                if values:
                    relays.append((relay, colour, runs, statistics.median(values)))
            title = title_of(figure)
            plot = spread(f'{title} of every run', relays, figure.get('digits'))
            if plot:
                hint = better(figure)[1]
                cards.append(f'<figure class="card"><figcaption><b>{escape(title)}</b>'
                             f'<span>{hint}</span></figcaption>{plot}</figure>')
        if cards:
            heading = f'<h4>{escape(case)}</h4>' if case else ''
            out.append(f'{heading}<div class="cards">{"".join(cards)}</div>')
    if not out:
        return ''
    hollow = '' if all(map(is_clean, result.runs)) else \
        ' A hollow mark: the run was not clean.'
    return ('<h3>Every run</h3><p class="note">One mark for each run, by pair; the upright line is '
            f'the median of the relay.{hollow}</p>{"".join(out)}{run_table(result)}')


def run_table(result):
    cases = any(result.cases)
    out = []
    for index, run in enumerate(result.runs):
        relay = str(run.get('relay', ''))
        clean = '' if is_clean(run) else ' <em class="unclean">not clean</em>'
        out.append(f'<tr><th scope="row">{result.swatch(relay)}{escape(relay)}{clean}</th>'
                   + (f'<td class="words">{escape(case_of(run))}</td>' if cases else '')
                   + f'<td>{escape(run.get("pair", index + 1))}</td>'
                   + ''.join(f'<td>{number(figure_of(run, figure), figure.get("digits"))}</td>'
                             for figure in result.figures) + '</tr>')
    case = '<th scope="col" class="words">case</th>' if cases else ''
    return (f'<details class="plain"><summary>The same as a table</summary><div class="scroll">'
            f'<table class="sortable"><thead><tr><th scope="col">relay</th>{case}'
            f'<th scope="col">pair</th>{figure_heads(result)}</tr></thead>'
            f'<tbody>{"".join(out)}</tbody></table></div></details>')


# ---- runs

def run_sections(result, budget):
    out, is_first = [], True
    for index, run in enumerate(result.runs):
        inside = report_run.details(run, budget)
        if not inside:
            continue
        relay, case = str(run.get('relay', '')), case_of(run)
        figures = [f'{title_of(figure)} {number(figure_of(run, figure), figure.get("digits"))}'
                   for figure in result.figures[:3] if figure_of(run, figure) is not None]
        unclean = '' if is_clean(run) else ' <em class="unclean">not clean</em>'
        case = f' <span class="case">{escape(case)}</span>' if case else ''
        out.append(f'<details class="run"{" open" if is_first else ""}><summary>'
                   f'<b>{result.swatch(relay)}{escape(relay)}</b>{case} '
                   f'<span>pair {escape(run.get("pair", index + 1))}</span>{unclean} '
                   f'<span class="figures">{escape(" · ".join(figures))}</span></summary>'
                   f'<div class="inside">{inside}</div></details>')
        is_first = False
    if not out:
        return ''
    note = '<p class="note">The first is open, the others open by a click.</p>' \
        if len(out) > 1 else ''
    return f'<h3>Run by run</h3>{note}{"".join(out)}'


def plain_tables(result):
    """Lists of objects that workloads add of their own accord."""
    out = []
    for key in result.source:
        if key in PLACED and not (key == 'summary' and not result.summary):
            continue
        lines = rows(result.source, key)
        columns = list({name: None for row in lines for name in row})
        if not columns:
            continue
        styles = {name: '' if any(is_number(row.get(name)) for row in lines) else ' class="words"'
                  for name in columns}
        head = ''.join(f'<th scope="col"{styles[name]}>{escape(name.replace("_", " "))}</th>'
                       for name in columns)
        body = ''.join('<tr>' + ''.join(f'<td{styles[name]}>{cell(row.get(name))}</td>'
                                        for name in columns) + '</tr>'
                       for row in lines[:PLAIN_ROWS])
        more = f'<p class="note">{len(lines) - PLAIN_ROWS:,} more are in the result file.</p>' \
            if len(lines) > PLAIN_ROWS else ''
        out.append(f'<h3>{escape(key.replace("_", " ").capitalize())}</h3><div class="scroll">'
                   f'<table class="sortable"><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
                   f'</table></div>{more}')
    return ''.join(out)


def cell(value):
    if value is None or value == []:
        return ''
    return number(value) if is_number(value) else escape(plain(value))


# ---- the page

def article(result, budget):
    return (f'<article id="{result.anchor}">{header(result)}{targets(result)}{summary(result)}'
            f'{spreads(result)}{plain_tables(result)}{run_sections(result, budget)}</article>')


def render(sources):
    """The page of a list of results."""
    results = [Result(source, index + 1) for index, source in enumerate(sources)]
    timed = sum(bool(table_of(run, 'timeline')) for result in results for run in result.runs)
    budget = max(LEAST_POINTS, min(MOST_POINTS, POINTS // max(timed, 1)))
    entries = ''.join(f'<li><a href="#{result.anchor}">{escape(result.title)}</a> '
                      f'{verdict(result)}</li>' for result in results)
    contents = f'<nav><ol>{entries}</ol></nav>' if len(results) > 1 else \
        ''.join(map(verdict, results))
    title = results[0].title if len(results) == 1 else f'{len(results)} workloads'
    body = ''.join(article(result, budget) for result in results)
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<meta name="color-scheme" content="light dark">'
            f'<title>sluice-bench: {escape(title)}</title>'
            f'<style>{(HERE / "report.css").read_text(encoding="utf-8")}</style></head>'
            f'<body><header class="top"><h1>sluice-bench</h1>{contents}</header>'
            f'<main>{body}</main>'
            f'<script>{(HERE / "report.js").read_text(encoding="utf-8")}</script></body></html>\n')


def write(result, path):
    """Write the report of one result, or of a list of them, to path."""
    page = render(result if isinstance(result, list) else [result])
    pathlib.Path(path).write_text(page, encoding='utf-8')


def read(path):
    try:
        result = json.loads(pathlib.Path(path).read_text(encoding='utf-8'))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else f'not JSON: {error}'
        sys.exit(f'report: {path}: {reason}; wanted: a file that sluice-bench --json wrote')
    if not isinstance(result, dict):
        sys.exit(f'report: {path}: not an object; wanted: a file that sluice-bench --json wrote')
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n', maxsplit=1)[0])
    parser.add_argument('results', nargs='+', metavar='RESULT.json')
    parser.add_argument('-o', '--output', required=True, metavar='REPORT.html')
    args = parser.parse_args()
    results = [read(path) for path in args.results]
    try:
        write(results, args.output)
    except OSError as error:
        sys.exit(f'report: {args.output}: {error.strerror}; wanted: a place for the report')


if __name__ == '__main__':
    main()
