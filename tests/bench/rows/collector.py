"""What collecting costs: CPU time of ringtaild's engine for each call it drains, encodes,
compresses and sends, while a client receives them; beside it LTTng's consumer and relay."""
import time

from peers import host, lttng, ringtail, roads
from peers.tbench import captured
from report import Budget, Row

NAME = "collector"
CALLS = 4_000_000
LTTNG_EVENTS = 2_000_000
LTTNG = "LTTng-UST consumerd+relayd, per event"


def measure(bench):
    rounds = bench.rounds(3)
    live = Row("collector.load", "CPU ns/call", peer=LTTNG, budget=Budget(1, ratio=True))
    rate = Row("collector.rate", "calls/s/core", peer="LTTng-UST consumerd+relayd")
    replay = Row("collector.replay", "CPU ns/call", peer=LTTNG, budget=Budget(1.3, ratio=True),
                 note="tbench's calls from a file, as fast as the engine takes them")
    tls = Row("collector.tls", "CPU ns/call", peer="the same over plain TCP", budget=Budget(1.1, ratio=True))
    tls_unix = Row("collector.tls_unix", "CPU ns/call", peer="the same over the unix socket")
    lost = lost_tls = 0
    capture = bench.attempt(replay, lambda: captured(bench))
    for _ in range(rounds):
        figures = bench.attempt(live, lambda: stream_load(bench))
        if figures:
            live.samples.append(figures[0])
            rate.samples.append(1e9 / figures[0])
            tls_unix.peer_samples.append(figures[0])
            lost += figures[1]
        figures = bench.attempt(tls, lambda: stream_load(bench, roads.tcp()))
        if figures:
            tls.peer_samples.append(figures[0])
        figures = bench.attempt(tls, lambda: stream_load(bench, roads.tls(bench)))
        if figures:
            tls.samples.append(figures[0])
            tls_unix.samples.append(figures[0])
            lost_tls += figures[1]
        peer = bench.attempt(live, lambda: lttng_load(bench))
        if peer:
            live.peer_samples.append(peer)
            replay.peer_samples.append(peer)
            rate.peer_samples.append(1e9 / peer)
        if capture:
            figure = bench.attempt(replay, lambda: replay_capture(bench, capture))
            if figure:
                replay.samples.append(figure)
    live.note = f"{lost} calls lost in {rounds} rounds; LTTng's events are not compressed"
    tls.note = f"{lost_tls} calls lost in {rounds} rounds; TLS 1.3 over loopback"
    return [live, rate, replay, tls, tls_unix]


def stream_load(bench, road=None):
    """One process calls getppid flat out. CPU ns per call, and calls lost."""
    with ringtail.Daemon(bench, road=road) as daemon, ringtail.Load(bench, CALLS, bench.cpus[:1]) as load:
        with ringtail.stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter) as client:
            before = daemon.engine_cpu_ns()
            load.go()
            time.sleep(ringtail.SETTLE_S)
            spent = daemon.engine_cpu_ns() - before
            summary = client.finish()
    return spent / max(summary["events"], 1), summary["lost"]


def lttng_load(bench):
    """The same of an application that emits LTTng-UST events. CPU ns per event."""
    with lttng.Session(bench.work) as session:
        host.run([bench.program("bench/lttng_ust_load"), 1000, bench.cpus[0]])  # attach once
        pids = session.collectors()
        before = host.cpu_ns(*pids)
        host.run([bench.program("bench/lttng_ust_load"), LTTNG_EVENTS, bench.cpus[0]])
        session.stop()
        spent = host.cpu_ns(*pids) - before
        return spent / session.kept(LTTNG_EVENTS)


def replay_capture(bench, capture):
    """CPU ns per call of the engine when the rings are always full."""
    options = ["--source", f"replay:{capture}", "--replay-pace", "fast"]
    with ringtail.Daemon(bench, *options) as daemon:
        before = daemon.engine_cpu_ns()
        with ringtail.stream(daemon, "-p", "syscall:*:call") as client:
            client.child.process.wait(60)
            spent = daemon.engine_cpu_ns() - before
            events = client.summarise()["events"]
    return spent / max(events, 1)
