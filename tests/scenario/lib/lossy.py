"""lossy: a recording that lacks events, and says so."""
import os
import signal

CALLS = 20_000


def record(case, daemon, path, *flags):
    """Of this process' opens, and of a load beyond a ring of 16 KiB, the daemon being stopped."""
    load = case.load(CALLS, cpus=[0])
    recorder = case.stream(daemon, "-w", path, "-p", "syscall:getppid:call", "-p", "syscall:openat:call", "-p",
                           "tracepoint:sched:sched_process_exec", "-p", "tracepoint:task:task_rename", "-f",
                           f"({load.filter}) || pid == {os.getpid()}", *flags, command="record")
    for name in (case.path("plain"), case.path('quo"te,co;mma=\t\n\\\u00e4'), "=1+1"):
        try:
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o600))
        except OSError:
            pass
        finally:
            if name.startswith("="):
                os.unlink(name)
    with open("/proc/self/comm", "r+") as comm:     # of task_rename, the names are text
        name = comm.read()
        comm.write('o"ther,')
        comm.flush()
        comm.write(name)
    daemon.signal(signal.SIGSTOP)
    load.run()
    daemon.signal(signal.SIGCONT)
    few = case.load(10, cpus=[0])
    few.run()
    case.await_rings_empty(daemon)
    recorder.await_all()
    return recorder.interrupt()
