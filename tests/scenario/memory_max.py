"""Several clients lag at once: all their queues together stay within memory-max, what each loses is told
to it with that reason, and who keeps up loses nothing."""
import ringtail
from lib import protobuf

CALLS = 150_000                 # of each load: far less than makes a queue the largest
LOADS_MAX = 50                  # until they have lost something: how much that takes is how well it compresses
LAGGARDS = 20
BOUND = 16 << 20
BATCH_BYTES = 64 << 10          # more than a batch of 8192 such calls ever takes on the wire


def main(case):
    daemon = case.daemon("--ring-size=64MiB", f"--memory-max={BOUND}B", f"--queue-size={BOUND}B",
                         "--silence-timeout=1h")
    own = f"comm == \"{case.own_comm}\""
    probe = "syscall:getppid:call"
    healthy = case.stream(daemon, "-p", probe, "-f", own, "-o", "none")
    slow = []
    for i in range(LAGGARDS):
        slow.append(daemon.connect(receive_bytes=4096))
        slow[i].greet()
        # Each has a log of its own: no two ask for quite the same, but all for the same of the kernel.
        slow[i].subscribe([probe], f"{own} && ret != {i + 1}")
    calls = 0

    def laggards():
        return [client for client in daemon.stat()["client"] if client["probe"] and client["software"] == "scenario"]
    while calls < LOADS_MAX * CALLS:
        case.load(CALLS, comm=case.own_comm).run()
        calls += CALLS
        healthy.await_all(calls)        # on a busy machine it might lag, too
        behind = laggards()
        if sum(bool(client["lost"]) for client in behind) > LAGGARDS // 2:
            break
    case.check_equal(len(behind), LAGGARDS, "all laggards are there")
    waiting = sum(client["queue_bytes"] for client in behind)
    # A frame that a client has been sent a part of is its own until the rest is sent: the log, which
    # the bound is for, may have let go of it.
    allowed = BOUND + LAGGARDS * BATCH_BYTES
    case.check(waiting <= allowed, f"{waiting} bytes wait for them, and at most {allowed} may")
    memory = protobuf.enum_value("LossReason", "REASON_MEMORY")
    reasons = {one["reason"] for client in behind for one in client["lost"]}
    case.check_equal(reasons, {memory}, "what they lose, they lose to the bound", behind)
    case.check(all(client["residual"] == 0 for client in behind), "each ledger closes", behind)
    case.check_balanced(daemon)

    def lost(client):
        return sum(one["count"] for one in client["lost"])
    loser = max(behind, key=lost)
    reader = slow[behind.index(loser)]
    events, gone = 0, 0
    while events + gone < calls:
        frame = reader.frame()
        if frame.name == "Gap":
            gone += frame.values["events"]
            case.check_equal(frame.values["reason"], memory, "a gap says why")
        elif frame.name == "Batch":
            events += frame.values["events"]
    told, = (client for client in daemon.stat()["client"] if client["id"] == loser["id"])
    case.check_equal((events + gone, gone), (calls, lost(told)), "events and gaps are all there was")
    case.check_stream(healthy.interrupt(), events=calls)
    for reader in slow:
        reader.close()
    case.check_balanced(daemon)


ringtail.run(main)
