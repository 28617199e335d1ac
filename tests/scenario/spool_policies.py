"""A spool at its bound, with each policy: what the consumer that was away does not get is named in its
place, nothing else is missing, and once there is room the spool goes on."""
import ringtail
from lib import protobuf, wire

CALLS = 400_000                 # in a round: more than memory holds beside the spool
ROUNDS_MAX = 25                 # how many fill the spool is how well their times compress
AFTER = 20_000
PROBE = "syscall:getppid:call"
BESIDE_BYTES = 4096
STATE = {"drop-oldest": "ok", "drop-new": "full", "stop": "stopped"}


def lost(stat):
    return sum(one["count"] for one in stat["lost"])


class Consumer:
    """A durable consumer that holds the daemon to its word: each frame begins where the last one ended."""

    def __init__(self, case, daemon, text):
        self.case, self.connection = case, daemon.connect()
        self.connection.greet()
        self.start = self.connection.subscribe([PROBE], text, consumer="keeper")["start"]
        self.position = {place["cpu"]: place["seq"] for place in self.start["position"]}
        self.events, self.gone, self.gaps, self.first = 0, 0, [], {}

    def take(self, wanted):
        """Frames, until so many events have come or are lost."""
        while self.events + self.gone < wanted:
            frame = self.connection.frame()
            values = frame.values
            if frame.name == "Watermark":
                for place in values["position"]:
                    cpu = place["cpu"]
                    self.position[cpu] = max(self.position.get(cpu, 0), place["seq"])
            if frame.name not in ("Batch", "Gap"):
                continue
            cpu = values["cpu"]
            if values["first_seq"] != self.position.get(cpu, values["first_seq"]):
                self.case.check(False, "a frame follows on the one before", self.position, values)
            self.position[cpu] = values["end_seq"]
            self.first.setdefault(cpu, frame.name)
            if frame.name == "Gap":
                self.gaps.append(values)
                self.gone += values["events"] or values["end_seq"] - values["first_seq"]
            else:
                self.events += values["events"]

    def acknowledge(self):
        position = [{"cpu": cpu, "seq": seq} for cpu, seq in self.position.items()]
        self.connection.send(wire.message("Ack", upto={**self.start, "position": position}))


def fill(case, daemon, began):
    """Calls, until the spool has given up some that memory has no longer; how many, and what the spool says then."""
    def settled():
        stat = daemon.stat()
        spool, = stat["spool"]
        attempts = sum(ring["produced"] for ring in stat["ring"]) - began
        return spool if spool["produced"] == attempts and not spool["in_flight"] else None

    for calls in range(CALLS, CALLS * ROUNDS_MAX + 1, CALLS):
        case.load(CALLS, 2, comm=case.own_comm).run()
        ringtail.wait_until(lambda: daemon.recorded() == calls, "all are recorded")
        full = ringtail.wait_until(settled, "all is stored, or not")
        if full["deleted"] or lost(full) >= CALLS:
            return calls, full
    raise ringtail.Failure(f"there is room for {calls} calls: {full}")


def one(case, policy):
    text = f'comm == "{case.own_comm}"'
    daemon = case.daemon("--ring-size=64MiB", "--durability=written", "--user=root",
                         f"--state-dir={case.path(policy)}", f"--spool-policy={policy}",
                         "--spool-size=1MiB", "--spool-segment-size=64KiB",
                         "--history-size=64KiB", "--queue-size=64KiB")

    def spool():
        spool, = daemon.stat()["spool"]
        return spool

    registered = Consumer(case, daemon, text)
    registered.connection.close()
    ringtail.wait_until(lambda: not daemon.stat()["consumer"][0]["connected"], "it is away")
    calls, full = fill(case, daemon, sum(registered.position.values()))
    # Events are bounded exactly; the head of their segment, and what tells of losses, may come beside them.
    case.check(full["bytes_max"] == 1 << 20 and full["bytes"] <= full["bytes_max"] + BESIDE_BYTES, "its bound is kept",
               full)
    case.check_equal(full["residual"], 0, f"{policy}: its ledger closes")
    case.check_equal(full["state"], STATE[policy], "it says how it is")
    case.check_equal(lost(full) > 0, policy != "drop-oldest", "what it did not take is counted", full)
    behind, = daemon.stat()["consumer"]
    case.check(behind["behind_bytes"] > 1 << 18, "the consumer is known to be behind", behind)

    consumer = Consumer(case, daemon, text)
    if policy == "drop-oldest":
        consumer.take(calls)
    else:                       # the loss is told with what comes when there is room again
        consumer.take(calls - lost(full))
    consumer.acknowledge()
    ringtail.wait_until(lambda: spool()["state"] == "ok", "there is room once it has acknowledged")
    case.load(AFTER, 2, comm=case.own_comm).run()
    consumer.take(calls + AFTER)
    case.check_balanced(daemon)
    case.check_equal({(gap["stage"], gap["reason"]) for gap in consumer.gaps},
                     {(protobuf.enum_value("LossStage", "LOSS_SPOOL"),
                       protobuf.enum_value("LossReason", "REASON_SPOOL_FULL"))},
                     f"{consumer.events} events and {len(consumer.gaps)} gaps, which say why")
    # A deleted segment takes the attempts with it that were filtered out between its events.
    others = consumer.events + consumer.gone - calls - AFTER
    case.check(0 <= others <= 1000, "and they are all there was", others)
    case.check("Gap" not in consumer.first.values() or policy == "drop-oldest",
               "what was dropped is the oldest, or was not", consumer.first)
    case.check(len(consumer.gaps) <= 64, "there are few gaps", len(consumer.gaps))
    consumer.acknowledge()
    consumer.connection.close()
    ringtail.wait_until(lambda: not daemon.stat()["consumer"][0]["connected"], "it leaves")
    case.check_balanced(daemon)
    daemon.stop()


def main(case):
    for policy in STATE:
        one(case, policy)


ringtail.run(main)
