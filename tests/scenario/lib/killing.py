"""killing: a daemon with a spool is killed again and again under load, and what becomes of every event.

Two durable consumers: one is there all the time, the other comes when all is over. Each event is
to come once to each, or a gap of reason restart stands where it was. What `tracectl read` finds on
disk after a kill was stored, so it has to come. A consumer's place is its own (--cursor): an
acknowledgement may have been on its way when the daemon died.
"""
import glob
import json
import os
import re
import signal
import time

from .process import Failure, wait_until
from .service_manager import ServiceManager

CALLS = 2000                    # of each round,
RATE = 20_000                   # in a tenth of a second
PROBE = "syscall:getppid:call"


def events(lines):
    return [(line["cpu"], line["seq"]) for line in lines if "lost" not in line]


def whole_lines(text):
    return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]


class Killing:
    def __init__(self, case, rounds, *options):
        self.case, self.manager = case, ServiceManager(case)
        self.state = case.path("killing")
        self.address = f"unix:{case.path('run')}/killing.sock"
        self.options = ["--ring-size=16MiB", "--durability=fsync", "--spool-sync-interval=20ms",
                        "--spool-segment-size=64KiB", f"--state-dir={self.state}", "--user=root",
                        *options]
        self.loads = [self._make_load() for _ in range(rounds)]
        self.pids = {load.pids[0] for load in self.loads}
        self.filter = f'comm == "{case.own_comm}"'
        self.stored, self.back, self.kills, self.calls = set(), [], 0, 0
        self.start()
        self.there = case.stream(self.daemon, *self._words("there"))
        case.check_stream(case.stream(self.daemon, *self._words("later")).interrupt(), events=0)

    def _words(self, consumer):
        return ["-p", PROBE, "-f", self.filter, "-o", "json", "--consumer", consumer, "--cursor",
                self.case.path(f"{consumer}.cursor")]

    def start(self, *under):
        """The next run, ready, or dead already. How long it took is kept."""
        began = time.monotonic()
        env = {}
        if under and "ASAN_OPTIONS" in os.environ:      # it cannot look for leaks while traced
            env["ASAN_OPTIONS"] = os.environ["ASAN_OPTIONS"] + ":detect_leaks=0"
        self.daemon = self.manager.start_daemon("--source=bpf", *self.options, under=under, env=env,
                                                listen=[self.address])

        def look():
            return "[ready]" in self.daemon.log or not self.daemon.running
        wait_until(look, "the daemon is ready, or dead")
        self.daemon.address = self.address
        if not under:           # else it may be dead by now
            self.daemon.await_ready()
            self.back.append(time.monotonic() - began)
        if hasattr(self, "there"):
            self.there.daemon = self.daemon

    def _make_load(self):
        return self.case.load(CALLS, rate=RATE, comm=self.case.own_comm)

    def _next_load(self):
        """Those that were made before any kill come first; there may be more rounds than they."""
        self.calls += CALLS
        if not self.loads:
            self.loads.append(self._make_load())
            self.pids.add(self.loads[0].pids[0])
        return self.loads.pop()

    def _await_end(self, ):
        """The daemon's; whether it was killed. A loader that was killed ends it in order."""
        self.daemon.ended = True
        code = self.daemon.wait().code
        self.kills += code != 0
        return code

    def kill_after(self, seconds, before=lambda: None, meanwhile=lambda: None):
        """A round: the load, a kill so long after its beginning and after `before`, and `meanwhile` before the next
        run."""
        load = self._next_load()
        load.go()
        time.sleep(seconds)
        before()
        self.daemon.signal(signal.SIGKILL)
        self._await_end()
        meanwhile()
        self.look()
        self.start()
        load.result()

    def kill_at_random(self):
        """A round: the load, and a kill somewhere in it."""
        self.kill_after(self.case.random.uniform(0, 1.2 * CALLS / RATE))

    def run_under(self, *under):
        """A round: a run that something is done to: start, load, all of it stored, an orderly end, as
        far as it gets. How it ended."""
        load = self._next_load()
        self.start(*under)
        load.go()
        load.result()
        deadline = time.monotonic() + 1
        while self.daemon.running and time.monotonic() < deadline and not self._is_stored():
            time.sleep(0.01)
        if self.daemon.running:
            self.daemon.signal(signal.SIGTERM)
        code = self._await_end()
        self.look()
        return code

    def _is_stored(self):
        try:
            spools = self.daemon.stat()["spool"]
        except (OSError, EOFError):
            return False
        return all(not spool["in_flight"] for spool in spools)

    def look(self):
        """What is on disk has been stored."""
        for directory in glob.glob(f"{self.state}/spool/*"):
            done = self.case.tracectl(None, "--summary", "json", "read", directory, "-o", "json")
            if "[no-segments]" in done.err or \
                    len(os.listdir(directory)) == 1 and "an empty file" in done.err:
                continue        # killed before anything was in the first
            if done.code not in (0, 3):
                raise Failure(f"the spool cannot be read:\n{done.err}")
            self.stored |= set(events(self._of_loads(done.lines)))

    def _of_loads(self, lines):
        return [line for line in lines if line.get("pid") in self.pids or "lost" in line]

    def _check(self, name, lines):
        case, came = self.case, events(self._of_loads(lines))
        gaps = [line for line in lines if "lost" in line]
        lost = sum(gap["attempts"] for gap in gaps)
        missing = self.calls - len(came)
        case.check_equal(len(set(came)), len(came), f"{name}: no event comes twice")
        case.check(not self.stored - set(came), f"{name}: all {len(self.stored)} that were on disk "
                   f"came", sorted(self.stored - set(came))[:5], gaps[:5])
        case.check({gap["reason"] for gap in gaps} <= {"restart"},
                   f"{name}: {missing} are missing, and {len(gaps)} gaps say why", gaps)
        case.check(0 <= missing <= lost, f"{name}: and that it may be up to {lost}", gaps)

    def finish(self):
        """After the last round: who was there all the time, and who comes now."""
        if not self.daemon.running:
            self.start()
        case = self.case
        self.there.await_subscribed()
        case.await_rings_empty(self.daemon)
        wait_until(self._is_stored, "all is stored")
        self.there.await_all()
        self.look()
        case.check_balanced(self.daemon)
        later = case.stream(self.daemon, *self._words("later"))
        wait_until(lambda: not self.stored - set(events(whole_lines(later.read("out")))) or
                   not later.running, "who comes now gets what is stored")
        later.await_all()
        case.check_balanced(self.daemon)
        for name, stream in ("there", self.there), ("later", later):
            done = stream.interrupt()
            case.check_equal(done.summary["ledger"], "balanced", f"{name}: its ledger closes",
                             done.code, done.lines[-3:])
            self._check(name, done.lines)
        back = sorted(self.back)
        case.figure("kills", self.kills, "")
        case.figure("back after a kill, median", back[len(back) // 2], "s")
        case.figure("back after a kill, at most", back[-1], "s")
        self.daemon.stop()


def count_calls(path, names):
    """Of a log of strace -f: the most that any one thread made of each call."""
    counts = {}
    with open(path, errors="replace") as file:
        for tid, name in re.findall(r"^(\d+) +(\w+)\(", file.read(), re.M):
            counts[name, tid] = counts.get((name, tid), 0) + 1
    return {name: max([n for (call, _), n in counts.items() if call == name] or [0])
            for name in names}


def strace(path, *words):
    return ["strace", "-D", "-f", "-qq", "-o", path, *words]
