"""What the traced program pays: build/bench/producer measures ringtail's BPF programs and ftrace's
raw_syscalls pair in turns, on one CPU and on two, and prints finished rows. Its ratio is the median
of the rounds' ratios, each round's two sides having met the same noise."""
import json

import report
from peers.host import run

NAME = "producer"


def measure(bench):
    said = run([bench.program("bench/producer"), bench.rounds(15)], timeout=180)
    for line in said.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            if row["budget"] is not None:
                budget = report.Budget(row["budget"], ratio=True)
                row.update(budget=str(budget), met=row["ratio"] <= budget.limit)
            yield report.given(row)
