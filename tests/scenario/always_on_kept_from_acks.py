"""A viewer subscribes as a durable consumer to what is always on. It acknowledges more than there is, then
all that it was sent, and gives the consumer up: the record on disk stays."""
import glob
import re

import ringtail
from lib import wire

CALLS, LOADS_MAX = 100_000, 50


def main(case):
    state = case.path("state")
    daemon = case.daemon("--insecure", f"--state-dir={state}", "--durability=written", "--user=root",
                         "--probe=syscall:getppid:call", "--ring-size=64MiB",
                         "--spool-segment-size=64KiB",
                         listen=[f"unix:{case.path('run')}/d.sock", "tcp:127.0.0.1:0"])
    plain = re.search(r"listening on (tcp:127.0.0.1:\d+)", daemon.log)[1]

    def spool():
        one, = daemon.stat()["spool"]
        return one

    viewer = wire.Connection(plain)
    viewer.greet()
    start = viewer.subscribe([], consumer="hungry")["start"]
    for loads in range(1, LOADS_MAX):       # how many fill a segment, their times decide
        case.load(CALLS, 2).run()
        ringtail.wait_until(lambda: spool()["produced"] >= loads * CALLS and not spool()["in_flight"],
                            "all is stored")
        before = spool()
        if before["segments"] > 3:
            break
    case.check(before["segments"] > 3, "there are segments", before)

    def acknowledge(position):
        viewer.send(wire.message("Ack", upto={**start, "position": position}))

    acknowledge([{"cpu": place["cpu"], "seq": 2**64 - 1} for place in start["position"]])
    position, events, refused = {place["cpu"]: place["seq"] for place in start["position"]}, 0, None
    while events < loads * CALLS or not refused:
        frame = viewer.frame()
        if frame.name == "Batch":
            position[frame.values["cpu"]] = frame.values["end_seq"]
            events += frame.values["events"]
        elif frame.name == "Error":
            refused = frame.values
    case.check_equal((refused["code"], refused["fatal"]), ("ack-beyond", False), "more is refused")
    case.check_equal(daemon.stat()["counters"]["acks_refused"], 1, "and counted")
    case.check_equal(daemon.stat()["consumer"][0].get("acked_realtime_ns", 0), 0, "and changes nothing")
    acknowledge([{"cpu": cpu, "seq": seq} for cpu, seq in position.items()])
    ringtail.wait_until(lambda: daemon.stat()["consumer"][0].get("acked_realtime_ns", 0), "the rest counts")
    viewer.close()
    ringtail.wait_until(lambda: not daemon.stat()["consumer"][0]["connected"], "it leaves")
    with wire.Connection(plain) as viewer:
        viewer.greet()
        viewer.send(wire.message("Forget", consumer="hungry"))
        case.check_equal(viewer.await_frame("Stat").values["consumer"], [], "it is given up")
    case.load(1000).run()
    now = spool()
    case.check((now["deleted"], now["segments"] >= before["segments"]) == (0, True),
               "what is always on is still there", now)
    case.check(len(glob.glob(f"{state}/spool/*/*.seg")) >= before["segments"] - 1, "all of it")
    with open(f"{state}/audit.log") as log:
        case.check('"action":"forget","consumer":"hungry"' in log.read(), "the audit log says who")
    case.check_balanced(daemon)


ringtail.run(main)
