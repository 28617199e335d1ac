"""What tracepoints cost: build/bench/tracepoint measures a record of ours and ftrace's own record of the same event in
turns, and prints finished rows. And what it takes until one tracepoint is recorded, all of a system, or all are
listed: from the start of tracectl, as somebody at a terminal waits for it."""
import json
import time

import report
from peers import host, ringtail
from report import Budget, Row

NAME = "tracepoint"
LIST = ("list", "tracepoint:*", "-o", "json")


def measure(bench):
    said = host.run([bench.program("bench/tracepoint"), bench.rounds(9)], timeout=300)
    for line in said.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            budget = Budget(row["budget"], ratio=True)
            row.update(budget=str(budget), met=row["ratio"] <= budget.limit)
            yield report.given(row)
    one = Row("tracepoint.enable_one", "ms", budget=Budget(50), note="of 2,305: until the subscription is in force")
    system = Row("tracepoint.enable_block", "ms", budget=Budget(1000), note="tracepoint:block:*")
    listed = Row("tracepoint.list_all", "ms", budget=Budget(100))
    with ringtail.Daemon(bench) as daemon:
        for number in range(bench.rounds(9)):
            # Another one each time: what was made once is there.
            name = ONE[number % len(ONE)]
            add(bench, one, lambda: subscribe(daemon, name))
            add(bench, listed, lambda: timed(daemon, *LIST))
    for _ in range(bench.rounds(3)):
        with ringtail.Daemon(bench) as daemon:
            add(bench, system, lambda: subscribe(daemon, "tracepoint:block:*"))
    yield from (one, system, listed)


ONE = [f"tracepoint:{name}" for name in (
    "kmem:kmalloc", "net:net_dev_queue", "irq:softirq_entry", "sched:sched_waking", "tcp:tcp_probe",
    "ext4:ext4_da_write_begin", "workqueue:workqueue_execute_start", "signal:signal_generate", "timer:hrtimer_start")]


def add(bench, row, measure_it):
    figure = bench.attempt(row, measure_it)
    if figure is not None:
        row.samples.append(figure)


def timed(daemon, *command):
    began = time.monotonic()
    host.run(daemon.tracectl(*command))
    return (time.monotonic() - began) * 1e3


def subscribe(daemon, probe):
    """A stream that ends as soon as it is subscribed; less one of a probe that is always there."""
    return timed(daemon, "stream", "-o", "none", "-p", probe, "--duration", "1ms") - 1
