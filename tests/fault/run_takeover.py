#!/usr/bin/env python3
"""Fail, kill or cut the power at every storage call of the takeover of a spool of format 4.

usage: run_takeover.py SCENARIO PRELOAD [TRANSACTIONS [SEEDS]]

The scenario is killed late, so that its journal holds mail, and what it left is made one of format 4. Each
call N that a start makes until all is taken over, for each kind of fault of run_spool.py: a start that goes
on must end right, or say that it cannot open the spool; then, without a fault, what is there must verify.
The same with the power cut before it, within it and after it, with SEEDS choices of what survives. At last
every start is killed one call further than the one before it.
"""
import concurrent.futures
import os
import shutil
import sys
import tempfile

from run_spool import KILLED, KINDS, NOT_OPENED, RIGHT, Case

MOMENTS = ("cut-before", "cut-during", "cut-after")


class Takeover:
    def __init__(self, scenario, preload, transactions, seeds):
        self.scenario, self.preload = scenario, preload
        self.seeds = seeds
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.base = tempfile.mkdtemp(prefix="spool-takeover.", dir=os.environ.get("TMPDIR", memory))
        self.old = self.prepare(transactions)

    def prepare(self, transactions):
        probe = Case(self.scenario, self.preload, self.base, "probe", within="disk")
        if probe.run(transactions, FAULT_AT="0") != RIGHT:
            sys.exit(f"without a fault: {probe.said}")
        late = probe.calls() - 40
        old = Case(self.scenario, self.preload, self.base, "old", within="disk")
        rc = old.run(transactions, FAULT_AT=str(late), FAULT_ACTION="kill-after")
        if rc != KILLED or old.call("age", old.spool) != RIGHT:
            sys.exit(f"killed at call {late}: exit {rc}: {old.said}")
        return old

    def case(self, name):
        case = Case(self.scenario, self.preload, self.base, name, within="disk")
        shutil.copytree(self.old.disk, case.disk, dirs_exist_ok=True)
        shutil.copy(self.old.ledger, case.ledger)
        return case

    def calls(self):
        case = self.case("count")
        rc = case.call("open", case.spool, FAULT_AT="0")
        if rc != RIGHT or case.verify() != RIGHT:
            sys.exit(f"the takeover without a fault: exit {rc}: {case.said}")
        return case.calls()

    def one(self, name, at, expected, **fault):
        case = self.case(f"{name}-{at}")
        rc = case.call("open", case.spool, FAULT_AT=str(at), **fault)
        if rc not in expected:
            return f"{name} at call {at}: exit {rc}: {case.said}"
        rc = case.verify()
        if rc != RIGHT:
            return f"{name} at call {at}: verify: exit {rc}: {case.said}"
        case.done()
        return None

    def further_each_time(self):
        case = self.case("further")
        for at in range(1, 1000):
            rc = case.call("open", case.spool, FAULT_AT=str(at), FAULT_ACTION="kill-before")
            if rc == RIGHT:
                rc = case.verify()
                return None if rc == RIGHT else f"killed one call further each time: {case.said}"
            if rc != KILLED:
                return f"killed one call further each time, at {at}: exit {rc}: {case.said}"
        return "killed one call further each time: it never ended"


def main():
    scenario, preload = sys.argv[1], sys.argv[2]
    transactions = int(sys.argv[3]) if len(sys.argv) > 3 else 24
    seeds = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    takeover = Takeover(scenario, preload, transactions, seeds)
    calls = takeover.calls()
    jobs = []
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for at in range(1, calls + 1):
            for kind, fault in KINDS.items():
                expected = {KILLED} if kind.startswith("kill") else {RIGHT, NOT_OPENED}
                jobs.append(pool.submit(takeover.one, kind, at, expected, **fault))
            for moment in MOMENTS:
                for seed in range(1, seeds + 1):
                    jobs.append(pool.submit(takeover.one, f"{moment}-{seed}", at, {KILLED}, FAULT_ACTION=moment,
                                            FAULT_SEED=str(seed * 1000 + at), FAULT_TEAR="journal"))
        jobs.append(pool.submit(takeover.further_each_time))
        wrong = [text for text in (job.result() for job in jobs) if text]
    print(f"{calls} calls, {len(jobs)} cases, {len(wrong)} wrong")
    for text in wrong[:10]:
        print(text)
    if wrong:
        print(f"kept in {takeover.base}")
        sys.exit(1)
    shutil.rmtree(takeover.base)


if __name__ == "__main__":
    main()
