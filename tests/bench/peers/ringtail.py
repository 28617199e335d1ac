"""ringtail itself: the daemon on a unix socket, clients that stream from it, files they record."""
import contextlib
import json
import pathlib
import signal
import time

from .host import Child, Unavailable, cpu_ns, descendants, resident_bytes, run
from .roads import ENGINE_USER, Road

# Mappings that are rings: memory of BPF maps, of the module's device, of the replay source.
RING_MAPPINGS = ("bpf-map", "/dev/ringtail", "memfd:")
SETTLE_S = 0.3  # several batch intervals: after it, what was recorded has been delivered


class Daemon:
    """`with Daemon(bench) as daemon`: ringtaild, its loader and its engine. `road`: as
    peers/roads.py makes them; without one it is a unix socket."""

    def __init__(self, bench, *options, road=None):
        self.bench = bench
        self.directory = bench.work / "ringtaild"
        self.road = road or Road(f"unix:{self.directory}/ringtail.sock")
        self.options = [*self.road.options, *options]

    def __enter__(self):
        self.directory.mkdir(exist_ok=True)
        self.directory.chmod(0o777)  # the engine gives up root
        command = [self.bench.program("ringtaild"), "--listen", self.road.address,
                   "--state-dir", self.directory, "--user", ENGINE_USER, *self.options]
        self.child = Child(command, self.bench.work / "ringtaild.log", stop=signal.SIGTERM)
        self.child.__enter__()
        try:
            self.child.wait_until(self._answers, "answering", timeout=30)
        except BaseException:
            self.child.__exit__(None)
            raise
        return self

    def __exit__(self, *_):
        self.child.__exit__(None)

    def _answers(self):
        try:
            self.stat()
            return True
        except (Unavailable, ValueError):
            return False

    def tracectl(self, *command):
        return [self.bench.program("tracectl"), "--connect", self.road.address, *self.road.words,
                "--summary", "json", *command]

    def stat(self):
        return json.loads(run(self.tracectl("stat", "-o", "json"), timeout=5).splitlines()[-1])

    def subscribers(self):
        return sum(1 for client in self.stat()["clients"] if client["probes"])

    def processes(self):
        return [self.child.pid] + [pid for pid, _ in descendants(self.child.pid)]

    def engine(self):
        """The process that drains and serves: the one that has no capability left."""
        for pid in self.processes():
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            capabilities = status.partition("CapEff:")[2].split()[0]
            if int(capabilities, 16) == 0:
                return pid
        raise Unavailable("no process of ringtaild is without capabilities: which is the engine?")

    def engine_cpu_ns(self):
        return cpu_ns(self.engine())

    def cpu_ns(self):
        return cpu_ns(*self.processes())

    def resident_bytes(self):
        """RSS of all its processes, without the rings."""
        return sum(resident_bytes(pid, without=RING_MAPPINGS) for pid in self.processes())


class Client:
    """`with Client(daemon, "stream", ...)`: a tracectl that is subscribed; summary at the end."""

    def __init__(self, daemon, *command, name="client", stdout=None):
        self.daemon = daemon
        log = daemon.bench.work / f"{name}.log"
        self.child = Child(daemon.tracectl(*command), log, stdout=stdout)
        self.summary = None

    def __enter__(self):
        before = self.daemon.subscribers()
        self.child.__enter__()
        try:
            self.child.wait_until(lambda: self.daemon.subscribers() > before, "subscribing")
        except BaseException:
            self.child.__exit__(None)
            raise
        return self

    def __exit__(self, *_):
        self.child.__exit__(None)

    def finish(self):
        """Lets what was recorded arrive, ends the client and returns its summary."""
        time.sleep(SETTLE_S)
        self.child.stop()
        return self.summarise()

    def summarise(self):
        for line in reversed(self.child.said().splitlines()):
            with contextlib.suppress(ValueError):
                summary = json.loads(line)
                if "wire_bytes" in summary:
                    self.summary = summary
                    return summary
        raise Unavailable(f"tracectl ended without a summary: {self.child.said()[-200:].strip()}")


def stream(daemon, *command, **options):
    return Client(daemon, "stream", "-o", "none", *command, **options)


class Load:
    """`with Load(bench, calls, cpus) as load`: processes that wait, so that filters can name
    their pids, until go(). `rate`: of calls a second; 0: as fast as it goes."""

    def __init__(self, bench, calls, cpus=(0,), name="load", rate=0):
        pin = "--pin=" + ",".join(map(str, cpus))
        self.child = Child([bench.program("tools/load"), "-n", calls, "-P", len(cpus), pin, "--rate", rate,
                            "--pause"], bench.work / f"{name}.log", stdin=-1, stdout=-1)

    def __enter__(self):
        self.child.__enter__()
        self.pids = json.loads(self.child.process.stdout.readline())["pids"]
        self.filter = " || ".join(f"pid == {pid}" for pid in self.pids)
        return self

    def __exit__(self, *_):
        self.child.__exit__(None)

    def go(self):
        """Runs the calls and returns load's figures."""
        self.child.process.stdin.write(b"\n")
        self.child.process.stdin.close()
        return json.loads(self.child.process.stdout.readline())
