"""Memory: what ringtaild's processes hold resident beyond the rings and queues it was configured
with, after real work, and how much more for each client."""
import contextlib
import time

from peers import host, ringtail
from report import Budget, Row

NAME = "memory"
CLIENTS = 100
CALLS = 3_000_000
MIB = 1 << 20
OPTIONS = ["--clients-max", CLIENTS + 16, "--history-size", "0"]  # no queue that fills by design


def measure(bench):
    base = Row("memory.resident", "MiB", budget=Budget(64),
               note="loader and engine after a load, without their rings, with no history kept")
    client = Row("memory.client", "KiB/client", budget=Budget(64),
                 note=f"{CLIENTS} clients subscribed alike")
    for _ in range(bench.rounds(1)):
        figures = bench.attempt(base, lambda: resident(bench))
        if figures:
            base.samples.append(figures[0] / MIB)
            client.samples.append(figures[1] / 1024)
    return [base, client]


def resident(bench):
    """Bytes of the processes, and bytes more for each client."""
    with ringtail.Daemon(bench, *OPTIONS) as daemon:
        with ringtail.Load(bench, CALLS, bench.cpus) as load:
            with ringtail.stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter) as client:
                load.go()
                client.finish()
        with ringtail.Load(bench, 200_000, bench.cpus) as load, contextlib.ExitStack() as clients:
            before = daemon.resident_bytes()
            for i in range(CLIENTS):
                stream = host.Child(daemon.tracectl("stream", "-o", "none", "-p",
                                                    "syscall:getppid:call", "-f", load.filter),
                                    bench.work / f"client_{i}.log")
                clients.enter_context(stream)
            stream.wait_until(lambda: daemon.subscribers() >= CLIENTS, "subscribing", timeout=30)
            load.go()
            time.sleep(ringtail.SETTLE_S)
            after = daemon.resident_bytes()
    return before, (after - before) / CLIENTS
