#!/usr/bin/env python3
"""What `make bench` makes of figures: budgets are ratios to a peer of the same run, and noise meets none."""
import contextlib
import io
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench"))
import report  # noqa: E402
import run as bench_run  # noqa: E402
from peers.host import Unavailable  # noqa: E402
from peers.tbench import throughput  # noqa: E402
from report import Budget, Row  # noqa: E402
from rows import collector, encode, export, idle, latency, memory, metrics, producer, tbench, wire  # noqa: E402

wrong = 0


def so(name, holds, *facts):
    global wrong
    print(f"{'ok' if holds else 'not ok'} {name}", *([] if holds else facts))
    wrong += not holds


class Bench(bench_run.Bench):
    """Measures nothing: the groups' functions are replaced."""

    def __init__(self, rounds=3):
        super().__init__(None, None, rounds)

    def program(self, name):
        return name

    def run(self, group):
        rows = list(group.measure(self))
        self.rows.update({row.name: row for row in rows})
        return {row.name: row for row in rows}


def unavailable(*_):
    raise Unavailable("it is not installed")


def verdict(row):
    return report.cells(row.as_object())[-1]


def words(rows):
    return {name: (str(row.budget), verdict(row)) for name, row in rows.items() if row.budget}


# ---- A row ------------------------------------------------------------------------------------

ratio = Budget(0.5, ratio=True)
so("a ratio within its limit is met", verdict(Row("r", "ns", [5], peer="p", peer_samples=[10], budget=ratio)) == "yes")
so("a ratio beyond it is missed", verdict(Row("r", "ns", [6], peer="p", peer_samples=[10], budget=ratio)) == "NO")
so("a ratio without its peer is not met, whatever the value", verdict(Row("r", "ns", [0], budget=ratio)) == "no peer")
so("nor is a row without a figure", verdict(Row("r", "ns", peer="p", peer_samples=[1], budget=ratio)) == "not measured")
so("a row without a budget has no verdict", verdict(Row("r", "ns", [5], peer="p", peer_samples=[10])) == "-")
so("a doubt leaves it open", verdict(Row("r", "ns", [5], peer="p", peer_samples=[10], budget=ratio, doubt="noise")) == "open")

# ---- How sure a ratio is ------------------------------------------------------------------------

noise = [0.9, 1.1, 0.8, 1.3, 1, 0.95, 1.2, 1.05, 0.85, 1.15, 1, 0.9]
peers = [20 * n for n in noise]
paired = Row("r", "%", [10 * n for n in noise], peer="p", peer_samples=peers, budget=Budget(0.52, ratio=True), paired=True)
so("noise of a round that both sides have is taken out", all(abs(x - 0.5) < 1e-9 for x in paired.interval), paired.interval)
low, high = report.interval_of_ratio([10] * 12, [20] * 12)
so("without noise there is one ratio", (low, high) == (0.5, 0.5), low, high)
so("the same figures have the same interval", paired.interval == report.interval_of_ratio(paired.samples, peers))
alone = Row("r", "%", [10 * n for n in noise], peer="p", peer_samples=peers[::-1], budget=Budget(0.52, ratio=True), paired=True)
so("a limit inside the interval is neither met nor missed", verdict(alone) == "open" and alone.as_object()["met"] is None,
   alone.interval, alone.ratio)
alone.budget = Budget(0.3, ratio=True)
so("one below it is missed", verdict(alone) == "NO", alone.interval)
alone.budget = Budget(0.9, ratio=True)
so("one above it is met", verdict(alone) == "yes", alone.interval)
so("few rounds have no interval", report.interval_of_ratio([1] * 5, [2] * 5) is None)
so("nor has a peer that may cost nothing", report.interval_of_ratio([1] * 6, [-1] * 6) is None)

# ---- tbench ---------------------------------------------------------------------------------------


def slowdowns(speeds):
    rows = {tbench.FTRACE: Row("tbench.vs_ftrace", "% slower", budget=Budget(0.7, ratio=True), peer=tbench.FTRACE, paired=True)}
    tbench.set_slowdowns(rows, speeds)
    return rows[tbench.FTRACE]


