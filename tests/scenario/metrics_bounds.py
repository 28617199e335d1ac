#!/usr/bin/env python3
"""However many calls and processes there are, there are so many series: calls beyond
metrics-series-max are `other`, no pid is ever a label, names of programs only where they were asked
for. The scheduler's counts agree with each other."""
import os
import subprocess
import sys

import ringtail
from lib import http
from lib.process import PATIENCE_S, wait_until

SERIES_MAX = 3
PROCESSES = 400

SPAWN = f"""
import os
for i in range({PROCESSES}):
    pid = os.fork()
    if not pid:
        with open("/proc/self/comm", "w") as comm:
            comm.write(f"many{{i}}")
        for _ in range(10):
            os.getppid()
        os._exit(0)
    os.waitpid(pid, 0)
"""


def names(samples, label):
    return {labels.get(label) for labels, _ in samples}


def check_cap(case, found):
    calls = found.all("ringtail_syscalls_total")
    case.check_equal(len(calls), SERIES_MAX + 1, "so many calls have a series, and one is for the rest")
    case.check("other" in names(calls, "syscall"), "which is called other", calls)
    durations = found.all("ringtail_syscall_duration_seconds_count")
    case.check(names(durations, "syscall") <= names(calls, "syscall"), "histograms are the same",
               durations)
    pairs = [labels for labels, _ in found.all("ringtail_syscall_errors_total")]
    own = [labels for labels in pairs if labels["errno"] != "other"]
    case.check(len(own) <= SERIES_MAX, "pairs of call and errno have the same bound", pairs)


def check_sched(case, found):
    latency = found.get("ringtail_sched_latency_seconds_count")
    off_cpu = sum(value for _, value in found.all("ringtail_offcpu_seconds_count"))
    switches = found.get("ringtail_context_switches_total")
    wakeups = found.get("ringtail_wakeups_total")
    case.check(0 < latency <= wakeups, "a wait begins with a wakeup", latency, wakeups)
    case.check(0 < off_cpu <= switches, "who comes back has left", off_cpu, switches)
    case.check(found.get("ringtail_forks_total") >= PROCESSES and
               found.get("ringtail_exits_total") >= PROCESSES, "forks and exits are counted")
    mean = found.get("ringtail_sched_latency_seconds_sum") / latency
    case.check(0 < mean < 10, "the mean wait is plausible", mean)


def main(case):
    plain = case.daemon("--http=127.0.0.1:0", f"--metrics-series-max={SERIES_MAX}", "--workers=2",
                        "--ring-size=16MiB")
    named = case.daemon("--http=127.0.0.1:0", "--metrics-comm", "--ring-size=16MiB")
    for daemon in (plain, named):
        http.await_metering(daemon)
    def all_have_series():
        shown = http.metrics(plain)
        return shown if len(shown.all("ringtail_syscall_duration_seconds_count")) == SERIES_MAX + 1 else None
    series = len(wait_until(all_have_series, "each that may has a series").text.splitlines())
    subprocess.run([sys.executable, "-c", SPAWN], check=True, timeout=PATIENCE_S)
    wait_until(lambda: http.metrics(plain).get("ringtail_exits_total") >= PROCESSES,
               "the ends of all are seen")
    found = http.metrics(plain)
    check_cap(case, found)
    check_sched(case, found)
    case.check(f'"{os.getpid()}"' not in found.text and "many1" not in found.text,
               "neither pids nor names are labels")
    # Losses may have begun meanwhile, and errors: a few lines, but not one for each process.
    grown = len(found.text.splitlines()) - series
    case.check(grown < PROCESSES / 4, f"{PROCESSES} processes are no new series", grown)

    def named_all():
        comms = http.metrics(named).all("ringtail_comm_syscalls_total")
        return comms if (any(labels["comm"].startswith("many") for labels, _ in comms) and
                         "(all other names)" in names(comms, "comm")) else None
    comms = wait_until(named_all, "names are labels where they were asked for, and others have one for all")
    case.check(len(comms) <= 257, "up to a bound", len(comms))
    case.check_balanced(plain, named)


ringtail.run(main)
