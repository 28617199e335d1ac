"""past: a daemon that records a load of known count always, and what of it another request is given."""
import time

from .process import wait_until

CALLS = 20_000


def memory():
    return ()


def spool(case):
    """So little memory that almost all of the past is on disk alone."""
    return ("--durability=written", f"--state-dir={case.path('state')}", "--user=root",
            "--history-size=64KiB", "--queue-size=64KiB")


class Past:
    """What is always on has recorded two processes' calls; nobody asked for anything else."""

    def __init__(self, case, *options, probes=("syscall:getppid:call",)):
        self.case, self.load = case, case.load(CALLS, 2)
        self.daemon = case.daemon("--ring-size=64MiB", *(f"--probe={probe}" for probe in probes),
                                  *options)
        case.stream(self.daemon, "-o", "none").interrupt()      # it is recorded by now
        self.begun = time.time()
        self.load.run()
        wait_until(lambda: self.daemon.recorded() >= CALLS, "all are recorded")
        case.await_rings_empty(self.daemon)

    def ask(self, *words, output="none"):
        return self.case.start_stream(self.daemon, "-o", output, "--since", f"@{self.begun:.6f}",
                                      "--until", "now", *words).wait()

    def expect(self, what, events, *words):
        """All of them come, and nothing is said to be missing."""
        done = self.ask(*words)
        self.case.check_equal((done.code, done.summary["events"], done.summary["gaps"],
                               done.summary["ledger"]), (0, events, 0, "balanced"), what, done.err)
        return done

    def end(self):
        self.case.check_balanced(self.daemon)
        self.daemon.stop()
