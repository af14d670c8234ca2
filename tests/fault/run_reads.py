#!/usr/bin/env python3
"""A disk that lies at reading: every page of the spool that somebody reads, once each.

usage: run_reads.py SCENARIO PRELOAD [STEP [FIRST]]

A spool with messages of every kind is drained as the engine would, with one page of data.mdb bad,
for every STEP-th page and each kind:
  eio        it cannot be read, from the start on; writing it gives it a new place
  eio-run    the same, but only once the spool is open
  eio-write  it cannot be written either
  zero, flip, text, head   it holds zeros, has a bit flipped in its nodes, holds text, has a wrong head
Where the spool refuses to open it is salvaged first. What must hold: at most one run ends by itself
(the next one comes through); every message is delivered with its content, or is named as quarantined
or lost; one recipient gets a message twice, or one gets it that had it, only where its id was said
beforehand; of the suppressed recipients, which have no other trace, those of one page are lost at most,
and the page is named. Damage of a page that has no checksum need not be noticed: what it may do is less than
that, see docs/engine.md.
"""
import collections
import concurrent.futures
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

PAGE = 4096
EIO_KINDS = ("eio", "eio-run", "eio-write")
KINDS = tuple(os.environ.get("SLUICE_KINDS", " ".join(EIO_KINDS + ("zero", "flip", "text", "head"))).split())
NOT_WRITTEN = 4
LEAF_ENTRIES = 80  # that a page has room for


class Wrong(Exception):
    pass


def damage(path, page, kind, seed):
    rng = random.Random(seed)
    with open(path, "r+b") as f:
        f.seek(page * PAGE)
        data = bytearray(f.read(PAGE))
        if kind == "zero":
            data = bytearray(PAGE)
        elif kind == "flip":
            data[rng.randrange(16, PAGE)] ^= 1 << rng.randrange(8)
        elif kind == "text":
            data = bytearray((b"the quick brown fox jumps over the lazy dog\n" * 100)[:PAGE])
        else:
            data[rng.randrange(16)] ^= 1 << rng.randrange(8)
        f.seek(page * PAGE)
        f.write(data)


