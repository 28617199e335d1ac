"""A back end is killed and started again in the middle: what it missed comes when it is back, nothing
is lost, and it gets twice only what it had stored without being able to say so."""
import ringtail
from lib import exporting
from lib.backend import Backend

CALLS = 400
ROUNDS = 3


def main(case):
    backend = Backend()
    daemon = case.daemon(backend.url("otlp-logs"), *exporting.options())
    exporting.await_begun(daemon)
    for i in range(ROUNDS):
        exporting.fail_often(CALLS, 2 * i * CALLS)
        ringtail.wait_until(lambda: len(backend.records()) > 2 * i * CALLS, "some are stored")
        backend.stop()
        exporting.fail_often(CALLS, (2 * i + 1) * CALLS)
        ringtail.wait_until(lambda: exporting.stat(daemon, backend)["state"] == "retrying",
                            "it is tried again")
        backend.start()
        exporting.await_events(daemon, backend, 2 * (i + 1) * CALLS)
    export = exporting.stat(daemon, backend)
    case.check_equal((export["accepted"], export["lost"], export["residual"]),
                     (2 * ROUNDS * CALLS, {}, 0), "all is accepted, nothing lost")
    got = exporting.numbers(backend.records())
    case.check_equal(sorted(set(got)), list(range(2 * ROUNDS * CALLS)), "each call is stored")
    resent = daemon.stat()["counters"]["export_items_resent"]
    case.check(len(got) - len(set(got)) <= resent, "what is stored twice is counted",
               len(got), resent)
    case.check_equal(len([line for line in daemon.log.splitlines() if "[export-ok]" in line]),
                     ROUNDS, "the log says when it is back, once each time")
    case.check_balanced(daemon)


ringtail.run(main)
