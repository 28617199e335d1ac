"""exporting: what the tests of exporters have in common: events that are easy to tell apart, and
waiting for a destination's ledger."""
import errno
import os

from lib.process import wait_until

FIRST_FD = 1_000_000


def options():
    """Export the calls of fail_often() by this process, and nothing else."""
    return ["--export-probe=syscall:close:call", "--export-rate=0",
            f"--export-filter=pid == {os.getpid()} && fd >= {FIRST_FD}"]


def fail_often(calls, first=0):
    """Closes descriptors that are not open: each call is one of a kind."""
    for i in range(first, first + calls):
        try:
            os.close(FIRST_FD + i)
        except OSError as error:
            assert error.errno == errno.EBADF


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
                           for export in daemon.stat()["export"]), "every export has begun", 60)


def await_events(daemon, backend, events, seconds=60):
    """Waits until so many events have been accepted, or given up; returns the ledger."""
    def look():
        export = stat(daemon, backend)
        done = export["events"] - export["filtered"] - export["in_flight"]
        return export if done >= events and not export["in_flight"] else None
    return wait_until(look, f"{events} events are settled", seconds)
