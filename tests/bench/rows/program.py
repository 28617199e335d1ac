"""What an event of a program's own costs the thread that passes it, while it is streamed: four words, beside the same of
LTTng-UST, in turns; two threads at once beside one; a text of 64 bytes; a span, which is two events; and a probe and a
span that nobody asks for, without the loop around them."""
import json
import os

from peers import host, lttng, ringtail
from report import Budget, Row

BURST, GAP_US = 4000, 20000     # the ring holds that, and is read in between
EVENTS = 100 * BURST
SPAN_BURST = BURST // 2         # two events each, which are longer
LOOKS = 500_000_000


def emit(bench, kind, events=EVENTS, pauses=(BURST, GAP_US), threads=1):
    """ns for one."""
    cpus = ",".join(map(str, bench.cpus[:threads]))
    return json.loads(host.run([bench.program("bench/program_load"), kind, events, cpus, *pauses]))["ns_per_event"]


def streamed(bench, kind, probe, threads=1, burst=BURST, events_of_one=1):
    socket = bench.work / "programs.sock"
    with ringtail.Daemon(bench, f"--programs={socket}") as daemon:
        os.environ["RINGTAIL_PROGRAMS"] = str(socket)
        emit(bench, "nothing", 1)       # then its probes are known
        with ringtail.stream(daemon, "-p", probe) as client:
            cost = emit(bench, kind, 100 * burst, (burst, GAP_US), threads)
            summary = client.finish()
    events = threads * 100 * burst * events_of_one
    if summary["events"] + summary["lost"] != events or summary["lost"] > events / 50:
        raise host.Unavailable(f"{summary['events']} events and {summary['lost']} lost of {events}")
    return cost


def lttng_streamed(bench):
    with lttng.Session(bench.work) as session:
        program = bench.program("bench/lttng_ust_load")
        host.run([program, 1000, bench.cpus[0]])  # attach once
        cost = json.loads(host.run([program, EVENTS, bench.cpus[0], BURST, GAP_US]))["ns_per_event"]
        session.stop()
        session.kept(EVENTS)
    return cost


def measure(bench):
    words = Row("program.words", "ns", peer="LTTng-UST", budget=Budget(0.15, ratio=True))
    two = Row("program.two_threads", "ns", peer="one thread", budget=Budget(1.1, ratio=True))
    text = Row("program.text_64", "ns", note="64 bytes")
    span = Row("program.span", "ns", note="begin and end, with one number", peer="four words")
    disabled = Row("program.disabled", "ns", budget=Budget(0.5))
    no_span = Row("program.span_disabled", "ns")
    for _ in range(bench.rounds(5)):
        for row, kind, probe in ((words, "words", "bench:call"), (text, "text", "bench:text")):
            cost = bench.attempt(row, lambda: streamed(bench, kind, probe))
            if cost:
                row.samples.append(cost)
        cost = bench.attempt(span, lambda: streamed(bench, "span", "bench:span", burst=SPAN_BURST, events_of_one=2))
        if cost and words.samples:
            span.samples.append(cost)
            span.peer_samples.append(words.samples[-1])
        cost = bench.attempt(two, lambda: streamed(bench, "words", "bench:call", threads=2)) if len(bench.cpus) > 1 else None
        if cost and words.samples:
            two.samples.append(cost)
            two.peer_samples.append(words.samples[-1])
        cost = bench.attempt(words, lambda: lttng_streamed(bench))
        if cost:
            words.peer_samples.append(cost)
        bare = emit(bench, "nothing", LOOKS, ())
        disabled.samples.append(max(emit(bench, "disabled", LOOKS, ()) - bare, 0))
        no_span.samples.append(max(emit(bench, "span-disabled", LOOKS, ()) - bare, 0))
    return [words, two, text, span, disabled, no_span]
