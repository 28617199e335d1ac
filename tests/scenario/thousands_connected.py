"""Thousands are connected, many of them stream the same: each gets every event, and costs little."""
import ringtail
from lib import steady

CONNECTED = 4000 if ringtail.LONG else 300
STREAMING = 1000 if ringtail.LONG else 100
BYTES_MAX = 64 << 10            # of the daemon's memory for each


def have_left(daemon, everybody):
    """Whether nobody is there but the swarms and the steady client, and who asks."""
    try:
        return daemon.stat()["clients"] == everybody + 2
    except (EOFError, ConnectionError):
        return False            # refused: not yet


def main(case):
    everybody = CONNECTED + STREAMING
    healthy = steady.Steady(case, f"--clients-max={everybody + 8}", f"--pending-max={everybody}",
                            "--batch-interval=200ms", "--queue-size=64MiB", "--silence-timeout=1h", times=3,
                            long=ringtail.LONG)
    daemon = healthy.daemon
    healthy.run()
    before, descriptors = healthy.resident(), healthy.descriptors()
    connected = case.swarm(healthy.tcp, "connected", CONNECTED)
    connected.await_connected()
    words = [f"--filter=pid in ({', '.join(str(load.pids[0]) for load in healthy.loads[2:])})"]
    streaming = case.swarm(healthy.tcp, "stream", STREAMING, *words)
    streaming.await_subscribed()
    each = (healthy.resident() - before) / everybody
    case.figure("memory of a client", each / 1024, "KiB")
    # A sanitizer keeps what was freed, and more.
    case.check(each <= BYTES_MAX * (8 if ringtail.SLOW > 1 else 1), f"{everybody} clients cost at "
               f"most {BYTES_MAX} bytes each", each)
    case.check(healthy.descriptors() - descriptors <= everybody + 8, "and a descriptor each")
    healthy.run()
    case.check_equal(daemon.stat()["clients"], everybody + 2, "stat answers, and counts them")
    extra = case.swarm(healthy.tcp, "stream", 10)
    now = extra.until(lambda now: now["refused"] or now["closed"], "beyond clients-max is refused")
    extra.leave()
    ringtail.wait_until(lambda: have_left(daemon, everybody), "those that were not refused have left")
    case.check_equal(now["error"] or "too-many-clients", "too-many-clients", "and told why")
    healthy.run()
    now = streaming.await_events(healthy.calls)
    case.check_equal((now["events_min"], now["events_max"], now["lost"], now["holes"],
                      now["bad_frames"], now["closed"]), (healthy.calls, healthy.calls, 0, 0, 0, 0),
                     f"each of {STREAMING} has {healthy.calls} events in order, and lost none", now)
    now = connected.report()
    case.check_equal((now["talking"], now["closed"], now["refused"]), (CONNECTED, 0, 0),
                     "those who just were there still are", now)
    case.check_balanced(daemon)
    streaming.leave()
    connected.leave()
    healthy.await_alone()
    ringtail.wait_until(lambda: healthy.descriptors() <= descriptors, "no descriptor is left")
    healthy.finish()


ringtail.run(main)
