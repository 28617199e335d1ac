"""A thousand strangers in a second, who begin TLS handshakes on the stream's port, on that of the status page,
or on the unix socket: a client that was let in is answered, its stream goes on, and the service manager hears
that the daemon is alive, all of it while the storm lasts. Handshakes with this key are so dear that no daemon can end as
many."""
import os
import re
import time

import ringtail
from lib import http, tls, wire
from lib.process import SLOW
from lib.service_manager import ServiceManager

RATE = 1000                     # connections in a second
AT_ONCE = 300                   # of them: each stays as long as so many take to come
CALM_RATE = 10
ASKED = 1000 if ringtail.LONG else 25           # stats, in each storm, by each way
BETWEEN_S = 0.01
LOAD, LOAD_RATE = (1_000_000, 50_000) if ringtail.LONG else (20_000, 20_000)
PATIENCE_S = 4                  # of the service manager


def percentile(times, part):
    return sorted(times)[min(int(len(times) * part), len(times) - 1)]


def ask(connection):
    """Each a whole answer of one that is connected already; how long they took, in seconds."""
    times = []
    for _ in range(ASKED):
        began = time.monotonic()
        connection.send(wire.message("StatRequest"))
        try:
            connection.await_frame("Stat")
        except ringtail.Late:
            raise ringtail.Late(f"no answer comes, but {len(times)} before it") from None
        times.append(time.monotonic() - began)
        time.sleep(BETWEEN_S)
    return times


def main(case):
    server = tls.Server(case, rsa=3072)
    manager = ServiceManager(case)
    daemon = case.daemon(*server.options(), "--viewer=cert:vera", "--ring-size=16MiB",
                         "--http=0.0.0.0:0", "--silence-timeout=1h",
                         env={**os.environ, "NOTIFY_SOCKET": manager.path,
                              "WATCHDOG_USEC": str(PATIENCE_S * 1000000)},
                         listen=[f"unix:{case.path('run')}/s.sock", "tcp:127.0.0.1:0"])
    port = re.search(r"listening on (tcp:\S+)", daemon.log)[1]
    doors = {"stream": port, "status page": f"tcp:127.0.0.1:{http.address_of(daemon)[1]}",
             "unix socket": daemon.address}
    vera = tls.Connection(port, server.client("vera"))
    vera.greet()
    quiet = ask(vera)
    case.figure("stat answered in quiet, p99", percentile(quiet, 0.99) * 1e3, "ms")
    root = daemon.connect()
    root.greet()
    ask(root)
    loads = [case.load(LOAD, rate=LOAD_RATE) for _ in range(1 + len(doors))]
    pids = ", ".join(str(load.pids[0]) for load in loads)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", f"pid in ({pids})", "-o", "none")

    def keep_up(done, load):
        """The load, and at what part of its rate the stream had it."""
        began = time.monotonic()
        made = load.run(20 * LOAD / LOAD_RATE + 60 * SLOW)["elapsed_ns"] / 1e9
        stream.await_all(done * LOAD)
        return made / (time.monotonic() - began)

    # In a storm none stays for long, and a busy machine may end no handshake in that time.
    for door in ("stream", "status page"):
        calm = case.swarm(doors[door], "strangers", AT_ONCE, f"--rate={CALM_RATE}")
        calm.until(lambda now: now["subscriptions"], f"strangers on the {door} end handshakes")
        calm.leave()
        case.say(f"ok: strangers on the {door} end handshakes")
    keep_up(1, loads[0])
    for i, (door, address) in enumerate(doors.items()):
        storm = case.swarm(address, "strangers", AT_ONCE, f"--rate={RATE}")
        storm.until(lambda now: now["came"] >= AT_ONCE, "the storm is there")
        stormy = time.monotonic()
        for name, connection in (("over TLS", vera), ("by unix socket", root)):
            times = ask(connection)
            case.figure(f"stat answered {name} in a storm on the {door}, p99",
                        percentile(times, 0.99) * 1e3, "ms")
            case.say(f"ok: {name}, each of {ASKED} answers comes")
        case.figure(f"rate of the stream in a storm on the {door}", keep_up(2 + i, loads[1 + i]),
                    "of the load's")
        began = time.monotonic()
        done = case.tracectl(daemon, "stat")
        case.check_equal(done.code, 0, "by unix socket a new client is let in", done.err)
        case.figure(f"tracectl stat in a storm on the {door}", time.monotonic() - began, "s")
        ringtail.wait_until(lambda: len(manager.times("WATCHDOG", since=stormy)) >= 2,
                            "the manager hears that the daemon is alive")
        case.say("ok: the manager hears that the daemon is alive")
        now = storm.leave()
        case.figure(f"strangers on the {door}", now["came"], "")
    vera.close()
    root.close()
    case.check_balanced(daemon)
    case.check_stream(stream.interrupt(), events=len(loads) * LOAD)


ringtail.run(main)
