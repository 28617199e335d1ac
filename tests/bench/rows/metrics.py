"""Metrics: what metering adds to each event that a worker drains, and how many series and how much
memory there are after a hundred thousand processes."""
import json
import urllib.request

from peers import host, ringtail
from peers.tbench import captured
from report import Budget, Row

NAME = "metrics"
PROCESSES = 100_000
HTTP = "127.0.0.1:17180"
ROUNDS_INSIDE = 5               # of the program, each over the whole capture
MIB = 1 << 20


def measure(bench):
    event = Row("metrics.event", "CPU ns/event", budget=Budget(0.15, ratio=True),
                note="drained with a meter, less without one; tbench's calls")
    series = Row("metrics.series", "series", note=f"after {PROCESSES} processes of as many names")
    memory = Row("metrics.memory", "MiB", budget=Budget(64),
                 note=f"resident, without rings, after {PROCESSES} processes")
    bench.beside(event, "collector.replay")     # the same calls
    capture = bench.attempt(event, lambda: captured(bench))
    for _ in range(bench.rounds(3)):
        figure = bench.attempt(event, lambda: metering(bench, capture)) if capture else None
        if figure is not None:
            event.samples.append(figure)
    figures = bench.attempt(series, lambda: many_processes(bench))
    if figures:
        series.samples.append(figures[0])
        memory.samples.append(figures[1] / MIB)
    return [event, series, memory]


def metering(bench, capture):
    """CPU ns for each event: what drain takes with a meter, less what it takes without."""
    best = [json.loads(host.run([bench.program("bench/drain"), capture, ROUNDS_INSIDE, *meter],
                                timeout=120))["best_ns"] for meter in ([], ["meter"])]
    return best[1] - best[0]


def many_processes(bench):
    """Series in an answer, and resident bytes."""
    with ringtail.Daemon(bench, "--http", HTTP) as daemon:
        host.run([bench.program("bench/processes"), PROCESSES], timeout=600)
        with urllib.request.urlopen(f"http://{HTTP}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(1 for line in lines if not line.startswith("#")), daemon.resident_bytes()
