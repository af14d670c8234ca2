#!/usr/bin/env python3
"""Tests that notice: make one small change to the code at random, build what depends on it, run the
unit stage until a test fails; again and again. A change that no test notices is either without
effect, or a test is missing.

usage: run_mutations.py [--seed N] [--count N] [--jobs N] [--work FOLDER] [PATH...]

PATH is a source file or a folder of them; without, sched net dns base and the spool's. The same
seed and tree give the same changes. Works in copies of the tree below FOLDER (build/mutation), of
what git tracks. Changes that do not compile, or compile to the same object, do not count and are
replaced by others. Prints a line for each, then those that survived, as a diff; FOLDER/result.txt
keeps all of it. Ends with 1 when a change survived that tests/mutation/equivalent.txt does not list."""
import argparse
import concurrent.futures
import json
import os
import queue
import random
import shutil
import subprocess
import sys
import threading
import time

import code_change

TREE = os.path.realpath(os.path.join(os.path.dirname(__file__), '..', '..'))
ROOMS = ['sched', 'net', 'dns', 'base', 'spool']
NO_BEHAVIOUR = ['sched/check.c']
SUITES = {'unit', 'sim', 'fuzz', 'fault'}
# A short run first, the whole one only for what survives everything else.
SHORT = {'sched_random': ['1', '800'], 'spool_random': ['1', '20']}

# A change may make a loop endless.
BOUNDED = ['prlimit', '--core=0', '--data=2147483648', '--fsize=4294967296', '--']


def tracked():
    return subprocess.run(['git', 'ls-files', '-co', '--exclude-standard'], cwd=TREE, check=True,
                          stdout=subprocess.PIPE, text=True).stdout.split('\n')[:-1]


