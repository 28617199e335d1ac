"""A thousand programs with four threads each connect to one daemon: until somebody traces them, each takes little memory.
Then all are traced, and each one's event comes."""
import os
import statistics

import ringtail
from lib.probing import Program, await_ended, build

PROCESSES = 1000 if ringtail.SLOW == 1 and ringtail.FEWER == 1 else 100
MEMORY_KIB_MAX = 64             # that each takes in the daemon and beside it, until it traces
NOT_MEASURED = "ASAN_OPTIONS" in os.environ


def memory_kib(daemon):
    """Of the daemon's own, and what it shares with programs."""
    with open(f"/proc/{daemon.pid}/smaps_rollup", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file if ":" in line and line.endswith("kB\n"))
    return sum(int(fields[name].split()[0]) for name in ("Private_Clean", "Private_Dirty", "Shared_Dirty"))


def main(case):
    socket = os.path.join(case.path("run"), "programs.sock")
    binary = build(case, "lives", "lives")
    daemon = case.daemon(f"--programs={socket}")
    Program(case, binary, socket, "threads", 1, 1).go().process.wait()
    await_ended(daemon)
    crowd = Program(case, binary, "", "crowd", socket, PROCESSES)
    before = memory_kib(daemon)
    crowd.go().process.wait_for(r"there", "out")
    attached = daemon.stat()["counters"]["programs_attached"]      # on a busy host one may have been answered too late
    case.check(attached >= 1 + PROCESSES, "all are attached", attached)
    each = (memory_kib(daemon) - before) / PROCESSES
    case.figure("memory of a program until it traces", each, "KiB")
    case.check(NOT_MEASURED or each <= MEMORY_KIB_MAX, f"each takes {MEMORY_KIB_MAX} KiB at most", each)
    took_ms = sorted(int(word) / 1e6 for word in crowd.out.split("\n")[1].split()[:PROCESSES])
    case.figure("discovery of a program, median", statistics.median(took_ms), "ms")
    case.figure("discovery of a program, p99", took_ms[len(took_ms) * 99 // 100], "ms")
    stream = case.stream(daemon, "-p", "lives:turn", "-o", "json")
    case.check_equal(crowd.go().process.wait().code, 0, "all end well")
    await_ended(daemon)
    stream.await_all(PROCESSES)
    case.check_balanced(daemon)
    done = stream.interrupt()
    case.check_stream(done, events=PROCESSES)
    case.check_equal(len({event["pid"] for event in done.lines}), PROCESSES, "each event is of another process")


ringtail.run(main)
