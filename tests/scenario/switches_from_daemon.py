"""A switch from one of the daemon's threads to another's is recorded, as ftrace sees it in the same run; one to another of
its own, or to the idle thread, is not."""
import itertools
import json
import os
import re

import ringtail
from lib.ftrace import Ftrace

PROBE = "sched:sched_switch"
SWITCHES = 40


def own_threads(daemon):
    """Of all its processes; the loader has a child."""
    pids = [daemon.pid, daemon.loader, *ringtail.children(daemon.loader)]
    return {tid for pid in pids for tid in ringtail.threads(pid)}


def holds(whole, part):
    """Whether one list is a part of the other, without holes."""
    return any(whole[i:i + len(part)] == part for i in range(len(whole) - len(part) + 1))


def main(case):
    daemon = case.daemon("--ring-size=16MiB")
    stream = case.stream(daemon, "-p", f"tracepoint:{PROBE}", "-f", f"pid in ({daemon.pid}, {daemon.loader})",
                         "-o", "json")
    own = own_threads(daemon)
    for tid in own:
        os.sched_setaffinity(tid, {0})
    ftrace = Ftrace([PROBE])
    try:
        (ftrace.directory(PROBE) / "filter").write_text(" || ".join(f"common_pid == {tid}" for tid in own))
        # It is always ready, and the daemon makes way for it.
        spinner = case.start("/bin/sh", "-c", "while :; do :; done")
        os.sched_setaffinity(spinner.pid, {0})
        ftrace.begin()
        ringtail.wait_until(lambda: daemon.stat() and
                            stream.read("out").count(f'"next_tid":{spinner.pid},') >= SWITCHES,
                            "switches from the daemon to the one that is always ready")
        (ftrace.path / "events" / "enable").write_text("0")
        spinner.kill()
        stream.await_all()
        case.check_balanced(daemon)
        done = stream.interrupt()
        case.check_stream(done)
        events = [json.loads(line) for line in done.out.splitlines()]
        ours = [(event["tid"], event["args"]["next_tid"]) for event in events]
        case.check(not [pair for pair in ours if pair[1] in own | {0}], "none that concerns nobody else", own, ours)
        lines = [(time, tid, int(re.search(r"next_pid=(\d+)", text)[1])) for tid in own
                 for time, text in ftrace.lines(PROBE, tid)]
        theirs = [(tid, other) for _, tid, other in sorted(lines, key=lambda line: float(line[0]))
                  if other not in own | {0}]
        case.check(len(theirs) >= SWITCHES / 2, "ftrace has such switches", len(theirs))
        case.check(holds(ours, theirs), "each that ftrace has is there, in its place",
                   list(itertools.islice(itertools.zip_longest(ours, theirs), 100)))
    finally:
        ftrace.close()


ringtail.run(main)
