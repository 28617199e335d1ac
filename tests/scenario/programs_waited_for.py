"""What is to be always recorded may be a program's that has never run: the daemon starts with it, an operator enables
it, both are told that it waits, and each event of the program is recorded from its first one on. So may what a client asks
for: it says that it waits, and begins when the program comes."""
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


ASKED = {
    "stream": ("-p", "app:request_done", "-o", "none"),
    "record": ("-p", "app:sixteenth", "-w", "sixteenth.rt"),
    "count": ("-p", "app:request_done", "-p", "app:sixteenth", "-f", "provider == \"app\"", "--by", "probe", "-o", "json"),
    "hist": ("-p", "app:request_done", "--of", "id", "-o", "json"),
}


def ask_early(case, daemon):
    """Each kind of client, before there is a program."""
    asked = {}
    for command, words in ASKED.items():
        words = [case.path(word) if word.endswith(".rt") else word for word in words]
        asked[command] = case.start_stream(daemon, *words, command=command)
        asked[command].wait_for(r"waits for a program: none has brought `app:\S+` yet .*\n +no program has brought probes so far")
    gone = case.start_stream(daemon, "-p", "app:request_done", "-o", "none")
    gone.wait_for("waits for a program")
    case.check_stream(gone.interrupt(), events=0)
    wait_until(lambda: daemon.stat()["clients"] == len(ASKED) + 1, "who waits no longer is no client any more")
    brief = case.tracectl(daemon, "--summary", "json", "count", "-p", "app:x", "--duration", "1ms")
    case.check_stream(brief, events=0)
    done = case.tracectl(daemon, "record", "-p", "app:x", "--duration", "1ms", "-w", case.path("none.rt"))
    case.check(done.code == 1 and not os.path.exists(case.path("none.rt")), "a recording of nothing is none", done.err)
    case.check(done.err.count("[waits-for-program]") == 1 and "[no-program]" in done.err, "why is told once, and what came of it",
               done.err)
    for words in (("-p", "app:x", "-p", "openta"), ("-p", "sched:nothing"), ("-p", "app:x", "--since", "-5s"),
                  ("-p", "app:x", "--", "true")):
        done = case.tracectl(daemon, "stream", *words)
        case.check(done.code and "waits for a program" not in done.err, f"{' '.join(words)} is refused at once", done.err)
    done = case.tracectl(daemon, "stream", "-p", "app:x", "-f", "id >")
    case.check(done.code and "[filter-incomplete]" in done.err and "waits" not in done.err, "so is a filter that is none", done.err)
    return asked


def check_early(case, asked):
    """What they had of the program, which has ended."""
    done = {command: client.interrupt() for command, client in asked.items()}
    case.check_stream(done["stream"], events=DONE)
    case.check_stream(done["record"], events=SIXTEENTH)
    read = case.tracectl(None, "--summary", "json", "read", case.path("sixteenth.rt"), "-o", "none")
    case.check_stream(read, events=SIXTEENTH)
    for command in ("count", "hist"):
        case.check_equal(done[command].summary["ledger"], "balanced", f"the ledger of {command} is balanced")
    counted = {row["key"]["probe"]: row["count"] for row in done["count"].lines if "key" in row}
    case.check_equal(counted, {"app:request_done:event": DONE, "app:sixteenth:event": SIXTEENTH}, "count has each event")
    case.check(f'"count":{DONE}' in done["hist"].out, "so has hist", done["hist"].out)


def check_names(case, daemon):
    """Where programs have been: whoever asks for another one is told which there are."""
    client = case.start_stream(daemon, "-p", "ap:request_done", "-o", "none")
    client.wait_for(r"none has brought `ap:request_done` yet .*\n +did you mean `app:request_done`\? Programs have brought: app$")
    case.check_stream(client.interrupt(), events=0)


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
    asked = ask_early(case, daemon)
    program = Traced(case, binary, socket, turns=TURNS)
    case.check_equal(listed(case, daemon), [("app:request_done", False), ("app:sixteenth", False)],
                     "the program is there, and nothing waits")
    wanted = ["app:request_done:event", "app:sixteenth:event"]
    wait_until(lambda: enabled_in(case, daemon, program) == wanted, "what waited is enabled, and no other")
    stream = case.stream(daemon, "-o", "none")
    for client in asked.values():
        client.await_subscribed()
    case.check_equal(program.go().process.wait().code, 0, "the program ends well")
    await_ended(daemon)
    stream.await_all(DONE + SIXTEENTH)
    case.check_balanced(daemon)
    case.check_stream(stream.interrupt(), events=DONE + SIXTEENTH)
    check_early(case, asked)
    check_names(case, daemon)
    case.check_balanced(daemon)


ringtail.run(main)
