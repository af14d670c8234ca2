#!/usr/bin/env python3
"""Cut the power of the spool scenario at every storage call it makes, then check what is left.

usage: run_cuts.py SCENARIO PRELOAD [TRANSACTIONS [SEEDS [FIRST_SEED]]]

Every call N of the scenario: the power fails before it, within it, and after it, with SEEDS choices
of what survives of all that was not synced (power_cut.h); what is left must verify. For a sample,
the power fails at each call of the recovery as well. At last the same with syncs that do nothing
(FAULT_LIE): that must be noticed, or the test proves nothing.
"""
import concurrent.futures
import os
import shutil
import sys
import tempfile

from run_spool import KILLED, RIGHT, Case

TEAR = {"FAULT_TEAR": "journal"}
MOMENTS = ("cut-before", "cut-during", "cut-after")


class Cuts:
    def __init__(self, scenario, preload, transactions, seeds):
        self.scenario, self.preload = scenario, preload
        self.transactions, self.seeds = transactions, seeds
        # What a disk keeps is modelled, so memory will do, and its syncs take no time.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.base = tempfile.mkdtemp(prefix="spool-cuts.", dir=os.environ.get("TMPDIR", memory))
        self.pool = concurrent.futures.ThreadPoolExecutor(max_workers=2)

    def case(self, name):
        # A folder of its own: that the spool's name in it is synced belongs to the test.
        return Case(self.scenario, self.preload, self.base, name, within="disk")

    def count(self):
        probe = self.case("probe")
        rc = probe.run(self.transactions, FAULT_AT="0")
        if rc != RIGHT or probe.verify() != RIGHT:
            sys.exit(f"without a cut: exit {rc}: {probe.said}")
        calls = probe.calls()
        probe.done()
        return calls

    def one(self, moment, at, seed, **more):
        case = self.case(f"{moment}-{at}-{seed}{''.join(more)}")
        what = f"{moment} {at} seed {seed}"
        rc = case.run(self.transactions, FAULT_AT=str(at), FAULT_ACTION=moment,
                      FAULT_SEED=str(seed * 1000 + at), **TEAR, **more)
        if rc != KILLED:
            return f"{what}: exit {rc}: {case.said}"
        cut = case.said
        rc = case.verify()
        if rc != RIGHT:
            return f"{what}: {cut}verify: exit {rc}: {case.said}"
        case.done()
        return None

    def in_recovery(self, at, seed):
        """Each recovery gets one call further than the one before it, until one ends."""
        case = self.case(f"recovery-{at}-{seed}")
        case.run(self.transactions, FAULT_AT=str(at), FAULT_ACTION="cut-during",
                 FAULT_SEED=str(seed * 1000 + at), **TEAR)
        cuts = 0
        for step in range(1, 200):
            rc = case.verify(FAULT_AT=str(step), FAULT_SEED=str(seed * 1000 + at + step),
                             FAULT_ACTION=MOMENTS[(seed + step) % 3], **TEAR)
            if rc == RIGHT:
                break
            cuts += 1
            if rc != KILLED:
                return cuts, f"cut at {at} seed {seed}, recovery cut at {step}: exit {rc}: " \
                             f"{case.said}"
        rc = case.verify()
        if rc != RIGHT:
            return cuts, f"cut at {at} seed {seed}, after cut recoveries: exit {rc}: {case.said}"
        case.done()
        return cuts, None

    def all(self, calls):
        jobs = [self.pool.submit(self.one, moment, at, seed)
                for at in range(1, calls + 1) for moment in MOMENTS for seed in self.seeds]
        recoveries = [self.pool.submit(self.in_recovery, at, seed)
                      for at in range(1, calls + 1, 11) for seed in self.seeds[:2]]
        wrong = [text for text in (job.result() for job in jobs) if text]
        cuts = len(jobs)
        for job in recoveries:
            more, text = job.result()
            cuts += 1 + more
            wrong += [text] if text else []
        return cuts, wrong

    def lies(self, calls):
        jobs = [self.pool.submit(self.one, "cut-during", at, seed, FAULT_LIE="1")
                for at in range(3, calls + 1, 5) for seed in self.seeds[:2]]
        return len(jobs), sum(job.result() is not None for job in jobs)


def main():
    transactions = int(sys.argv[3]) if len(sys.argv) > 3 else 24
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 8
    first = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    cuts = Cuts(sys.argv[1], sys.argv[2], transactions, range(first, first + count))
    calls = cuts.count()
    number, wrong = cuts.all(calls)
    lies, noticed = cuts.lies(calls)
    print(f"{calls} calls, {number} power cuts, {len(wrong)} wrong; "
          f"with syncs that do nothing {noticed} of {lies} wrong")
    for text in wrong[:10]:
        print(text)
    if wrong:
        print(f"kept in {cuts.base}")
        sys.exit(1)
    shutil.rmtree(cuts.base)
    if noticed == 0:
        sys.exit("syncs were lies and nothing was noticed: this test proves nothing")


if __name__ == "__main__":
    main()
