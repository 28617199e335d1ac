"""Tracepoints that fire while another BPF program runs: the kernel will not run ours, and all of them are counted. Who
asked for something else has lost nothing."""
import json
import os
import pathlib
import subprocess
import sys

import ringtail
from lib import protobuf
from lib.ftrace import Ftrace
from lib.slow_program import attach

PROBES = ["timer:hrtimer_expire_entry", "rcu:rcu_utilization", "irq_vectors:local_timer_entry"]
PARANOID = pathlib.Path("/proc/sys/kernel/perf_event_paranoid")
SECONDS = 1 * ringtail.SLOW

LOAD = f"""
import os, time
print("ready", flush=True)
input()
end = time.monotonic() + {SECONDS}
while time.monotonic() < end:
    os.getppid()
"""


def lost(daemon):
    """The losses that the rings tell of for this reason."""
    return sum(one["count"] for ring in daemon.stat()["ring"] for one in ring["lost"]
               if one["reason"] == protobuf.enum_value("LossReason", "REASON_REFUSED"))


def shows_refusals():
    return "bpf_prog_active" in open("/proc/kallsyms").read()


def is_counted():
    return shows_refusals() or tuple(int(number) for number in os.uname().release.split(".")[:2]) >= (6, 7)


def main(case):
    daemon = case.daemon("--ring-size=16MiB", "--trace-self")
    if int(PARANOID.read_text()) > 2:       # of Debian's kernels; `tracectl doctor` says so
        PARANOID.write_text("2")
    load = subprocess.Popen([sys.executable, "-c", LOAD], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)
    load.stdout.readline()
    ftrace = Ftrace(PROBES, kilobytes=8192)
    slow = attach(ftrace.identity("raw_syscalls:sys_enter"), load.pid)
    words = [word for probe in ftrace.events for word in ("-p", f"tracepoint:{probe}")]
    stream = case.stream(daemon, *words, "-f", f"pid == {load.pid}", "-o", "json")
    other = case.stream(daemon, "-p", "sched_process_exit", "-f", f"pid == {load.pid}", "-o", "json")
    try:
        ftrace.begin()          # of all processes, as the kernel's own count is
        load.communicate(b"\n")
        case.check_equal(load.returncode, 0, "the load ran")
        os.close(slow)
        theirs = sum(len(ftrace.lines(probe, load.pid)) for probe in ftrace.events)
        of_all = ftrace.entries()
        if is_counted():        # of what no program of ours saw, the daemon asks the kernel, each second at least
            ringtail.wait_until(lambda: daemon.client(stream.pid)["delivered"] + lost(daemon) >= theirs,
                                "each is an event or a loss")
        case.await_rings_empty(daemon)
        stream.await_all()
        done = stream.interrupt()
        other.await_all()
        spared = other.interrupt()
        case.check_equal(ftrace.overrun(), 0, "ftrace has all of them")
    finally:
        ftrace.close()
    case.check_stream(spared, events=1, lost=0)
    ours = sum("probe" in json.loads(line) for line in done.out.splitlines())
    told = lost(daemon)
    if not is_counted():
        case.check(daemon.log.count("refusals-uncounted") == len(ftrace.events), "it says that nobody counts them",
                   daemon.log)
        case.check_balanced(daemon)
        return
    case.say(f"ftrace saw {theirs}, we {ours}; {told} are lost")
    case.check(theirs - ours > theirs / 10, "the kernel refused many", theirs, ours)
    if shows_refusals():
        case.check_equal(ours + told, theirs, "what it refused is lost in its place, to the last one")
        case.check_stream(done, events=ours, lost=told)
    else:
        case.check_equal(daemon.log.count("nested-uncounted"), 1, "it says once what nobody counts", daemon.log)
        # The kernel's own count: of all processes.
        case.check(theirs <= ours + told <= of_all, "what it refused is lost", theirs, ours, told, of_all)
        case.check(theirs - ours <= done.summary["lost"] <= told, "the stream was told of it", theirs, ours, told)
    case.check_balanced(daemon)


ringtail.run(main)
