"""What tracing every system call costs a program that lives of them: tbench's throughput with
nothing, then under each tracer in turn, round after round. Rounds are short and many: what disturbs
the machine for seconds is then in both figures of a round, whose difference is taken, and the rounds
say how sure their ratio is. The ringtail rounds also say what a real mix of calls costs the
collector and the wire."""
import contextlib
import time

from peers import perf, ringtail, trace_cmd
from peers.ftrace import Instance
from peers.host import Child
from peers.tbench import Tbench
from report import Budget, Row, median
from rows.collector import LTTNG

NAME = "tbench"
SECONDS = 2     # of 1, it measures nothing
ROUNDS = 15
NOTHING, RINGTAIL = "nothing", "ringtail"
FTRACE, TRACE_CMD = "ftrace, to memory only", "trace-cmd record -N"
PERF, FLOOR = "perf record", "two empty BPF programs"


class Traced:
    """What the rounds leave beside the throughput: the engine's figures, and losses."""

    def __init__(self):
        self.cpu_ns_per_call, self.wire_bytes_per_call, self.calls_per_s = [], [], []
        self.lost = self.events = 0
        self.peer_lost = 0  # records, by trace-cmd


@contextlib.contextmanager
def ringtail_streams(bench, traced):
    with ringtail.Daemon(bench) as daemon, \
         ringtail.stream(daemon, "-p", "syscall:*:call") as client:
        before, start = daemon.engine_cpu_ns(), time.monotonic()
        yield
        elapsed = time.monotonic() - start
        spent = daemon.engine_cpu_ns() - before
        summary = client.finish()
    events = max(summary["events"], 1)
    traced.cpu_ns_per_call.append(spent / events)
    traced.wire_bytes_per_call.append(summary["wire_bytes"] / events)
    traced.calls_per_s.append(events / elapsed)
    traced.events += summary["events"]
    traced.lost += summary["lost"]


@contextlib.contextmanager
def ftrace_records(_bench):
    with Instance("tbench") as instance:
        instance.record_syscalls()
        yield


@contextlib.contextmanager
def trace_cmd_sends(bench, traced):
    with trace_cmd.record_to_network(bench.work) as recording:
        yield
    traced.peer_lost += recording.overruns


@contextlib.contextmanager
def perf_records(bench):
    with perf.record(bench.work):
        yield
    (bench.work / "perf.data").unlink()


@contextlib.contextmanager
def floor_stays(bench):
    with Child([bench.program("bench/bpf_floor")], bench.work / "bpf_floor.log") as child:
        child.wait_until(lambda: "ready" in child.said(), "attaching")
        yield


def measure(bench):
    traced = Traced()
    rows = {name: Row(f"tbench.{key}", "% slower", budget=budget, peer=name, paired=True)
            for name, key, budget in ((FTRACE, "vs_ftrace", Budget(0.7, ratio=True)),
                                      (TRACE_CMD, "vs_trace_cmd", Budget(0.45, ratio=True)),
                                      (PERF, "vs_perf", None), (FLOOR, "vs_bpf_floor", None))}
    contexts = {NOTHING: contextlib.nullcontext,
                RINGTAIL: lambda: ringtail_streams(bench, traced),
                FTRACE: lambda: ftrace_records(bench),
                TRACE_CMD: lambda: trace_cmd_sends(bench, traced),
                PERF: lambda: perf_records(bench),
                FLOOR: lambda: floor_stays(bench)}
    set_slowdowns(rows, throughputs(bench, contexts, rows))
    mix = Row("collector.tbench", "CPU ns/call", traced.cpu_ns_per_call, budget=Budget(1.4, ratio=True))
    bench.beside(mix, "collector.load", LTTNG)
    if traced.events:
        mix.note = (f"at {median(traced.calls_per_s):,.0f} calls/s, tbench, collector and client"
                    f" sharing the CPUs; {traced.lost:,} lost of {traced.events:,}")
    rows[TRACE_CMD].note = f"trace-cmd lost {traced.peer_lost:,} records"
    return [*rows.values(), mix]


def slower_percent(plain, speed):
    return 100 * (1 - speed / plain)


def set_slowdowns(rows, rounds, slowdown=slower_percent):
    """Each row has ringtail's slowdown and that of the peer of its name, round by round, against the same round's
    untraced run."""
    for name, row in rows.items():
        for speed in rounds:
            if {NOTHING, RINGTAIL, name} <= speed.keys():
                row.samples.append(slowdown(speed[NOTHING], speed[RINGTAIL]))
                row.peer_samples.append(slowdown(speed[NOTHING], speed[name]))
        row.doubt = disturbed(row)
    plain = [speed[NOTHING] for speed in rounds if NOTHING in speed]
    if plain:
        next(iter(rows.values())).note = f"untraced: {median(plain):.0f} MB/s"


def disturbed(row):
    """Why the slowdowns say nothing of the tracers, or None. Noise must not meet a budget."""
    if row.samples and min(row.value, row.peer_value) <= 0:
        return "tbench was no slower when traced: that is noise"
    if row.samples and not row.interval:
        return "too few rounds, or too noisy, to say how sure the ratio is"
    return None


def throughputs(bench, contexts, rows):
    """For each round MB/s by tracer; the order moves on by one each round."""
    rounds = []
    order, first_row = list(contexts), next(iter(rows.values()))
    with Tbench(bench.work) as tbench:
        tbench.run(2)
        for _ in range(bench.rounds(ROUNDS)):
            rounds.append({})
            for name in order:
                speed = bench.attempt(rows.get(name, first_row),
                                      lambda: run_under(tbench, contexts[name]))
                if speed:
                    rounds[-1][name] = speed
            order.append(order.pop(0))
    return rounds


def run_under(tbench, context):
    """A context yields the words that tbench has to be started under, or None."""
    with context() as under:
        return tbench.run(SECONDS, under or ())
