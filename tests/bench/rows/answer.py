"""What an answer costs: "which system calls, how many of each, and how long did they take?", asked while tbench runs, of
ringtail and of the tools that have a line for it, in turns. strace follows tbench's clients alone, the others
the whole host; each prints its table at the end."""
import contextlib
import os
import pathlib

from peers import ringtail
from peers.host import Child, Unavailable
from report import Budget, Row, median
from rows import tbench

STRACE, PERF, BPFTRACE = "strace -c -f", "perf trace -s -a", "bpftrace"
SCRIPT = ("tracepoint:raw_syscalls:sys_enter { @since[tid] = nsecs; } "
          "tracepoint:raw_syscalls:sys_exit /@since[tid]/ { "
          "@calls[args->id] = count(); @ns[args->id] = sum(nsecs - @since[tid]); "
          "@spread[args->id] = hist(nsecs - @since[tid]); delete(@since[tid]); } "
          "END { clear(@since); }")


def attached(pid, events=2):
    """Whether a process has the events of its tracepoints open: an event each, or one for each CPU."""
    files = pathlib.Path(f"/proc/{pid}/fd").iterdir()
    return sum(1 for file in files if "perf_event" in os.readlink(file)) >= events


@contextlib.contextmanager
def summary(bench, answers):
    with ringtail.Daemon(bench) as daemon, \
         ringtail.Client(daemon, "summary", "-p", "syscall:*:call", "-o", "json") as client:
        before = daemon.cpu_ns()
        yield
        said = client.finish()
        answers.append((said["events"], said["lost"], said["wire_bytes"], daemon.cpu_ns() - before))


@contextlib.contextmanager
def strace(_bench):
    yield ["strace", "-c", "-f", "-o", "/dev/null"]


@contextlib.contextmanager
def perf_trace(bench):
    with Child(["perf", "trace", "-s", "-a"], bench.work / "perf_trace.log") as child:
        child.wait_until(lambda: attached(child.pid), "attaching")
        yield


@contextlib.contextmanager
def bpftrace(bench):
    with Child(["bpftrace", "-e", SCRIPT], bench.work / "bpftrace.log") as child:
        child.wait_until(lambda: "Attaching" in child.said(), "attaching", timeout=30)
        child.wait_until(lambda: attached(child.pid), "attaching")
        yield
        child.stop()
        if "@calls[" not in child.said():
            raise Unavailable(f"bpftrace answered nothing: {child.said()[-200:].strip()}")


def more_time_percent(plain, speed):
    """What the same work takes longer: this has no end at 100, as a slowdown has."""
    return 100 * (plain / speed - 1)


def measure(bench):
    rows = {name: Row(f"answer.{key}", "% more time", budget=Budget(limit, ratio=True), peer=name, paired=True)
            for name, key, limit in ((STRACE, "vs_strace", 0.05), (PERF, "vs_perf_trace", 1),
                                     (BPFTRACE, "vs_bpftrace", 1), (tbench.FLOOR, "vs_bpf_floor", 1.3))}
    answers = []
    contexts = {tbench.NOTHING: contextlib.nullcontext,
                tbench.RINGTAIL: lambda: summary(bench, answers),
                STRACE: lambda: strace(bench),
                PERF: lambda: perf_trace(bench),
                BPFTRACE: lambda: bpftrace(bench),
                tbench.FLOOR: lambda: tbench.floor_stays(bench)}
    tbench.set_slowdowns(rows, tbench.throughputs(bench, contexts, rows),
                         more_time_percent)
    calls = sum(events for events, *_ in answers)
    cost = Row("answer.daemon", "CPU ns/call", [cpu / max(events, 1) for events, _, _, cpu in answers])
    wire = Row("answer.wire", "B/call", [sent / max(events, 1) for events, _, sent, _ in answers])
    cost.note = f"{sum(lost for _, lost, _, _ in answers):,} lost of {calls:,} calls"
    return [*rows.values(), cost, wire]
