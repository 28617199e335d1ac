"""Hundreds of connections dribble a hello, or a TLS handshake, a byte at a time: each has its deadline
and nobody waits for them."""
import ringtail
from lib import steady, tls

CLIENTS = 1000 if ringtail.LONG else 150
TIMEOUT_S = int(3 * ringtail.SLOW)      # longer than one that speaks is kept from it by a busy machine


def main(case):
    healthy = steady.Steady(case, f"--hello-timeout={TIMEOUT_S}s", f"--pending-max={3 * CLIENTS}",
                            "--clients-max=64", long=ringtail.LONG)
    daemon = healthy.daemon
    healthy.run()
    slow = [case.swarm(address, "slowloris", CLIENTS, "--hold=50")
            for address in (healthy.tcp, daemon.address)]
    for swarm in slow:
        swarm.until(lambda now: now["came"] >= CLIENTS, "they are there")
    newcomer = daemon.connect()
    case.check_equal(newcomer.greet()["version"], 1, f"behind {2 * CLIENTS} of them one that speaks "
                     f"is served")
    newcomer.close()
    healthy.run()
    for swarm in slow:
        now = swarm.until(lambda now: now["refused"] >= CLIENTS, "each is refused in time")
        case.check_equal((now["error"], now["subscribed"]), ("hello-timeout", 0), "and told why")
        swarm.leave()
    healthy.await_alone()
    healthy.finish()
    daemon.stop()

    server = tls.Server(case)
    daemon = case.daemon(*server.options(), f"--tls-timeout={TIMEOUT_S}s", "--viewer=cert:vera",
                         f"--pending-max={CLIENTS}",
                         listen=[f"unix:{case.path('run')}/tls.sock", "tcp:127.0.0.1:0"])
    address = [line.split()[-1] for line in daemon.log.splitlines()
               if "listening on tcp:" in line][0]
    trust = server.client("vera")
    swarm = case.swarm(address, "slowloris", CLIENTS // 2, "--hold=50", "--tls")
    swarm.until(lambda now: now["came"] >= CLIENTS // 2, "they are there")
    with tls.Connection(address, trust) as connection:
        case.check_equal(connection.greet()["role"], "viewer", "TLS: one that speaks is served")
    swarm.until(lambda now: now["closed"] >= CLIENTS // 2, "each that dribbles is sent away")
    swarm.leave()
    counters = daemon.stat()["counters"]
    case.check(counters["tls_failed"] >= CLIENTS // 2, "and counted", counters)
    case.check_balanced(daemon)


ringtail.run(main)
