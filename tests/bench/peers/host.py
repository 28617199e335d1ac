"""host: processes started, bounded and ended, and what the kernel says they cost.

Everything that `make bench` starts goes through Child or run(), so that nothing outlives it: each
has a deadline, is ended by its own pid, and dies with the driver.
"""
import contextlib
import ctypes
import os
import pathlib
import signal
import socket
import subprocess
import time

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)
CPUS = sorted(os.sched_getaffinity(0))


class Unavailable(Exception):
    """A peer, or a part of ringtail, cannot be measured here; the text says why."""


def _die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run(command, timeout=60, check=True, **options):
    """Runs to the end and returns standard output as text."""
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    process = _start(command, text=True, **options)
    try:
        output, complaints = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{command[0]} took longer than {timeout} s") from error
    finally:
        _end(process, signal.SIGKILL)
    if check and process.returncode:
        said = (complaints or output or "").strip().splitlines()
        raise Unavailable(f"{command[0]} exited with {process.returncode}"
                          + (f": {said[-1]}" if said else ""))
    return output or ""


def _start(command, **options):
    try:
        return subprocess.Popen([str(word) for word in command], preexec_fn=_die_with_parent,
                                **options)
    except FileNotFoundError as error:
        raise Unavailable(f"{command[0]} is not installed") from error


def _end(process, how, timeout=20):
    """Asks a process to end, then insists. What it had started ends with it."""
    if process.poll() is not None:
        return
    family = descendants(process.pid)
    process.send_signal(how)
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pid, start in family:
        if start_time(pid) == start:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    _await_gone(family)


def _await_gone(family, timeout=60):
    """The kernel takes tracepoints from a process that ends one by one, some 30 ms each, and lets nobody else have one
    meanwhile: who measures next must not wait for that."""
    deadline = time.monotonic() + timeout

    def runs(pid, start):
        fields = _stat(pid)
        return fields and fields[19] == start and fields[0] != "Z"
    while any(runs(pid, start) for pid, start in family):
        if time.monotonic() > deadline:
            raise Unavailable(f"processes {', '.join(str(pid) for pid, _ in family)} do not end")
        time.sleep(0.01)


class Child:
    """A process that runs beside the driver: `with Child([...]) as child`."""

    def __init__(self, command, log, stdin=subprocess.DEVNULL, stdout=None, stop=signal.SIGINT):
        self.command = [str(word) for word in command]
        self.log = pathlib.Path(log)
        self.stdin, self.stdout, self.stop_signal = stdin, stdout, stop

    def __enter__(self):
        with open(self.log, "wb") as log:
            self.process = _start(self.command, stdin=self.stdin, stderr=log,
                                  stdout=self.stdout or log)
        self.pid = self.process.pid
        return self

    def __exit__(self, *_):
        self.stop()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()

    def said(self):
        return self.log.read_text(errors="replace")

    def alive(self):
        return self.process.poll() is None

    def must_live(self):
        if not self.alive():
            said = self.said().strip().splitlines()
            raise Unavailable(f"{pathlib.Path(self.command[0]).name} ended with "
                              f"{self.process.returncode}" + (f": {said[-1]}" if said else ""))

    def wait_until(self, ready, what, timeout=10):
        """Polls ready() until it is true; the child must live meanwhile."""
        deadline = time.monotonic() + timeout
        while not ready():
            self.must_live()
            if time.monotonic() > deadline:
                raise Unavailable(f"{self.command[0]}: {what} did not happen in {timeout} s")
            time.sleep(0.02)

    def stop(self, timeout=20):
        _end(self.process, self.stop_signal, timeout)
        return self.process.returncode


def _stat(pid):
    """The fields of /proc/PID/stat from `state` on; None when the process is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def start_time(pid):
    """Tells a process from a later one with its pid; None when it is gone."""
    fields = _stat(pid)
    return fields[19] if fields else None


def descendants(pid):
    """(pid, start time) of every process below this one."""
    children = {}
    for other in filter(str.isdigit, os.listdir("/proc")):
        fields = _stat(other)
        if fields:
            children.setdefault(int(fields[1]), []).append((int(other), fields[19]))
    found, todo = [], [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += [child for child, _ in below]
    return found


def cpu_ns(*pids):
    """CPU time of all threads of these processes. schedstat counts nanoseconds; utime and stime
    of /proc/PID/stat are the same sum, but sampled at the tick on kernels such as this one."""
    total = 0
    for pid in pids:
        for schedstat in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                total += int(schedstat.read_text().split()[0])
    return total


def thread_cpu_ns(pid, name):
    """CPU time of each thread of that name. The kernel keeps 15 characters of a name."""
    spent = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            if (task / "comm").read_text().rstrip("\n") == name[:15]:
                spent.append(int((task / "schedstat").read_text().split()[0]))
    return spent


def busy_percent(seconds=1):
    """What the machine is busy with while the driver sleeps, all CPUs together."""
    def read():
        fields = list(map(int, pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:]))
        return sum(fields[:8]), fields[3] + fields[4]

    all_before, idle_before = read()
    time.sleep(seconds)
    all_after, idle_after = read()
    return 100 * (1 - (idle_after - idle_before) / max(all_after - all_before, 1))


def resident_bytes(pid, without=()):
    """RSS of a process, without the mappings whose names contain one of these words."""
    total, counted = 0, True
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        word = line.split(None, 1)[0]
        if not word.endswith(":"):
            counted = not any(name in line for name in without)
        elif word == "Rss:" and counted:
            total += int(line.split()[1]) * 1024
    return total


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def listens(port, pid="self"):
    """Whether a TCP port is open in the network namespace of a process. It is looked up and not
    tried: some servers take the first connection for their client."""
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                local, state = line.split()[1], line.split()[3]
                if local.endswith(f":{port:04X}") and state == "0A":
                    return True
    return False
