"""A daemon with an export out of the spool is stopped and started again, and begins with fresh rings: what
had not been sent is sent, and the export's ledger says that nothing was recorded in between, once."""
import ringtail
from lib import exporting
from lib.backend import Backend

CALLS = 300
RUNS = 3


def main(case):
    backend = Backend()
    options = [backend.url("otlp-logs"), *exporting.options(), "--durability=written", "--http=127.0.0.1:0",
               f"--state-dir={case.path('state')}"]
    for run in range(RUNS):
        backend.stop()
        daemon = case.daemon(*options)
        exporting.await_begun(daemon)
        exporting.fail_often(CALLS, run * CALLS)
        ringtail.wait_until(lambda: exporting.stat(daemon, backend)["events"] >= CALLS,
                            "they wait for the back end")
        backend.start()
        exporting.await_events(daemon, backend, CALLS)
        ledger = exporting.stat(daemon, backend)
        case.check_equal((ledger["gaps"], ledger["lost"], ledger["residual"]), (min(run, 1), {}, 0),
                         f"run {run + 1}: {'nothing' if not run else 'one restart'} is told of", ledger)
        case.check_balanced(daemon)
        shown = case.tracectl(daemon, "stat").out
        case.check_equal("and an unknown number lost, in 1 gap\n" in shown, run > 0, "stat shows it",
                         shown)
        case.check_equal(daemon.stop(), 0, "it stops")
    case.check_equal(sorted(set(exporting.numbers(backend.records()))), list(range(RUNS * CALLS)),
                     "each call is stored")


ringtail.run(main)
