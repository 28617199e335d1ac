"""What a sample with its stacks costs the program that runs: build/bench/profile measures ringtail's program
and perf's ring with call chains in turns, and prints finished rows. And what one costs on the wire: of a
program that keeps every CPU busy, sampled 99 and 999 times a second, everything that a client was sent, maps,
watermarks and hello included, for each sample; beside it perf's file of as many a second. Where other work
takes the CPUs, a batch has fewer samples, and each costs more."""
import json
import re
import time

import report
from peers import host, ringtail
from report import Budget, Row

NAME = "profile"
SECONDS = 6
RATES = (99, 999)


def measure(bench):
    said = host.run([bench.program("bench/profile"), bench.rounds(9)], timeout=300)
    for line in said.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            if row["budget"] is not None:
                budget = Budget(row["budget"], ratio=True)
                row.update(budget=str(budget), met=row["ratio"] <= budget.limit)
            yield report.given(row)
    for rate in RATES:
        row = Row(f"profile.wire_{rate}hz", "B/sample", budget=Budget(80),
                  peer="perf record -g, its file, per sample")
        for _ in range(bench.rounds(3)):
            figure = bench.attempt(row, lambda: ringtail_bytes(bench, row, rate))
            if figure:
                row.samples.append(figure)
            figure = bench.attempt(row, lambda: perf_bytes(bench, rate))
            if figure:
                row.peer_samples.append(figure)
        yield row


def busy(bench):
    """One on each CPU, to their end."""
    children = [host.Child([bench.program("tools/busy"), SECONDS * 1000], bench.work / f"busy{cpu}.log")
                for cpu in host.CPUS]
    for child in children:
        child.__enter__()
    time.sleep(SECONDS + 0.2)
    for child in children:
        child.__exit__(None)


def ringtail_bytes(bench, row, rate):
    stacks = bench.work / "profile.folded"
    with ringtail.Daemon(bench) as daemon, open(stacks, "w") as out:
        with ringtail.Client(daemon, "stream", "-o", "folded", "-p", f"profile:hz:{rate}", "-f",
                             'comm == "busy"', stdout=out) as client:
            busy(bench)
            summary = client.finish()
    samples = sum(int(line.rsplit(" ", 1)[1]) for line in stacks.read_text().splitlines())
    row.note = f"{samples} samples a round, {summary['lost']} lost in the last"
    return summary["wire_bytes"] / max(samples, 1)


def perf_bytes(bench, rate):
    file = bench.work / "profile.perf"
    command = ["perf", "record", "-a", "-g", "-e", "cpu-clock", "-F", rate, "-o", file, "sleep", SECONDS + 0.5]
    with host.Child(command, bench.work / "perf.log") as recorder:
        time.sleep(0.3)
        busy(bench)
        recorder.process.wait(30)
        said = recorder.said()
    samples = re.search(r"\((\d+) samples\)", said)
    if not samples:
        raise host.Unavailable(f"perf says no number of samples: {said[-100:]}")
    return file.stat().st_size / int(samples[1])
