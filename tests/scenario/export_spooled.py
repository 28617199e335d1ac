"""With the spool behind it, an export whose queue is far too small for what happens while its back end
is away loses nothing: not while it is away, and not when the daemon is killed meanwhile and started
again."""
import ringtail
from lib import exporting
from lib.backend import Backend

CALLS = 3000


def start(case, backend):
    daemon = case.daemon(backend.url("otlp-logs"), *exporting.options(), "--durability=written",
                         "--spool-sync-interval=100ms", f"--state-dir={case.path('state')}",
                         "--export-queue-size=64KiB")
    exporting.await_begun(daemon)
    return daemon


def await_retrying(daemon, backend):
    ringtail.wait_until(lambda: exporting.stat(daemon, backend)["state"] == "retrying",
                        "the back end is away")


def await_stored(daemon):
    """Until the disk has all that the export was to get."""
    ringtail.wait_until(lambda: all(not spool["in_flight"] and spool["stored"] >= 2 * CALLS
                                    for spool in daemon.stat()["spool"]), "it is on disk")


def main(case):
    backend = Backend()
    daemon = start(case, backend)
    backend.stop()
    exporting.fail_often(CALLS)
    await_retrying(daemon, backend)
    backend.start()
    export = exporting.await_events(daemon, backend, CALLS)
    case.check_equal((export["accepted"], export["lost"], export["residual"]), (CALLS, {}, 0),
                     "what happened while it was away is accepted")
    case.check_equal(sorted(set(exporting.numbers(backend.records()))), list(range(CALLS)),
                     "and stored")
    backend.stop()
    exporting.fail_often(CALLS, CALLS)
    await_retrying(daemon, backend)
    await_stored(daemon)
    case.check_balanced(daemon)
    daemon.crash()
    backend.start()
    daemon = start(case, backend)

    def look():
        return len(set(exporting.numbers(backend.records()))) == 2 * CALLS
    ringtail.wait_until(look, "each call is stored, over the daemon's end")
    case.check_equal(backend.errors, [], "every body was understood")
    case.check_balanced(daemon)


ringtail.run(main)
