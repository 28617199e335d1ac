"""Memory: what ringtaild's processes hold resident beyond the rings and queues it was configured
with, after real work, and how much more for each client."""
import contextlib
import time

from peers import host, ringtail, roads
from report import Budget, Row

NAME = "memory"
CLIENTS = 100
CALLS = 3_000_000
FEW_CALLS = 200_000
MIB = 1 << 20
OPTIONS = ["--clients-max", 2 * CLIENTS + 16, "--clients-per-identity", 2 * CLIENTS + 16,
           "--history-size", "0"]  # no queue that fills by design


def measure(bench):
    base = Row("memory.resident", "MiB", budget=Budget(24),
               note="loader and engine after a load, without their rings, with no history kept")
    client = Row("memory.client", "KiB/client", budget=Budget(8),
                 note=f"the second {CLIENTS} clients, all subscribed alike")
    tls = Row("memory.client_tls", "KiB/client", peer="a client at the unix socket",
              budget=Budget(24), note="likewise, over TLS 1.3, with certificates")
    for _ in range(bench.rounds(1)):
        figures = bench.attempt(base, lambda: resident(bench))
        if figures:
            base.samples.append(figures[0] / MIB)
            client.samples.append(figures[1] / 1024)
            tls.peer_samples.append(figures[1] / 1024)
        figures = bench.attempt(tls, lambda: resident(bench, roads.tls(bench)))
        if figures:
            tls.samples.append(figures[1] / 1024)
    return [base, client, tls]


def resident(bench, road=None):
    """Bytes of the processes, and bytes more for each client."""
    with ringtail.Daemon(bench, *OPTIONS, road=road) as daemon:
        with ringtail.Load(bench, CALLS, bench.cpus) as load:
            with ringtail.stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter) as client:
                load.go()
                client.finish()
        before = daemon.resident_bytes()
        with ringtail.Load(bench, FEW_CALLS, bench.cpus, name="first") as first, \
             ringtail.Load(bench, FEW_CALLS, bench.cpus, name="second") as second, \
             contextlib.ExitStack() as clients:
            both = f"{first.filter} || {second.filter}"
            # The first live in what the heap has to spare after the load, the others show their size.
            crowd(bench, daemon, clients, both, CLIENTS)
            first.go()
            time.sleep(ringtail.SETTLE_S)
            some = daemon.resident_bytes()
            crowd(bench, daemon, clients, both, 2 * CLIENTS)
            second.go()
            time.sleep(ringtail.SETTLE_S)
            all_of_them = daemon.resident_bytes()
    return before, (all_of_them - some) / CLIENTS


def crowd(bench, daemon, clients, text, total):
    """Clients subscribed alike, until they are that many."""
    for i in range(total - CLIENTS, total):
        stream = host.Child(daemon.tracectl("stream", "-o", "none", "-p", "syscall:getppid:call",
                                            "-f", text), bench.work / f"client_{i}.log")
        clients.enter_context(stream)
    stream.wait_until(lambda: daemon.subscribers() >= total, "subscribing", timeout=60)
