"""An export asks for something else than the run before, whose back end was away: the daemon starts, what
it had not sent of that is given up and said so, and what it asks for now comes. One that asks for what
there is not is refused at the start, in words."""
import re

import ringtail
from lib import exporting
from lib.backend import Backend

CALLS = 500
SECOND = exporting.FIRST_FD + CALLS


def start(case, backend, *words):
    return case.daemon(backend.url("otlp-logs"), *words, "--durability=written",
                       f"--state-dir={case.path('state')}")


def main(case):
    backend = Backend()
    daemon = start(case, backend, *exporting.options())
    exporting.await_begun(daemon)
    backend.stop()
    exporting.fail_often(CALLS)
    ringtail.wait_until(lambda: exporting.stat(daemon, backend)["state"] == "retrying",
                        "the back end is away")
    case.check_equal(daemon.stop(), 0, "it stops, with all of it unsent")
    backend.start()

    narrow = [word + f" && fd >= {SECOND}" if "filter" in word else word
              for word in exporting.options()]
    daemon = start(case, backend, *narrow)
    exporting.await_begun(daemon)
    said = re.search(r"\[export-changed\] export-otlp-logs-\w+ .* \(about (\d+) bytes on disk\)", daemon.log)
    case.check(said and int(said[1]) > 0,
               "another filter: the log says what becomes of what was not sent", daemon.log)
    counters = daemon.stat()["counters"]
    case.check_equal((counters["exports_changed"], counters["export_bytes_given_up"]),
                     (1, int(said[1])), "and it is counted")
    exporting.fail_often(CALLS, CALLS)
    ringtail.wait_until(lambda: set(exporting.numbers(backend.records())) >=
                        set(range(CALLS, 2 * CALLS)), "what it asks for now comes")
    export = exporting.stat(daemon, backend)
    case.check_equal(export["residual"], 0, "its ledger closes")
    case.say(f"ok: of what was given up: {export['lost']}")
    case.check_balanced(daemon)
    case.check_equal(daemon.stop(), 0, "it stops")

    daemon = start(case, backend, *narrow, "--slow-call=7ms")
    exporting.await_begun(daemon)
    case.check_equal(daemon.stop(), 0, "what else changes its request does not keep it from starting")

    # Whether there is a probe or an argument of that name only the kernel knows.
    for option, code, checked in (("--export-filter=pid==", "filter-incomplete", 2),
                                  ("--export-filter=bogus==1", "filter-unknown-name", 0),
                                  ("--export-probe=syscall:", "probe-bad-spec", 2),
                                  ("--export-probe=syscall:nosuch", "unknown-probe", 0)):
        done = case.refused(backend.url("otlp-logs"), option)
        case.check(done.code == 1 and f"[{code}] export-" in done.err, f"{option} is refused in words",
                   done.code, done.err)
        done = case.refused(backend.url("otlp-logs"), option, "--check-config")
        case.check_equal(done.code, checked, "and by --check-config, if that can know")


ringtail.run(main)
