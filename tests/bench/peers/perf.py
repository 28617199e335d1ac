"""perf: record of the raw_syscalls pair, machine-wide or of one process."""
import contextlib
import time

from .host import Child

EVENTS = ["-e", "raw_syscalls:sys_enter", "-e", "raw_syscalls:sys_exit"]
START_S = 0.7  # perf does not say when it has opened its events


@contextlib.contextmanager
def record(work, *of, file="perf.data"):
    """perf record while inside; `of` says of what, all CPUs by default. Yields the Child."""
    path = work / file
    command = ["perf", "record", *EVENTS, *(of or ["-a"]), "-o", path]
    with Child(command, work / "perf.log") as recorder:
        time.sleep(START_S)
        recorder.must_live()
        yield recorder
        recorder.stop(timeout=60)
