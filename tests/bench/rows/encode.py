"""The encoder by itself: build/bench/encode packs and unpacks the batches of a tbench capture, and
prints finished rows."""
import json

import report
from peers.host import run
from peers.tbench import captured

NAME = "encode"


def measure(bench):
    said = run([bench.program("bench/encode"), "-j", "-r", bench.rounds(5), captured(bench)],
               timeout=120)
    for line in said.splitlines():
        yield report.given(json.loads(line))
