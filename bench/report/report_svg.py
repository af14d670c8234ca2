#!/usr/bin/python3
"""Plots over time of a result of `sluice-bench --json` as one SVG for a document: a row for each case, a
column for each system, common axes along a row.

    bench/report/report_svg.py pace.json -o docs/pace.svg --cases 'rate, R = 200;halved, R = 200'
"""
import argparse
import json
import pathlib
import re
import sys

from report_plot import WIDTH, over_time
from report_run import Timeline, make_panels
from report_text import escape, rows

BINS = 120
GAP, TITLE = 24, 22
# Of report.css what the plots need, so that the file stands alone.
STYLE = re.compile(r'^(?::root|@media \(prefers-color-scheme: dark\)) \{.*?^\}|'
                   r'^(?:text|\.tick|\.panel|\.panel, \.name, \.value|\.name|text\.key|path|\.grid|'
                   r'\.line|\.area|\.c\d, \.s\d) \{.*?$', re.S | re.M)


def style():
    css = pathlib.Path(__file__).with_name('report.css').read_text(encoding='utf-8')
    found = [match.group() for match in STYLE.finditer(css)]
    return '\n'.join([*found, '.sheet { fill: var(--sheet); }',
                      'text { font-family: var(--sans); }'])


def courses(result):
    """{(case, system): (bins, timeline)} of the runs' destinations, each under its own name."""
    found = {}
    for run in rows(result, 'runs'):
        timeline = Timeline(run, BINS)
        if not timeline.is_empty:
            for name in timeline.destinations:
                key = name if len(timeline.destinations) > 1 else str(run.get('case') or name)
                found[key, str(run.get('relay'))] = timeline.bins_of(name), timeline
    return found


def cell(title, panels, bins, timeline, x, y):
    plot = over_time(title, panels, bins, timeline.bins, timeline.interval)
    height = float(re.match(r'<svg viewBox="0 0 \S+ (\S+)"', plot).group(1))
    plot = re.sub(r' data-[a-z]+="[^"]*"', '', plot)
    return (f'<text x="{x}" y="{y + 12}" class="name">{escape(title)}</text>' +
            plot.replace('<svg ', f'<svg x="{x}" y="{y + TITLE}" width="{WIDTH}" '
                                  f'height="{height:g}" ', 1)), TITLE + height


def render(result, cases=None):
    """cases: their names; by default all with a course over time"""
    found = courses(result)
    cases = cases or list(dict.fromkeys(case for case, _ in found))
    systems = list(dict.fromkeys(name for _, name in found))
    parts, y = [], GAP
    for case in cases:
        line = {name: found[case, name] for name in systems if (case, name) in found}
        panels = make_panels([bins for bins, _ in line.values()])
        tallest = 0
        for column, name in enumerate(systems):
            if name in line and panels:
                drawn, height = cell(f'{name}: {case}', panels, *line[name],
                                     GAP + column * (WIDTH + GAP), y)
                parts.append(drawn)
                tallest = max(tallest, height)
        y += round(tallest) + GAP if tallest else 0
    if not parts:
        raise ValueError(f'no course over time of {", ".join(cases) or "any run"}')
    width = GAP + len(systems) * (WIDTH + GAP)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" '
            f'height="{y}"><style>{style()}</style><rect class="sheet" width="{width}" '
            f'height="{y}"/>{"".join(parts)}</svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('result', type=pathlib.Path, help='what sluice-bench --json wrote')
    parser.add_argument('-o', '--output', type=pathlib.Path, required=True, metavar='FILE')
    parser.add_argument('--cases', type=lambda text: text.split(';'), metavar='CASE;...',
                        help='of the result; all of them')
    args = parser.parse_args()
    try:
        result = json.loads(args.result.read_text(encoding='utf-8'))
        args.output.write_text(render(result, args.cases), encoding='utf-8')
    except (OSError, ValueError) as error:
        sys.exit(f'report_svg.py: {args.result}: {error}')


if __name__ == '__main__':
    main()
