"""Prometheus' text format, version 0.0.4, read strictly: anything that the format does not allow, and
some that it allows and nobody means, is an error."""
import math
import re

NAME = re.compile(r'[a-zA-Z_:][a-zA-Z0-9_:]*')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
NUMBER = re.compile(r'[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf)|NaN')
TYPES = ('counter', 'gauge', 'histogram')


class Family:
    def __init__(self, name, help_text):
        self.name, self.help, self.type = name, help_text, None
        self.samples = {}  # (name, ((label, value), ...)) -> number

    def names(self):
        if self.type == 'histogram':
            return {self.name + suffix for suffix in ('_bucket', '_sum', '_count')}
        return {self.name}

    def check(self):
        assert self.type, f'{self.name} has no TYPE'
        assert (self.type == 'counter') == self.name.endswith('_total'), self.name
        for (name, labels), value in self.samples.items():
            assert name in self.names(), f'{name} stands in the family {self.name}'
            assert not math.isnan(value), name
            if self.type != 'gauge':
                assert value >= 0, (name, labels)
        if self.type == 'histogram':
            self.check_histogram()

    def check_histogram(self):
        series = {}
        for (name, labels), value in self.samples.items():
            rest = tuple(pair for pair in labels if pair[0] != 'le')
            if name.endswith('_bucket'):
                series.setdefault(rest, []).append((dict(labels)['le'], value))
            else:
                assert rest == labels, f'{name} has an le'
        for labels, buckets in series.items():
            bounds = [float(le) for le, _ in buckets]
            counts = [count for _, count in buckets]
            assert bounds == sorted(set(bounds)) and bounds[-1] == math.inf, bounds
            assert buckets[-1][0] == '+Inf'
            assert counts == sorted(counts), counts
            assert self.samples[self.name + '_count', labels] == counts[-1]
            assert self.samples[self.name + '_sum', labels] >= 0
        assert len(self.samples) == sum(len(b) + 2 for b in series.values()), self.name


def labels_of(text):
    labels, at = [], 0
    while at < len(text):
        found = LABEL.match(text, at)
        assert found, f'no label: {text[at:]}'
        labels.append((found[1], found[2]))
        at = found.end()
        if at < len(text):
            assert text[at] == ',' and at + 1 < len(text), text
            at += 1
    assert len({name for name, _ in labels}) == len(labels), text
    return tuple(labels)


def sample_of(line):
    name = NAME.match(line)
    assert name, line
    rest, labels = line[name.end():], ()
    if rest.startswith('{'):
        # A brace within quotes is no end.
        end = re.match(r'\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\}', rest)
        assert end, line
        labels, rest = labels_of(end[0][1:-1]), rest[end.end():]
        assert labels, f'empty braces: {line}'
    assert rest.startswith(' ') and NUMBER.fullmatch(rest[1:]), line
    return (name[0], labels), float(rest[1:])


def parse(body):
    """{name of the family: Family}; every family stands together, HELP and TYPE first."""
    text = body.decode('utf-8')
    assert text.endswith('\n')
    families, current = {}, None
    for line in text[:-1].split('\n'):
        assert line == line.rstrip() and line, repr(line)
        if line.startswith('# HELP '):
            _, _, name, help_text = line.split(' ', 3)
            assert NAME.fullmatch(name) and name not in families, line
            current = families[name] = Family(name, help_text)
        elif line.startswith('# TYPE '):
            _, _, name, kind = line.split(' ')
            assert current.name == name and current.type is None and not current.samples, line
            assert kind in TYPES, line
            current.type = kind
        else:
            assert not line.startswith('#'), line
            key, value = sample_of(line)
            assert key not in current.samples, f'twice: {line}'
            current.samples[key] = value
    for family in families.values():
        family.check()
    names = [name for family in families.values() for name in family.names()]
    assert len(names) == len(set(names))
    return families


def value(families, name, **labels):
    """The sum of the samples that have these labels."""
    for family in families.values():
        if name in family.names():
            return sum(v for (sample, pairs), v in family.samples.items()
                       if sample == name and labels.items() <= dict(pairs).items())
    raise KeyError(name)


def backwards(before, after):
    """Counters that went down or away between two answers; histograms are counters too."""
    wrong = []
    for name, family in before.items():
        if family.type == 'gauge':
            continue
        for key, was in family.samples.items():
            now = after[name].samples.get(key)
            if now is None or now < was:
                wrong.append((key, was, now))
    return wrong