class Reads:
    def __init__(self, scenario, preload):
        self.scenario, self.preload = scenario, preload
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.base = tempfile.mkdtemp(prefix="spool-reads.", dir=os.environ.get("TMPDIR", memory))
        self.full = os.path.join(self.base, "full")
        done = subprocess.run([scenario, "fill", self.full], capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            sys.exit(f"fill: exit {done.returncode}: {done.stderr}")
        self.want, self.had = {}, set()
        *lines, last = done.stdout.splitlines()
        self.entries = int(last.split()[1])
        for line in lines:
            number, count, has_states = map(int, line.split()[1:])
            self.want[number] = {*range(1 if has_states else 0, count)}
            if has_states:
                self.had.add((number, 0))
        self.pages = os.path.getsize(os.path.join(self.full, "data.mdb")) // PAGE

    def call(self, what, folder, **env):
        done = subprocess.run([self.scenario, what, folder], capture_output=True, text=True, timeout=120,
                              env=dict(os.environ, **env), errors="replace")
        return done.returncode, done.stdout, done.stderr

    def one(self, kind, page):
        folder = os.path.join(self.base, f"{kind}-{page}")
        shutil.copytree(self.full, folder)
        env = {}
        if kind in EIO_KINDS:
            env = {"LD_PRELOAD": os.path.abspath(self.preload), "BAD_PAGES": str(page),
                   "BAD_FILE": os.path.join(os.path.realpath(folder), "data.mdb")}
            if kind == "eio-run":
                env["BAD_SWITCH"] = os.path.join(folder, "now")
            if kind == "eio-write":
                env["BAD_WRITES"] = "1"
        else:
            damage(os.path.join(folder, "data.mdb"), page, kind, page)
        said, log, salvaged, crashes = "", "", False, 0
        for _ in range(6):
            rc, out, err = self.call("drain", folder, **env)
            env.pop("BAD_SWITCH", None)
            said, log = said + out, log + err
            if rc == 0 and "at the next start" not in err:
                break
            if rc == 0:
                continue
            if rc == NOT_WRITTEN and "done" in out:  # its result is not durable, as at any crash
                log += "message %016x may repeat\n" % int(out.rsplit("done ", 1)[1].split()[0])
            is_stuck = kind == "eio-write" and rc == NOT_WRITTEN  # the operator sees failing commits
            if not salvaged and (is_stuck or "salvage" in err):
                rc, out, err = self.call("salvage", folder, **env)
                if rc != 0:
                    raise Wrong(f"salvage: exit {rc}: {err[-300:]}")
                said, log, salvaged, env = said + out, log + err, True, {}
                continue
            crashes += 1
            if crashes > 1:
                raise Wrong(f"exit {rc} again: {err[-500:]}")
        else:
            raise Wrong(f"does not end: {log[-500:]}")
        self.judge(kind, said, log, salvaged)
        shutil.rmtree(folder)
        return "salvaged" if salvaged else "crashed once" if crashes else "went on"

    def judge(self, kind, said, log, salvaged):
        got, named, repeats = collections.Counter(), set(), set()
        suppressed, unknown = set(), set()
        delivered = set()
        for line in said.splitlines():
            word, *numbers = line.split()
            number = int(numbers[0])
            if word == "got":
                got[(number, int(numbers[1]))] += 1
            elif word == "done":
                delivered.add(number)
            elif word in ("quarantined", "lost"):
                named.add(number)
            elif word == "may-repeat":
                repeats.add(number)
            elif word == "suppressed":
                suppressed.add(number)
            elif word == "unknown":
                unknown.add(number)
            elif word == "wrong":
                raise Wrong(f"message {number} was delivered with other content")
        repeats |= {int(m, 16) for m in re.findall(r"message ([0-9a-f]{16})[^\n]*(?:repeat|before)", log)}
        free = self.entries - len(suppressed | unknown)
        is_told = salvaged or re.search("page [0-9]+ of data.mdb", log)
        if free > LEAF_ENTRIES or (free > 1 and not is_told):
            raise Wrong(f"{free} recipients are not suppressed any more: {log[-600:]}")
        for number, recipients in self.want.items():
            missing = [r for r in recipients if got[(number, r)] == 0]
            if missing and number not in named:
                raise Wrong(f"message {number} is lost to {len(missing)} recipients: {log[-600:]}")
        for (number, recipient), count in got.items():
            is_old = number not in self.want or recipient not in self.want[number]
            if (count > 1 or is_old) and number not in repeats:
                raise Wrong(f"message {number} repeats for {recipient}: {log[-600:]}")


def main():
    reads = Reads(sys.argv[1], sys.argv[2])
    step = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    first = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    rc, out, err = reads.call("drain", shutil.copytree(reads.full, os.path.join(reads.base, "plain")))
    if rc != 0 or "quarantined" in out:
        sys.exit(f"without damage: exit {rc}: {out[-300:]} {err}")
    reads.judge("plain", out, err, False)
    jobs, wrong, ends = {}, [], collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for page in range(first, reads.pages, step):
            for kind in KINDS:
                jobs[pool.submit(reads.one, kind, page)] = f"{kind} at page {page}"
        for job, what in jobs.items():
            try:
                ends[job.result()] += 1
            except Wrong as e:
                wrong.append(f"{what}: {e}")
    print(f"{reads.pages} pages, {len(jobs)} cases: " +
          ", ".join(f"{count} {end}" for end, count in sorted(ends.items())) + f"; {len(wrong)} wrong")
    for text in wrong[:int(os.environ.get("SHOW", "10"))]:
        print(text)
    if wrong:
        print(f"kept in {reads.base}")
        sys.exit(1)
    shutil.rmtree(reads.base)


if __name__ == "__main__":
    main()
