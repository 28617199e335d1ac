"""More processes than CPUs, which preempt each other in the middle of our programs: each call is an event or a loss.

Since Linux 7.0, tracepoints run programs with preemption enabled. There the same is tried where the programs of system
calls may not go through perf: the kernel refuses some of them, and the stream is told of as many as are missing.
"""
import os
import pathlib

import ringtail
from lib import protobuf

PARANOID = pathlib.Path("/proc/sys/kernel/perf_event_paranoid")
CALLS = 1_000_000 if ringtail.SLOW < 8 else 400_000
PROCESSES = 8
ROOM = "--ring-size=64MiB"


def is_preemptible():
    return tuple(int(number) for number in os.uname().release.split(".")[:2]) >= (7, 0)


def refused(daemon):
    return sum(one["count"] for ring in daemon.stat()["ring"] for one in ring["lost"]
               if one["reason"] == protobuf.enum_value("LossReason", "REASON_REFUSED"))


def count(case, daemon):
    """Calls that were made, events, and losses that the daemon tells of."""
    load = case.load(CALLS, PROCESSES)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter, "-o", "none")
    case.check_equal(load.run()["calls"], CALLS, f"{PROCESSES} processes make {CALLS} calls")
    ringtail.wait_until(lambda: daemon.client(stream.pid)["delivered"] + refused(daemon) >= CALLS,
                        "each call is an event or a loss")
    case.await_rings_empty(daemon)
    stream.await_all()
    told = refused(daemon)
    done = stream.interrupt()
    case.check_balanced(daemon)
    return done, told


def main(case):
    daemon = case.daemon(ROOM)
    if is_preemptible():
        case.check("syscalls-by-raw-tracepoints" not in daemon.log, "the programs go through perf", daemon.log)
    done, told = count(case, daemon)
    case.check_equal(told, 0, "the kernel refused none")
    case.check_stream(done, events=CALLS)
    daemon.stop()
    if not is_preemptible():
        return
    before = PARANOID.read_text()
    PARANOID.write_text("3")
    try:
        daemon = case.daemon(ROOM)
    finally:
        PARANOID.write_text(before)
    case.check("syscalls-by-raw-tracepoints" in daemon.log, "the log says what may happen", daemon.log)
    done, told = count(case, daemon)
    events = done.summary["events"]
    case.say(f"{CALLS} calls, {events} events, {told} refused")
    case.check(told >= CALLS - events > 0, "some calls are missing, and no more than were told of", events, told)
    case.check_equal(done.summary["lost"], told, "the stream was told of all of them")
    case.check_equal(done.summary["ledger"], "balanced", "the client's ledger closes with them")
    case.check_equal(done.code, 3, "the client exits with 3")


ringtail.run(main)
