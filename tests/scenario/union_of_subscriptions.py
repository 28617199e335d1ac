"""Clients with different wishes: the kernel records their union, and each gets only its own."""
import collections
import os

import ringtail

CALLS = 4000
RARE = 10


def filters_apart(case, daemon):
    """Who asks for a rare call of everybody does not make the kernel record what another filters."""
    watched, other = case.load(CALLS), case.load(CALLS)
    rare = case.stream(daemon, "-p", "syscall:sched_get_priority_max:call", "-o", "json")
    mine = case.stream(daemon, "-p", "syscall:getppid:call", "-f", f"pid == {watched.pids[0]}",
                       "-o", "none")
    before = daemon.recorded()
    watched.run()
    other.run()
    for _ in range(RARE):
        os.sched_get_priority_max(os.SCHED_FIFO)
    mine.await_all(CALLS)
    rare.await_all(RARE)
    recorded = daemon.recorded() - before
    case.check_stream(mine.interrupt(), events=CALLS)
    done = rare.interrupt()
    case.check_stream(done)
    case.check_equal(sum(line["pid"] == os.getpid() for line in done.lines), RARE,
                     "a rare call comes from who is not in the other's filter")
    case.check(recorded <= CALLS + len(done.lines), "and the other's filter stays in the kernel",
               recorded)


def main(case):
    daemon = case.daemon("--history-age=0s", "--ring-size=16MiB")
    case.check_equal(daemon.recording(), 0, "at first no program is attached")
    loads = [case.load(CALLS) for _ in range(3)]
    first = case.stream(daemon, "-p", "syscall:getppid:call", "-f", f"pid == {loads[0].pids[0]}",
                        "-o", "json")
    alone = daemon.recording()
    case.check(alone, f"for the first client {alone} programs are")
    second = case.stream(daemon, "-p", "syscall:getppid:entry", "-p", "syscall:getppid:return",
                         "-f", f"pid == {loads[1].pids[0]} && tid == {loads[1].pids[0]}",
                         "-o", "json")
    for load in loads:
        load.run()
    first.await_all(CALLS)
    second.await_all(2 * CALLS)
    recorded = daemon.recorded()
    case.check_equal(recorded, 6 * CALLS,
                     "recorded is the union: three records of each call of two "
                     "processes, and none of the third")
    case.check_balanced(daemon)

    done = first.interrupt()
    case.check_stream(done, events=CALLS)
    case.check_equal(collections.Counter((line["probe"], line["pid"]) for line in done.lines),
                     {("syscall:getppid:call", loads[0].pids[0]): CALLS}, "the first gets its own")
    ringtail.wait_until(lambda: daemon.stat()["counters"]["configures"] == 3,
                        "the kernel is told that it is gone")
    more = case.load(CALLS)
    third = case.stream(daemon, "-p", "syscall:getppid:return", "-f", f"pid == {more.pids[0]}",
                        "-o", "none")
    more.run()
    third.await_all(CALLS)
    case.check_equal(daemon.recorded() - recorded, 2 * CALLS,
                     "once it is gone, its `call` is recorded no more")
    case.check_stream(third.interrupt(), events=CALLS)
    done = second.interrupt()
    case.check_stream(done, events=2 * CALLS)
    case.check_equal(collections.Counter((line["probe"], line["pid"]) for line in done.lines),
                     {(f"syscall:getppid:{kind}", loads[1].pids[0]): CALLS
                      for kind in ("entry", "return")}, "and so does the second")
    filters_apart(case, daemon)
    ringtail.wait_until(lambda: not daemon.recording(), "no program is attached when all have left")
    case.say("ok: no program is attached when all have left")
    before = daemon.stat()["ring"]
    case.load(CALLS).run()
    after = daemon.stat()["ring"]
    case.check_equal([ring["produced"] for ring in after], [ring["produced"] for ring in before],
                     "and nothing is recorded")
    case.check_balanced(daemon)


ringtail.run(main)