class Test:
    def __init__(self, name, command, files, seconds=None):
        self.name, self.command, self.files, self.seconds = name, command, files, seconds

    def run(self, folder, limit):
        """Whether it passed; a time-out is none."""
        process = subprocess.Popen(BOUNDED + self.command, cwd=folder, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        try:
            return process.wait(limit) == 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            return False


class Copy:
    """A copy of the tree and its build."""

    def __init__(self, folder):
        self.folder = folder
        self.build = os.path.join(folder, 'build')
        for path in tracked():
            source, target = os.path.join(TREE, path), os.path.join(folder, path)
            if not os.path.isfile(source):
                continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(source, 'rb') as f:
                data = f.read()
            # Untouched when equal: a second run need not build everything.
            if not os.path.exists(target) or open(target, 'rb').read() != data:
                shutil.copy(source, target)
        if not os.path.exists(os.path.join(self.build, 'build.ninja')):
            compiler = 'ccache gcc' if shutil.which('ccache') else 'gcc'
            subprocess.run(['meson', 'setup', self.build, '-Doptimization=1', '-Djemalloc=false'],
                           cwd=folder, check=True, stdout=subprocess.DEVNULL,
                           env={**os.environ, 'CC': compiler})
        self._look()

    def ninja(self, *targets):
        return subprocess.run(['ninja', '-C', self.build, '-j2', *targets], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def _introspect(self, what):
        return json.loads(subprocess.run(['meson', 'introspect', self.build, '--' + what],
                                         check=True, stdout=subprocess.PIPE).stdout)

    def _look(self):
        """Which archive holds a source, and which tests link that."""
        self.archive_of, self.object_of, libraries, outputs = {}, {}, set(), set()
        for target in self._introspect('targets'):
            outputs |= {os.path.relpath(name, self.build) for name in target['filename']}
            if target['type'] == 'static library':
                archive = os.path.relpath(target['filename'][0], self.build)
                libraries.add(archive)
                for sources in target['target_sources']:
                    for source in sources.get('sources', []):
                        path = os.path.relpath(source, self.folder)
                        self.archive_of[path] = archive
                        self.object_of[path] = os.path.join(
                            archive + '.p',
                            os.path.relpath(path, os.path.dirname(archive)).replace('/', '_') + '.o')
        self.users = {}
        for archive in libraries:
            answer = subprocess.run(['ninja', '-C', self.build, '-t', 'query', archive],
                                    check=True, stdout=subprocess.PIPE, text=True).stdout
            self.users[archive] = set(answer.split('outputs:')[1].split())
        self.tests = []
        for test in self._introspect('tests'):
            suite = test['suite'][0].split(':')[-1]
            words = {os.path.relpath(os.path.join(self.build, word), self.build)
                     for word in test['cmd']}
            files = words & outputs
            if suite in SUITES:
                self.tests.append(Test(test['name'], test['cmd'], files))
        self.tests += [Test(test.name + ' (short)', test.command + SHORT[test.name], test.files)
                       for test in self.tests if test.name in SHORT]

    def tests_of(self, path):
        """Those that link it: of the same name first, then the fastest."""
        stem = os.path.splitext(os.path.basename(path))[0]
        users = self.users[self.archive_of[path]]

        def order(test):
            near = test.name == stem or test.name.startswith(stem) or \
                stem.startswith(test.name) or test.name == 'fuzz_' + stem
            return (not near, test.seconds)
        return sorted((t for t in self.tests if t.files & users and t.seconds is not None),
                      key=order)


class Session:
    def __init__(self, options):
        self.options = options
        self.lock = threading.Lock()
        self.spare = queue.Queue()
        copies = [Copy(os.path.join(options.work, f'tree{n}')) for n in range(options.jobs)]
        self.sites = self._collect(copies[0])
        self._measure(copies)
        for copy in copies:
            self.spare.put(copy)
        with open(os.path.join(TREE, 'tests/mutation/equivalent.txt'), encoding='utf-8') as f:
            self.equivalent = f.read()
        self.log = open(os.path.join(options.work, 'result.txt'), 'a', encoding='utf-8')
        self.results = []

    def _collect(self, copy):
        wanted = self.options.paths or ROOMS
        paths = []
        for path in sorted(copy.archive_of):
            room = 'spool' if path.startswith('engine/spool/') else os.path.dirname(path)
            if path not in NO_BEHAVIOUR and copy.users[copy.archive_of[path]] and \
                    any(path == w or room == w for w in wanted) and \
                    (room != 'spool' or copy.archive_of[path] == 'engine/libspool.a'):
                paths.append(path)
        sites, self.texts = [], {}
        for path in paths:
            # As copied: the tree itself may move on while this runs.
            with open(os.path.join(copy.folder, path), encoding='utf-8') as f:
                self.texts[path] = f.read()
            sites += [(path, change) for change in code_change.changes(self.texts[path])]
        return sites

    def _measure(self, copies):
        """All tests pass without a change, and how long each takes."""
        for copy in copies:
            files = set().union(*(test.files for test in copy.tests))
            built = copy.ninja(*sorted(files))
            if built.returncode != 0:
                sys.exit(built.stdout[-3000:])
        for number, test in enumerate(copies[0].tests):
            begin = time.monotonic()
            if test.run(copies[0].build, 900):
                for copy in copies:
                    copy.tests[number].seconds = time.monotonic() - begin
            else:
                print(f'{test.name} fails without a change and is left out', flush=True)

    def try_one(self, site):
        path, change = site
        copy = self.spare.get()
        target = os.path.join(copy.folder, path)
        text = self.texts[path]
        begin = time.monotonic()
        try:
            compiled = os.path.join(copy.build, copy.object_of[path])
            with open(compiled, 'rb') as f:
                before = f.read()
            with open(target, 'w', encoding='utf-8') as f:
                f.write(text[:change[0]] + change[2] + text[change[1]:])
            verdict = self._judge(copy, path, compiled, before)
        finally:
            with open(target, 'w', encoding='utf-8') as f:
                f.write(text)
            copy.ninja(copy.object_of[path])
            self.spare.put(copy)
        self._note(verdict, code_change.describe(path, text, change), time.monotonic() - begin)
        return verdict

    def _judge(self, copy, path, compiled, before):
        if copy.ninja(copy.object_of[path]).returncode != 0:
            return 'does not compile'
        with open(compiled, 'rb') as f:
            if f.read() == before:
                return 'same object'
        tests = copy.tests_of(path)
        near = [t for t in tests if t.seconds < 1][:12]
        for group in (near, [t for t in tests if t not in near]):
            built = copy.ninja(*sorted(set().union(*(t.files for t in group), set())))
            if group and built.returncode != 0:
                return 'does not link'
            for test in group:
                if not test.run(copy.build, 20 + 5 * test.seconds):
                    return 'noticed by ' + test.name
        return 'survived'

    def _note(self, verdict, text, seconds):
        with self.lock:
            place, lines = text.split('\n', 1)
            if verdict == 'survived' and f"{place.rsplit(':', 1)[0]}\n{lines}" in self.equivalent:
                verdict = 'equivalent'
            self.results.append((verdict, text))
            line = f'{text.splitlines()[0]}: {verdict} ({seconds:.0f} s)'
            print(line, flush=True)
            self.log.write(line + '\n' + text)
            self.log.flush()

    def run(self):
        random.Random(self.options.seed).shuffle(self.sites)
        tried = iter(self.sites)
        counted = 0
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            # As many at a time as are still wanted: which ones count does not depend on timing.
            while counted < self.options.count:
                sites = [site for _, site in zip(range(self.options.count - counted), tried)]
                if not sites:
                    break
                counted += sum(verdict.startswith(('noticed', 'survived', 'equivalent'))
                               for verdict in pool.map(self.try_one, sites))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--count', type=int, default=200)
    parser.add_argument('--jobs', type=int, default=2)
    parser.add_argument('--work', default=os.path.join(TREE, 'build', 'mutation'))
    parser.add_argument('paths', nargs='*')
    options = parser.parse_args()
    options.work = os.path.abspath(options.work)
    os.makedirs(options.work, exist_ok=True)
    session = Session(options)
    print(f'{len(session.sites)} possible changes; seed {options.seed}', flush=True)
    session.run()
    survived = [text for verdict, text in session.results if verdict == 'survived']
    kinds = [verdict.split(' by ')[0] for verdict, _ in session.results]
    for text in sorted(survived):
        print('survived ' + text)
    print(', '.join(f'{kinds.count(kind)} {kind}' for kind in sorted(set(kinds))))
    return 1 if survived else 0


if __name__ == '__main__':
    sys.exit(main())
