"""What a subscription costs when nothing happens: CPU time over quiet spans, one after the other, all
processes of each tracer together, all tracers over the same spans."""
import signal
import time

from peers import host, lttng, perf, ringtail
from report import Budget, Row

NAME = "idle"
SECONDS = 5


def measure(bench):
    row = Row("idle", "% of a core", budget=Budget(1, ratio=True), peer="LTTng, live session", paired=True)
    perf_row = Row("idle.vs_perf", "% of a core", budget=Budget(2, ratio=True), peer="perf record", paired=True)
    pids, used = {}, {}
    with ringtail.Load(bench, 1, bench.cpus[:1]) as sleeper:
        with ringtail.Daemon(bench) as daemon:
            with ringtail.stream(daemon, "-p", "syscall:*:call", "-f", sleeper.filter):
                with bench.optional(row, lttng.Session(bench.work, live=True)) as session, \
                     bench.optional(row, quiet_application(bench)), \
                     bench.optional(perf_row, perf.record(bench.work, "-p", sleeper.pids[0])) \
                        as recorder:
                    pids["ringtail"] = daemon.processes()
                    if session:
                        pids["lttng"] = [session.sessiond.pid, *session.collectors()]
                    if recorder:
                        pids["perf"] = [recorder.pid]
                    time.sleep(1)
                    for _ in range(bench.rounds(10)):
                        for name, percent in watch(pids).items():
                            used.setdefault(name, []).append(percent)
    row.samples = perf_row.samples = used["ringtail"]
    row.peer_samples, perf_row.peer_samples = used.get("lttng", []), used.get("perf", [])
    return [row, perf_row]


def quiet_application(bench):
    """For LTTng: an application that emits one event and then waits. Without it there is nothing
    to watch over."""
    return host.Child([bench.program("bench/lttng_ust_load"), 2, bench.cpus[0], 1, 600_000_000],
                      bench.work / "quiet.log", stop=signal.SIGTERM)


def watch(pids):
    """Percent of one core by name, over a span."""
    before = {name: host.cpu_ns(*each) for name, each in pids.items()}
    start = time.monotonic()
    time.sleep(SECONDS)
    span_ns = (time.monotonic() - start) * 1e9
    return {name: 100 * (host.cpu_ns(*each) - before[name]) / span_ns
            for name, each in pids.items()}
