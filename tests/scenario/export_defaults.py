"""Without a word about what to export: slow calls, errors that matter, execs, and exits by a signal or
with a status other than 0; and not what waits by nature, fails by habit, or ends well."""
import sys

import ringtail
from lib import exporting
from lib.backend import Backend

# Says its pid, then does one thing each; what it does last ends it.
PROGRAM = """
import fcntl, os, sys, time
def slow():
    with open(sys.argv[2]) as mine:
        fcntl.flock(mine, fcntl.LOCK_EX)
def error():
    with open("/dev/full", "wb", buffering=0) as full:
        try:
            full.write(b"x")
        except OSError:
            pass
def habit():
    for i in range(5):
        try:
            os.stat("/nowhere")
        except OSError:
            pass
def wait():
    time.sleep(0.3)
def fail():
    os._exit(7)
def killed():
    os.kill(os.getpid(), 9)
def well():
    os._exit(0)
globals()[sys.argv[1]]()
"""


def run(case, what):
    lock = exporting.HeldLock(case.path("lock"))
    process = case.start(sys.executable, "-c", PROGRAM, what, lock.path)
    if what == "slow":
        lock.let_go()
    process.wait()
    return process.pid


def main(case):
    logs, loki = Backend(), Backend()
    daemon = case.daemon(logs.url("otlp-logs"), loki.url("loki"), "--slow-call=100ms",
                         "--export-rate=0", ringtail.ROOM)
    exporting.await_begun(daemon)
    pid = {what: run(case, what) for what in ("slow", "error", "habit", "wait", "fail",
                                              "killed", "well")}

    def of(what):
        return [(record["attributes"]["ringtail.class"], record["event_name"])
                for record in logs.records() if record["attributes"]["process.pid"] == pid[what]]

    executed = ("exec", "ringtail.sched_process_exec")
    wanted = {"slow": ("slow", "ringtail.syscall.flock"), "error": ("error", "ringtail.syscall.write"),
              "fail": ("exit", "ringtail.syscall.exit_group"), "killed": ("exit", "ringtail.sched_process_exit")}

    def look():         # of each: what one CPU has seen last may come before what another has seen first
        return all({executed, wanted.get(what, executed)} <= set(of(what)) for what in pid)
    ringtail.wait_until(look, "all that is to come is stored")
    ringtail.wait_until(loki.lines, "so are some elsewhere")
    # Of what Python does at its start, nothing is slow on any machine but this: it may be busy.
    def without_slow(what):
        return [event for event in of(what) if event[0] != "slow"]

    case.check(("slow", "ringtail.syscall.flock") in of("slow"), "a slow call", of("slow"))
    case.check_equal(without_slow("error"), [executed, ("error", "ringtail.syscall.write")],
                     "an error that matters")
    case.check_equal(without_slow("habit"), [executed], "nothing of errors by habit")
    case.check_equal([event for event in of("wait") if "sleep" in event[1]], [],
                     "nothing of what waits by nature")
    case.check_equal(without_slow("fail"), [executed, ("exit", "ringtail.syscall.exit_group")],
                     "an exit with a status other than 0")
    case.check_equal(without_slow("killed"), [executed, ("exit", "ringtail.sched_process_exit")],
                     "an exit by a signal")
    case.check_equal(without_slow("well"), [executed], "no exit that went well")
    record = next(record for record in logs.records()
                  if record["event_name"] == "ringtail.syscall.flock" and
                  record["attributes"]["process.pid"] == pid["slow"])
    case.check_equal(record["severity_text"], "WARN", "a slow call is a warning")
    case.check(len(record["trace_id"]) == 16 and len(record["span_id"]) == 8,
               "and leads to its trace")
    path = next(record["attributes"]["process.executable.path"] for record in logs.records()
                if record["attributes"]["process.pid"] == pid["well"])
    case.check("python" in path, "an exec names the program", path)
    labels = {labels.split('"')[1] for labels, _ in loki.lines()}
    case.check(labels <= {"slow", "error", "exec", "exit"}, "streams are few", labels)
    case.check_balanced(daemon)


ringtail.run(main)
