"""An export with a spool behind it is taken out of the configuration: what is kept for it stays, the log
names it at each start, and `tracectl forget` gives it up."""
import ringtail
from lib import exporting
from lib.backend import Backend


def main(case):
    state = f"--state-dir={case.path('state')}"
    backend = Backend()
    daemon = case.daemon(backend.url("loki"), *exporting.options(), "--durability=written", state)
    exporting.await_begun(daemon)
    name, = [one["name"] for one in daemon.stat()["consumer"]]
    case.check("[export-left]" not in daemon.log, "one that is configured is not named", daemon.log)
    daemon.stop()
    for again in "first", "second":
        daemon = case.daemon("--durability=written", state)
        case.check(f"[export-left] {name} is kept" in daemon.log and
                   f"tracectl forget {name}" in daemon.log, f"the {again} start names it", daemon.log)
        if again == "first":
            daemon.stop()
    case.check_equal(case.tracectl(daemon, "forget", name).code, 0, "it is given up")
    case.check_equal(daemon.stat()["consumer"], [], "and gone")
    daemon.stop()
    daemon = case.daemon("--durability=written", state)
    case.check("[export-left]" not in daemon.log, "the next start says nothing", daemon.log)


ringtail.run(main)
