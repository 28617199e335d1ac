#!/usr/bin/env python3
"""Metrics count every event: so many calls of a load are so many in the histogram and in the counter,
their errors are under their errno, what is asked for by Accept is what comes, and promtool finds
nothing to say."""
import os
import re
import shutil
import subprocess
import sys

import ringtail
from lib import http
from lib.process import PATIENCE_S, wait_until

CALLS = 100000
FAILURES = 1234

# Calls that hardly anybody makes, with which numbers on x86_64 and arm64: each run takes one of them,
# so that nobody else's calls are among the counted, not even those of another run of this test.
SUCCEED = [("sched_get_priority_min", 147, 126), ("sched_get_priority_max", 146, 125),
           ("ioprio_get", 252, 31), ("sched_getscheduler", 145, 120)]
FAIL = [("syncfs", 306, 267), ("setns", 308, 268), ("inotify_rm_watch", 255, 28),
        ("sync_file_range", 277, 84), ("readahead", 187, 213)]
CALL = """
import ctypes, sys
libc = ctypes.CDLL(None)
count, number, first, second, wanted = (int(word) for word in sys.argv[1:])
assert all((libc.syscall(number, first, second, 0, 0, 0, 0) >= 0) == wanted for _ in range(count))
"""


def call(case, count, choices, wanted, arguments):
    """Makes so many calls of one of these; its name."""
    name, *numbers = case.random.choice(choices)
    number = numbers[("x86_64", "aarch64").index(os.uname().machine)]
    first, second = arguments.get(name, arguments[None])
    words = [str(word) for word in (count, number, first, second, int(wanted))]
    subprocess.run([sys.executable, "-c", CALL, *words], check=True, timeout=PATIENCE_S)
    return name


def check_formats(case, daemon):
    status, headers, plain = http.get(daemon, "/metrics")
    case.check_equal((status, headers["Content-Type"]),
                     (200, "text/plain; version=0.0.4; charset=utf-8"), "plain text by default")
    accept = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5"
    status, headers, opened = http.get(daemon, "/metrics", headers={"Accept": accept})
    case.check_equal((status, headers["Content-Type"]),
                     (200, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
                     "OpenMetrics where it is liked better")
    case.check(opened.endswith("\n# EOF\n") and "# EOF" not in plain, "only that has an end")
    case.check("# UNIT ringtail_syscall_duration_seconds seconds\n" in opened and
               "# UNIT" not in plain, "and units")
    case.check("# TYPE ringtail_syscalls counter\n" in opened and
               "# TYPE ringtail_syscalls_total counter\n" in plain,
               "each names a counter's family its own way")
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=plain, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S)
        case.check_equal((done.returncode, done.stdout), (0, ""), "promtool finds nothing")


def check_counters(case, found):
    """Each row of the daemon's table is a metric."""
    with open(os.path.join(ringtail.ROOT, "daemon", "base", "counters.def"), encoding="utf-8") as table:
        rows = re.findall(r"^COUNTER\((\w+),", table.read(), re.M)
    missing = [row for row in rows if not found.all(f"ringtail_collector_{row}_total")]
    case.check(len(rows) > 20 and not missing, f"all {len(rows)} counters are there", missing)


def check_histogram(case, found, **labels):
    name = "ringtail_syscall_duration_seconds"
    buckets = sorted((float(of["le"]), value) for of, value in found.all(name + "_bucket")
                     if all(of[key] == labels[key] for key in labels))
    case.check([value for _, value in buckets] == sorted(value for _, value in buckets),
               "buckets only grow", buckets)
    case.check_equal(buckets[-1], (float("inf"), found.get(name + "_count", **labels)),
                     "and the last one is the count")
    case.check(found.get(name + "_sum", **labels) > 0, "calls take time")


def main(case):
    daemon = case.daemon("--http=127.0.0.1:0", "--slow-call=20ms", "--ring-size=64MiB")
    http.await_metering(daemon)
    name = "ringtail_syscall_duration_seconds_count"
    called = call(case, CALLS, SUCCEED, True, {None: (0, 0), "ioprio_get": (1, 0)})

    def count_of(syscall, at_least):
        def look():
            now = http.metrics(daemon)
            return now if now.get(name, syscall=syscall) >= at_least else None
        return wait_until(look, f"the calls of {syscall} are counted")
    after = count_of(called, CALLS)
    lost = sum(value for _, value in after.all("ringtail_collector_ring_lost_total"))
    case.check_equal((after.get(name, syscall=called), lost), (CALLS, 0),
                     f"exactly {CALLS} calls of {called}, nothing lost")
    case.check_equal(after.get("ringtail_syscalls_total", syscall=called), CALLS,
                     "the counter says the same")
    check_histogram(case, after, syscall=called)
    check_formats(case, daemon)
    check_counters(case, after)
    case.check(after.get("ringtail_collector_resident_memory_bytes") > 1 << 20,
               "and what the daemon takes")

    called = call(case, FAILURES, FAIL, False, {None: (-1, -1)})
    found = count_of(called, FAILURES)
    case.check_equal(found.get("ringtail_syscall_errors_total", syscall=called, errno="EBADF"),
                     FAILURES, f"exactly {FAILURES} of {called} under their errno")
    case.check_equal(found.get(name, syscall=called), FAILURES, "of as many calls")

    # A call of which the time is known: this one sleeps.
    subprocess.run(["sleep", "0.05"], check=True)
    found = wait_until(lambda: [one for one in http.metrics(daemon, openmetrics=True).exemplars
                                if one[1].get("syscall") == "clock_nanosleep"],
                       "a slow call is an exemplar")
    metric, labels, exemplar, seconds = found[0]
    case.check(metric == "ringtail_syscall_duration_seconds_bucket" and
               len(exemplar["trace_id"]) == 32 and int(exemplar["trace_id"], 16) and
               seconds <= float(labels["le"]), "it has a trace and is in its bucket", found[0])

    residuals = [value for name in ("ring", "clients")
                 for _, value in found_all(daemon, f"ringtail_collector_{name}_residual")]
    case.check(residuals and not any(residuals), "every residual is 0", residuals)
    case.check_balanced(daemon)


def found_all(daemon, name):
    return http.metrics(daemon).all(name)


ringtail.run(main)
