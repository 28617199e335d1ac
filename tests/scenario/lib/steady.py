"""steady: a client that behaves, before and while others do not: it gets everything, and at what rate."""
import os
import re
import time

from .process import PATIENCE_S, wait_until

RATE = 50_000                   # calls in a second
CALLS = 20_000                  # each time
CALLS_LONG = 500_000


class Steady:
    """A daemon with a unix socket and plain tcp, and on the first of them one that streams a load of a
    known rate, `times` times."""

    def __init__(self, case, *options, times=2, long=False, room="--ring-size=16MiB"):
        self.case, self.calls, self.kept = case, CALLS_LONG if long else CALLS, []
        # A client of a crowd gets its turn late: that is no reason to send it away.
        if not any(words.startswith("--hello-timeout=") for words in options):
            options = ("--hello-timeout=60s", *options)
        self.daemon = case.daemon("--insecure", room, *options, listen=[
            f"unix:{case.path('run')}/steady.sock", "tcp:127.0.0.1:0"])
        self.tcp = re.search(r"listening on (tcp:\S+)", self.daemon.log)[1]
        self.loads = [case.load(self.calls, rate=RATE) for _ in range(times)]
        pids = ", ".join(str(load.pids[0]) for load in self.loads)
        self.stream = case.stream(self.daemon, "-p", "syscall:getppid:call", "-f",
                                  f"pid in ({pids})", "-o", "none")

    def run(self):
        """One load, and at what part of its rate the client got it: the load itself may be slowed down
        by whatever else runs here."""
        load = self.loads[len(self.kept)]
        began = time.monotonic()
        made = load.run(20 * self.calls / RATE + PATIENCE_S)["elapsed_ns"] / 1e9
        self.stream.await_all((len(self.kept) + 1) * self.calls)
        self.kept.append(made / (time.monotonic() - began))

    def resident(self):
        """Bytes of memory of the engine."""
        with open(f"/proc/{self.daemon.pid}/status") as file:
            return int(re.search(r"VmRSS:\s+(\d+) kB", file.read())[1]) * 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.daemon.pid}/fd"))

    def await_alone(self):
        """Until the daemon has nobody but the steady client, and no descriptor of anybody else."""
        wait_until(lambda: len(self.daemon.stat()["client"]) <= 2, "the others are gone")

    def finish(self):
        """All of it came, and every ledger closes."""
        self.case.check_balanced(self.daemon)
        self.case.check_stream(self.stream.interrupt(), events=len(self.kept) * self.calls)
        for kept in self.kept[1:]:
            self.case.figure("rate of the healthy client", kept, "of the load's")
