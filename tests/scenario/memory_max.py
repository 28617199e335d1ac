"""Several clients lag at once: all their queues together stay within memory-max, what each loses is told
to it with that reason, and who keeps up loses nothing."""
import ringtail
from lib import protobuf

CALLS = 1_500_000
LAGGARDS = 20
BOUND = 16 << 20


def main(case):
    daemon = case.daemon("--ring-size=64MiB", f"--memory-max={BOUND}B", "--queue-size=64MiB")
    load = case.load(CALLS)
    probe = "syscall:getppid:call"
    healthy = case.stream(daemon, "-p", probe, "-f", load.filter, "-o", "none")
    slow = []
    for i in range(LAGGARDS):
        slow.append(daemon.connect(receive_bytes=4096))
        slow[i].greet()
        # Each has a log of its own: no two ask for quite the same.
        slow[i].subscribe([probe], f"({load.filter}) && tid != {i + 1}")
    load.run()
    healthy.await_all(CALLS)
    stat = daemon.stat()
    behind = [client for client in stat["client"] if client["probe"] and
              client["software"] == "scenario"]
    case.check_equal(len(behind), LAGGARDS, "all laggards are there")
    waiting = sum(client["queue_bytes"] for client in behind)
    case.check(waiting <= BOUND, f"{waiting} bytes wait for them, and at most {BOUND} may")
    memory = protobuf.enum_value("LossReason", "REASON_MEMORY")
    reasons = {one["reason"] for client in behind for one in client["lost"]}
    case.check_equal(reasons, {memory}, "what they lose, they lose to the bound", behind)
    case.check(all(client["residual"] == 0 for client in behind), "each ledger closes", behind)
    case.check_balanced(daemon)
    loser = max(behind, key=lambda client: sum(one["count"] for one in client["lost"]))
    lost = sum(one["count"] for one in loser["lost"])
    reader = slow[behind.index(loser)]
    events, gone = 0, 0
    while events + gone < CALLS:
        frame = reader.frame()
        if frame.name == "Gap":
            gone += frame.values["events"]
            case.check_equal(frame.values["reason"], memory, "a gap says why")
        elif frame.name == "Batch":
            events += frame.values["events"]
    case.check_equal((events + gone, gone), (CALLS, lost), "events and gaps are all there was")
    case.check_stream(healthy.interrupt(), events=CALLS)
    for reader in slow:
        reader.close()
    case.check_balanced(daemon)


ringtail.run(main)
