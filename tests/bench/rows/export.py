"""What an exported event costs the export thread, but for the sending: build/bench/export prints
finished rows."""
import json

import report
from peers.host import run

NAME = "export"


def measure(bench):
    said = run([bench.program("bench/export"), "-r", bench.rounds(5)], timeout=120)
    for line in said.splitlines():
        yield report.given(json.loads(line))
