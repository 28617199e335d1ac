"""Triggers on what the kernel says of itself: a signal that is sent, and the OOM killer; each fires with the event in the log, and
their probes are made for them, also when a reload brings them."""
import os
import signal
import subprocess

import ringtail
from lib import rules

STKFLT = 16                     # nobody else sends it


class Cgroup:
    """Whoever is in it may have 16 MiB."""

    def __init__(self):
        base = "/sys/fs/cgroup/memory" if os.path.isdir("/sys/fs/cgroup/memory") else "/sys/fs/cgroup"
        limit = "memory.limit_in_bytes" if base.endswith("memory") else "memory.max"
        self.path = f"{base}/ringtail-{os.getpid()}"
        try:
            os.mkdir(self.path)
            self.write(limit, 16 << 20)
        except OSError:
            self.remove()
            self.path = None
            return
        # What is swapped out does not count. A kernel without swap has neither file.
        for name, most in (("memory.swap.max", 0), ("memory.memsw.limit_in_bytes", 16 << 20)):
            if os.path.exists(f"{self.path}/{name}"):
                self.write(name, most)

    def write(self, name, value):
        with open(f"{self.path}/{name}", "w", encoding="ascii") as file:
            file.write(str(value))

    def run(self, *words):
        def enter():
            self.write("cgroup.procs", os.getpid())
        return subprocess.run(words, preexec_fn=enter, check=False).returncode

    def remove(self):
        if self.path and os.path.isdir(self.path):
            os.rmdir(self.path)


def signals(case):
    path, comm = rules.nap_of(case)
    daemon = case.daemon(config="probe = syscall:getppid:call\non = fault: signal SIGSTKFLT dump 100ms every 1h\n")
    victim = case.start(path, "60")
    ringtail.wait_until(lambda: os.readlink(f"/proc/{victim.pid}/exe") == path, "it runs")
    os.kill(victim.pid, STKFLT)
    victim.wait()
    dump, = rules.await_dumps(case, daemon)
    case.check_equal((dump["trigger"], dump["state"]), ("fault", "whole"), "a signal fires, and its dump is there")
    case.check(f'sig={STKFLT}' in daemon.log and f'comm="{comm}", pid={victim.pid}' in daemon.log,
               "the log has the signal, and whom it was sent to", daemon.log)
    return daemon


def killer(case, daemon, cgroup):
    case.write(f"{daemon.name}.conf", "probe = syscall:getppid:call\non = oom dump 100ms every 1h\n")
    daemon.reload(r"\[reloaded\]")
    code = cgroup.run("python3", "-c", "x = bytearray(64 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1")
    case.check_equal(code, -signal.SIGKILL, "the kernel kills it")
    ringtail.wait_until(lambda: "trigger trigger-1 fired" in daemon.log, "the OOM killer fires")
    case.check("mark_victim(pid=" in daemon.log and 'comm="python3"' in daemon.log, "the log has the victim", daemon.log)


def main(case):
    daemon = signals(case)
    cgroup = Cgroup()
    try:
        if cgroup.path and cgroup.run("true") == 0:
            killer(case, daemon, cgroup)
    finally:
        cgroup.remove()
    stat = case.tracectl(daemon, "stat", "-o", "json").lines[0]
    case.check(all(trigger["state"] == "fired" and trigger["residual"] == 0 and trigger["matches"] for trigger in stat["triggers"]),
               "stat tells of them, and their ledgers close", stat["triggers"])
    text = case.tracectl(daemon, "stat").out
    case.check("matches + " in text and "suppressed" in text, "in words, too", text)
    case.check_balanced(daemon)


ringtail.run(main)
