"""exporting: what the tests of exporters have in common: events that are easy to tell apart, and
waiting for a destination's ledger."""
import errno
import fcntl
import os
import re
import time

from lib.process import wait_until

FIRST_FD = 1_000_000
TIMEOUT_S = 60          # longer than a busy machine keeps a back end of this test's from its turn
SLOW_S = 0.3            # that a call waits which is to be slow: longer than --slow-call=100ms


def options(timeout_s=TIMEOUT_S):
    """Export the calls of fail_often() by this process, and nothing else."""
    return ["--export-probe=syscall:close:call", "--export-rate=0", f"--export-timeout={timeout_s}s",
            f"--export-filter=pid == {os.getpid()} && fd >= {FIRST_FD}"]


def fail_often(calls, first=0):
    """Closes descriptors that are not open: each call is one of a kind."""
    for i in range(first, first + calls):
        try:
            os.close(FIRST_FD + i)
        except OSError as error:
            assert error.errno == errno.EBADF


class HeldLock:
    """A file that is locked until somebody has waited for it, for as long as makes a slow call."""

    def __init__(self, path):
        self.path, self.file = path, open(path, "w")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def let_go(self):
        inode = os.fstat(self.file.fileno()).st_ino

        def awaited():
            with open("/proc/locks") as locks:
                return re.search(rf"-> FLOCK .*:{inode} ", locks.read())
        wait_until(awaited, "somebody waits for the lock")
        time.sleep(SLOW_S)
        self.file.close()


def numbers(records):
    """Which calls these log records are of."""
    return sorted(record["attributes"]["ringtail.syscall.arg.fd"] - FIRST_FD for record in records)


def stat(daemon, backend):
    """The ledger of what goes to that back end, its losses by reason."""
    export = next(export for export in daemon.stat()["export"]
                  if f":{backend.port}" in export["name"])
    export["lost"] = {loss["reason"]: loss["count"] for loss in export["lost"]}
    return export


def await_begun(daemon):
    wait_until(lambda: all(export["state"] not in ("starting", "refused")
                           for export in daemon.stat()["export"]), "every export has begun")


def await_events(daemon, backend, events):
    """Waits until so many events have been accepted, or given up; returns the ledger."""
    def look():
        export = stat(daemon, backend)
        done = export["events"] - export["filtered"] - export["in_flight"]
        return export if done >= events and not export["in_flight"] else None
    return wait_until(look, f"{events} events are settled")
