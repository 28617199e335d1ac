"""The encoder by itself: build/bench/encode packs and unpacks the batches of a tbench capture, and
prints finished rows. Encoding is to cost no more than sealing, which is zstd and a checksum, of the
same batches."""
import json

import report
from peers.host import run
from peers.tbench import captured

NAME = "encode"


def measure(bench):
    said = run([bench.program("bench/encode"), "-j", "-r", bench.rounds(5), captured(bench)],
               timeout=120)
    rows = [report.given(json.loads(line)) for line in said.splitlines()]
    yield from rows
    values = {row.name: row.given["value"] for row in rows}
    for name, value in values.items():
        recording, _, what = name.rpartition(".")
        if what == "encode":
            yield report.Row(f"{recording}.vs_seal", "ns/event", [value], peer="sealing the same batches",
                             peer_samples=[values[f"{recording}.seal"]], budget=report.Budget(1, ratio=True))
