"""A CPU that is added while the daemon runs is read like those before it. Where nobody can add one, as on this kind of
machine: each CPU that there can be has a ring from the start. Virtual machines of tests/kernels add one when a case
says so (console.sh)."""
import os
import re

import ringtail

CALLS = 50_000 // ringtail.FEWER
CPUS = "/sys/devices/system/cpu"


def cpus(which):
    """The kernel's list of numbers, as a set: present, possible, online."""
    with open(f"{CPUS}/{which}") as file:
        spans = [span.split("-") for span in file.read().strip().split(",")]
    return {number for span in spans for number in range(int(span[0]), int(span[-1]) + 1)}


def machine_adds():
    with open("/proc/cmdline") as file:
        return re.search(r"\brt\.adds=1\b", file.read())


def add_cpu():
    """Its number, when it runs. A machine that cannot be given one has one that does not run yet."""
    before = cpus("online")
    if cpus("present") == before:
        print("@add-cpu", flush=True)
        ringtail.wait_until(lambda: cpus("present") - before, "the machine has one more CPU")
    [cpu] = cpus("present") - before
    if cpu not in cpus("online"):
        with open(f"{CPUS}/cpu{cpu}/online", "w") as file:
            file.write("1")
    return cpu


def sampled(case, daemon, cpu):
    """A profile that was asked for before reaches the CPU, too."""
    stream = case.start_stream(daemon, "-p", "profile:hz:99", "-o", "none", "-n", "20", "-f", f"cpu == {cpu}")
    busy = case.load(10_000_000_000, cpus=[cpu])
    busy.go()
    case.check_equal(stream.wait().code, 0, "a profile has samples of it")
    busy.kill()
    busy.wait()


def main(case):
    daemon = case.daemon("--ring-size=8MiB")      # as much as its calls take, if nobody reads them meanwhile
    case.check_equal({ring["cpu"] for ring in daemon.stat()["ring"]}, cpus("possible"),
                     "each CPU that there can be has a ring")
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", f'comm == "{case.own_comm}"', "-o", "none")
    calls = 0
    if machine_adds():
        cpu = add_cpu()
        load = case.load(CALLS, cpus=[cpu], comm=case.own_comm)
        load.run()
        calls += CALLS
        ringtail.wait_until(lambda: next(ring for ring in daemon.stat()["ring"] if ring["cpu"] == cpu)["events"] >= CALLS,
                            "its ring has its calls")
    load = case.load(CALLS, cpus=[min(os.sched_getaffinity(0))], comm=case.own_comm)
    load.run()
    calls += CALLS
    stream.await_all(calls)
    case.check_stream(stream.interrupt(), events=calls)
    if machine_adds():
        sampled(case, daemon, cpu)
    case.check_balanced(daemon)


ringtail.run(main)
