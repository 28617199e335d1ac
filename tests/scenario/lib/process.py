"""process: programs under test: started, watched, ended by pid in time, output kept."""
import functools
import json
import os
import pwd
import re
import signal
import subprocess
import time

# Whom a daemon that is started as root runs as: who has no user ringtail has this one.
ENGINE_USER = next(name for name in ("ringtail", "nobody")
                   if any(entry.pw_name == name for entry in pwd.getpwall()))
POLL_S = 0.005
SLOW = float(os.environ.get("RINGTAIL_SLOW") or (3 if "ASAN_OPTIONS" in os.environ else 1))
# By how much less to do what costs time, on an emulated processor: it is as exact.
FEWER = int(os.environ.get("RINGTAIL_FEWER") or 1)
# No measure of anything: on a loaded machine, all takes its time. What hangs is found all the same.
PATIENCE_S = 80 * SLOW


class Failure(Exception):
    """Something is not as it should be."""


class Late(Failure):
    """Something was not so in time: perhaps it never will be, perhaps the machine is busy."""


class Skip(Exception):
    """This cannot be tried here, and why."""


def wait_until(condition, what, timeout=PATIENCE_S):
    """The condition's first true value."""
    deadline = time.monotonic() + timeout
    while True:
        began = time.monotonic()
        if value := condition():
            return value
        now = time.monotonic()
        if now > deadline:
            raise Late(f"{what}: not within {timeout} s")
        # To look is not to keep others from doing what is waited for.
        time.sleep(max(POLL_S, now - began))


class Done:
    """How a program ended: `code`, and what it wrote as text."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @functools.cached_property
    def lines(self):
        """Its JSON lines: events, and losses, which have "lost"."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def summary(self):
        """What `--summary json` says, which is the last line of stderr."""
        return json.loads(self.err.splitlines()[-1])


class Process:
    def __init__(self, case, name, words, stdin=subprocess.DEVNULL, **options):
        self.name = name
        self.path = {end: os.path.join(case.dir, f"{name}.{end}") for end in ("out", "err")}
        with open(self.path["out"], "wb") as out, open(self.path["err"], "wb") as err:
            self.popen = subprocess.Popen(words, stdin=stdin, stdout=out, stderr=err, **options)
        self.pid = self.popen.pid
        case.processes.append(self)

    def read(self, end):
        with open(self.path[end], encoding="utf-8", errors="replace") as file:
            return file.read()

    @property
    def running(self):
        return self.popen.poll() is None

    def wait(self, timeout=PATIENCE_S):
        try:
            code = self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Late(f"{self.name} (pid {self.pid}) does not end within {timeout} s") from None
        return Done(code, self.read("out"), self.read("err"))

    def signal(self, number):
        self.popen.send_signal(number)

    def kill(self):
        """The last resort, and for those that are to die without a word."""
        if self.running:
            self.popen.send_signal(signal.SIGCONT)
            self.popen.kill()
        self.popen.wait(PATIENCE_S)

    def interrupt(self, timeout=PATIENCE_S):
        self.signal(signal.SIGINT)
        return self.wait(timeout)

    def wait_for(self, pattern, end="err", timeout=PATIENCE_S):
        """The match of a pattern in what it writes."""
        def look():
            match = re.search(pattern, self.read(end), re.M)
            if not match and not self.running:
                match = re.search(pattern, self.read(end), re.M)
                if not match:
                    raise Failure(f"{self.name} ended with {self.popen.returncode} and never said "
                                  f"/{pattern}/:\n{self.read('err')}")
            return match
        return wait_until(look, f"{self.name}: /{pattern}/", timeout)


def threads(pid):
    """The name of each thread, by tid."""
    names = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{tid}/comm") as file:
                names[int(tid)] = file.read().strip()
        except (FileNotFoundError, ProcessLookupError):
            pass            # it has ended meanwhile
    return names


def state_of(pid, tid):
    """A thread's state, as ps(1) has it."""
    with open(f"/proc/{pid}/task/{tid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def running(word):
    """{pid: program} of all whose command line has that word in it, but for this one."""
    found = {}
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue            # it has ended meanwhile
        if pid != os.getpid() and word in " ".join(words):
            found[pid] = words[0]
    return found


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


class Load(Process):
    """tests/tools/load, paused: it knows its pids and has made no call yet.

    The kernel looks at a few pids of a filter only, and then lets everybody's calls through: for many
    loads, give `tool` a name of its own (Case.load's `comm`) and filter by that.
    """

    def __init__(self, case, name, tool, calls, processes=1, cpus=None, rate=0):
        pin = "--pin" if cpus is None else "--pin=" + ",".join(str(cpu) for cpu in cpus)
        words = [tool, "-n", str(calls), "-P", str(processes), pin, f"--rate={rate}", "--pause"]
        # Who looks for leaks calls getppid() too, in a process of the same name.
        quiet = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
        super().__init__(case, name, words, stdin=subprocess.PIPE, env={**os.environ, **quiet})
        self.pids = json.loads(self.wait_for(r'^{"pids".*}$', "out").group())["pids"]
        self.filter = f"pid in ({', '.join(str(pid) for pid in self.pids)})"

    def go(self):
        self.popen.stdin.write(b"\n")
        self.popen.stdin.close()

    def run(self, timeout=PATIENCE_S):
        """Makes the calls; what it counted."""
        self.go()
        return self.result(timeout)

    def result(self, timeout=PATIENCE_S):
        done = self.wait(timeout)
        if done.code:
            raise Failure(f"load failed: {done.err}")
        return json.loads(done.out.splitlines()[1])
