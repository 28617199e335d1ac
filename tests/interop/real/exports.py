"""exports: each kind of export of events with each server that takes it."""
import ringtail
from lib.process import wait_until
from real.collector import Collector
from real.logs import Loki, VictoriaLogs
from real.traces import Jaeger

EVENT_SERVERS = [lambda case: VictoriaLogs(case, "otlp-logs"),
                 lambda case: VictoriaLogs(case, "loki"),
                 Loki, Jaeger,
                 lambda case: Collector(case, "otlp-logs"),
                 lambda case: Collector(case, "otlp-traces")]
# Keep what comes twice as one: a span has one place, a line of a stream has one time.
ONCE = {"jaeger", "loki"}


def start_all(case, makers=tuple(EVENT_SERVERS)):
    """Those that are built."""
    servers = []
    for make in makers:
        try:
            servers.append(make(case))
        except ringtail.Skip as reason:
            case.say(f"without: {reason}")
    if not servers:
        raise ringtail.Skip("none of the servers is here: make interop says why")
    return servers


def name_of(server):
    return f"{server.kind} to {server.program}"


def option(server, port=None):
    """--export, straight to the server, or to a proxy before it."""
    return f"--export={server.kind}:http://127.0.0.1:{port or server.port}{server.target}"


def await_numbers(server, wanted, seconds=30):
    """Waits until the server has them all; what it has then, with what is there twice."""
    wanted = set(wanted)
    try:
        wait_until(lambda: server.count() >= len(wanted) and set(server.numbers()) >= wanted,
                   "", seconds * ringtail.SLOW)
    except ringtail.Failure:
        missing = sorted(wanted - set(server.numbers()))
        raise ringtail.Failure(f"{name_of(server)}: of {len(wanted)} it counts {server.count()}; "
                               f"{len(missing)} are missing: {missing[:10]}...") from None
    return server.numbers()


def await_on_disk(server):
    wait_until(server.is_on_disk, f"{server.program} has written what it took", 30 * ringtail.SLOW)
