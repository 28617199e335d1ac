"""Four processes on both CPUs at once: every call comes once, in one time order."""
import collections
import os

import ringtail

CALLS = 1_000_000
PARSED = 100_000 if ringtail.SLOW < 8 else 10_000      # an emulated processor takes its time for Python
PROCESSES = 4
ROOM = "--ring-size=64MiB"      # for all the records: a busy host must not cost any


def count_all(case, daemon):
    load = case.load(CALLS, PROCESSES)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter, "-o", "none")
    case.check_equal(load.run()["calls"], CALLS, f"{PROCESSES} processes make {CALLS} calls")
    stream.await_all(CALLS)
    case.check_balanced(daemon)
    case.check_stream(stream.interrupt(), events=CALLS)


def read_all(case, daemon):
    load = case.load(PARSED, PROCESSES)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter, "-o", "json",
                         "-n", str(PARSED))
    load.run()
    done = stream.wait()
    case.check_stream(done, events=PARSED)
    events = done.lines
    share = PARSED // PROCESSES
    case.check_equal(collections.Counter(event["pid"] for event in events),
                     {pid: share for pid in load.pids}, f"{share} events of each process")
    case.check(all(event["ret"] == load.pid for event in events), "each returns the parent's pid")
    cpus = {event["cpu"] for event in events}
    case.check_equal(cpus, set(sorted(os.sched_getaffinity(0))[:PROCESSES]),
                     "they come from every CPU that was used")
    times = [event["time"] for event in events]
    case.check(times == sorted(times), "they come in one time order")
    case.check_equal(len({(event["cpu"], event["seq"]) for event in events}), PARSED,
                     "no attempt comes twice")
    for cpu in cpus:
        seqs = [event["seq"] for event in events if event["cpu"] == cpu]
        case.check(seqs == sorted(seqs), f"CPU {cpu} is in ring order")


def main(case):
    daemon = case.daemon(ROOM)
    count_all(case, daemon)
    read_all(case, daemon)
    case.check_balanced(daemon)


ringtail.run(main)
