#!/usr/bin/env python3
"""scale: how what ringtail costs grows with what there is of something: clients, subscriptions, terms of a filter,
workers, threads, probes, history.

    scale.py [--build DIR] [--rounds N] [--only NAME]... [--docs DIR]

Each point is measured N times, all points of a curve in turns; a curve's law is a line through the medians. Writes
DIR/scaling.svg, and the figures between the two marks of DIR/scaling.md. Exit: 0 measured, 1 a point could not be
measured, 77 not root.
"""
import argparse
import contextlib
import dataclasses
import json
import math
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the tree stays as it was

import run as bench_run  # noqa: E402
from peers import host, ringtail  # noqa: E402
from peers.tbench import captured  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
MARKS = ("<!-- figures: make bench-scale -->\n", "<!-- end of figures -->\n")
NOISE = 0.15    # what differs by less in all of a curve may be flat
STRAIGHT = 0.8  # so much of what medians differ by is a line's, or x does not explain it
QUIET = ("--history-size=0",)
HISTORY_CALLS = 2_200_000   # fill a MiB: such a call is 0.6 to 1 bytes
SPECS = 64      # of one request: SUBSCRIBE_PROBES_MAX
SKIPPED_SYSTEMS = ("syscalls", "raw_syscalls", "ringtail")


@dataclasses.dataclass
class Curve:
    """What one figure did while x grew. `points`: x -> a figure for each round."""
    name: str
    x_name: str
    unit: str
    points: dict = dataclasses.field(default_factory=dict)

    def medians(self):
        return [(x, statistics.median(samples)) for x, samples in sorted(self.points.items()) if samples]

    def line(self):
        """(at 0, for each more), by least squares of the medians, weighed by 1 / y: small figures count as much."""
        points = [(x, y, 1 / max(abs(y), 1e-9) ** 2) for x, y in self.medians()]
        weight = sum(w for _, _, w in points)
        mean_x = sum(x * w for x, _, w in points) / weight
        mean_y = sum(y * w for _, y, w in points) / weight
        spread = sum(w * (x - mean_x) ** 2 for x, _, w in points)
        slope = sum(w * (x - mean_x) * (y - mean_y) for x, y, w in points) / spread if spread else 0
        return mean_y - slope * mean_x, slope

    def straightness(self):
        """Of the squares by which the medians differ, the part that the line explains. Two points are on any line."""
        medians = self.medians()
        base, slope = self.line()
        mean = statistics.mean(y for _, y in medians)
        total = sum((y - mean) ** 2 for _, y in medians)
        left = sum((base + slope * x - y) ** 2 for x, y in medians)
        return 1 - left / total if total and len(medians) > 2 else 0

    def spread(self):
        """By how much the rounds of one point differ, usually: one wide point does not hide a curve."""
        return statistics.median(max(samples) - min(samples) for samples in self.points.values() if samples)

    def law(self):
        """In words. A small growth that the rounds agree on, and that is a line, is not flat."""
        medians = self.medians()
        if len(medians) < 2:
            return "not measured"
        low, high = min(y for _, y in medians), max(y for _, y in medians)
        if high - low <= self.spread() or (high - low <= NOISE * high and self.straightness() < STRAIGHT):
            return f"flat: {figure(low)} to {figure(high)} {self.unit}"
        if len(medians) == 2:
            (x, y), (more_x, more_y) = medians
            return f"{figure(more_y / y)} times as much at {more_x:,} as at {x:,}"
        base, slope = self.line()
        text = f"{figure(base)} {self.unit} and {figure(slope)} for each"
        off = max(abs(base + slope * x - y) / abs(y) for x, y in medians)
        return f"linear: {text}" if off <= 2 * NOISE else f"bends: {text}, {100 * off:.0f} % off at the worst point"


