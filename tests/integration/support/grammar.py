"""The grammar of the configuration as the program itself prints it (`sluice check --reference`), and
values drawn from it: the ends of every range, defaults, and what lies between."""
import re
import subprocess

from support.daemon import PROGRAM

UNIT = {'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}
HIGHEST = 2**31 - 1  # of a number or, in seconds, of a time without an upper end


class Option:
    """section: '' at the top level; kind: as the reference calls its type; low, high: of its range"""

    def __init__(self, section, name, line, text):
        self.section, self.name = section, name
        kind, _, default = line.partition('; default: ')
        self.kind = re.match(r'one of|[a-z ]+', kind)[0].strip()
        self.choices = re.findall(r'`([^`]+)`', kind)
        self.needs_restart = 'A change of it needs a restart.' in text
        found = re.search(r', (\d+)(?:s|M)? (?:to (\d+)s?|or more)', kind)
        scale = UNIT['M'] if self.kind == 'size' else 1
        self.low = int(found[1]) * scale if found else 0
        self.high = int(found[2]) if found and found[2] else HIGHEST
        literal = re.match(r'`([^`]*)`', default)
        self.default = literal[1] if literal else None

    def number(self, chance):
        near = [n for n in (self.low + 1, 2, 3, 5, 10, 64, 100, 1000, 20000) if
                self.low <= n <= self.high]
        return chance.choice([self.low, self.high, *near, *near])

    def draw(self, chance):
        """A value as the file takes it, or None: it has to come from whoever knows names and files."""
        if self.default and chance.random() < 0.1:
            return self.default
        if self.kind == 'number':
            return self.number(chance)
        if self.kind == 'time':
            return f'{chance.choice([self.low, min(self.high, chance.choice([1, 1, 2, 5, 60, HIGHEST]))])}s'
        if self.kind == 'size':
            return chance.choice([self.low, self.low + 1, '16M', '100M', '1T']) if self.low < 16 << 20 \
                else '16M'
        if self.kind == 'yes or no':
            return chance.random() < 0.5
        if self.kind == 'one of':
            return chance.choice(self.choices)
        if self.kind == 'feedback':
            return chance.choice(['1', '0', '0.5', '1/2', '1/concurrency', '2/3', '0.01'])
        return None


def read():
    """[Option] of every section"""
    done = subprocess.run([PROGRAM, 'check', '--reference'], capture_output=True, check=True)
    options, section, name = [], None, None
    for part in re.split(r'\n(?=#{2,3} )', done.stdout.decode()):
        head, _, rest = part.partition('\n')
        if head.startswith('## '):
            found = re.match(r'## (?:Top level|(\w+)(?: "[^"]*")? \{ \})$', head)
            section = None if found is None else found[1] or ''
        elif head.startswith('### ') and section is not None:
            name = head[4:]
            line = re.search(r'^\*(.*)\*$', rest, re.M)[1]
            options.append(Option(section, name, line, rest))
    return options
