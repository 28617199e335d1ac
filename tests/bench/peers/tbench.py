"""tbench: the load of the slowdown row, in a network namespace of its own, so on loopback only."""
import pathlib
import re
import signal

from . import ringtail
from .host import CPUS, Child, Unavailable, listens, run

PORT = 7003  # fixed in tbench
CAPTURE_CALLS = 3_000_000  # enough that a client's coming and going does not show
CAPTURE_S = 8  # longer than any machine takes for them
SCRIPTS = ("/usr/share/dbench/client.txt", "/usr/share/dbench-doc/client.txt")


class Tbench:
    """`with Tbench(work) as tbench`: a tbench_srv that run() loads, one client for each CPU."""

    def __init__(self, work):
        self.work = work

    def __enter__(self):
        found = [script for script in SCRIPTS if pathlib.Path(script).exists()]
        if not found:
            raise Unavailable("tbench's client.txt is missing: apt install dbench")
        self.script = found[0]
        self.server = Child(["unshare", "-n", "sh", "-c", "ip link set lo up && exec tbench_srv"],
                            self.work / "tbench_srv.log", stop=signal.SIGTERM)
        self.server.__enter__()
        try:
            # In the server's namespace: its own message stays in its buffer.
            self.server.wait_until(lambda: listens(PORT, self.server.pid), "listening")
        except BaseException:
            self.server.__exit__(None)
            raise
        return self

    def __exit__(self, *_):
        self.server.__exit__(None)

    def run(self, seconds, under=()):
        """Throughput in MB/s; `under`: the words of a command that starts it."""
        said = run(["nsenter", "-t", self.server.pid, "-n", *under, "tbench", "-c", self.script,
                    "-t", seconds, len(CPUS), "127.0.0.1"], timeout=seconds * 3 + 20)
        return throughput(said)


def throughput(said):
    """MB/s. It says 0 of a time that was too short for it."""
    found = re.search(r"^Throughput ([\d.]+) MB/sec", said, re.MULTILINE)
    if not found or not float(found.group(1)):
        raise Unavailable("tbench printed no throughput")
    return float(found.group(1))


def captured(bench):
    """A file of tbench's calls as ringtail records them, made once."""
    file = bench.work / "tbench"
    if not file.exists():
        with ringtail.Daemon(bench) as daemon, Tbench(bench.work) as tbench:
            with ringtail.Client(daemon, "record", "-w", file, "-p", "syscall:*:call",
                                 "-n", CAPTURE_CALLS):
                tbench.run(CAPTURE_S)
        file.chmod(0o644)
    return file
