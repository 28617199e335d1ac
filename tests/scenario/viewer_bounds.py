"""Viewers ask for more than they may: stacks, probes, subscriptions, events in a second. They are refused before
the kernel hears of it, and told by what; what is too much is a gap, while an operator gets all of it. What is counted
for them is bound as what is streamed."""
import re

import ringtail
from lib import protobuf, wire

CALLS = 100_000
RATE = 4000                     # a busy machine makes a few times as many
PROBE = "syscall:getppid:call"
QUESTION = {"by": ["comm"], "of": "duration"}


def events_of(batch):
    return sum(batch["counts"]["events"]) if batch["counts"] else batch["events"]


def take_all(case, viewer):
    """The events of the load that came, or that events which came stand for; and those that gaps hold."""
    events, lost = 0, 0
    while events + lost < CALLS:
        frame = viewer.frame()
        if frame.name == "Batch":
            events += events_of(frame.values)
        elif frame.name == "Gap":
            case.check_equal(frame.values["reason"],
                             protobuf.enum_value("LossReason", "REASON_RATE_LIMIT"), "a gap says why")
            lost += frame.values["events"]
    return events, lost


def main(case):
    daemon = case.daemon("--insecure", "--viewer-probe=syscall", "--viewer-subscriptions=2",
                         f"--viewer-rate={RATE}", "--ring-size=64MiB",
                         listen=[f"unix:{case.path('run')}/d.sock", "tcp:127.0.0.1:0"])
    plain = re.search(r"listening on (tcp:127.0.0.1:\d+)", daemon.log)[1]

    def refused(code, word, probes, **values):
        with wire.Connection(plain) as viewer:
            viewer.greet()
            viewer.send(wire.message("Subscribe", probe=probes, **values))
            error = viewer.await_frame("Error").values
            case.check_equal((error["code"], error["fatal"]), (code, True), f"refused: {error['what']}")
            case.check(word in error["hint"], "it says who can change that", error["hint"])

    refused("viewer-flags", "viewer-stacks = yes", ["*"],
            flag=[protobuf.enum_value("Flag", "FLAG_KSTACK"), protobuf.enum_value("Flag", "FLAG_USTACK")])
    refused("viewer-probes", "syscall; an operator", ["*"])
    refused("viewer-probes", "viewer-probe", ["tracepoint:sched:sched_switch"])
    refused("viewer-probes", "viewer-probe", ["tracepoint:sched:sched_switch"], question=QUESTION)
    refused("viewer-flags", "viewer-strings = yes", ["syscall:openat:call"], question={"by": ["filename"]},
            flag=[protobuf.enum_value("Flag", "FLAG_STRINGS")])
    case.check_equal(daemon.recording(), 0, "the kernel has heard of none of it")
    case.check_equal(daemon.stat()["counters"]["configures"], 0, "and was told nothing")

    load = case.load(CALLS)
    operator = case.stream(daemon, "-p", PROBE, "-f", load.filter, "--flags", "kstack", "-o", "none")
    viewer = wire.Connection(plain)
    viewer.greet()
    viewer.subscribe([PROBE], load.filter)
    counter = wire.Connection(plain)
    counter.greet()
    counter.send(wire.message("Subscribe", probe=[PROBE], filter=load.filter, question=QUESTION))
    counter.await_frame("Subscribed")
    refused("viewer-subscriptions", "viewer-subscriptions", ["syscall:openat:call"])
    load.run()
    case.check_equal(operator.await_all(CALLS)["delivered"], CALLS, "an operator gets all")
    over = 0
    for connection, what in ((viewer, "streamed"), (counter, "counted")):
        events, lost = take_all(case, connection)
        case.check_equal(events + lost, CALLS, f"{what}: each event came, or is in a gap")
        case.check(events >= RATE and lost > 0, f"{what}: the viewer had its share, and no more", events, lost)
        over += lost
    case.check_equal(daemon.stat()["counters"]["events_over_rate"], over, "the daemon counts the rest")
    case.check_balanced(daemon)
    viewer.close()
    counter.close()
    case.check_stream(operator.interrupt(), events=CALLS)


ringtail.run(main)
