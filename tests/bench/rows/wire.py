"""How many bytes a call costs on the wire: on tbench and on a compile, as tracectl's summary says,
beside what trace-cmd sends for the same work and what LTTng sends for an event. ringtail is asked
for the work's own programs, so that nobody else's calls are in the figure; trace-cmd records all
there are, and its bytes per call do not depend on them."""
from peers import host, lttng, ringtail, trace_cmd
from peers.tbench import Tbench
from report import Budget, Row

NAME = "wire"
TBENCH_S = 2
SOURCES = 24
COMPILERS = ("make", "gcc", "cc1", "as", "collect2", "ld")
LTTNG_EVENTS = 500_000
LTTNG_BURST, LTTNG_GAP_US = 20_000, 2_000  # slow enough for nothing to be discarded
SOURCE = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
int number_{n}(int argc, char **argv)
{{
	for (int i = 0; i < argc; i++)
		printf("%zu %d\\n", strlen(argv[i]), {n});
	return socket(AF_INET, SOCK_STREAM, 0) + getpid();
}}
"""


def make_tree(directory):
    """A small C program of SOURCES files, and its Makefile."""
    directory.mkdir(exist_ok=True)
    objects = [f"number_{n}.o" for n in range(SOURCES)]
    for n in range(SOURCES):
        (directory / f"number_{n}.c").write_text(SOURCE.format(n=n))
    (directory / "main.c").write_text("int main(void) { return 0; }\n")
    (directory / "Makefile").write_text(
        f"program: main.o {' '.join(objects)}\n\t$(CC) -o $@ $^\n"
        f"clean:\n\trm -f program main.o {' '.join(objects)}\n")
    return directory


def compile_tree(directory):
    for goal in ("clean", "program"):
        host.run(["make", "-C", directory, "-j", len(host.CPUS), "CFLAGS=-O2", "CC=gcc", goal])


def measure(bench):
    rounds = bench.rounds(3)
    tree = make_tree(bench.work / "tree")
    per_event = lttng_bytes(bench)
    with Tbench(bench.work) as tbench:
        works = (("tbench", 0.37, ("tbench", "tbench_srv"), lambda: tbench.run(TBENCH_S)),
                 ("compile", 0.4, COMPILERS, lambda: compile_tree(tree)))
        for name, limit, programs, work in works:
            row = Row(f"wire.{name}", "B/call", peer="trace-cmd record -N, per call")
            packed = Row(f"wire.{name}_file", "B/call", budget=Budget(limit, ratio=True),
                         peer="trace-cmd's file, compressed afterwards, per call")
            event = Row(f"wire.{name}_lttng", "B/call", peer="LTTng-UST, per event",
                        peer_samples=per_event.samples, why=per_event.why)
            for _ in range(rounds):
                figures = bench.attempt(row, lambda: ringtail_bytes(bench, programs, work))
                if figures:
                    for each in (row, packed, event):
                        each.samples.append(figures[0])
                    row.note = f"{figures[1]:,} calls a round, {figures[2]} lost in the last"
                figures = bench.attempt(row, lambda: trace_cmd_bytes(bench, work),
                                        trace_cmd.TRIES)
                if figures:
                    row.peer_samples.append(figures[0])
                    packed.peer_samples.append(figures[1])
            yield from (row, packed, event)


def ringtail_bytes(bench, programs, work):
    """Wire bytes per call, calls, and calls lost."""
    wanted = " || ".join(f'comm == "{program}"' for program in programs)
    with ringtail.Daemon(bench) as daemon:
        with ringtail.stream(daemon, "-p", "syscall:*:call", "-f", wanted) as client:
            work()
            summary = client.finish()
    events = max(summary["events"], 1)
    return summary["wire_bytes"] / events, events, summary["lost"]


def trace_cmd_bytes(bench, work):
    """Bytes per call as -N sends them, and as the finished file has them."""
    file = bench.work / "wire.dat"
    with trace_cmd.record(bench.work, "-o", file) as recording:
        work()
    calls = max(trace_cmd.read_events(file) / 2, 1)  # entry and return
    raw, packed = trace_cmd.data_bytes(recording)
    file.unlink()
    return raw / calls, packed / calls


def lttng_bytes(bench):
    row = Row("lttng", "B/event")
    figure = bench.attempt(row, lambda: lttng_received(bench))
    if figure:
        row.samples.append(figure)
    return row


def lttng_received(bench):
    with lttng.Session(bench.work) as session:
        host.run([bench.program("bench/lttng_ust_load"), LTTNG_EVENTS, bench.cpus[0],
                  LTTNG_BURST, LTTNG_GAP_US])
        session.stop()
        return session.received_bytes() / session.kept(LTTNG_EVENTS)
