"""A cursor older than the history: what is gone comes as one gap per CPU, with its reason."""
import re

import ringtail

CALLS = 300_000


def main(case):
    daemon = case.daemon("--ring-size=64MiB", "--history-size=64KiB",
                         "--queue-size=64KiB")
    load, rest = case.load(CALLS, 2), case.load(100, 2)
    pids = ", ".join(map(str, load.pids + rest.pids))
    words = ["-p", "syscall:getppid:call", "-f", f"pid in ({pids})", "-o", "json"]
    keeper = case.stream(daemon, *words)        # the daemon records on when the first one leaves
    first = case.stream(daemon, *words, "-n", "1000", "--summary", "text")
    load.run()
    done = first.wait()
    cursor = re.search(r"--since (\S+)", done.err)[1]
    slow = int(re.search(r", (\d+) lost", done.err)[1])     # by a queue as small as the history
    ringtail.wait_until(lambda: daemon.recorded() == CALLS, "all are recorded")

    stream = case.stream(daemon, *words, "--since", cursor)
    stream.await_all()          # else what follows might not fit into its queue
    keeper.kill()
    rest.run()
    ringtail.wait_until(lambda: daemon.recorded() == CALLS + 100, "all are recorded")
    client = stream.await_all(100)
    gone = sum(one["count"] for one in client["lost"])
    case.check_equal({(one["stage"], one["reason"]) for one in client["lost"]},
                     {(ringtail.protobuf.enum_value("LossStage", "LOSS_HISTORY"),
                       ringtail.protobuf.enum_value("LossReason", "REASON_HISTORY_GONE"))},
                     "the daemon counts them as lost to history")
    case.check_balanced(daemon)
    done = stream.interrupt()
    case.check_stream(done, lost=gone)
    gaps = [line for line in done.lines if "lost" in line]
    case.check(1 <= len(gaps) <= 2 and {gap["reason"] for gap in gaps} == {"history-gone"} and
               {gap["stage"] for gap in gaps} == {"history"}, "a gap for each CPU says so", gaps)
    case.check_equal(sum(gap["attempts"] for gap in gaps), gone, f"{gone} attempts are gone")
    case.check("lost" in done.lines[0], "it comes first")
    # The threads' own records are attempts too: one or two of each process.
    events = done.summary["events"]
    known = 1000 + slow + events + gone
    case.check(0 <= known - (CALLS + 100) <= 12, f"1000 before + {events} after + {gone} gone = "
               f"{CALLS + 100} calls and {known - CALLS - 100} other records", slow)
    case.check_equal(daemon.stat()["counters"]["resumes_with_gap"], 1, "the daemon counts it")
    case.check_balanced(daemon)


ringtail.run(main)
