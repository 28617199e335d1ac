"""What a count of calls costs: "how many getppid calls were there?", asked while a program makes them, of ringtail, which
has the kernel count, of ringtail by thread's name, which records and has the daemon count, of bpftrace, and under
two BPF programs that do nothing, in turns with no question at all. A figure is what a call takes longer than in the
round's run without one."""
import contextlib

from peers import ringtail
from peers.host import Child, Unavailable
from report import Budget, Row
from rows import tbench
from rows.answer import attached

CALLS = 2_000_000
BARE, COUNTED, RECORDED, PLAIN, HASH = "no question", "counted", "recorded", "bpftrace", "bpftrace by name"
SCRIPTS = {PLAIN: "tracepoint:raw_syscalls:sys_exit { @ = count(); }",
           HASH: "tracepoint:raw_syscalls:sys_exit { @[comm] = count(); }"}


@contextlib.contextmanager
def ask(bench, costs, *words):
    with ringtail.Daemon(bench) as daemon, \
         ringtail.Client(daemon, "count", "-p", "getppid", *words, "-o", "json") as client:
        before = daemon.cpu_ns()
        yield
        said = client.finish()
        if said["events"] + said["lost"] < CALLS:
            raise Unavailable(f"{said['events']:,} of {CALLS:,} calls were counted, and {said['lost']:,} lost")
        costs.append((daemon.cpu_ns() - before) / CALLS)


@contextlib.contextmanager
def bpftrace(bench, script):
    with Child(["bpftrace", "-e", script], bench.work / "bpftrace.log") as child:
        child.wait_until(lambda: "Attaching" in child.said(), "attaching", timeout=30)
        child.wait_until(lambda: attached(child.pid, 1), "attaching")
        yield
        child.stop()
        if "@" not in child.said():
            raise Unavailable(f"bpftrace counted nothing: {child.said()[-200:].strip()}")


def call_ns(bench, question):
    with question, ringtail.Load(bench, CALLS) as load:
        told = load.go()
        return told["elapsed_ns"] / told["calls"]


def measure(bench):
    costs = {COUNTED: [], RECORDED: []}
    questions = {COUNTED: lambda: ask(bench, costs[COUNTED]),
                 RECORDED: lambda: ask(bench, costs[RECORDED], "--by", "comm"),
                 PLAIN: lambda: bpftrace(bench, SCRIPTS[PLAIN]),
                 HASH: lambda: bpftrace(bench, SCRIPTS[HASH]),
                 tbench.FLOOR: lambda: tbench.floor_stays(bench)}
    rows = {name: Row(f"count.{name}", "ns/call", peer=peer, paired=True)
            for name, peer in ((COUNTED, PLAIN), (RECORDED, HASH))}
    rows[RECORDED].budget = Budget(0.25, ratio=True)
    over = Row("count.over_floor", "ns/call", budget=Budget(5), note=f"counted, less the same call under {tbench.FLOOR}")
    for _ in range(bench.rounds(7)):
        bare = bench.attempt(rows[COUNTED], lambda: call_ns(bench, contextlib.nullcontext()))
        for row in rows.values():
            pair = [bench.attempt(row, lambda name=name: call_ns(bench, questions[name]()))
                    for name in (row.name.partition(".")[2], row.peer)]
            if bare is not None and None not in pair:
                row.samples.append(pair[0] - bare)
                row.peer_samples.append(pair[1] - bare)
        floor = bench.attempt(over, lambda: call_ns(bench, questions[tbench.FLOOR]()))
        if floor is not None and len(rows[COUNTED].samples) > len(over.samples):
            over.samples.append(rows[COUNTED].samples[-1] + bare - floor)
    daemon = Row("count.daemon", "CPU ns/call", costs[COUNTED], peer=RECORDED, peer_samples=costs[RECORDED])
    return [*rows.values(), over, daemon]