drifting = [{tbench.NOTHING: 600 + 40 * n, tbench.RINGTAIL: 0.9 * (600 + 40 * n), tbench.FTRACE: 0.8 * (600 + 40 * n)}
            for n in range(12)]
row = slowdowns(drifting)
so("a round's slowdown is of its own untraced run", all(abs(x - 10) < 1e-9 for x in row.samples), row.samples)
so("a machine that drifts does not hide the ratio", verdict(row) == "yes" and abs(row.ratio - 0.5) < 1e-9, row.ratio)
drifting[3].pop(tbench.FTRACE)
so("a round that lacks one of both is left out for both", len(slowdowns(drifting).samples) == 11 ==
   len(slowdowns(drifting).peer_samples))
row = slowdowns([{tbench.NOTHING: 600, tbench.RINGTAIL: 610, tbench.FTRACE: 500}] * 12)
so("what is faster when traced is noise", verdict(row) == "open" and "noise" in row.doubt, row.doubt)
said = [throughput(f"Flush 3\n\nThroughput {speed} MB/sec  2 clients\n") for speed in ("262.431", "5")]
for text in ("Throughput 0 MB/sec  2 clients", "Flush 3"):
    try:
        said.append(throughput(text))
    except Unavailable:
        pass
so("a run too short to be measured is no figure", said == [262.431, 5.0], said)
row = slowdowns(drifting[:4])
so("few rounds settle nothing", verdict(row) == "open", row.doubt)

# ---- The budgets, of which none lives without its peer ----------------------------------------------

collector.captured = metrics.captured = encode.captured = lambda bench: "capture"
collector.roads.tcp = collector.roads.tls = memory.roads.tls = lambda *_: "road"
collector.stream_load = lambda bench, road=None: (33.0, 0)
collector.lttng_load = lambda bench: 32.0
collector.replay_capture = lambda bench, capture: 40.0
bench = Bench()
rows = bench.run(collector)
so("collector", words(rows) == {"collector.load": ("<= 1 x peer", "NO"), "collector.replay": ("<= 1.3 x peer", "yes"),
                                "collector.tls": ("<= 1.1 x peer", "yes")}, words(rows))
metrics.metering = lambda bench, capture: 6.4
metrics.many_processes = unavailable
rows = bench.run(metrics)
so("a meter is beside the collector's row", words(rows)["metrics.event"] == ("<= 0.15 x peer", "NO") and
   rows["metrics.event"].peer_value == 40, words(rows))
metrics.metering = lambda bench, capture: 5.9
so("and may be met there", verdict(bench.run(metrics)["metrics.event"]) == "yes")
said = Bench().run(metrics)["metrics.event"]
so("without that row it says which to add", verdict(said) == "no peer" and said.why == "no collector.replay in this run: "
   "add --row collector", said.why)
export.run = lambda *_, **__: '{"name":"export.loki.cpu","value":601.0}\n{"name":"export.loki.body","value":70.0}'
rows = bench.run(export)
so("an exported event is beside the collector's row", words(rows) == {"export.loki.cpu": ("<= 15 x peer", "NO")} and
   rows["export.loki.cpu"].as_object()["ratio"] == 15.03, words(rows))
tbench.throughputs = lambda bench, contexts, rows: []
rows = bench.run(tbench)
so("tbench", words(rows) == {"tbench.vs_ftrace": ("<= 0.7 x peer", "not measured"), "tbench.vs_trace_cmd":
                             ("<= 0.45 x peer", "not measured"), "collector.tbench": ("<= 1.4 x peer", "not measured")},
   words(rows))
rows["collector.tbench"].samples = [44.0]
so("tbench's mix is beside LTTng's of the same run", rows["collector.tbench"].ratio == 44 / 32 and
   verdict(rows["collector.tbench"]) == "yes")
collector.lttng_load = unavailable
rows = Bench().run(collector)
so("without LTTng nothing of the collector is met", {verdict(rows[f"collector.{name}"]) for name in ("load", "replay")} ==
   {"no peer"} and "not installed" in rows["collector.load"].why)

