"""What an exported event costs the export thread, but for the sending: build/bench/export prints
finished rows. An event of a request is to cost at most fifteen times what it costs on our own wire."""
import json

import report
from peers.host import run

NAME = "export"


def measure(bench):
    said = run([bench.program("bench/export"), "-r", bench.rounds(5)], timeout=120)
    for line in said.splitlines():
        yield row_of(bench, json.loads(line))


def row_of(bench, given):
    row = report.given(given)
    if row.name.endswith(".cpu"):
        row.samples, row.budget = [given["value"]], report.Budget(15, ratio=True)
        bench.beside(row, "collector.replay")
    return row
