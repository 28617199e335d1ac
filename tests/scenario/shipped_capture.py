"""The capture that the repository ships (and `make demo` falls back on) is whole, and replays."""
import ringtail

CAPTURE = "tests/data/capture.rt"


def main(case):
    read = case.tracectl(None, "--summary", "json", "read", CAPTURE, "-o", "json")
    case.check_equal(read.code, 0, "the capture reads, and its ledger closes")
    events = read.lines
    case.check(len(events) > 1000, f"it holds {len(events)} events")
    case.check(any("strings" in event for event in events), "with strings")
    case.check(any(event["probe"].startswith("tracepoint:sched:") for event in events),
               "with scheduler events")
    daemon = case.daemon("--replay-pace=fast", source=f"replay:{CAPTURE}")
    stream = case.start_stream(daemon, "-p", "*:*:*", "-o", "none")
    done = stream.wait()
    case.check_balanced(daemon)
    case.check_stream(done, events=len(events))


ringtail.run(main)
