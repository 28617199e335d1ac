"""Threads blocked in calls: tracectl stuck tells which, with the arguments and the stack that /proc shows, since
when if the call was recorded, and says where that is not known. Viewers need viewer-stacks."""
import os
import re
import subprocess
import sys
import time

import ringtail
from lib import protobuf
from lib.fake_daemon import FakeDaemon

# Each blocks for ever once it has said so; {} is a file of its own, and of who holds its lock.
PROGRAMS = {
    "read": "import os; fd, other = os.pipe(); print(flush=True); os.read(fd, 77)",
    "futex": "import threading; lock = threading.Lock(); lock.acquire(); print(flush=True); lock.acquire()",
    "clock_nanosleep": "import time; print(flush=True); time.sleep(3000)",
    "poll": "import select; poll = select.poll(); poll.register(0, 0); print(flush=True); poll.poll(2000000)",
    "flock": "import fcntl; print(flush=True); fcntl.flock(open({!r}), fcntl.LOCK_EX)",
}
HOLDER = "import fcntl, time; file = open({!r}); fcntl.flock(file, fcntl.LOCK_EX); print(flush=True); time.sleep(3000)"
LONGER_S = 0.3


class Blocked:
    """A process in one of these calls; `began`: CLOCK_MONOTONIC before and after it went there."""

    def __init__(self, case, call, file):
        before = time.monotonic_ns()
        self.call = call
        self.process = subprocess.Popen([sys.executable, "-c", PROGRAMS[call].format(file)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        case.started.append(self.process)
        self.process.stdout.readline()
        self.pid = self.process.pid
        ringtail.wait_until(self._is_there, f"a process is in {call}")
        self.began = (before, time.monotonic_ns())

    def proc(self, name):
        with open(f"/proc/{self.pid}/{name}") as file:
            return file.read()

    def _is_there(self):
        words = self.proc("syscall").split()
        sleeps = self.proc("stat").rsplit(")", 1)[1].split()[0] == "S"
        # It may sleep elsewhere on its way, for the interpreter's lock of a file.
        return sleeps and words[0] != "running" and words[0] == self.number() and words

    def number(self):
        return str({"read": 0, "poll": 7, "flock": 73, "futex": 202, "clock_nanosleep": 230}[self.call])


def stuck(case, daemon, *words):
    """By pid; and the last line."""
    done = case.tracectl(daemon, "stuck", "-o", "json", *words)
    case.check_equal(done.code, 0, f"stuck {' '.join(words)} answers", done.err)
    return {thread["tid"]: thread for thread in done.lines[:-1]}, done.lines[-1]


def agrees_with_proc(case, blocked, shown):
    """The call, its arguments by the kernel's own registers, and the functions of its stack."""
    words = blocked.proc("syscall").split()
    case.check_equal(shown["probe"], f"syscall:{blocked.call}:call", f"{blocked.call}: the call")
    registers = [int(word, 16) for word in words[1:7]]
    arguments = [int(value, 16) if isinstance(value, str) else value for value in shown["args"].values()]
    case.check_equal([value & 0xffffffff for value in arguments],
                     [value & 0xffffffff for value in registers[:len(arguments)]],
                     f"{blocked.call}: its arguments are those of /proc/PID/syscall", shown["args"])
    names = re.findall(r"\] ([^+\s]+)", blocked.proc("stack"))
    found = [frame.get("name") for frame in shown["kstack_names"]]
    case.check(names and found == names, f"{blocked.call}: its stack is that of /proc/PID/stack", found,
               names)
    case.check_equal((shown["pid"], shown["state"], shown["ppid"]), (blocked.pid, "S", os.getpid()),
                     f"{blocked.call}: who it is")


def is_refused_to_viewers(case):
    daemon = case.daemon("--insecure", listen=[f"unix:{case.path('run')}/v.sock", "tcp:127.0.0.1:0"])
    plain = re.search(r"listening on (tcp:127.0.0.1:\d+)", daemon.log)[1]
    done = case.tracectl(None, "--insecure", "--connect", plain, "stuck")
    case.check(done.code == 1 and "[viewer-flags]" in done.err and "viewer-stacks" in done.err,
               "a viewer is refused, and told by which option", done.err)
    daemon.stop()


def others_say_that_they_cannot(case):
    """A daemon of an earlier release, and a source that cannot look."""
    old = FakeDaemon(case, {})
    done = case.tracectl(None, "--connect", old.address, "stuck")
    case.check(done.code == 1 and "[daemon-too-old]" in done.err, "of an older daemon that is said", done.err)
    old.stop()
    capture = os.path.join(ringtail.ROOT, "tests", "data", "capture.rt")
    if not os.path.exists(capture):     # a virtual machine's tree does without
        return
    replay = case.daemon(source=f"replay:{capture}")
    done = case.tracectl(replay, "stuck")
    case.check(done.code == 1 and "[stuck-not-here]" in done.err and "--source bpf" in done.err,
               "so it is of a source that cannot look", done.err)
    replay.stop()


def run(case):
    file = case.write("locked", "")
    holder = subprocess.Popen([sys.executable, "-c", HOLDER.format(file)], stdout=subprocess.PIPE)
    case.started.append(holder)
    holder.stdout.readline()
    daemon = case.daemon()
    early = {call: Blocked(case, call, file) for call in PROGRAMS}
    mine = f"ppid == {os.getpid()}"

    shown, end = stuck(case, daemon, "-f", mine)
    for call in PROGRAMS:
        agrees_with_proc(case, early[call], shown[early[call].pid])
    case.check(not any({"since", "before"} & set(thread) for thread in shown.values()),
               "nothing is recorded: it says nothing of since when", shown)
    shown, end = stuck(case, daemon, "-f", mine, "--longer-than", "1ms")
    case.check(not shown and end["undated"] >= len(PROGRAMS), "so for --longer-than they are counted", end)

    stream = case.start_stream(daemon, "-p", "syscall:*:call", "-f", mine, "-o", "none").await_subscribed()
    recorded = time.monotonic_ns()
    late = {call: Blocked(case, call, file) for call in PROGRAMS}
    time.sleep(LONGER_S)
    shown, end = stuck(case, daemon, "-f", mine, "--longer-than", f"{int(LONGER_S * 1000)}ms")
    for call in PROGRAMS:
        thread, (before, after) = shown[late[call].pid], late[call].began
        agrees_with_proc(case, late[call], thread)
        since = end["time"] - thread["duration"]
        case.check(before <= since <= after, f"{call}: since when it is in it", before, since, after)
    case.check(holder.pid not in shown or "since" not in shown[holder.pid], "no other claims a time", shown)

    # Of everybody: who was there before began before the recording did.
    everybody = case.start_stream(daemon, "-p", "syscall:*:call", "-o", "none").await_subscribed()
    now = time.monotonic_ns()
    shown, end = stuck(case, daemon, "-f", mine)
    for call in PROGRAMS:
        thread = shown[early[call].pid]
        case.check("since" not in thread and "before" in thread and
                   recorded - 60 * 10**9 <= end["time"] - thread["duration_min"] <= now,
                   f"{call}: it began before the recording", thread)
        case.check("since" in shown[late[call].pid], f"{call}: the other one's time is known still")
    order = [thread.get("duration", thread.get("duration_min")) for thread in shown.values()]
    case.check_equal(order, sorted(order, reverse=True), "those that are in it for longest come first")

    # What ended is not shown any more, and as text it reads like the stream.
    late["read"].process.kill()
    late["read"].process.wait()
    shown, end = stuck(case, daemon, "-f", f"{mine} && function == \"read\"")
    case.check_equal(sorted(shown), [early["read"].pid], "by a filter: the one that is left")
    text = case.tracectl(daemon, "stuck", "-f", f"{mine} && function == \"flock\"").out
    case.check(re.search(r"^\d+\S+ +S python\S* +\d+/\d+ +flock\(fd=\d+, cmd=LOCK_EX\)$", text, re.M) and
               re.search(r"^>\d.*cmd=LOCK_EX\) \(since before \d\d:\d\d:\d\d\.\d+, when the recording", text,
                         re.M) and re.search(r"^ +0xf\w+ \w*flock\w*\+0x", text, re.M), "it reads well as text", text)
    case.check_balanced(daemon)
    everybody.interrupt()
    stream.interrupt()
    daemon.stop()


def main(case):
    case.started = []
    try:
        run(case)
    finally:
        for process in case.started:
            process.kill()
            process.wait()
    is_refused_to_viewers(case)
    others_say_that_they_cannot(case)


assert protobuf.enum_value("Feature", "FEATURE_STUCK")
ringtail.run(main)
