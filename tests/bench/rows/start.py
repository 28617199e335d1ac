"""What a start takes: from just before ringtaild is executed to the first event that it recorded, by the
event's own time; and the CPU time of its processes until then and until they answer."""
import json
import time

from peers import host, ringtail
from report import Budget, Row

NAME = "start"
PROBE = "tracepoint:sched:sched_switch"     # happens at once, on every machine


def measure(bench):
    first = Row("start.first_event", "ms", budget=Budget(150))
    cpu = Row("start.cpu", "CPU ms", note="loader and engine, until they answer tracectl")
    for _ in range(bench.rounds(9)):
        figures = bench.attempt(first, lambda: start(bench))
        if figures:
            first.samples.append(figures[0])
            cpu.samples.append(figures[1])
    return [first, cpu]


def start(bench):
    """Milliseconds to the first event, and of CPU."""
    began_ns = time.monotonic_ns()
    with ringtail.Daemon(bench, "--probe", PROBE) as daemon:
        used_ns = daemon.cpu_ns()
        # It ends with 3: of the time before the start there is nothing, which it says.
        said = host.run(daemon.tracectl("stream", "-o", "json", "-n", "1", "--since", "-1m"), check=False)
    times = [line["time"] for line in map(json.loads, said.splitlines()) if line.get("wall")]
    if not times:
        raise host.Unavailable("tracectl had no event of the start")
    return (times[0] - began_ns) / 1e6, used_ns / 1e6
