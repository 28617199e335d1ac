"""How late an event is: from just before a marked call to the moment its line can be read from
tracectl's standard output; beside it ftrace's trace_pipe."""
import os
import re
import threading
import time

from peers import ringtail
from peers.ftrace import Instance
from peers.host import Child
from report import Budget, Row

NAME = "latency"
MARKS = 250
GAP_MS = 20
MARK = re.compile(rb"\b(1000\d{6})\b")
HEX_MARK = re.compile(rb"\b(3b9[a-f]\w{4})\b")  # trace_pipe prints arguments in hexadecimal


class Reader(threading.Thread):
    """Notes when each chunk of output came; marks are looked for afterwards."""

    def __init__(self, fd):
        super().__init__(daemon=True)
        self.fd, self.chunks, self.ending = fd, [], False
        self.start()

    def run(self):
        while not self.ending:
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                time.sleep(0.0005)
                continue
            except OSError:
                return
            if not data:
                return
            self.chunks.append((time.monotonic_ns(), data))

    def arrivals(self, pattern, base):
        """When the line of each mark was complete, by mark."""
        arrived, rest = {}, b""
        for when, data in self.chunks:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                for number in pattern.findall(line):
                    arrived.setdefault(int(number, base), when)
        return arrived


class Marker:
    """tests/bench/marker.c, waiting for go()."""

    def __init__(self, bench, seed):
        self.child = Child([bench.program("bench/marker"), MARKS, GAP_MS, seed],
                           bench.work / "marker.log", stdin=-1, stdout=-1)

    def __enter__(self):
        self.child.__enter__()
        self.pid = int(self.child.process.stdout.readline())
        return self

    def __exit__(self, *_):
        self.child.__exit__(None)

    def go(self):
        """When each mark was made, by mark."""
        self.child.process.stdin.write(b"\n")
        self.child.process.stdin.flush()
        lines = self.child.process.stdout.read().decode().split("\n")
        return {int(mark): int(when) for mark, when in (line.split() for line in lines if line)}


def measure(bench):
    default = Row("latency.default", "ms, p99", budget=Budget(3))
    versus = Row("latency.vs_trace_pipe", "ms, p99", default.samples, peer="ftrace trace_pipe",
                 budget=Budget(4, ratio=True))
    low = Row("latency.low", "ms, p99", peer="ftrace trace_pipe", budget=Budget(4, ratio=True),
              note="with --low-latency")
    for number in range(bench.rounds(3)):
        for row, options in ((default, ()), (low, ("--low-latency",))):
            late = bench.attempt(row, lambda: through_ringtail(bench, number, options))
            if late:
                row.samples.append(late)
        late = bench.attempt(versus, lambda: through_trace_pipe(bench, number))
        if late:
            versus.peer_samples.append(late)
            low.peer_samples.append(late)
    return [default, versus, low]


def p99_ms(made, arrived):
    late = sorted(arrived[mark] - when for mark, when in made.items() if mark in arrived)
    if len(late) < len(made):
        raise AssertionError(f"{len(made) - len(late)} of {len(made)} marks never arrived")
    return late[int(len(late) * 0.99)] / 1e6


def through_ringtail(bench, seed, options):
    with ringtail.Daemon(bench, *options) as daemon, Marker(bench, seed) as marker:
        command = ("stream", "-o", "json", "-p", "syscall:close:call", "-f", f"pid == {marker.pid}")
        with ringtail.Client(daemon, *command, stdout=-1) as client:
            reader = Reader(client.child.process.stdout.fileno())
            made = marker.go()
            client.finish()
            reader.join(5)
    return p99_ms(made, reader.arrivals(MARK, 10))


def through_trace_pipe(bench, seed):
    with Instance("latency") as ftrace, Marker(bench, seed) as marker:
        ftrace.write("set_event_pid", str(marker.pid))
        ftrace.write("events/raw_syscalls/sys_enter/enable", "1")
        pipe = os.open(ftrace.path / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        try:
            reader = Reader(pipe)
            made = marker.go()
            time.sleep(0.1)
            reader.ending = True
            reader.join(5)
        finally:
            os.close(pipe)
    return p99_ms(made, reader.arrivals(HEX_MARK, 16))
