"""trace-cmd: recording to a file, or over the network to a `trace-cmd listen` on this host."""
import contextlib
import pathlib
import re

from . import ftrace
from .host import Child, Unavailable, free_port, listens, run

# record gives up ("Error creating output file") when kernel symbols come or go while it copies
# them, as they do whenever anybody loads a BPF program.
TRIES = 3

# Some machines refuse writes to the function tracer's files, which `record` resets although
# events do not need them. In a mount namespace of its own an empty file lies over each.
REFUSED = ("/sys/kernel/tracing/set_ftrace_filter", "/sys/kernel/tracing/set_ftrace_notrace",
           "/sys/kernel/tracing/set_ftrace_pid", "/proc/sys/kernel/ftrace_enabled")
PRIVATE = ('empty=$1; shift; while [ "$1" != -- ]; do '
           'if [ -e "$1" ]; then mount --bind "$empty" "$1" || exit 1; fi; shift; done; '
           'shift; exec "$@"')


def _recording():
    on = (ftrace.TRACEFS / "tracing_on").read_text().strip()
    enabled = (ftrace.TRACEFS / "events/raw_syscalls/enable").read_text().strip()
    return on == "1" and enabled == "1"


class Recording:
    """What `record` left; the fields are filled in when the recording has ended."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.overruns = 0  # events that were lost

    def finish(self):
        self.overruns = sum(
            int(count) for stats in ftrace.TRACEFS.glob("per_cpu/cpu*/stats")
            for count in re.findall(r"^overrun: (\d+)", stats.read_text(), re.MULTILINE))
        if self.recorder.stop(timeout=60):
            said = " / ".join(self.recorder.said().split("\n")[-3:])
            raise Unavailable(f"trace-cmd record ended with {self.recorder.process.returncode}:"
                              f" {said}")


@contextlib.contextmanager
def record(work, *to, buffer_kb=None):
    """The raw_syscalls pair of every call is recorded while inside; `to` are record's arguments."""
    empty = pathlib.Path(work) / "empty"
    empty.write_text("")
    command = ["unshare", "-m", "sh", "-c", PRIVATE, "sh", empty, *REFUSED, "--",
               "trace-cmd", "record", "-e", "raw_syscalls", *to]
    if buffer_kb:
        command += ["-b", buffer_kb]
    with ftrace.state_kept(), Child(command, work / "trace-cmd.log") as recorder:
        recorder.wait_until(_recording, "recording")
        recording = Recording(recorder)
        yield recording
        recording.finish()


@contextlib.contextmanager
def record_to_network(work):
    """The same with -N: raw pages over TCP to a listener on loopback, which writes them down."""
    port = free_port()
    directory = work / "listen"
    directory.mkdir(exist_ok=True)
    listen = ["trace-cmd", "listen", "-p", port, "-d", directory, "-o", "received"]
    try:
        with Child(listen, work / "listen.log") as listener:
            # Its socket is looked for and not tried: a connection would count as a recording.
            listener.wait_until(lambda: listens(port), "listening")
            with record(work, "-N", f"127.0.0.1:{port}") as recording:
                yield recording
    finally:
        for file in directory.glob("*"):
            file.unlink()


def read_events(file):
    """How many events a file holds, from the statistics at its end: those read while recording,
    and those still in the rings then, which are saved last."""
    stats = run(["trace-cmd", "report", "--stat", "-i", file], timeout=120)
    return sum(int(count) for count in
               re.findall(r"^(?:entries|read events): (\d+)", stats, re.MULTILINE))


def data_bytes(recording):
    """Bytes of the recorded pages as they were drained (and as -N sends them), and compressed,
    as `record` rewrites the file once the recording is over."""
    sizes = re.findall(r"^ +(\d+) bytes in size(?: \((\d+) uncompressed\))?",
                       recording.recorder.said(), re.MULTILINE)
    return (sum(int(raw or packed) for packed, raw in sizes),
            sum(int(packed) for packed, raw in sizes))
