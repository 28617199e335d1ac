"""A client that does not read loses, and is told so in place; the others lose nothing."""
import ringtail
from lib import protobuf

CALLS = 100_000                 # of each load: fewer than fit into the queue, however busy a reader's machine is
LOADS_MAX = 100                 # until one that does not read has lost some: how many fit is how well they compress
AFTER = 1000


def main(case):
    daemon = case.daemon("--ring-size=64MiB", "--queue-size=1MiB", "--silence-timeout=1h")
    probe, text = "syscall:getppid:call", f'comm == "{case.own_comm}"'
    healthy = case.stream(daemon, "-p", probe, "-f", text, "-o", "none")
    slow = daemon.connect(receive_bytes=4096)
    slow.greet()
    start = slow.subscribe([probe], text)["start"]
    for calls in range(CALLS, CALLS * LOADS_MAX + 1, CALLS):
        case.load(CALLS, comm=case.own_comm).run()
        healthy.await_all(calls)
        stat = daemon.stat()
        behind = next(client for client in stat["client"] if client["software"] == "scenario" and client["probe"])
        lost = sum(one["count"] for one in behind["lost"])
        if lost > CALLS:
            break
    case.check(lost and behind["queue_bytes"] <= 1 << 20,
               f"the slow one has lost {lost} events, and "
               f"{behind['queue_bytes']} bytes wait for it", behind)
    case.check_equal(stat["counters"]["events_dropped"], lost, "the daemon counts them")
    case.check_balanced(daemon)

    position = {place["cpu"]: place["seq"] for place in start["position"]}
    events, gone, gaps = 0, 0, []
    case.load(AFTER, comm=case.own_comm).run()
    while events + gone < calls + AFTER:
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
    case.check_equal(events + gone, calls + AFTER, "events + gaps = calls")
    case.check_equal({(gap["stage"], gap["reason"]) for gap in gaps},
                     {(protobuf.enum_value("LossStage", "LOSS_QUEUE"),
                       protobuf.enum_value("LossReason", "REASON_QUEUE_FULL"))},
                     "each gap says where and why")
    healthy.await_all(calls + AFTER)
    case.check_balanced(daemon)
    slow.close()
    case.check_stream(healthy.interrupt(), events=calls + AFTER)
    case.check_balanced(daemon)


ringtail.run(main)
