"""What was produced before SIGTERM reaches the clients: after a load, and in the middle of one."""
import os

import ringtail

CALLS = 500_000
MIDDLE, RATE = 100_000_000, 100_000     # slow enough for whoever reads, if it has to catch up at the end
MINE = 1000
OPTIONS = ["--ring-size=64MiB", "--batch-interval=1s"]


def cpu_ticks(pid):
    """How long it has run so far."""
    with open(f"/proc/{pid}/stat") as stat:
        return sum(int(word) for word in stat.read().rsplit(")", 1)[1].split()[11:13])


def stop_after(case):
    daemon = case.daemon(*OPTIONS)
    load = case.load(CALLS)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter, "-o", "none")
    load.run()
    case.check_equal(daemon.stop(), 0, "SIGTERM right after the load: the daemon exits with 0")
    stream.wait_for("the daemon left: shutting down; reconnecting")
    case.check_stream(stream.interrupt(), events=CALLS)


def stop_within(case):
    """Another process calls on and on; this one makes its last calls right before the signal."""
    daemon = case.daemon(*OPTIONS)
    load = case.load(MIDDLE, rate=RATE)
    probe = ["-p", "syscall:getppid:call", "-f", f"pid in ({load.pids[0]}, {os.getpid()})"]
    stream = case.stream(daemon, *probe, "-o", "json")
    ran = cpu_ticks(load.pids[0])
    load.go()
    ringtail.wait_until(lambda: cpu_ticks(load.pids[0]) > ran, "it calls")
    for _ in range(MINE):
        os.getppid()
    case.check_equal(daemon.stop(), 0, "SIGTERM in the middle of a load: the daemon exits with 0")
    load.kill()
    stream.wait_for("reconnecting")
    done = stream.interrupt()
    case.check_stream(done)
    events = done.lines
    case.check_equal(sum(event["pid"] == os.getpid() for event in events), MINE,
                     "what was called right before the signal is there")
    case.check(len(events) > MINE,
               f"and {len(events) - MINE} calls of a process that never stopped")
    for cpu in {event["cpu"] for event in events}:
        seqs = [event["seq"] for event in events if event["cpu"] == cpu]
        holes = seqs[-1] - seqs[0] + 1 - len(seqs)
        case.check(holes <= 4, f"CPU {cpu}: {len(seqs)} events without a hole", holes)


def main(case):
    stop_after(case)
    stop_within(case)


ringtail.run(main)
