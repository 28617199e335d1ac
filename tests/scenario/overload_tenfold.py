"""Ten times more than the daemon has time for, all the while (it is stopped for nine tenths of it): it keeps
up with its own rings, each loss is counted and in its place, and soon after it is over all is drained."""
import json
import signal
import time

import ringtail

SECONDS = 60 if ringtail.LONG else 3
STOPPED_S, RUNNING_S = 0.09, 0.01
TRY = 200_000
CPUS = 2


def main(case):
    daemon = case.daemon("--queue-size=64MiB", "--history-size=64MiB")
    tried = case.load(TRY, CPUS)
    rate = TRY / (tried.run()["elapsed_ns"] / 1e9)
    load = case.load(int(rate * SECONDS), CPUS)
    few = case.load(10 * CPUS, CPUS)        # losses are told with the next record
    pids = ", ".join(map(str, load.pids + few.pids))
    swarm = case.swarm(daemon, "stream", 2, f"--filter=pid in ({pids})")
    swarm.await_subscribed()
    load.go()
    while load.running:
        daemon.signal(signal.SIGSTOP)
        time.sleep(STOPPED_S)
        daemon.signal(signal.SIGCONT)
        time.sleep(RUNNING_S)
    over = time.monotonic()
    calls = json.loads(load.wait().out.splitlines()[1])["calls"]
    case.await_rings_empty(daemon)
    swarm.until(lambda now: now["events"] and not any(client["in_flight"] for client in
                                                      daemon.stat()["client"]), "all is delivered")
    case.figure("drained after a tenfold overload", time.monotonic() - over, "s")
    few.run()
    calls += 10 * CPUS

    def accounted():
        ring = daemon.stat()["ring"]
        return sum(one["produced"] - one["meta"] for one in ring) >= calls and \
            not any(one["in_flight"] for one in ring) and ring
    rings = ringtail.wait_until(accounted, "each call is accounted for")
    events = sum(ring["events"] for ring in rings)
    lost = sum(one["count"] for ring in rings for one in ring["lost"])
    case.figure("recorded under a tenfold overload", events / calls, "of all calls")
    # What introduces a thread may be lost, too, and comes again.
    case.check(0 <= lost - (calls - events) <= lost // 10 + 100, f"{events} events + {lost} lost = "
               f"{calls} calls and a few records of the ring's own", rings)
    now = swarm.until(lambda now: now["events"] >= 2 * events, "both clients have all events")
    case.check_equal((now["events_min"], now["events_max"], now["lost"], now["holes"],
                      now["bad_frames"], now["closed"]), (events, events, 2 * lost, 0, 0, 0),
                     "each client has every event and loss, in its place", now)
    case.check_balanced(daemon)
    swarm.leave()


ringtail.run(main)
