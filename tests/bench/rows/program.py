"""What an event of a program's own costs the thread that passes it, while it is streamed: four words, with the processor's
counter and with the vDSO's clock, and a text of 64 bytes, beside the same of LTTng-UST, in turns; two threads at once beside
one; a span, which is two events; and a probe and a span that nobody asks for, without the loop around them. What the
engine takes for such an event, beside LTTng's consumer and relay; and how long the slowest of a thousand programs took to
be known."""
import json
import os

from peers import host, lttng, ringtail
from report import Budget, Row

BURST, GAP_US = 4000, 20000     # the ring holds that, and is read in between
EVENTS = 100 * BURST
SPAN_BURST = BURST // 2         # two events each, which are longer
LOOKS = 500_000_000
PROGRAMS = 1000


def load(bench, kind, events=EVENTS, pauses=(BURST, GAP_US), threads=1):
    cpus = ",".join(map(str, bench.cpus[:threads]))
    return json.loads(host.run([bench.program("bench/program_load"), kind, events, cpus, *pauses]))


def emit(bench, kind, *words, **options):
    """ns for one."""
    return load(bench, kind, *words, **options)["ns_per_event"]


def start(bench):
    socket = bench.work / "programs.sock"
    os.environ["RINGTAIL_PROGRAMS"] = str(socket)
    return ringtail.Daemon(bench, f"--programs={socket}")


def streamed(bench, kind, probe, threads=1, burst=BURST, events_of_one=1):
    """ns for one, and the engine's CPU ns for each event."""
    with start(bench) as daemon:
        emit(bench, "nothing", 1)       # then its probes are known
        with ringtail.stream(daemon, "-p", probe) as client:
            before = daemon.engine_cpu_ns()
            cost = emit(bench, kind, 100 * burst, (burst, GAP_US), threads)
            summary = client.finish()
            spent = daemon.engine_cpu_ns() - before
    events = threads * 100 * burst * events_of_one
    if summary["events"] + summary["lost"] != events or summary["lost"] > events / 50:
        raise host.Unavailable(f"{summary['events']} events and {summary['lost']} lost of {events}")
    return cost, spent / summary["events"]


def lttng_streamed(bench, *kind):
    """The same of LTTng's: its consumer's and its relay's CPU time."""
    with lttng.Session(bench.work) as session:
        program = bench.program("bench/lttng_ust_load")
        host.run([program, 1000, bench.cpus[0]])  # attach once
        pids = session.collectors()
        before = host.cpu_ns(*pids)
        cost = json.loads(host.run([program, EVENTS, bench.cpus[0], BURST, GAP_US, *kind]))["ns_per_event"]
        session.stop()
        return cost, (host.cpu_ns(*pids) - before) / session.kept(EVENTS)


def slowest_ms(bench):
    with start(bench):
        return load(bench, "attach", PROGRAMS, ())["slowest_ns"] / 1e6


def add(bench, row, samples, figure):
    """What figure() returns goes to the lists."""
    got = bench.attempt(row, figure)
    if got:
        for each, value in zip(samples, got):
            each.append(value)
    return got


def measure(bench):
    words = Row("program.words", "ns", peer="LTTng-UST", budget=Budget(0.15, ratio=True))
    clock = Row("program.clock", "ns", note="with the vDSO's clock", peer="LTTng-UST", budget=Budget(0.25, ratio=True))
    text = Row("program.text_64", "ns", note="64 bytes", peer="LTTng-UST", budget=Budget(0.3, ratio=True))
    two = Row("program.two_threads", "ns", peer="one thread", budget=Budget(1, ratio=True))
    collector = Row("program.collector", "CPU ns/event", peer="LTTng-UST consumerd+relayd",
                    note="four words, compressed; LTTng's are not", budget=Budget(1, ratio=True))
    span = Row("program.span", "ns", note="begin and end, with one number", peer="four words")
    disabled = Row("program.disabled", "ns", budget=Budget(0.5))
    no_span = Row("program.span_disabled", "ns")
    discovery = Row("program.discovery", "ms", note=f"the slowest of {PROGRAMS}", budget=Budget(10))
    for _ in range(bench.rounds(5)):
        got = add(bench, words, (words.samples, collector.samples), lambda: streamed(bench, "words", "bench:call"))
        add(bench, clock, (clock.samples,), lambda: streamed(bench, "clock", "bench:call"))
        add(bench, text, (text.samples,), lambda: streamed(bench, "text", "bench:text"))
        if got:
            if add(bench, span, (span.samples,),
                   lambda: streamed(bench, "span", "bench:span", burst=SPAN_BURST, events_of_one=2)):
                span.peer_samples.append(got[0])
            if len(bench.cpus) > 1 and add(bench, two, (two.samples,),
                                           lambda: streamed(bench, "words", "bench:call", threads=2)):
                two.peer_samples.append(got[0])
        peer = add(bench, words, (words.peer_samples, collector.peer_samples), lambda: lttng_streamed(bench))
        if peer:
            clock.peer_samples.append(peer[0])
        add(bench, text, (text.peer_samples,), lambda: lttng_streamed(bench, "text"))
        bare = emit(bench, "nothing", LOOKS, ())
        disabled.samples.append(max(emit(bench, "disabled", LOOKS, ()) - bare, 0))
        no_span.samples.append(max(emit(bench, "span-disabled", LOOKS, ()) - bare, 0))
        add(bench, discovery, (discovery.samples,), lambda: (slowest_ms(bench),))
    return [words, clock, text, two, collector, span, disabled, no_span, discovery]
