"""At the start the kernel gets the programs that every request takes, and no other: each of the others when somebody
wants what it records. A run that goes on with the rings of the one before loads what that one had not."""
import os

import ringtail
from lib.service_manager import ServiceManager

ALWAYS = {"sched_process_exit", "task_rename", "sched_process_exec", "cgroup_attach_task"}
SYSCALLS = {"sys_enter", "sys_exit"}
CALLS = 1000
MARK = ".program."


def loaded(manager):
    """The programs that the service manager keeps, which are those that the kernel has."""
    names = [name.split(MARK)[1] for name in manager.names() if MARK in name]
    return set(names) if len(names) == len(set(names)) else names


def main(case):
    manager = ServiceManager(case)
    daemon = manager.daemon()
    case.check_equal(loaded(manager), ALWAYS, "the kernel gets at the start what every request takes")

    stream = case.stream(daemon, "-p", "sched:*")
    sched = loaded(manager)
    case.check(ALWAYS < sched and not sched & SYSCALLS, "scheduler events take the scheduler's programs", sched)
    stream.interrupt()

    case.check_equal(daemon.stop(), 0, "the first run ends well")
    daemon = manager.daemon()
    case.check("[restart-adopted]" in daemon.log, "the second run goes on with its rings", daemon.log)
    case.check_equal(loaded(manager), sched, "and with its programs")

    load = case.load(CALLS, comm=case.own_comm)
    calls = case.stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter, "-o", "none")
    opened = case.stream(daemon, "-p", "syscall:openat:call", "-f", f"pid == {os.getpid()}", "-n", "1", "-o", "json",
                         "--flags", "strings")
    os.close(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
    load.run()
    calls.await_all(CALLS)
    case.check_equal(loaded(manager), sched | SYSCALLS, "it loads what is wanted now, once")
    case.check_stream(calls.interrupt(), events=CALLS)
    case.check_equal(opened.wait().lines[0]["strings"]["filename"], "/dev/null", "a file's name is there")
    case.check_balanced(daemon)


ringtail.run(main)
