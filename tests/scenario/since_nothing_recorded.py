"""--since with a time at which nothing was recorded: before the daemon was there, or of a probe that
nobody asked for then. It is a gap of no size, in memory and on the disk."""
import time

import ringtail

CALLS = 2_000


def look(case, daemon, since, events, reasons, *words):
    stream = case.stream(daemon, "-o", "json", "--since", since, *words)
    stream.await_all(events)
    case.check_balanced(daemon)
    done = stream.interrupt()
    gaps = [line for line in done.lines if "lost" in line]
    case.check_equal([(gap["reason"], gap["lost"]) for gap in gaps],
                     [(reason, 0) for reason in reasons], f"gaps from {since} on {words}", done.err)
    case.check_equal(done.summary["gaps"], len(reasons), "and in the summary")
    case.check_equal(done.code, 3 if reasons else 0, "the client's exit status")
    case.check_equal((done.summary["events"], done.summary["ledger"]), (events, "balanced"),
                     "events, ledger")


def one(case, *options):
    daemon = case.daemon("--ring-size=64MiB", "--probe=syscall:getppid:call",
                         f"--filter=comm == \"{case.own_comm}\"", *options)
    case.stream(daemon, "-o", "none").interrupt()       # what is always on is recorded by now
    begun = time.time()
    case.load(CALLS, comm=case.own_comm).run()
    ringtail.wait_until(lambda: daemon.recorded() >= CALLS, "all are recorded")
    look(case, daemon, f"@{begun:.6f}", CALLS, [])
    look(case, daemon, "-1h", CALLS, ["not-recorded"])
    look(case, daemon, f"@{begun:.6f}", 0, ["not-recorded"], "-p", "syscall:sched_rr_get_interval:call")
    daemon.stop()


def main(case):
    one(case)
    one(case, "--durability=written", f"--state-dir={case.path('state')}", "--user=root",
        "--history-size=64KiB", "--queue-size=64KiB")


ringtail.run(main)
