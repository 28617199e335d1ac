"""A cursor of another run of the daemon: the stream begins now, with a gap of unknown size."""
import re

import ringtail

CALLS = 1000


def main(case):
    daemon = case.daemon()
    load = case.load(CALLS)
    words = ["-p", "syscall:getppid:call", "-o", "json"]
    stream = case.stream(daemon, *words, "-f", load.filter, "-n", str(CALLS), "--summary", "text")
    load.run()
    done = stream.wait()
    case.check_equal(done.code, 0, "a stream of the first daemon")
    cursor = re.search(r"--since (\S+)", done.err)[1]
    case.check_balanced(daemon)
    case.check_equal(daemon.stop(), 0, "which ends")

    daemon = case.daemon(listen=[daemon.address])
    load = case.load(CALLS)
    stream = case.stream(daemon, *words, "-f", load.filter, "--since", cursor)
    load.run()
    stream.await_all(CALLS)
    case.check_balanced(daemon)
    done = stream.interrupt()
    case.check_equal(done.code, 3, "the client of the second daemon exits with 3")
    case.check_equal((done.summary["events"], done.summary["ledger"]), (CALLS, "balanced"),
                     "it has all events since, and its ledger is balanced")
    gaps = [line for line in done.lines if "lost" in line]
    case.check(gaps and all((gap["reason"], gap["stage"], gap["lost"], gap["attempts"]) ==
                            ("other-epoch", "history", 0, 0) for gap in gaps),
               "the gaps say that nobody knows how much is missing", gaps)
    case.check_equal(done.lines[:len(gaps)], gaps, "they come first")
    case.check_equal((done.summary["lost"], done.summary["gaps"]), (0, len(gaps)),
                     "and the summary says so: nothing is known to be lost, and so many gaps")
    case.check_equal(list(done.summary)[:7], ["events", "lost", "frames", "wire_bytes", "raw_bytes",
                                              "seconds", "ledger"], "after what every summary has")
    # Of this load alone: what others call meanwhile may be more than the rings hold.
    done = case.tracectl(daemon, "--summary", "text", "stream", *words, "-f", load.filter, "--since", cursor,
                         "--duration", "100ms")
    case.check("0 lost and an unknown number (in " in done.err, "the text says it in words", done.err)

    done = case.tracectl(daemon, "stream", *words, "--since", cursor[:-1] + "x")
    case.check(done.code != 0 and "[bad-cursor]" in done.err and "^" in done.err,
               "a cursor that is none is refused, and its place is shown", done.err)


ringtail.run(main)
