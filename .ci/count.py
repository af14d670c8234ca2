"""Count test results and show the logs of those that failed.

usage: count.py meson FILE | count.py pytest FILE... | count.py tap FILE
FILE is meson's testlog.json, pytest's JUnit files, or TAP lines, which are not shown. Logs go to
standard output; the last line is "PASSED FAILED". A program of several tests counts each of them: cmocka and TAP programs say how
many there were. One that crashed counts what it printed before and one failure.
"""
import json
import re
import sys
import xml.etree.ElementTree

SHOWN_LINES = 60


def show(name, text):
    print(f'---- {name}')
    print('\n'.join(text.rstrip().splitlines()[-SHOWN_LINES:]))


def count_inside(output):
    """(passed, failed) that a program reports of itself, or None."""
    done = re.findall(r'^\[  PASSED  \] (\d+) test', output, re.M)
    if done:
        passed = sum(map(int, done))
        return passed, sum(map(int, re.findall(r'^\[  FAILED  \] (\d+) test', output, re.M)))
    if re.search(r'^\[==========\] Running', output, re.M):
        passed = len(re.findall(r'^\[       OK \]', output, re.M))
        return passed, len(re.findall(r'^\[  FAILED  \]', output, re.M))
    if re.search(r'^1\.\.\d+', output, re.M):
        passed = len(re.findall(r'^ok\b', output, re.M))
        return passed, len(re.findall(r'^not ok\b', output, re.M))
    return None


def count_meson(path):
    passed = failed = 0
    with open(path, encoding='utf-8', errors='replace') as log:
        for line in log:
            test = json.loads(line)
            if test['result'] == 'SKIP':
                continue
            is_good = test['result'] in ('OK', 'EXPECTEDFAIL')
            output = test.get('stdout', '') + '\n' + test.get('stderr', '')
            inside = count_inside(output)
            good, bad = inside if inside is not None else (int(is_good), 0)
            if is_good and bad == 0:
                passed += max(good, 1)
                continue
            passed += good
            failed += max(bad, 1)
            show(f"{test['name']}: {test['result']}", output)
    return passed, failed


def count_pytest(*paths):
    passed = failed = 0
    cases = [case for path in paths for case in xml.etree.ElementTree.parse(path).iter('testcase')]
    for case in cases:
        kinds = {child.tag for child in case}
        if kinds & {'failure', 'error'}:
            failed += 1
        elif 'skipped' in kinds:
            print(f"skipped: {case.get('name')}: {case.find('skipped').get('message')}")
        else:
            passed += 1
    return passed, failed


def count_tap(path):
    """What was planned and did not come counts as failed."""
    with open(path, encoding='utf-8', errors='replace') as file:
        output = file.read()
    plan = re.search(r'^1\.\.(\d+)', output, re.M)
    if plan is None:
        raise ValueError(f'{path} has no TAP plan')
    passed, _ = count_inside(output)
    return passed, max(int(plan[1]) - passed, 0)


def main():
    kind, *paths = sys.argv[1:]
    try:
        counters = {'meson': count_meson, 'pytest': count_pytest, 'tap': count_tap}
        counted = counters[kind](*paths)
    except (OSError, ValueError, xml.etree.ElementTree.ParseError) as error:
        print(f'no results: {error}')
        counted = (0, 1)
    print(*counted)


main()
