#!/usr/bin/env python3
"""How check.py's jobs share the CPUs: those that wait take one, those that work the others, and who is alone is."""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
from pool import ALONE, CASES, MACHINE, SLEEPS, TENTHS, WAITS, WORKS, Pool, choose  # noqa: E402

wrong = 0


def so(name, holds, *facts):
    global wrong
    print(f"{'ok' if holds else 'not ok'} {name}", *([] if holds else facts))
    wrong += not holds


class Job:
    def __init__(self, name, weight=WORKS, seconds=1, after=None):
        self.name, self.weight, self.seconds, self.after = name, weight, seconds, after


def fill(ready, cpus=2):
    """What runs at first, by name."""
    ready, running = list(ready), []
    while job := choose(ready, running, cpus):
        ready.remove(job)
        running.append(job)
    return sorted(job.name for job in running)


works = [Job(f"works{n}", WORKS, n) for n in range(9)]
waits = [Job(f"waits{n}", WAITS, n) for n in range(9)]
alone = [Job("alone", ALONE, 99)]
so("both kinds: one CPU each, the longest first", fill(works + waits + alone) ==
   ["waits6", "waits7", "waits8", "works8"], fill(works + waits + alone))
so("only such as work: a CPU each", fill(works) == ["works7", "works8"])
so("only such as wait: all CPUs are theirs", len(fill(waits)) == 2 * TENTHS // WAITS)
so("with four CPUs, three are for work", fill(works + waits, 4) == [
   "waits6", "waits7", "waits8", "works6", "works7", "works8"])
machines, sleeps = [Job("machine", MACHINE, 99)], [Job(f"sleeps{n}", SLEEPS, 50 + n) for n in range(2)]
so("beside a machine, what it leaves of its CPU is for one more that waits", fill(works + waits + machines) ==
   ["machine", "waits5", "waits6", "waits7", "waits8"], fill(works + waits + machines))
so("a machine goes where others work", fill(works + machines) == ["machine", "works8"], fill(works + machines))
so("who sleeps takes a tenth", fill(works + waits + sleeps) ==
   ["sleeps0", "sleeps1", "waits7", "waits8", "works8"], fill(works + waits + sleeps))
cases = [Job(f"cases{n}", CASES, n) for n in range(9)]
so("three programs of cases on two CPUs", fill(cases) == ["cases6", "cases7", "cases8"], fill(cases))
so("one beside those that wait, and what it leaves is for one more of these", fill(cases + waits) ==
   ["cases8", "waits5", "waits6", "waits7", "waits8"], fill(cases + waits))
so("with one CPU, all is run in the end", fill(works, 1) == ["works8"] and fill(alone, 1) == ["alone"])
so("who is alone runs when nothing else can", choose(alone, [works[0]], 2) is None and
   choose(works, alone, 2) is None and choose(alone, [], 2) is alone[0] and
   choose(alone + [works[0]], [], 2) is works[0])

# ---- All of it, with threads ----------------------------------------------------------------------

log, lock, now, most = [], threading.Lock(), [], []


def execute(job):
    with lock:
        log.append(job.name)
        now.append(job)
        most.append(list(now))
    time.sleep(0.002)
    with lock:
        now.remove(job)
    return job.name != "build2"


build1, build2 = Job("build1", WORKS, 9), Job("build2", WORKS, 8)
built = [Job(f"one{n}", (WORKS, WAITS, ALONE)[n % 3], 1, build1) for n in range(60)]
lost = [Job(f"two{n}", (WORKS, WAITS, ALONE)[n % 3], 1, build2) for n in range(9)]
lost += [Job("of two", WORKS, 1, lost[0])]
Pool(lost + built + [build1, build2], execute, 2).run()
so("each runs once", sorted(log) == sorted(job.name for job in [*built, build1, build2]), log)
so("nothing before what it needs", all(log.index(job.name) > log.index("build1") for job in built))
so("nothing whose build failed", not any(job.name in log for job in lost))
so("never more than there is room for", all(
    sum(job.weight for job in together) <= 2 * TENTHS for together in most))
so("who is alone has company of nobody", all(
    len(together) == 1 for together in most if any(job.weight == ALONE for job in together)))


def breaks(job):
    raise ValueError("ours")


try:
    Pool([Job("one")], breaks, 2).run()
    so("a mistake of the harness ends it", False)
except ValueError:
    so("a mistake of the harness ends it", True)
loop = Job("loop")
loop.after = loop
try:
    Pool([loop], execute, 2).run()
    so("what waits for itself is told of", False)
except AssertionError:
    so("what waits for itself is told of", True)
sys.exit(1 if wrong else 0)