def figure(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


class Swarm:
    """`with Swarm(daemon, clients, filter)`: so many clients of one subscription, in one process."""

    def __init__(self, daemon, clients, text):
        bench, self.clients = daemon.bench, clients
        command = [bench.program("tools/swarm"), f"--connect={daemon.road.address}", "--mode=stream",
                   f"--clients={clients}", "--probe=syscall:getppid:call", f"--filter={text}"]
        self.child = host.Child(command, bench.work / "swarm.log", stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        self.child.__enter__()
        self.until(lambda now: now["subscribed"] == self.clients)
        return self

    def __exit__(self, *_):
        self.child.__exit__(None)

    def until(self, is_so, timeout=120):
        """Its first report of which that is so."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            self.child.process.stdin.write(b"report\n")
            self.child.process.stdin.flush()
            line = self.child.process.stdout.readline()
            if not line:
                self.child.must_live()
                raise host.Unavailable("the swarm has ended")
            if is_so(report := json.loads(line)):
                return report
            time.sleep(0.1)
        raise host.Unavailable(f"the swarm did not come so far in {timeout} s: {line.decode()}")


class Crowd:
    """`with Crowd(bench, threads, calls)`: threads that wait until go(), and stay."""

    def __init__(self, bench, threads, calls):
        self.child = host.Child([bench.program("bench/crowd"), threads, calls], bench.work / "crowd.log",
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        self.child.__enter__()
        line = self.child.process.stdout.readline()
        if not line:
            raise host.Unavailable(self.child.said().strip() or "the crowd has ended")
        self.pid = int(line)
        return self

    def __exit__(self, *_):
        self.child.__exit__(None)

    def go(self):
        """How many calls were made."""
        self.child.process.stdin.write(b"\n")
        self.child.process.stdin.flush()
        return int(self.child.process.stdout.readline())


@contextlib.contextmanager
def engine_spends(daemon, result, key, calls):
    """result[key]: CPU ns of the engine for each call that is made inside."""
    before = daemon.engine_cpu_ns()
    yield
    time.sleep(ringtail.SETTLE_S)
    result[key] = (daemon.engine_cpu_ns() - before) / calls


def clients(bench, count):
    calls, result = 200_000, {}
    options = [*QUIET, f"--clients-max={count + 16}", f"--clients-per-identity={count + 16}"]
    with ringtail.Daemon(bench, *options) as daemon, \
         ringtail.Load(bench, calls, bench.cpus[:1], rate=50_000) as load, \
         Swarm(daemon, count, load.filter) as swarm:
        with engine_spends(daemon, result, "CPU of the engine, ns a call", calls):
            load.go()
            swarm.until(lambda now: now["events"] + now["lost"] >= calls * count)
        result["memory, KiB"] = daemon.resident_bytes() / KIB
    return result


def subscriptions(bench, count):
    calls, result = 1_000_000, {}
    with ringtail.Daemon(bench, *QUIET, "--clients-per-identity=80") as daemon, \
         ringtail.Load(bench, calls, bench.cpus[:1]) as load, contextlib.ExitStack() as streams:
        for i in range(count):
            words = ["-p", "syscall:getppid:call", "-f", f"({load.filter}) && ret != {-1 - i}"]
            streams.enter_context(ringtail.stream(daemon, *words, name=f"client_{i}"))
        with engine_spends(daemon, result, "CPU of the engine, ns a call", calls):
            load.go()
    return result


def terms(bench, count):
    calls, result = 1_000_000, {}
    with ringtail.Daemon(bench, *QUIET) as daemon, ringtail.Load(bench, calls, bench.cpus[:1]) as load:
        text = " && ".join([f"({load.filter})", *(f"ret != {-1 - i}" for i in range(count))])
        with ringtail.stream(daemon, "-p", "syscall:getppid:call", "-f", text), \
             engine_spends(daemon, result, "CPU of the engine, ns a call", calls):
            made = load.go()
    result["the call itself, ns"] = made["elapsed_ns"] / calls
    return result


def workers(bench, count):
    """The replay, the workers, the main thread and the client need more than two CPUs, and wait for each other where
    there are no more: so the time is the workers' own. A recording's rings are not alike, and a worker has whole rings:
    the figure is what workers could do that have a CPU each, and as much to do as the others."""
    options = [*QUIET, f"--workers={count}", "--source", f"replay:{captured(bench)}", "--replay-pace", "fast"]
    with ringtail.Daemon(bench, *options) as daemon, ringtail.stream(daemon, "-p", "syscall:*:call") as client:
        client.child.process.wait(60)
        spent = host.thread_cpu_ns(daemon.engine(), "ringtail-drain")
    if len(spent) != count:
        raise host.Unavailable(f"there are {len(spent)} workers")
    return {"calls drained with a CPU for each, M/s": count * client.summarise()["events"] / sum(spent) * 1e3}


def threads(bench, count):
    calls, result = 600_000, {}
    with ringtail.Daemon(bench, *QUIET) as daemon, Crowd(bench, count, calls) as crowd, \
         ringtail.stream(daemon, "-p", "syscall:getppid:call", "-f", f"pid == {crowd.pid}"):
        with engine_spends(daemon, result, "CPU of the engine, ns a call", calls):
            crowd.go()
        result["memory, KiB"] = daemon.resident_bytes() / KIB
    return result


def tracepoints(daemon):
    """Names of tracepoints, in an order that is no system's."""
    lines = host.run(daemon.tracectl("list", "tracepoint:*", "-o", "json")).splitlines()
    names = sorted(json.loads(line)["probe"] for line in lines)
    names = [name for name in names if name.split(":")[1] not in SKIPPED_SYSTEMS]
    return sorted(names, key=lambda name: hash_of(name))


def hash_of(text):
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 & 0xffffffff
    return value


def probes(bench, count):
    calls, result = 1_000_000, {}
    with ringtail.Daemon(bench, *QUIET) as daemon, ringtail.Load(bench, calls, bench.cpus[:1]) as load, \
         contextlib.ExitStack() as streams:
        names = tracepoints(daemon)[:count]
        start = time.monotonic()
        for i in range(0, count, SPECS):
            words = [word for name in names[i:i + SPECS] for word in ("-p", name)]
            streams.enter_context(ringtail.stream(daemon, *words, "-f", load.filter, name=f"client_{i}"))
        result["until they are recorded, s"] = time.monotonic() - start
        made = load.go()
        result["memory, KiB"] = daemon.resident_bytes() / KIB
    result["a call that none of them sees, ns"] = made["elapsed_ns"] / calls
    return result


def history(bench, mib):
    """Of a history that is full, by the bytes that were sent: what is measured evicts as much as it adds."""
    filling, calls, result = mib * HISTORY_CALLS, 2_000_000, {}
    with ringtail.Daemon(bench, f"--history-size={mib}MiB", "--memory-max=1GiB") as daemon, \
         ringtail.Load(bench, filling, bench.cpus[:1], name="filling") as before, \
         ringtail.Load(bench, calls, bench.cpus[:1]) as load, \
         ringtail.stream(daemon, "-p", "syscall:getppid:call", "-f", f"{before.filter} || {load.filter}") as client:
        before.go()
        time.sleep(ringtail.SETTLE_S)
        sent = sum(client["wire_bytes"] for client in daemon.stat()["clients"] if client["probes"])
        if sent < mib * MIB:
            raise host.Unavailable(f"{filling:,} calls are {sent / MIB:.1f} MiB, which does not fill the history")
        with engine_spends(daemon, result, "CPU of the engine, ns a call", calls):
            load.go()
        result["memory, KiB"] = daemon.resident_bytes() / KIB
    return result


GROUPS = {
    "clients": (clients, "clients of one subscription", (1, 10, 100, 300, 1000)),
    "subscriptions": (subscriptions, "distinct subscriptions", (1, 4, 16, 60)),
    "terms": (terms, "comparisons in a filter", (1, 4, 16, 64)),
    "workers": (workers, "workers, of a recording's two rings", (1, 2)),
    "threads": (threads, "threads alive", (10, 100, 1000, 10_000, 25_000)),
    "probes": (probes, "tracepoints recorded at once", (1, 10, 100, 500)),
    "history": (history, "MiB of history that are kept", (8, 16, 32)),   # below 8 it is queue-size
}


def measure(bench, name, rounds):
    """The curves of a group, and why points of them are missing."""
    function, x_name, xs = GROUPS[name]
    curves, why = {}, {}
    start = time.monotonic()
    print(f"scale: {name} ...", end="", file=sys.stderr, flush=True)
    for _ in range(rounds):
        for x in xs:
            try:
                for what, value in function(bench, x).items():
                    curve = curves.setdefault(what, Curve(f"{name}: {what}", x_name, what.rpartition(", ")[2]))
                    curve.points.setdefault(x, []).append(value)
            except (host.Unavailable, OSError, KeyError, ValueError) as error:
                why[x] = f"{name}, {x} {x_name}: {error}"
    print(f" {time.monotonic() - start:.0f} s", file=sys.stderr)
    return list(curves.values()), list(why.values())


def as_text(curves, missing):
    lines = ["| curve | x | figures (median of the rounds) | law |", "|---|---|---|---|"]
    for curve in curves:
        figures = ", ".join(f"{x:,}: {figure(y)}" for x, y in curve.medians())
        lines.append(f"| {curve.name} | {curve.x_name} | {figures} | {curve.law()} |")
    return "\n".join([*lines, *(f"\nNot measured: {why}" for why in missing)]) + "\n"


WIDE, HIGH, LEFT, TOP, COLUMNS = 250, 130, 58, 34, 3


def position(value, low, high, size):
    """On an axis of powers."""
    low, high = math.log10(max(low, 1e-9)), math.log10(max(high, 1e-9))
    return size * (math.log10(max(value, 1e-9)) - low) / (high - low) if high > low else size / 2


def panel(curve, number):
    """A curve, both axes by powers, with its points and the spread of each."""
    left = LEFT + number % COLUMNS * (WIDE + LEFT + 14)
    top = TOP + number // COLUMNS * (HIGH + 76)
    values = [y for samples in curve.points.values() for y in samples]
    xs, low, high = [x for x, _ in curve.medians()], min(values) / 2, max(values) * 2

    def at(x, y):
        return (left + position(x, xs[0], xs[-1], WIDE), top + HIGH - position(y, low, high, HIGH))

    parts = [f'<rect x="{left}" y="{top}" width="{WIDE}" height="{HIGH}" class="box"/>',
             f'<text x="{left}" y="{top - 8}" class="title">{curve.name}</text>',
             f'<text x="{left + WIDE / 2}" y="{top + HIGH + 30}" class="middle">{curve.x_name}</text>']
    for x in xs:
        place = at(x, low)[0]
        parts.append(f'<text x="{place:.1f}" y="{top + HIGH + 15}" class="middle">{x:,}</text>')
    for y in sorted({y for _, y in (curve.medians()[0], curve.medians()[-1])}):
        parts.append(f'<text x="{left - 5}" y="{at(xs[0], y)[1] + 4:.1f}" class="end">{figure(y)}</text>')
    for x, samples in sorted(curve.points.items()):
        (place, upper), (_, lower) = at(x, max(samples)), at(x, min(samples))
        parts.append(f'<path d="M{place:.1f} {lower:.1f}V{upper:.1f}" class="spread"/>')
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in (at(x, y) for x, y in curve.medians()))
    parts.append(f'<polyline points="{points}" class="curve"/>')
    return "\n".join(parts)


def drawing(curves):
    rows = (len(curves) + COLUMNS - 1) // COLUMNS
    width, height = COLUMNS * (WIDE + LEFT + 14), TOP + rows * (HIGH + 76)
    style = ("text{font:11px sans-serif;fill:#222}.title{font-weight:bold}.middle{text-anchor:middle}"
             ".end{text-anchor:end}.box{fill:none;stroke:#999}.curve{fill:none;stroke:#0b5394;stroke-width:2}"
             ".spread{stroke:#0b5394;stroke-width:5;stroke-opacity:.35}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">\n<style>{style}</style>\n'
            f'<rect width="{width}" height="{height}" fill="#fff"/>\n'
            + "\n".join(panel(curve, i) for i, curve in enumerate(curves)) + "\n</svg>\n")


def write(docs, curves, missing):
    (docs / "scaling.svg").write_text(drawing([curve for curve in curves if len(curve.points) > 1]))
    page = docs / "scaling.md"
    text = page.read_text()
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    page.write_text(f"{before}{MARKS[0]}{as_text(curves, missing)}{MARKS[1]}{after}")


def main():
    parser = argparse.ArgumentParser(description="measure how costs grow")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=GROUPS, help="prints, and writes nothing")
    parser.add_argument("--docs", type=pathlib.Path, default=pathlib.Path("docs"))
    arguments = parser.parse_args()
    if os.geteuid():
        print("scale: needs root, for BPF", file=sys.stderr)
        return 77
    signal.signal(signal.SIGTERM, bench_run.end_on_signal)
    work = pathlib.Path(tempfile.mkdtemp(prefix="ringtail-scale-"))
    work.chmod(0o711)  # the engine gives up root and must still reach its files
    curves, missing = [], []
    try:
        bench = bench_run.Bench(arguments.build.resolve(), work, arguments.rounds)
        for name in arguments.only or GROUPS:
            made, why = measure(bench, name, arguments.rounds)
            curves += made
            missing += why
    finally:
        shutil.rmtree(work, ignore_errors=True)
        print(as_text(curves, missing), end="")
    if not arguments.only:
        write(arguments.docs, curves, missing)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
