"""Plots of the report as inline SVG: axes, dots, bars, panels over time, heat maps.

Colours come from classes (report.css), so that light and dark need no second picture. Widths are
those of a telephone; a wide page shows several plots beside each other. No clip paths, gradients or
markers: they would need references.
"""
import math

from report_text import axis_number, escape, known, number, seconds, shortened

WIDTH = 340
TINY = 1e-200  # less is nothing
CLOCK_STEPS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800,
               21600, 43200, 86400)


# ---- axes

def round_step(span, count):
    """The smallest of 1, 2, 5 times a power of ten that cuts span into at most count parts."""
    power = 10.0 ** math.floor(math.log10(span / count))
    for factor in (1, 2, 5, 10):
        if span <= factor * power * count * (1 + 1e-9):
            return factor * power
    return 20 * power


def multiples(step, low, high):
    """Every multiple of step from low to high, without the noise of adding fractions."""
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f'{index * step:.12g}') for index in range(first, last + 1)]


def linear_ticks(low, high, count=5):
    """Round numbers from low to high, in at most count steps."""
    return multiples(round_step(high - low, count), low, high) if high > low else [low]


def log_ticks(low, high, count=5):
    """Powers of ten from low to high (both > 0); with 2 and 5 between where few would be left, or
    only every second, third... where there were too many."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [float(f'{factor}e{power}') for power in range(first, last + 1)
                 for factor in factors]
        ticks = [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if len(ticks) <= count + 1:
            return ticks or [low]
    return ticks[::math.ceil(len(ticks) / (count + 1))]


def root_ticks(high, count=4):
    """0 and round numbers that stand well apart on a square-root axis."""
    ticks, power = [], 10.0 ** math.ceil(math.log10(high))
    candidates = [factor * power / 10 ** down for down in range(9) for factor in (5, 2, 1)]
    for value in (float(f'{value:.12g}') for value in candidates if value <= high * (1 + 1e-9)):
        if not ticks or math.sqrt(ticks[-1] / high) - math.sqrt(value / high) >= 0.9 / count:
            if math.sqrt(value / high) >= 0.6 / count:
                ticks.append(value)
    return [0.0, *reversed(ticks)]


def clock_ticks(span, count=5):
    """Seconds from 0 to span at steps that clocks have, in at most count steps."""
    if span < count:
        return linear_ticks(0, span, count)
    step = next((step for step in CLOCK_STEPS if span <= step * count * (1 + 1e-9)), None)
    return multiples(step or round_step(span / 86400, count) * 86400, 0, span)


def clock_text(value, span):
    """A tick of clock_ticks; the unit is chosen for the whole axis."""
    size, unit = next(((size, unit) for least, size, unit in
                       ((172800, 86400, 'd'), (7200, 3600, 'h'), (180, 60, 'min'))
                       if span >= least), (1, 's'))
    return f'{value / size:.4g} {unit}' if value else '0'


class Scale:
    """Values to pixels. kind: linear, sqrt or log. Linear and sqrt contain 0, log begins at the
    smallest value above it."""

    def __init__(self, kind, values, pixels, count=4):
        self.kind, self.pixels = kind, pixels
        self.low, self.high = 0.0, max(values, default=0)
        if self.high < TINY:
            self.high = 1.0 if min(values, default=0) > -TINY else 0.0
        if kind == 'log':
            self.low = min((value for value in values if value > TINY), default=self.high / 10)
            if self.high < self.low * 10:  # at least a decade, so that little change looks little
                middle = math.sqrt(self.low * self.high)
                self.low, self.high = middle / 10 ** .5, middle * 10 ** .5
            self.ticks = log_ticks(self.low, self.high, count)
        elif kind == 'sqrt':
            self.ticks = root_ticks(self.high, count)
        else:
            self.low = min([0.0, *values])
            step = round_step(self.high - self.low, count)
            self.high = math.ceil(self.high / step * 2 - 1e-9) * step / 2  # a little air above
            self.low = math.floor(self.low / step + 1e-9) * step
            self.ticks = multiples(step, self.low, self.high)

    def __call__(self, value):
        value = min(max(value, self.low), self.high)
        if self.kind == 'log':
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
            share = math.sqrt(share) if self.kind == 'sqrt' else share
        return self.pixels[0] + share * (self.pixels[1] - self.pixels[0])


# ---- primitives

def px(value):
    digits = f'{value:.1f}'.removesuffix('.0')
    return '0' if digits == '-0' else digits


def text(x, y, content, style='', anchor='start'):
    place = '' if anchor == 'start' else f' text-anchor="{anchor}"'
    return f'<text x="{px(x)}" y="{px(y)}" class="{style}"{place}>{escape(content)}</text>'


def path(d, style, more=''):
    return f'<path class="{style}" d="{d}"{more}/>' if d else ''


def svg(height, label, body, width=WIDTH, more=''):
    return (f'<svg viewBox="0 0 {width} {px(height)}" role="img" aria-label="{escape(label)}"'
            f'{more}>{"".join(body)}</svg>')


def vertical_grid(scale, top, bottom, label):
    """Grid lines and labels below for a horizontal axis. Labels at the ends stay inside."""
    parts = [path(''.join(f'M{px(scale(tick))} {px(top)}V{px(bottom)}' for tick in scale.ticks),
                  'grid')]
    for tick in scale.ticks:
        content, x = label(tick), scale(tick)
        anchor = 'end' if x + 3 * len(content) > scale.pixels[1] + 10 else 'middle'
        parts.append(text(min(x, WIDTH - 2) if anchor == 'end' else x, bottom + 13, content, 'tick',
                          anchor))
    return parts


def segments(values):
    """(first, last + 1) of every stretch without a gap."""
    first = None
    for index, value in enumerate([*values, None]):
        if value is None and first is not None:
            yield first, index
            first = None
        elif value is not None and first is None:
            first = index


def step_path(values, x, y, base=None):
    """Each value holds for its interval; with base, the area between."""
    out = []
    for first, last in segments(values):
        level = px(y(values[first]))
        out.append(f'M{px(x(first))} ' + (level if base is None else f'{px(base)}V{level}'))
        for index in range(first + 1, last):
            now = px(y(values[index]))
            if now != level:
                out.append(f'H{px(x(index))}V{now}')
                level = now
        out.append(f'H{px(x(last))}' + ('' if base is None else f'V{px(base)}z'))
    return ''.join(out)


def line_path(values, x, y):
    """Through the middles of the intervals; a lonely value is a dot (by the round line cap)."""
    out = []
    for first, last in segments(values):
        out += [f'{"L" if index > first else "M"}{px(x(index + 0.5))} {px(y(values[index]))}'
                for index in range(first, last)]
        if last == first + 1:
            out.append('h0')
    return ''.join(out)


# ---- figures by pair

def marker(shape, x, y, size):
    """A shape for each relay, for eyes and printers that do not tell colours apart."""
    if shape == 0:
        return f'M{px(x - size)} {px(y)}a{size} {size} 0 1 0 {2 * size} 0a{size} {size} 0 1 0 ' \
               f'{-2 * size} 0z'
    corners = {1: ((-.9, -.9), (.9, -.9), (.9, .9), (-.9, .9)),
               2: ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
               3: ((0, -1.2), (1.2, 1), (-1.2, 1)), 4: ((0, 1.2), (1.2, -1), (-1.2, -1))}[shape]
    return 'M' + 'L'.join(f'{px(x + size * a)} {px(y + size * b)}' for a, b in corners) + 'z'


def spread(label, relays, digits):
    """One dot for each run: [(relay, colour, [(pair, value or None, is_clean)], median)]."""
    values = known(value for _, _, runs, _ in relays for _, value, _ in runs)
    if not values:
        return ''
    is_log = min(values) > 0 and max(values) > 40 * min(values)
    scale = Scale('log' if is_log else 'linear', values, (26, WIDTH - 26))
    pitch, y, parts, marks = 13, 0, [], []
    for relay, colour, runs, median in relays:
        shape = (colour - 1) % 5
        marks.append(path(marker(shape, 5, y + 9, 4), f'mark c{colour}'))
        marks.append(text(14, y + 13, shortened(relay, 30), 'name'))
        if median is not None:
            marks.append(text(WIDTH - 2, y + 13, f'median {number(median, digits)}', 'value',
                              'end'))
        y += 20
        if median is not None and len(runs) > 1:
            marks.append(path(f'M{px(scale(median))} {px(y)}v{px(pitch * len(runs))}',
                              f'median c{colour}'))
        for pair, value, is_clean in runs:
            y += pitch
            marks.append(text(16, y - 3, pair, 'tick', 'end'))
            if value is None:
                continue
            x = scale(value)
            if not is_log:
                marks.append(path(f'M{px(scale(0))} {px(y - 6.5)}H{px(x)}', f'stem c{colour}'))
            hint = f'{relay}, pair {pair}: {number(value, digits)}' + \
                ('' if is_clean else ', not clean')
            marks.append(f'<path class="{"mark" if is_clean else "hollow"} c{colour}" '
                         f'd="{marker(shape, x, y - 6.5, 4)}"><title>{escape(hint)}</title></path>')
        y += 8
    parts += vertical_grid(scale, 20, y, axis_number)
    return svg(y + 18, label, parts + marks)


def bars(label, amounts, unit):
    """Horizontal bars, the largest first: [(name, amount)]."""
    whole, y, parts = sum(amount for _, amount in amounts) or 1, 0, []
    largest = max((amount for _, amount in amounts), default=0) or 1
    for name, amount in amounts:
        parts += [text(0, y + 12, shortened(name, 22), 'name'),
                  text(WIDTH, y + 12, f'{number(amount, 2)} {unit}  ·  {amount / whole:.0%}',
                       'value', 'end'),
                  path(f'M0 {y + 18}h{WIDTH}v5H0z', 'track'),
                  path(f'M0 {y + 18}h{px(WIDTH * amount / largest)}v5H0z', 'mark c1')]
        y += 32
    return svg(y, label, parts)


# ---- over time

LEFT, RIGHT, PANEL, HEAD = 42, 6, 62, 26


class Panel:
    """One row of a plot over time; its scale is common to all plots that share the panel.

    series  [(key, title, style, kind)]; kind: area, step or line
    unit    '' or 's'; decides how values are written
    """

    def __init__(self, title, unit, series):
        self.title, self.unit, self.series = title, unit, series
        self.scale = None

    def fit(self, kind, values):
        self.scale = Scale(kind, values, (PANEL, 0), 3)

    def draw(self, top, data, x):
        parts = [text(LEFT, top - 8, self.title, 'panel')]
        place = WIDTH - RIGHT
        for key, title, style, _ in reversed(self.series):
            if known(data.get(key, ())):
                parts.append(text(place, top - 8, title, f'key {style}', 'end'))
                place -= 5.6 * len(title) + 8
        def y(value):
            return top + self.scale(value)
        lines = ''.join(f'M{LEFT} {px(y(tick))}H{WIDTH - RIGHT}' for tick in self.scale.ticks)
        parts.append(path(lines, 'grid'))
        parts += [text(LEFT - 5, y(tick) + 3.5, self.text(tick), 'tick', 'end')
                  for tick in self.scale.ticks]
        for key, title, style, kind in self.series:
            values = data.get(key, [])
            if not known(values):
                continue
            said = ','.join('' if value is None else f'{value:.3g}' for value in values)
            more = f' data-name="{escape(title)}" data-unit="{self.unit}" data-v="{said}"'
            if kind == 'line':
                parts.append(path(line_path(values, x, y), f'line {style}', more))
                continue
            if kind == 'area':
                parts.append(path(step_path(values, x, y, top + PANEL), f'area {style}'))
            parts.append(path(step_path(values, x, y), f'line {style}', more))
        return parts

    def text(self, value):
        return seconds(value) if self.unit == 's' else axis_number(value)


def over_time(label, panels, data, bins, interval):
    """Panels one above the other on one axis of time. data: {key: [value or None for each bin]}."""
    span = bins * interval
    def x(index):
        return LEFT + index / bins * (WIDTH - LEFT - RIGHT)
    bottom = len(panels) * (PANEL + HEAD)
    axis = Scale('linear', [span], (LEFT, WIDTH - RIGHT))
    axis.high, axis.ticks = span, clock_ticks(span)
    parts = vertical_grid(axis, HEAD, bottom, lambda tick: clock_text(tick, span))
    for index, panel in enumerate(panels):
        parts += panel.draw(HEAD + index * (PANEL + HEAD), data, x)
    return svg(bottom + 17, label, parts,
               more=f' data-left="{LEFT}" data-right="{WIDTH - RIGHT}" data-bins="{bins}" '
                    f'data-interval="{interval:.6g}" data-top="{HEAD}" data-bottom="{px(bottom)}"')


LEVELS = 8


def heat_limits(values):
    """At most LEVELS - 1 round thresholds for the colours of values > 0, even in logarithm."""
    values = sorted(value for value in values if value and value > TINY)
    if not values:
        return []
    low, high = values[len(values) // 50], values[-1]
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high) + 1e-9)
    for factors, stride in (((1, 1.5, 2, 3, 5, 7), 1), ((1, 2, 5), 1), ((1, 3), 1), ((1,), 1),
                            ((1,), 2), ((1,), 4)):
        limits = [float(f'{factor}e{power}') for power in range(first, last + 1, stride)
                  for factor in factors]
        limits = [limit for limit in limits if low < limit <= high]
        if len(limits) < LEVELS:
            return limits
    return limits[:LEVELS - 1]


def heat_map(label, lines, interval, style, say):
    """Rows of colours: [(name, hint, [value or None for each bin])]. Returns (SVG, legend).

    style  of the ramp; the class of a level is style and its number
    say    a threshold in words, for the legend
    """
    width, left, pitch = 560, 132, 12
    bins = max((len(values) for _, _, values in lines), default=0)
    limits = heat_limits([value for _, _, values in lines for value in values])
    if not bins or not limits:
        return '', ''
    # The levels used are spread over the ramp, so that few of them differ well.
    levels = [round(index * (LEVELS - 1) / max(len(limits), 1)) for index in range(len(limits) + 1)]
    cell, shapes, parts = (width - left - 8) / bins, {}, []
    for row, (name, hint, values) in enumerate(lines):
        parts.append(f'<text x="{left - 6}" y="{row * pitch + 9}" class="tick" text-anchor="end">'
                     f'{escape(shortened(name, 20))}<title>{escape(hint)}</title></text>')
        shades = [None if value is None else
                  -1 if value == 0 else sum(value >= limit for limit in limits) for value in values]
        begin = 0
        for index in range(1, bins + 1):
            if index == bins or shades[index:index + 1] != shades[begin:begin + 1]:
                if begin < len(shades) and shades[begin] is not None:
                    first = left + begin * cell
                    shapes.setdefault(shades[begin], []).append(
                        f'M{px(first)} {row * pitch}h{px((index - begin) * cell)}v{pitch - 1}'
                        f'h{px((begin - index) * cell)}z')
                begin = index
    parts += [path(''.join(shapes[shade]), 'track' if shade < 0 else f'{style}{levels[shade]}')
              for shade in sorted(shapes)]
    bottom, span = len(lines) * pitch + 2, bins * interval
    for tick in clock_ticks(span, 6):
        x = left + tick / span * (width - left - 8)
        anchor = 'end' if x > width - 20 else 'middle'
        parts.append(text(min(x, width), bottom + 13, clock_text(tick, span), 'tick', anchor))
    legend = [('track', '0')] if -1 in shapes else []
    legend += [(f'{style}{levels[0]}', f'< {say(limits[0])}')] if 0 in shapes else []
    legend += [(f'{style}{level}', f'≥ {say(limit)}')
               for level, limit in zip(levels[1:], limits)]
    legend = ''.join(f'<span><i class="{name}"></i>{escape(words)}</span>'
                     for name, words in legend)
    return svg(bottom + 17, label, parts, width), f'<p class="legend">{legend}</p>'
