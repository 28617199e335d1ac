"""The daemon is stopped and started anew, with its spool: a durable consumer gets the rest of what was
before and all that came after, in one stream, with a gap between them: nothing was recorded while no
daemon ran. So does a client with its cursor alone."""
import json
import re

import ringtail

CALLS = 30_000


def main(case):
    before, after = case.load(CALLS, 2), case.load(CALLS, 2)
    pids = ", ".join(map(str, before.pids + after.pids))
    options = ["--ring-size=64MiB", "--durability=written", f"--state-dir={case.path('state')}",
               "--user=root", "--probe=syscall:getppid:call", f"--filter=pid in ({pids})"]
    daemon = case.daemon(*options)
    words = ["-o", "json", "--consumer", "keeper"]
    case.check_stream(case.stream(daemon, *words).interrupt(), events=0)
    before.run()
    ringtail.wait_until(lambda: daemon.recorded() == CALLS, "all are recorded")
    done = case.start_stream(daemon, *words, "-n", "1000", "--summary", "text").wait()
    cursor = re.search(r"--since (\S+)", done.err)[1]
    seen = [json.loads(line) for line in done.out.splitlines()]
    case.check_equal(len(seen), 1000, "the first 1000 came before the restart")
    case.check_balanced(daemon)
    case.check_equal(daemon.stop(), 0, "the daemon ends well")

    daemon = case.daemon(*options)
    case.stream(daemon, "-o", "none").interrupt()       # what is always on is recorded by now
    after.run()
    ringtail.wait_until(lambda: daemon.recorded() == CALLS, "all are recorded")
    # The consumer last: what it acknowledges is kept no longer.
    for start in (["-o", "json", "--since", cursor], words):
        stream = case.stream(daemon, *start)
        # With the gap between the runs.
        ringtail.wait_until(lambda: stream.read("out").count("\n") >= 2 * CALLS - 1000 + 1 or
                            not stream.running, "the rest comes")
        case.check_balanced(daemon)
        done = stream.interrupt()
        summary = done.summary
        case.check_equal((done.code, summary["events"], summary["lost"], summary["ledger"]),
                         (3, 2 * CALLS - 1000, 0, "balanced"), "all that was recorded comes")
        gaps = [(line["stage"], line["reason"], line["attempts"]) for line in done.lines
                if "lost" in line]
        case.check_equal(gaps, [("spool", "not-recorded", 0)], "with a gap between the two runs")
        numbers = [(event["pid"], event["seq"], event["cpu"]) for event in seen + done.lines
                   if "seq" in event]
        case.check_equal(len(set(numbers)), 2 * CALLS, "each once")


ringtail.run(main)
