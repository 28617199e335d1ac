"""A million calls of one process: a million events, each with the right return value."""
import os

import ringtail

CALLS = 1_000_000 // ringtail.FEWER
PARSED = 100_000 if ringtail.SLOW < 8 else 10_000      # an emulated processor takes its time for Python
ROOM = "--ring-size=64MiB"      # for all the records: a busy host must not cost any


def count_all(case, daemon):
    load = case.load(CALLS)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", f"pid == {load.pids[0]}",
                         "-o", "none")
    load.run()
    stream.await_all(CALLS)
    case.check_balanced(daemon)
    case.check_stream(stream.interrupt(), events=CALLS)


def read_all(case, daemon):
    load = case.load(PARSED)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", f"pid == {load.pids[0]}",
                         "-o", "json", "-n", str(PARSED))
    result = load.run()
    done = stream.wait()
    case.check_stream(done, events=PARSED)
    events = done.lines
    case.check_equal(len(events), PARSED, f"{PARSED} lines")
    process = result["process"][0]
    for event in events:
        right = (event["probe"] == "syscall:getppid:call" and event["ret"] == load.pid and
                 event["pid"] == event["tid"] == load.pids[0] and event["args"] == {} and
                 event["comm"] == "load" and event["cpu"] in os.sched_getaffinity(0) and
                 process["start_ns"] <= event["time"] - event["duration"] and
                 event["time"] <= process["end_ns"])
        if not right:
            case.check(False, "the event is right", event, process)
    case.say(f"ok: each of {PARSED} has the right process, result and time")
    times = [event["time"] for event in events]
    case.check(times == sorted(times), "they come in time order")
    case.check_equal(len({(event["cpu"], event["seq"]) for event in events}), PARSED,
                     "no attempt comes twice")


def main(case):
    daemon = case.daemon(ROOM)
    count_all(case, daemon)
    read_all(case, daemon)
    case.check_balanced(daemon)


ringtail.run(main)
