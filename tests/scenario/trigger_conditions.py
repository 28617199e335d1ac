"""Triggers on what the kernel says of itself: a signal that is sent, and the OOM killer; each fires with the event in the log, and
their probes are made for them, also when a reload brings them."""
import os
import signal

import ringtail
from lib import rules
from lib.cgroups import LittleMemory

STKFLT = 16                     # nobody else sends it


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
    case.check_equal(cgroup.exceed(), -signal.SIGKILL, "the kernel kills it")
    ringtail.wait_until(lambda: "trigger trigger-1 fired" in daemon.log, "the OOM killer fires")
    case.check("mark_victim(pid=" in daemon.log and 'comm="python3"' in daemon.log, "the log has the victim", daemon.log)


def main(case):
    daemon = signals(case)
    cgroup = LittleMemory()
    try:
        if cgroup.works:
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
