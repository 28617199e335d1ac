"""--since with a time that memory no longer reaches: what history gave up is a gap with its size."""
import time

import ringtail

CALLS = 200_000


def main(case):
    daemon = case.daemon("--ring-size=64MiB", "--probe=syscall:getppid:call",
                         f"--filter=comm == \"{case.own_comm}\"", "--history-size=64KiB",
                         "--queue-size=64KiB")
    case.stream(daemon, "-o", "none").interrupt()       # what is always on is recorded by now
    begun = time.time()
    case.load(CALLS, 2, comm=case.own_comm).run()
    ringtail.wait_until(lambda: daemon.recorded() == CALLS, "all are recorded")
    case.await_rings_empty(daemon)
    after = time.time()
    stream = case.stream(daemon, "-o", "json", "--since", f"@{begun:.6f}")
    stream.await_all()
    case.check_balanced(daemon)
    done = stream.interrupt()
    gaps = [line for line in done.lines if "lost" in line]
    case.check_equal((done.code, done.summary["ledger"]), (3, "balanced"), "it says what is missing")
    case.check_equal({gap["reason"] for gap in gaps}, {"history-gone"}, "and why", gaps)
    events, lost = done.summary["events"], done.summary["lost"]
    case.check(events < CALLS <= events + lost < 2 * CALLS,
               f"{events} events and up to {lost} lost are the {CALLS} calls")
    done = case.start_stream(daemon, "-o", "none", "--since", f"@{after:.6f}",
                             "--duration", "100ms").wait()
    case.check_stream(done, events=0)


ringtail.run(main)
