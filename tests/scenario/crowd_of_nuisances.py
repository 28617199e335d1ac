"""Readers that stall, readers of a byte at a time, and peers that break off in the middle of a frame: what
they miss is theirs alone, and whoever reads, however slowly, gets it all."""
import ringtail
from lib import steady

FLOOD, FLOODS_MAX = 2_000_000, 10
CLIENTS = 200 if ringtail.LONG else 20
SILENCE_S = 15 if ringtail.LONG else 6  # longer than a busy machine keeps a client from its turn


def main(case):
    healthy = steady.Steady(case, "--queue-size=1MiB", "--history-size=1MiB", "--history-age=1s",
                            f"--clients-max={4 * CLIENTS + 64}", f"--silence-timeout={SILENCE_S}s",
                            f"--pending-max={4 * CLIENTS}", times=3, long=ringtail.LONG,
                            room=ringtail.ROOM)
    daemon = healthy.daemon
    healthy.run()
    last = healthy.loads[2]
    stalled = case.swarm(healthy.tcp, "stall", CLIENTS)
    stalled.await_subscribed()
    resetting = [case.swarm(address, "reset", CLIENTS, "--filter=pid > 0")
                 for address in (healthy.tcp, daemon.address)]
    trickle = case.swarm(healthy.tcp, "trickle", 4, f"--filter=pid == {last.pids[0]}")
    trickle.await_subscribed()
    for swarm in resetting:
        for _ in range(FLOODS_MAX):     # on a machine at rest there is little to hear, and break off
            if swarm.report()["broken_off"] < 10 * CLIENTS:
                case.load(100_000, rate=steady.RATE).run()
        swarm.until(lambda now: now["broken_off"] >= 10 * CLIENTS, "they break off, again and again")
    healthy.run()
    healthy.run()
    case.check_balanced(daemon)
    for swarm in resetting:
        now = swarm.leave()
        case.check_equal((now["holes"], now["bad_frames"]), (0, 0), "what they heard was right", now)
    now = trickle.await_events(healthy.calls)
    case.check_equal((now["events_min"], now["events_max"], now["lost"], now["holes"]),
                     (healthy.calls, healthy.calls, 0, 0),
                     f"a byte at a time, each of 4 has {healthy.calls} events", now)
    trickle.leave()

    def streaming():
        return sum(bool(client["probe"]) for client in daemon.stat()["client"])
    for _ in range(FLOODS_MAX):     # more than the sockets take: now those who read nothing show
        if streaming() > 1:
            case.load(FLOOD).run()
    ringtail.wait_until(lambda: streaming() == 1, "those who read nothing are sent away")
    stalled.leave()
    healthy.await_alone()
    healthy.finish()


ringtail.run(main)
