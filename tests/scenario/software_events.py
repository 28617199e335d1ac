"""Page faults and context switches of a process: as many as the kernel counts for it, each with its place and its
address; hardware counters are refused where there is none, with the reason."""
import json
import os
import subprocess
import sys

import ringtail

PAGES = 500
SLEEPS = 50
# Prints the address and what the kernel counted, in a span of CLOCK_MONOTONIC, of the faults and the switches.
PROGRAM = f"""
import ctypes, mmap, os, resource, time

def counted():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_minflt, usage.ru_nvcsw + usage.ru_nivcsw

def moment():
    while True:
        before = counted()
        now = time.monotonic_ns()
        if counted() == before:
            return now, *before

memory = mmap.mmap(-1, {PAGES} * 4096)
memory.madvise(mmap.MADV_NOHUGEPAGE)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
input()
moment()
begin = moment()
for i in range({PAGES}):
    memory[i * 4096] = 1
for i in range({SLEEPS}):
    time.sleep(0.0001)
print(address, *begin, *moment(), flush=True)
input()
"""


def shown(stream):
    """The events on its whole lines."""
    lines = stream.read("out").split("\n")[:-1]
    return [event for event in map(json.loads, lines) if event.get("probe", "").startswith("software:")]


def main(case):
    daemon = case.daemon("--ring-size=4MiB")
    child = subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True)
    try:
        streams = [case.start_stream(daemon, "-p", probe, "-f", f"pid == {child.pid}", "-o", "json",
                                     "--flags", "ustack").await_subscribed()
                   for probe in ("software:minor-faults:1", "software:page-faults:1",
                                 "software:context-switches:1")]
        child.stdin.write("\n")
        child.stdin.flush()
        address, begin, faults, switches, end, faults_end, switches_end = \
            map(int, child.stdout.readline().split())
        # Shown, not only sent: a client that is interrupted shows what it has taken by then. Of page faults there
        # are others between those of the pages.
        last = address + (PAGES - 1) * 4096
        ringtail.wait_until(lambda: any(int(event["args"]["address"], 16) == last for event in shown(streams[1])),
                            "the last page's fault is shown")
        for stream, events in ((streams[0], faults_end - faults), (streams[2], switches_end - switches)):
            ringtail.wait_until(lambda: sum(begin <= event["time"] <= end for event in shown(stream)) >= events,
                                f"{stream.name} has shown {events} events")
        minor, pages, away = ([event for event in shown(stream) if begin <= event["time"] <= end]
                              for stream in streams)
        for stream in streams:
            stream.interrupt()
    finally:
        child.kill()
        child.wait()
    case.check_equal(len(minor), faults_end - faults, "minor faults: as many as the kernel counts")
    case.check_equal(len(away), switches_end - switches, "context switches: as many as the kernel counts")
    # A sleep that is over before the thread is away switches nothing, as in a slow machine.
    case.check(switches_end - switches > 0 and faults_end - faults >= PAGES, "and there were some")
    touched = [int(event["args"]["address"], 16) for event in pages]
    wanted = [address + i * 4096 for i in range(PAGES)]
    case.check_equal([at for at in touched if wanted[0] <= at <= wanted[-1]], wanted,
                     "each page is touched once, in order, at its address")
    case.check(all(event["args"]["periods"] == 1 for event in pages), "none of them was missed",
               [event["args"]["periods"] for event in pages])
    case.check(sum(bool(event.get("ustack")) for event in pages) >= PAGES, "with their stacks")

    done = case.tracectl(daemon, "stream", "-p", "hardware:cycles:1000000", "--duration", "1s", "-o", "none")
    if os.path.exists("/sys/bus/event_source/devices/cpu"):
        case.check_equal(done.code, 0, "the processor has counters")
    else:
        case.check(done.code == 1 and "[no-counter]" in done.err and "hypervisor" in done.err and
                   "software:page-faults" in done.err, "no counter here: that is said", done.err)
    case.check_balanced(daemon)


ringtail.run(main)
