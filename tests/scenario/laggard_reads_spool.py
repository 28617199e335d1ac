"""A durable consumer that is connected and does not read: memory gives up what it has not taken, and it
gets all of it from the spool, without a gap, when it reads again."""
import ringtail

CALLS = 600_000


def main(case):
    daemon = case.daemon("--ring-size=64MiB", "--durability=written", "--user=root",
                         f"--state-dir={case.path('state')}", "--history-size=64KiB",
                         "--queue-size=64KiB", "--spool-segment-size=256KiB",
                         "--silence-timeout=1h")
    load = case.load(CALLS, 2)
    probe = "syscall:getppid:call"
    slow = daemon.connect(receive_bytes=4096)
    slow.greet()
    start = slow.subscribe([probe], load.filter, consumer="slow")["start"]
    load.run()
    ringtail.wait_until(lambda: daemon.recorded() == CALLS, "all are recorded")

    def client():
        return next(one for one in daemon.stat()["client"] if one["probe"])

    ringtail.wait_until(lambda: client()["in_flight"] + client()["delivered"] >= CALLS,
                        "all wait for it")
    case.check(not client()["lost"], "nothing is lost to it meanwhile", client())
    case.check_balanced(daemon)

    position = {place["cpu"]: place["seq"] for place in start["position"]}
    events, frames = 0, 0
    while events < CALLS:
        frame = slow.frame()
        values = frame.values
        frames += 1
        if frame.name == "Watermark":
            for place in values["position"]:
                position[place["cpu"]] = max(position[place["cpu"]], place["seq"])
        case.check(frame.name != "Gap", "there is no gap", values) if frame.name == "Gap" else None
        if frame.name != "Batch":
            continue
        if values["first_seq"] != position[values["cpu"]]:
            case.check(False, "a frame follows on the one before", position, values)
        position[values["cpu"]] = values["end_seq"]
        events += values["events"]
    case.check_equal(events, CALLS, f"all of them come in {frames} frames, without a hole")
    case.check(not client()["lost"], "nothing was lost to it", client())
    case.check_balanced(daemon)
    slow.close()
    case.check_balanced(daemon)


ringtail.run(main)
