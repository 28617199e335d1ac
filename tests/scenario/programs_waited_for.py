"""What is to be always recorded may be a program's that has never run: the daemon starts with it, an operator enables
it, both are told that it waits, and each event of the program is recorded from its first one on."""
import os

import ringtail
from lib.probing import THREADS, Traced, await_ended, build
from lib.process import wait_until

TURNS = 100
DONE, SIXTEENTH = THREADS * TURNS, THREADS * ((TURNS + 15) // 16)


def listed(case, daemon):
    probes = case.tracectl(daemon, "probes", "-o", "json").lines[0]["probes"]
    return [(probe["probe"], probe["waits"]) for probe in probes]


def enabled_in(case, daemon, program):
    lines = case.tracectl(daemon, "list", "app:*").out.splitlines()
    return sorted(line.split("(")[0] for line in lines if f"[enabled: traced {program.pid}]" in line)


def main(case):
    binary = build(case, "traced", "traced")
    socket = os.path.join(case.path("run"), "programs.sock")
    done = case.refused("--source=bpf", config="probe = app:request_done\n")
    case.check(done.code and "[unknown-probe]" in done.err, "without programs, nobody can bring it", done.err)
    daemon = case.daemon(f"--programs={socket}", "--user=root", config="probe = app:request_done\n")
    case.check("app:request_done, which config enabled, is left out until a program brings it" in daemon.log,
               "the daemon says what it waits for", daemon.log)
    done = case.tracectl(daemon, "enable", "app:sixteenth")
    case.check(done.code == 0 and done.out.count(", waits for a program") == 2, "so does tracectl", done.out, done.err)
    done = case.tracectl(daemon, "enable", "openta")
    case.check(done.code == 1 and "[unknown-probe]" in done.err, "what no program can bring is refused", done.err)
    case.check_equal(listed(case, daemon), [("app:request_done", True), ("app:sixteenth", True)], "in JSON, too")
    program = Traced(case, binary, socket, turns=TURNS)
    case.check_equal(listed(case, daemon), [("app:request_done", False), ("app:sixteenth", False)],
                     "the program is there, and nothing waits")
    wanted = ["app:request_done:event", "app:sixteenth:event"]
    wait_until(lambda: enabled_in(case, daemon, program) == wanted, "what waited is enabled, and no other")
    stream = case.stream(daemon, "-o", "none")
    case.check_equal(program.go().process.wait().code, 0, "the program ends well")
    await_ended(daemon)
    stream.await_all(DONE + SIXTEENTH)
    case.check_balanced(daemon)
    case.check_stream(stream.interrupt(), events=DONE + SIXTEENTH)


ringtail.run(main)
