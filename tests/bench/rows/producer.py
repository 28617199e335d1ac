"""What the traced program pays: build/bench/producer measures ringtail's BPF programs and ftrace's
raw_syscalls pair in turns, on one CPU and on two, and prints finished rows. Its ratio is the median
of the rounds' ratios, each round's two sides having met the same noise."""
import json
import pathlib

import report
from peers.host import run

NAME = "producer"
# Of the peer of each row. What ftrace's pair costs differs more between processors than what ours does: an older Xeon
# takes a third of an EPYC's time for it.
LIMITS = {"producer_call_1cpu": 0.6, "producer_call_filtered_1cpu": 0.6, "producer_call_2cpu": 1.05}
LIMITS_XEON = {**LIMITS, "producer_call_1cpu": 0.85, "producer_call_filtered_1cpu": 0.85}


def measure(bench):
    said = run([bench.program("bench/producer"), bench.rounds(15)], timeout=180)
    limits = LIMITS_XEON if "GenuineIntel" in pathlib.Path("/proc/cpuinfo").read_text() else LIMITS
    for line in said.splitlines():
        if line.startswith("{"):
            yield row_of(json.loads(line), limits)


def row_of(row, limits):
    if row["name"] in limits:
        budget = report.Budget(limits[row["name"]], ratio=True)
        row.update(budget=str(budget), met=row["ratio"] <= budget.limit)
    return report.given(row)
