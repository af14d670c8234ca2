#!/usr/bin/env python3
"""Fail or kill the spool scenario at every storage call it makes, then check what is left.

usage: run_spool.py SCENARIO PRELOAD [TRANSACTIONS]

Every call N of the scenario, for each kind of fault: it fails (EIO, ENOSPC, the three from there
on, done but reported as failed, the same with the next one not done, written by half), or the
process is killed before or after it. A run that goes on must end right by itself; whatever is left
must verify. For a sample of kills, the recovery is killed at each of its calls as well, and must
then still verify.
"""
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile

KINDS = {
    "eio": {"FAULT_ERRNO": "EIO"},
    "enospc": {"FAULT_ERRNO": "ENOSPC"},
    "eio-3": {"FAULT_ERRNO": "EIO", "FAULT_TIMES": "3"},
    "late": {"FAULT_ERRNO": "EIO", "FAULT_ACTION": "late"},
    "late-2": {"FAULT_ERRNO": "EIO", "FAULT_ACTION": "late", "FAULT_TIMES": "2"},
    "landed": {"FAULT_ERRNO": "EIO", "FAULT_ACTION": "late-first", "FAULT_TIMES": "2"},
    "short": {"FAULT_ERRNO": "ENOSPC", "FAULT_ACTION": "short"},
    "kill-before": {"FAULT_ACTION": "kill-before"},
    "kill-after": {"FAULT_ACTION": "kill-after"},
}
RIGHT, NOT_OPENED, NOT_BACK, KILLED = 0, 3, 4, -9


class Case:
    """One folder with a spool and its ledger."""

    def __init__(self, scenario, preload, base, name, within=None):
        self.scenario, self.preload = scenario, preload
        self.folder = os.path.join(base, name)
        os.mkdir(self.folder)
        self.disk = None  # where calls count; the spool alone unless it is in a folder of it
        if within is not None:
            self.disk = os.path.join(self.folder, within)
            os.mkdir(self.disk)
        self.spool = os.path.join(self.disk or self.folder, "spool")
        self.ledger = os.path.join(self.folder, "ledger")
        self.report = os.path.join(self.folder, "calls")

    def call(self, *args, **fault):
        env = dict(os.environ, **fault)
        if fault:
            env.update(LD_PRELOAD=self.preload, FAULT_FOLDER=self.disk or self.spool, FAULT_REPORT=self.report)
        done = subprocess.run([self.scenario, *args], env=env, capture_output=True, text=True,
                              timeout=60)
        self.said = done.stderr[-3000:]
        return done.returncode

    def run(self, transactions, **fault):
        return self.call("run", self.spool, self.ledger, str(transactions), **fault)

    def verify(self, **fault):
        return self.call("verify", self.spool, self.ledger, **fault)

    def calls(self):
        with open(self.report, encoding="ascii") as f:
            return int(f.read())

    def done(self):
        shutil.rmtree(self.folder)


def one_fault(scenario, preload, base, transactions, kind, at):
    case = Case(scenario, preload, base, f"{kind}-{at}")
    rc = case.run(transactions, FAULT_AT=str(at), **KINDS[kind])
    expected = {KILLED} if kind.startswith("kill") else {RIGHT, NOT_OPENED}
    if rc not in expected:
        return f"{kind} at call {at}: exit {rc}: {case.said}"
    rc = case.verify()
    if rc != RIGHT:
        return f"{kind} at call {at}: verify: exit {rc}: {case.said}"
    case.done()
    return None


def killed_recovery(scenario, preload, base, transactions, at):
    case = Case(scenario, preload, base, f"recovery-{at}")
    case.run(transactions, FAULT_AT=str(at), FAULT_ACTION="kill-after")
    for step in range(1, 200):
        rc = case.verify(FAULT_AT=str(step), FAULT_ACTION="kill-before")
        if rc == RIGHT:
            break
        if rc != KILLED:
            return f"kill at {at}, recovery killed at {step}: exit {rc}: {case.said}"
    rc = case.verify()
    if rc != RIGHT:
        return f"kill at {at}, after killed recoveries: exit {rc}: {case.said}"
    case.done()
    return None


def main():
    scenario, preload = sys.argv[1], sys.argv[2]
    transactions = int(sys.argv[3]) if len(sys.argv) > 3 else 12
    base = tempfile.mkdtemp(prefix="spool-fault.")
    probe = Case(scenario, preload, base, "probe")
    rc = probe.run(transactions, FAULT_AT="0")
    if rc != RIGHT or probe.verify() != RIGHT:
        sys.exit(f"without a fault: exit {rc}: {probe.said}")
    calls = probe.calls()
    jobs = []
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for at in range(1, calls + 1):
            for kind in KINDS:
                jobs.append(pool.submit(one_fault, scenario, preload, base, transactions, kind, at))
        for at in range(1, calls + 1, 7):
            jobs.append(pool.submit(killed_recovery, scenario, preload, base, transactions, at))
        wrong = [text for text in (job.result() for job in jobs) if text]
    print(f"{calls} calls, {len(jobs)} cases, {len(wrong)} wrong")
    for text in wrong[:10]:
        print(text)
    if wrong:
        print(f"kept in {base}")
        sys.exit(1)
    shutil.rmtree(base)


if __name__ == "__main__":
    main()
