"""`entry`, `return` and `call` of the same calls agree, record by record."""
import ringtail

CALLS = 2000


def main(case):
    daemon = case.daemon()
    load = case.load(CALLS)
    stream = case.stream(daemon, "-p", "syscall:getppid:*", "-f", load.filter, "-o", "json",
                         "-n", str(3 * CALLS))
    load.run()
    done = stream.wait()
    case.check_stream(done, events=3 * CALLS)
    kinds = {kind: [event for event in done.lines if event["probe"].endswith(":" + kind)]
             for kind in ("entry", "return", "call")}
    case.check_equal({kind: len(events) for kind, events in kinds.items()},
                     {kind: CALLS for kind in kinds}, f"{CALLS} of each kind")
    for entry, back, call in zip(kinds["entry"], kinds["return"], kinds["call"]):
        right = (call["ret"] == back["ret"] == load.pid and "ret" not in entry and
                 "duration" not in entry and entry["args"] == call["args"] and
                 entry["time"] <= back["time"] and entry["seq"] < back["seq"] < call["seq"] and
                 call["time"] - call["duration"] <= back["time"])
        if not right:
            case.check(False, "the three records of a call agree", entry, back, call)
    case.say(f"ok: the three records of each of {CALLS} calls agree")
    case.check_balanced(daemon)


ringtail.run(main)
