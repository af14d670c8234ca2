"""Small changes to C code: where they can be made, and what each is. Comments, strings, directives
and asserts are left alone: a test need not notice a change in them."""
import re

# What stands in front of a parenthesis that reaches to the statement's end and is no behaviour.
SILENT = re.compile(r'\b(?:assert|expensive_assert|static_assert|HOLD_TRUE|log_\w+)\s*\(')
# Dropped, these only leak, hint or tell, which the sanitizers see or nobody.
UNSEEN = re.compile(r'(?:free|release|retire|close|fini|put|log_\w+|prefetch|expect\w*)$')
FLIPS = [(re.compile(pattern), new) for pattern, new in [
    (r' < ', ' <= '), (r' <= ', ' < '), (r' > ', ' >= '), (r' >= ', ' > '),
    (r' == ', ' != '), (r' != ', ' == '), (r' && ', ' || '), (r' \|\| ', ' && '),
    (r' \+ ', ' - '), (r' - ', ' + '), (r' \+= ', ' -= '), (r' -= ', ' += '),
    (r'\+\+', '--'), (r'(?<!-)--(?!-)', '++'), (r'\btrue\b', 'false'), (r'\bfalse\b', 'true'),
    (r'(?<![\w=!])!(?=[\w(])', '')]]
NUMBER = re.compile(r'(?<![\w.])(\d+)(?![\w.])')
CONDITION = re.compile(r'\b(if|while) \((?!\!)(?=.*\) \{$)', re.M)
CALL = re.compile(r'^ +(?:\(void\))?(\w+)\([^;]*\);$', re.M)
ASSIGNMENT = re.compile(r'^ +(?!return\b)\*?\w[\w.>\[\]-]* [-+|&]?= [^;]*;$', re.M)


def blank(text, start, end):
    """Every character but line ends, so that positions stay what they are."""
    return text[:start] + re.sub(r'[^\n]', ' ', text[start:end]) + text[end:]


def closing(text, at):
    """Behind the parenthesis that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == '(') - (text[i] == ')')
        if depth == 0:
            return i + 1
    return len(text)


def code_only(text):
    """The same text with all that is no behaviour blanked out."""
    for match in list(re.finditer(
            r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', text, re.S)):
        text = blank(text, match.start(), match.end())
    for match in list(re.finditer(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', text, re.M)):
        text = blank(text, match.start(), match.end())
    for match in list(SILENT.finditer(text)):
        text = blank(text, match.start(), closing(text, match.end() - 1))
    return text


def negation_end(code, at):
    """Of the condition whose opening parenthesis is at `at`."""
    return closing(code, at) - 1


def changes(text):
    """All of them: (start, end, what stands there instead)."""
    code = code_only(text)
    found = []
    for pattern, new in FLIPS:
        found += [(m.start(), m.end(), new) for m in pattern.finditer(code)]
    for m in NUMBER.finditer(code):
        found.append((m.start(), m.end(), str(int(m.group(1), 0 if m.group(1) == '0' else 10) + 1)
                      if not m.group(1).startswith('0') or m.group(1) == '0' else '1'))
    for m in CONDITION.finditer(code):
        start, end = m.end(), negation_end(code, m.end() - 1)
        found.append((start, end, f'!({text[start:end]})'))
    for m in CALL.finditer(code):
        if not UNSEEN.search(m.group(1)):
            start = m.start() + len(m.group(0)) - len(m.group(0).lstrip())
            found.append((start, m.end(), ';'))
    for m in ASSIGNMENT.finditer(code):
        start = m.start() + len(m.group(0)) - len(m.group(0).lstrip())
        found.append((start, m.end(), ';'))
    return sorted(found)


def describe(path, text, change):
    """As the lines of a diff."""
    start, end, new = change
    line = text.count('\n', 0, start) + 1
    first, last = text.rfind('\n', 0, start) + 1, text.find('\n', end)
    old = text[first:last].split('\n')
    changed = (text[first:start] + new + text[end:last]).split('\n')
    return f'{path}:{line}\n' + ''.join(f'  -{x}\n' for x in old) + \
        ''.join(f'  +{x}\n' for x in changed)
