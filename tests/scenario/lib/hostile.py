"""hostile: what a client that misbehaves gets, while one that does not never notices."""
from .process import wait_until

CALLS = 20_000
SHORT = "2s"        # for those who let it pass; all others say hello within it on a busy machine, too


class Healthy:
    """A client that streams on, before and after something bad happens to the daemon."""

    def __init__(self, case, *options, hello_timeout="60s"):
        self.case = case
        self.daemon = case.daemon(f"--hello-timeout={hello_timeout}", "--ring-size=16MiB", *options)
        self.before, self.after = case.load(CALLS), case.load(CALLS)
        pids = self.before.pids + self.after.pids
        self.stream = case.stream(self.daemon, "-p", "syscall:getppid:call", "-f",
                                  f"pid in ({pids[0]}, {pids[1]})", "-o", "none")
        self.before.run()

    def check(self):
        """It gets everything, the ledger closes, and nobody hostile is left."""
        self.after.run()
        client = self.stream.await_all(2 * CALLS)
        self.case.check_equal(client["delivered"], 2 * CALLS, "the healthy client streams on")
        wait_until(lambda: len(self.daemon.stat()["client"]) == 2, "the hostile clients are gone")
        self.case.check_balanced(self.daemon)
        self.case.check_stream(self.stream.interrupt(), events=2 * CALLS)


def check_refused(case, connection, code, words=""):
    """The daemon says that Error, fatally, and closes."""
    frames = list(connection.frames())
    errors = [frame.values for frame in frames if frame.name == "Error"]
    case.check_equal([error["code"] for error in errors], [code], f"the Error is {code}")
    error = errors[0]
    case.check(error["fatal"] and frames[-1].name == "Error", "it is fatal, and the last frame")
    case.check(words in error["what"] and error["hint"], f"it says: {error['what']}; "
               f"and what to do: {error['hint']}", words)
    connection.close()


def refused(case, data, code, words="", greet=True):
    """A whole test: a client that sends that is refused with that code, and nobody else notices."""
    healthy = Healthy(case)
    with healthy.daemon.connect() as connection:
        if greet:
            connection.greet()
        connection.send(data)
        check_refused(case, connection, code, words)
    case.check_equal(healthy.daemon.stat()["counters"]["sessions_failed"], 1,
                     "the daemon counts it")
    healthy.check()
