"""ftrace, through a tracefs instance of its own: the machine's own tracing is left as it was."""
import contextlib
import os
import pathlib
import re

from .host import Unavailable, run

TRACEFS = pathlib.Path("/sys/kernel/tracing")
KEPT = ("set_event", "current_tracer", "buffer_size_kb", "tracing_on")


def mount():
    """Where nobody has mounted it yet, as on a machine just installed: it stays."""
    if not (TRACEFS / "instances").is_dir():
        run(["mount", "-t", "tracefs", "none", TRACEFS])


class Instance:
    """`with Instance("bench") as ftrace`: a set of ring buffers that nobody else uses."""

    def __init__(self, name):
        self.path = TRACEFS / "instances" / f"ringtail_{name}_{os.getpid()}"

    def __enter__(self):
        try:
            self.path.mkdir()
        except OSError as error:
            raise Unavailable(f"tracefs: {error}") from error
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.write("tracing_on", "0")
            self.write("events/enable", "0")
        self.path.rmdir()

    def write(self, name, text):
        (self.path / name).write_text(text)

    def record_syscalls(self):
        """The flight recorder: entry and return of every call, oldest overwritten, no reader."""
        self.write("options/overwrite", "1")
        self.write("events/raw_syscalls/enable", "1")
        self.write("tracing_on", "1")


@contextlib.contextmanager
def state_kept():
    """Puts back what tools change in the top-level instance: trace-cmd leaves tracing off."""
    before = {name: _setting(name) for name in KEPT}
    try:
        yield
    finally:
        for name, text in before.items():
            if _setting(name) != text:
                (TRACEFS / name).write_text(text + "\n")


def _setting(name):
    text = (TRACEFS / name).read_text().strip()
    expanded = re.search(r"expanded: (\d+)", text)  # what "7 (expanded: 1408)" grows to when used
    return expanded.group(1) if expanded else text
