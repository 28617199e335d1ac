"""A client that does not read loses, and is told so in place; the others lose nothing."""
import ringtail
from lib import protobuf

CALLS = 3_000_000
AFTER = 1000


def main(case):
    daemon = case.daemon("--ring-size=64MiB", "--queue-size=1MiB")
    load, after = case.load(CALLS), case.load(AFTER)
    probe, text = "syscall:getppid:call", f"pid in ({load.pids[0]}, {after.pids[0]})"
    healthy = case.stream(daemon, "-p", probe, "-f", text, "-o", "none")
    slow = daemon.connect(receive_bytes=4096)
    slow.greet()
    start = slow.subscribe([probe], text)["start"]
    load.run()
    healthy.await_all(CALLS)
    stat = daemon.stat()
    behind = next(client for client in stat["client"] if client["software"] == "scenario" and
                  client["probe"])
    lost = sum(one["count"] for one in behind["lost"])
    case.check(lost and behind["queue_bytes"] <= 1 << 20,
               f"the slow one has lost {lost} events, and "
               f"{behind['queue_bytes']} bytes wait for it", behind)
    case.check_equal(stat["counters"]["events_dropped"], lost, "the daemon counts them")
    case.check_balanced(daemon)

    position = {place["cpu"]: place["seq"] for place in start["position"]}
    events, gone, gaps = 0, 0, []
    after.run()
    while events + gone < CALLS + AFTER:
        frame = slow.frame()
        if frame.name == "Watermark":
            for place in frame.values["position"]:
                position[place["cpu"]] = max(position[place["cpu"]], place["seq"])
        if frame.name not in ("Batch", "Gap"):
            continue
        values = frame.values
        if values["first_seq"] != position[values["cpu"]]:
            case.check(False, "a frame follows on the one before", position, values)
        position[values["cpu"]] = values["end_seq"]
        if frame.name == "Gap":
            gaps.append(values)
            gone += values["events"]
        else:
            events += values["events"]
    case.say(f"ok: it reads {events} events and {len(gaps)} gaps, without a hole")
    case.check_equal(events + gone, CALLS + AFTER, "events + gaps = calls")
    case.check_equal({(gap["stage"], gap["reason"]) for gap in gaps},
                     {(protobuf.enum_value("LossStage", "LOSS_QUEUE"),
                       protobuf.enum_value("LossReason", "REASON_QUEUE_FULL"))},
                     "each gap says where and why")
    healthy.await_all(CALLS + AFTER)
    case.check_balanced(daemon)
    slow.close()
    case.check_stream(healthy.interrupt(), events=CALLS + AFTER)
    case.check_balanced(daemon)


ringtail.run(main)
