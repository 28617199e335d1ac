"""The network of some clients is cut, and nobody is told: they are given up in time, the others notice
nothing, and once it is mended they come back and go on where they were.

        daemon (TLS) ==== veth ==== clients in a namespace
"""
import ringtail
from lib import tls

CALLS = 20_000
CLIENTS = 4
SILENCE_S = 6                   # longer than a busy machine keeps a client from its turn

ESTABLISHED = "01"              # in /proc/net/tcp


def main(case):
    with ringtail.Network(case) as network:
        run(case, network)


def on_the_way(port):
    """Bytes that a peer of that port has not got yet."""
    with open("/proc/net/tcp") as file:
        rows = [line.split() for line in file][1:]
    return sum(int(queues.split(":")[0], 16) for _, local, _, state, queues, *_ in rows
               if local.endswith(f":{port:04X}") and state == ESTABLISHED)


def run(case, network):
    server = tls.Server(case, names=f"IP:{network.address}")
    daemon = case.daemon(*server.options(), "--viewer=cert:vera", "--ring-size=16MiB",
                         f"--silence-timeout={SILENCE_S}s", "--history-age=600s",
                         listen=[f"unix:{case.path('run')}/h.sock", f"tcp:{network.address}:0"])
    address = [line.split()[-1] for line in daemon.log.splitlines()
               if "listening on tcp:" in line][0]
    trust = server.client("vera")
    loads = [case.load(CALLS) for _ in range(3)]
    pids = ", ".join(str(load.pids[0]) for load in loads)
    words = ["-p", "syscall:getppid:call", "-f", f"pid in ({pids})", "-o", "none"]
    near = case.stream(daemon, *words)
    far = [case.start(*network.inside, f"{ringtail.BUILD}/tracectl", "--connect", address, *trust,
                      "--summary", "json", "stream", *words) for _ in range(CLIENTS)]

    def streaming():
        return sum(bool(client["probe"]) for client in daemon.stat()["client"])
    ringtail.wait_until(lambda: streaming() == CLIENTS + 1, "all are subscribed")
    loads[0].run()
    near.await_all(CALLS)
    ringtail.wait_until(lambda: all(client["delivered"] == CALLS for client in daemon.stat()["client"]
                                    if client["probe"]), "all have the first events")
    network.cut()
    far[0].kill()               # nobody hears of it
    loads[1].run()
    near.await_all(2 * CALLS)
    case.say("ok: the one that is left goes on")
    ringtail.wait_until(lambda: streaming() == 1, "the others are given up")
    case.say("ok: they are given up")
    case.check_balanced(daemon)
    network.mend()
    ringtail.wait_until(lambda: streaming() == CLIENTS, "who lives comes back")
    loads[2].run()
    near.await_all(3 * CALLS)

    def all_have_it():
        return all(not client["in_flight"] for client in daemon.stat()["client"]) and \
            not on_the_way(int(address.rpartition(":")[2]))
    ringtail.wait_until(all_have_it, "they have all of it")
    case.check_balanced(daemon)
    for client in far[1:]:
        done = client.interrupt()
        case.check_equal((done.code, done.summary["lost"], done.summary["events"]),
                         (0, 0, 3 * CALLS), "one that came back has every event once")
    case.check_stream(near.interrupt(), events=3 * CALLS)


ringtail.run(main)
