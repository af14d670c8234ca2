"""How the report writes names and numbers. Nothing here knows of files or plots."""
import html
import math
import re

# What XML 1.0 has no way to say, lone surrogates among it.
UNSAYABLE = re.compile('[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]')
GAP = '–'


def escape(value):
    """Text for an element or an attribute in double quotes, in HTML as in SVG."""
    return html.escape(UNSAYABLE.sub('\ufffd', str(value)))


def is_number(value):
    # The bounds also keep out what is not finite, and integers that no float holds.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and \
        -1e200 < value < 1e200


def numbers(values):
    """The list with everything but numbers made None; empty when it is no list."""
    if not isinstance(values, list):
        return []
    return [value if is_number(value) else None for value in values]


def known(values):
    return [value for value in values if value is not None]


def number(value, digits=None):
    """With that many decimals; without a wish, whole numbers whole and others to 3 figures."""
    if not is_number(value):
        return GAP
    if not isinstance(digits, int) or isinstance(digits, bool):
        if value == round(value) or abs(value) >= 100:
            digits = 0
        else:
            digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f'{value:,.{min(max(digits, 0), 9)}f}'


def axis_number(value):
    """Short and exact for the round numbers of an axis: 0.05, 20,000, 1.5M."""
    for size, letter in ((1e12, 'T'), (1e9, 'G'), (1e6, 'M')):
        if abs(value) >= size:
            return f'{value / size:.4g}{letter}'
    return f'{value:,.0f}' if value == round(value) else f'{value:.4g}'


def seconds(value):
    """A duration with the unit that suits it: 350 µs, 12 ms, 1.4 s, 3.2 min, 1.5 h."""
    if not is_number(value):
        return GAP
    for limit, size, unit in ((1e-3, 1e-6, 'µs'), (1, 1e-3, 'ms'), (120, 1, 's'),
                              (7200, 60, 'min')):
        # What rounds to the limit belongs to the next unit.
        if abs(value) < limit * 0.9995:
            return f'{value / size:.3g} {unit}' if value else '0 s'
    return f'{value / 3600:,.3g} h' if abs(value) < 3.6e6 else f'{value / 3600:,.0f} h'


def shortened(name, limit):
    """The name, with its middle left out when it is longer than that."""
    name = str(name)
    if len(name) <= limit:
        return name
    head = (limit - 1) // 2
    return f'{name[:head]}…{name[len(name) - (limit - 1 - head):]}'


def count(amount, noun):
    return f'{amount:,} {noun}{"" if amount == 1 else "s"}'


def quantile(ordered, share):
    """Of a sorted list, by the nearest rank: a value that was measured."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def rows(container, key):
    """The objects of a list in a result; nothing when that part is missing."""
    value = container.get(key)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def table_of(container, key):
    value = container.get(key)
    return value if isinstance(value, dict) else {}