encode.run = lambda *_, **__: ('{"name":"encode.tbench.encode","value":17.6}\n{"name":"encode.tbench.seal","value":11.6}\n'
                               '{"name":"encode.tbench.wire","value":3.6}')
rows = bench.run(encode)
so("encoding is beside sealing", words(rows) == {"encode.tbench.vs_seal": ("<= 1 x peer", "NO")} and
   abs(rows["encode.tbench.vs_seal"].ratio - 17.6 / 11.6) < 1e-9, words(rows))
latency.through_ringtail = lambda *_: 2.5
latency.through_trace_pipe = lambda *_: 0.6
rows = bench.run(latency)
so("latency", words(rows) == {"latency.default": ("<= 3", "yes"), "latency.vs_trace_pipe": ("<= 4 x peer", "NO"),
                              "latency.low": ("<= 4 x peer", "NO")}, words(rows))
memory.resident = lambda bench, road=None: (23.5 * (1 << 20), 9000)
rows = bench.run(memory)
so("memory", words(rows) == {"memory.resident": ("<= 24", "yes"), "memory.client": ("<= 8", "NO"),
                             "memory.client_tls": ("<= 24", "yes")}, words(rows))
wire.make_tree = lambda *_: None
wire.lttng_bytes = lambda bench: Row("lttng", "B/event", [38.0])
wire.Tbench = lambda work: contextlib.nullcontext()
wire.ringtail_bytes = lambda *_: (3.7, 1000, 0)
wire.trace_cmd_bytes = lambda *_: (97.0, 9.7)
bench.work = __import__("pathlib").Path(".")
rows = bench.run(wire)
so("wire", words(rows) == {"wire.tbench_file": ("<= 0.37 x peer", "NO"), "wire.compile_file": ("<= 0.4 x peer", "yes")},
   words(rows), rows["wire.tbench_file"].ratio)


class Nothing:
    """Of every kind, and may be entered."""
    pids, pid, filter = [1], 1, ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def processes(self):
        return [1]

    collectors = processes
    sessiond = property(lambda self: self)


idle.ringtail.Load = idle.ringtail.Daemon = idle.ringtail.stream = lambda *_, **__: Nothing()
idle.lttng.Session = idle.perf.record = lambda *_, **__: Nothing()
idle.quiet_application = lambda bench: Nothing()
idle.watch = lambda pids: {"ringtail": 0.02, "lttng": 0.03, "perf": 0.008}
idle.time.sleep = lambda seconds: None
rows = Bench(8).run(idle)
so("idle goes through rounds", words(rows) == {"idle": ("<= 1 x peer", "yes"), "idle.vs_perf": ("<= 2 x peer", "NO")} and
   len(rows["idle"].samples) == 8, words(rows))
for limits, met in ((producer.LIMITS, False), (producer.LIMITS_XEON, True)):
    row = producer.row_of({"name": "producer_call_1cpu", "ratio": 0.7}, limits)
    so("producer", row.given["met"] is met and verdict(row) == ("yes" if met else "NO"), row)
so("a row without a limit has no verdict", verdict(producer.row_of({"name": "producer_other_pid_1cpu", "ratio": 2},
                                                                    producer.LIMITS)) == "-")
so("two CPUs", verdict(producer.row_of({"name": "producer_call_2cpu", "ratio": 1.06}, producer.LIMITS_XEON)) == "NO")

# ---- The run --------------------------------------------------------------------------------------

so("groups come in an order in which peers are known", bench_run.chosen_groups(None, ["export", "metrics", "collector"]) ==
   ["collector", "metrics", "export"])
out = io.StringIO()
with contextlib.redirect_stdout(out):
    report.print_table([alone.as_object(), {"name": "given", "met": True, "spread": 3.0}])
lines = out.getvalue().splitlines()
so("the table has the interval", "95 %" in lines[0] and ".." in lines[2].split("|")[9] and lines[3].split("|")[-2].strip() == "yes",
   lines)
sys.exit(wrong > 0)
