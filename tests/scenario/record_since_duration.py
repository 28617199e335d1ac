"""record --since TIME --duration: the past comes whole, however short the duration; --until now is the past
alone, of stream, record and read."""
import time

import ringtail

CALLS = 400_000
LATER = 1_000


def main(case):
    daemon = case.daemon("--ring-size=64MiB", "--probe=syscall:getppid:call",
                         f"--filter=comm == \"{case.own_comm}\"")
    case.stream(daemon, "-o", "none").interrupt()       # what is always on is recorded by now
    begun = f"@{time.time():.6f}"
    case.load(CALLS, 2, comm=case.own_comm).run()
    ringtail.wait_until(lambda: daemon.recorded() == CALLS, "all are recorded")
    case.await_rings_empty(daemon)

    file = case.path("past.rt")
    record = case.start_stream(daemon, "-w", file, "--since", begun, "--duration", "1ms",
                               command="record").wait()
    case.check_stream(record, events=CALLS)
    case.check_stream(case.tracectl(None, "--summary", "json", "read", file, "-o", "none"),
                      events=CALLS)

    between = f"@{time.time():.6f}"
    case.load(LATER, comm=case.own_comm).run()
    ringtail.wait_until(lambda: daemon.recorded() == CALLS + LATER, "all are recorded")
    for command, more, since, until, events in (
            ("stream", ("-o", "none"), begun, "now", CALLS + LATER),
            ("stream", ("-o", "none"), begun, between, CALLS),
            ("stream", ("-o", "none"), between, "now", LATER),
            ("record", ("-w", case.path("all.rt")), begun, "now", CALLS + LATER),
            ("record", ("-w", case.path("some.rt")), begun, between, CALLS)):
        done = case.start_stream(daemon, *more, "--since", since, "--until", until,
                                 command=command).wait()
        case.check_stream(done, events=events)
    case.check_balanced(daemon)
    for since, until, events, code in ((begun, "now", CALLS + LATER, 0), (begun, between, CALLS, 0),
                                       (between, "now", LATER, 0), ("-1h", "now", CALLS + LATER, 3)):
        done = case.tracectl(None, "--summary", "json", "read", case.path("all.rt"), "-o", "none",
                             "--since", since, "--until", until)
        case.check_equal((done.code, done.summary["events"], done.summary["ledger"]),
                         (code, events, "balanced"), f"a file from {since} until {until}", done.err)

    for ahead in (1, 4, 16):        # it is over before a busy machine has started who waits for it
        soon = f"@{time.time() + ahead:.6f}"
        done = case.start_stream(daemon, "-o", "none", "--until", soon).wait()
        if "[bad-until]" not in done.err:
            break
    case.check_stream(done, events=0)
    for words in (("--until", "now"), ("--until", "then"), ("--since", "-1m", "--until", "-2m"),
                  ("--consumer", "c", "--until", "now")):
        done = case.tracectl(daemon, "stream", *words)
        case.check_equal(done.code, 2, f"{words} is usage", done.err)


ringtail.run(main)
