"""SIGKILL under load, with each durability: what was on disk comes exactly once, by sequence, to a
durable consumer, and `tracectl read` of the directory says the same; then all of the next run."""
import glob

import ringtail

CALLS = 200_000
AFTER = 20_000


def numbers(lines, pids):
    return [(event["cpu"], event["seq"]) for event in lines if event.get("pid") in pids]


def one(case, durability):
    before, after = case.load(CALLS, 2), case.load(AFTER, 2)
    pids = ", ".join(map(str, before.pids + after.pids))
    state = case.path(f"state-{durability}")
    options = ["--ring-size=64MiB", f"--durability={durability}", f"--state-dir={state}",
               "--user=root", "--spool-sync-interval=5ms", "--probe=syscall:getppid:call",
               f"--filter=pid in ({pids})"]
    daemon = case.daemon(*options)
    # Its place is its own: an acknowledgement may have been on its way when the daemon died.
    words = ["-o", "json", "--consumer", "keeper", "--cursor", case.path(f"place-{durability}")]
    case.check_stream(case.stream(daemon, *words).interrupt(), events=0)
    first = case.stream(daemon, *words, "-n", "1000")
    before.go()
    ringtail.wait_until(lambda: not first.running, "the first events have come")
    ringtail.wait_until(lambda: any(spool["stored"] for spool in daemon.stat()["spool"]),
                        "some of it is stored")
    daemon.crash()
    done = first.wait()
    case.check_stream(done, events=1000)
    had = numbers(done.lines, before.pids)
    before.result()

    directory, = glob.glob(f"{state}/spool/*")
    read = case.tracectl(None, "--summary", "json", "read", directory, "-o", "json")
    case.check_stream(read)
    stored = numbers(read.lines, before.pids)
    case.check(len(stored) == len(set(stored)) > 0, "what is on disk is there once",
               len(stored), len(set(stored)))

    daemon = case.daemon(*options)
    case.stream(daemon, "-o", "none").interrupt()       # what is always on is recorded by now
    after.run()
    ringtail.wait_until(lambda: daemon.recorded() == AFTER, "all are recorded")
    # It may have been given what was not on disk yet: that does not come again.
    rest = len(set(stored) - set(had)) + AFTER
    stream = case.stream(daemon, *words)
    stream.await_all(rest)
    case.check_balanced(daemon)
    done = stream.interrupt()
    summary = done.summary
    case.check_equal((done.code, summary["events"], summary["lost"], summary["ledger"]),
                     (3, rest, 0, "balanced"), "all there is comes, and that there may be more is said")
    gaps = [line for line in done.lines if "lost" in line]
    case.check_equal([(gap["stage"], gap["reason"], gap["lost"]) for gap in gaps],
                     [("spool", "restart", 0)], "once, where the killed run ended")
    came = had + numbers(done.lines, before.pids)
    case.check_equal(len(came), len(set(came)), "nothing comes twice")
    case.check_equal(set(came), set(stored) | set(had), f"all {len(stored)} that were stored came ({durability})")
    case.check_equal(len(numbers(done.lines, after.pids)), AFTER, "and all of the next run")
    daemon.stop()


def main(case):
    one(case, "written")
    one(case, "fsync")


ringtail.run(main)
