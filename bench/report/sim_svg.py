#!/usr/bin/python3
"""Courses over time of `sluice-sim waits --json` or `sluice-sim day --json` as one SVG for a document: a plot for
each element, those beside each other whose series have the same names under one legend.

    build/release/bench/sluice-sim waits --json | bench/report/sim_svg.py -o docs/waits.svg
"""
import argparse
import json
import pathlib
import sys

from report_plot import (LEFT, RIGHT, WIDTH, Scale, clock_text, clock_ticks, line_path, path, px,
                         text, vertical_grid)
from report_svg import style
from report_text import axis_number, escape, known, seconds

GAP, HEIGHT, HEAD, FOOT, LEGEND, TINY_WAIT = 24, 150, 34, 20, 22, 0.01


def drawn(plot, scale):
    """One plot at 0, 0."""
    interval, series = plot['interval'], plot['series']
    bins = max(len(one['bins']) for one in series)
    span = bins * interval
    axis = Scale('linear', [span], (LEFT, WIDTH - RIGHT))
    axis.high, axis.ticks = span, clock_ticks(span)
    top, bottom = HEAD, HEAD + HEIGHT
    say = seconds if plot.get('unit', 's') == 's' else axis_number

    def x(index):
        return LEFT + index / bins * (WIDTH - LEFT - RIGHT)

    def y(value):
        return top + scale(value)
    parts = [text(LEFT, 11, plot['name'], 'name'), text(LEFT, 26, plot['title'], 'tick')]
    parts += vertical_grid(axis, top, bottom, lambda tick: clock_text(tick, span))
    parts.append(path(''.join(f'M{LEFT} {px(y(tick))}H{WIDTH - RIGHT}' for tick in scale.ticks),
                      'grid'))
    parts += [text(LEFT - 5, y(tick) + 3.5, say(tick), 'tick', 'end') for tick in scale.ticks]
    # Where lines lie on each other all of them are seen: the first is the broadest.
    parts += [path(line_path(one['bins'], x, y), f'line s{number}',
                   f' style="stroke-width:{1.2 + 1.3 * (len(series) - number):.1f}"')
              for number, one in enumerate(series, 1)]
    return ''.join(parts)


def scale_of(plots):
    """Common to all plots of a row."""
    kind = plots[0].get('kind', 'log')
    values = [value for plot in plots for one in plot['series'] for value in known(one['bins'])]
    if kind == 'log':
        values = [max(value, TINY_WAIT) for value in values]
    return Scale(kind, values, (HEIGHT, 0), 6)


def rows_of(plots):
    """Neighbours whose series have the same names."""
    found = []
    for plot in plots:
        names = [one['name'] for one in plot['series']]
        if found and found[-1][0] == names and found[-1][1][0].get('kind') == plot.get('kind'):
            found[-1][1].append(plot)
        else:
            found.append((names, [plot]))
    return found


def render(plots):
    parts, y = [], GAP
    rows = rows_of(plots)
    width = GAP + max(len(row) for _, row in rows) * (WIDTH + GAP)
    for names, row in rows:
        scale = scale_of(row)
        x = GAP + LEFT
        for number, name in enumerate(names, 1):
            parts.append(text(x, y, name, f'key s{number}'))
            x += 6.2 * len(name) + 18
        y += LEGEND - 8
        for column, plot in enumerate(row):
            parts.append(f'<svg x="{GAP + column * (WIDTH + GAP)}" y="{y}" width="{WIDTH}" '
                         f'height="{HEAD + HEIGHT + FOOT}">{drawn(plot, scale)}</svg>')
        y += HEAD + HEIGHT + FOOT + GAP
    label = escape('; '.join(plot['name'] for plot in plots))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" '
            f'height="{y}" role="img" aria-label="{label}"><style>{style()}</style>'
            f'<rect class="sheet" width="{width}" height="{y}"/>{"".join(parts)}</svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('-o', '--output', type=pathlib.Path, required=True, metavar='FILE')
    args = parser.parse_args()
    try:
        args.output.write_text(render(json.load(sys.stdin)), encoding='utf-8')
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f'sim_svg.py: {error!r}')


if __name__ == '__main__':
    main()
