"""The daemon is killed while a durable consumer is away: what was stored is salvaged by the next one and
comes, each event once, whether the spool is synced or just written."""
import json
import os

import ringtail

CALLS = 60_000


def one(case, durability):
    state = case.path(durability)
    options = ("--ring-size=64MiB", f"--durability={durability}", "--spool-sync-interval=50ms",
               "--spool-segment-size=64KiB", f"--state-dir={state}", "--user=root")
    daemon = case.daemon(*options)
    load = case.load(CALLS, 2)
    words = ["-p", "syscall:getppid:call", "-f", load.filter, "-o", "json", "--consumer", "nightly"]
    case.check_stream(case.stream(daemon, *words).interrupt(), events=0)
    load.run()
    ringtail.wait_until(lambda: daemon.recorded() >= CALLS, "all of it is recorded")

    def is_stored():
        spool = daemon.stat()["spool"][0]
        return spool["produced"] >= CALLS and not spool["in_flight"]
    ringtail.wait_until(is_stored, "all of it is stored")
    case.check_balanced(daemon)
    daemon.crash()
    files = [name for _, _, names in os.walk(os.path.join(state, "spool")) for name in names]
    case.check(any(name.endswith(".open") for name in files), "a segment was left open", files)
    daemon = case.daemon(*options)
    ringtail.wait_until(lambda: "[spool-salvaged]" in daemon.log, "the next daemon salvages it")
    stream = case.start_stream(daemon, *words, "-n", str(CALLS))
    lines = [json.loads(line) for line in stream.wait().out.splitlines()]
    seen = {(event["cpu"], event["seq"]) for event in lines if "seq" in event}
    case.check_equal(len(seen), CALLS, f"{durability}: all {CALLS} events came")
    case.check_equal(sum("seq" in event for event in lines), CALLS, "and each once")
    case.check_balanced(daemon)
    daemon.stop()


def main(case):
    for durability in ("written", "fsync"):
        one(case, durability)


ringtail.run(main)
