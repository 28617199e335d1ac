"""`tracectl top`: what a table of all processes costs, counted by the daemon, beside the same question that the client
counts (-n makes it: where it ends is one event). The load makes calls at a steady rate; other processes come on top."""
import time

from peers import host, ringtail
from report import Budget, Row

NAME = "top"
SECONDS = 10
RATE = 100_000                  # calls a second, of one process on each CPU together
WHERE = {"daemon": ("top", "processes", "--plain"),
         "client": ("summary", "--by", "pid,comm", "--interval", "1s", "-n", "1000000000000")}


def measure(bench):
    rows = {
        "client": Row("top.client", "% of a core", budget=Budget(1), peer="counted by the client"),
        "daemon": Row("top.daemon", "% of a core", peer="counted by the client", note="the engine, with its drain worker"),
        "wire": Row("top.wire", "KiB/s", budget=Budget(8), peer="counted by the client",
                    note=f"{RATE:,} calls/s of {len(bench.cpus)} processes, and what else runs"),
    }
    for _ in range(bench.rounds(3)):
        for where, words in WHERE.items():
            figures = bench.attempt(rows["client"], lambda words=words: top(bench, words))
            for name in figures or ():
                samples = rows[name].samples if where == "daemon" else rows[name].peer_samples
                samples.append(figures[name])
    return list(rows.values())


def top(bench, words):
    calls = RATE * (SECONDS + 20)
    load = [bench.program("tools/load"), "-n", calls, "-P", len(bench.cpus), "--rate", RATE]
    with ringtail.Daemon(bench) as daemon, host.Child(load, bench.work / "top-load.log"):
        with ringtail.Client(daemon, *words, stdout=open(bench.work / "top.out", "w")) as client:
            time.sleep(1)
            before, engine = host.cpu_ns(client.child.pid), daemon.engine_cpu_ns()
            wire = wire_bytes(daemon)
            start = time.monotonic()
            time.sleep(SECONDS)
            span_ns = (time.monotonic() - start) * 1e9
            return {"client": 100 * (host.cpu_ns(client.child.pid) - before) / span_ns,
                    "daemon": 100 * (daemon.engine_cpu_ns() - engine) / span_ns,
                    "wire": (wire_bytes(daemon) - wire) / 1024 / (span_ns / 1e9)}


def wire_bytes(daemon):
    return sum(client["wire_bytes"] for client in daemon.stat()["clients"] if client["probes"])
