"""The daemon is killed twice, and each next one begins with fresh rings: nobody knows how much was
recorded and not stored. `tracectl read DIR` says so between two runs, as a consumer is told: after all
that each CPU has of the one, before all of the other."""
import glob
import json

import ringtail

CALLS = 5_000                   # in each run
RUNS = 3


def gaps_of(done):
    return [(line["stage"], line["reason"], line["attempts"])
            for line in map(json.loads, done.out.splitlines()) if "lost" in line]


def events_before_gaps(lines, is_gap):
    """How many events stand before each gap."""
    gaps = [at for at, line in enumerate(lines) if is_gap(line)]
    return [at - i for i, at in enumerate(gaps)]


def main(case):
    state = case.path("state")
    options = ("--ring-size=8MiB", "--durability=written", f"--state-dir={state}", "--user=root")
    words = ["-p", "syscall:getppid:call", "-f", f"comm == \"{case.own_comm}\"", "-o", "json",
             "--consumer", "keeper"]
    for run in range(RUNS):
        daemon = case.daemon(*options)
        if not run:
            case.check_stream(case.stream(daemon, *words).interrupt(), events=0)
        # Somebody else sees that it is recorded before it is done.
        other = case.stream(daemon, *words[:4], "-o", "none")
        case.load(CALLS, processes=2, comm=case.own_comm).run()
        other.await_all(CALLS)
        case.check_stream(other.interrupt(), events=CALLS)

        def is_stored():
            spool = daemon.stat()["spool"][0]
            return spool["produced"] >= CALLS and not spool["in_flight"]
        ringtail.wait_until(is_stored, "all of it is stored")
        if run < RUNS - 1:
            daemon.crash()
    daemon.stop()

    directory, = glob.glob(f"{state}/spool/*")
    read = case.tracectl(None, "--summary", "json", "read", directory, "-o", "json")
    case.check_equal(read.summary["events"], CALLS * RUNS, "all that was stored comes")
    case.check_equal(gaps_of(read), [("spool", "restart", 0)] * (RUNS - 1),
                     "between two runs it says that something may be missing")
    between = [CALLS * (run + 1) for run in range(RUNS - 1)]
    case.check_equal(events_before_gaps(read.lines, lambda line: "lost" in line), between,
                     "and stands between them, for all CPUs")
    text = case.tracectl(None, "read", directory, "-o", "text").out.splitlines()
    case.check_equal(events_before_gaps(text, lambda line: line.startswith("--- ")), between,
                     "also as text")
    case.check_equal((read.code, read.summary["ledger"]), (3, "balanced"), "nor is it a clean read")

    daemon = case.daemon(*options)
    stream = case.stream(daemon, *words)
    stream.await_all(CALLS * RUNS)
    # The last gap is of no size: it is not under way before it is told.
    ringtail.wait_until(lambda: stream.read("out").count('"lost":') >= RUNS, "the last gap is told")
    done = stream.interrupt()
    case.check_equal(gaps_of(done), gaps_of(read) + [("spool", "not-recorded", 0)],
                     "a consumer is told the same, and what came after the orderly end")
    case.check_equal(events_before_gaps(done.lines, lambda line: "lost" in line),
                     between + [CALLS * RUNS], "in the same places")


ringtail.run(main)
