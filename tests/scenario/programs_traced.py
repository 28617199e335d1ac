"""A program with probes of its own (ringtail-probe.h) is listed with formats and places, and every event that it counts
itself comes: of four threads, of a child, filtered by a field, and up to a SIGKILL. Without a daemon it runs as ever; one
that calls its provider as a system call is called is refused."""
import os
import signal

import ringtail
from lib.probing import THREADS, Traced, await_ended, build
from lib.process import wait_until

TURNS = 1500                    # all that fits into one ring: however late the daemon is, nothing is lost


def check_list(case, daemon):
    listed = case.tracectl(daemon, "list", "app:*").out.splitlines()
    case.check_equal(sorted(line.split("(")[0] for line in listed),
                     [f"app:{name}:event" for name in ("begins", "request_done", "sixteenth")], "its probes are listed")
    line = next(line for line in listed if "request_done" in line)
    case.check("(thread, turn, text, cpu)" in line and "traced.c:" in line and "thread %u turn %lu: %s" in line,
               "with fields, format and place", line)
    fields = case.tracectl(daemon, "list", "app:sixteenth", "-o", "json").lines[0]["fields"]
    case.check_equal([(field["name"], field["type"], field["bits"]) for field in fields],
                     [("thread", "unsigned", 32), ("turn", "signed", 32), ("cpu", "unsigned", 32)], "with types")


def listed_as(case, daemon):
    return case.tracectl(daemon, "list", "app:request_done").out.rsplit(" [", 1)[1].rstrip("]\n")


def enable_one(case, daemon, binary, socket, program):
    """Of two processes, the one that is asked for is enabled."""
    case.check_equal(listed_as(case, daemon), f"disabled: traced {program.pid}", "nobody asks for it")
    other = Traced(case, binary, socket, "threads", 1)
    stream = case.start_stream(daemon, "-p", "app:request_done", "--pid", str(program.pid), "-o", "none").await_subscribed()
    case.check_equal(listed_as(case, daemon), f"enabled: traced {program.pid}; disabled: traced {other.pid}",
                     "it is enabled in the process that is asked for")
    use = case.tracectl(daemon, "list", "app:request_done", "-o", "json").lines[0]["processes"]
    case.check_equal((use["count"], use["enabled"], sorted((at["pid"], at["enabled"]) for at in use["list"])),
                     (2, 1, sorted([(program.pid, True), (other.pid, False)])), "in JSON, too")
    case.check_equal(other.go().process.wait().code, 0, "the other one ends well")
    case.check_stream(stream.interrupt(), events=0)
    case.check_equal(daemon.stat()["counters"]["program_records"], 0, "and has written nothing")
    await_ended(daemon, attached=1)


def count_all(case, daemon, program):
    every = case.stream(daemon, "-p", "app:*", "-f", f"pid == {program.pid} && uid == {os.getuid()}", "-o", "json")
    one = case.stream(daemon, "-p", "app:request_done", "-f", f"pid == {program.pid} && thread == 2 && turn >= 500",
                      "-o", "none")
    case.check_equal(program.go().process.wait().code, 0, "the program ends well")
    wanted = THREADS * TURNS
    case.check_equal(program.witness(), wanted, f"and has counted {wanted} turns")
    every.await_all(1 + wanted + THREADS * ((TURNS + 15) // 16))
    one.await_all(TURNS - 500)
    case.check_balanced(daemon)
    case.check_stream(one.interrupt(), events=TURNS - 500)
    done = every.interrupt()
    case.check_stream(done, events=1 + wanted + THREADS * ((TURNS + 15) // 16))
    turns = {}
    for event in done.lines:
        if event["probe"] == "app:request_done:event":
            args = event["args"]
            if args["text"] != f"turn {args['turn']}" or event["pid"] != program.pid or event["comm"] != "traced":
                case.check(False, "the event is right", event)
            turns.setdefault((args["thread"], event["tid"]), []).append(args["turn"])
    case.check_equal(sorted(thread for thread, _ in turns), list(range(THREADS)), "each thread is one thread")
    case.check(all(seen == list(range(TURNS)) for seen in turns.values()), "and its turns come in their order")


def count_what_passes(case, daemon, binary, socket):
    """A filter on fields is asked in the program: nothing else is written, and that is counted."""
    counters = daemon.stat()["counters"]
    explained = case.tracectl(daemon, "stream", "--explain", "-p", "app:*", "-f", f"turn >= {TURNS - 100}").out
    case.check("program asks before it writes an event: the whole filter, of 3 probes;" in explained and
               "kernel" not in explained, "the explanation says so", explained)
    program = Traced(case, binary, socket, turns=TURNS)
    late = case.start_stream(daemon, "-p", "app:request_done", "-f", f"turn >= {TURNS - 100} && text != \"\"", "-o",
                             "none").await_subscribed()
    one = case.start_stream(daemon, "-p", "app:request_done", "-f", "thread == 2 && text =~ \"turn 1*\" && tid != 0",
                            "-o", "none").await_subscribed()
    case.check_equal(program.go().process.wait().code, 0, "the program ends well")
    begun = sum(str(turn).startswith("1") for turn in range(TURNS))
    both = sum(str(turn).startswith("1") for turn in range(TURNS - 100, TURNS))
    late.await_all(THREADS * 100)
    one.await_all(begun)
    await_ended(daemon)
    case.check_stream(late.interrupt(), events=THREADS * 100)
    case.check_stream(one.interrupt(), events=begun)
    now = daemon.stat()["counters"]
    written = now["program_records"] - counters["program_records"]
    case.check_equal(written, THREADS * 100 + begun - both, "what one of two filters lets pass is written, and no more")
    case.check_equal(now["program_events_filtered"] - counters["program_events_filtered"], THREADS * TURNS - written,
                     "the rest is counted")
    case.check_balanced(daemon)


def kill_in_the_middle(case, daemon, binary, socket):
    program = Traced(case, binary, socket)
    stream = case.stream(daemon, "-p", "app:request_done", "-f", f"pid == {program.pid}", "-o", "none")
    program.go()
    wait_until(lambda: program.witness() > 20_000, "it has written a while")
    os.kill(program.pid, signal.SIGKILL)
    program.process.wait()
    wanted = program.witness()
    await_ended(daemon)
    stream.await_all()
    case.check_balanced(daemon)
    summary = stream.interrupt().summary
    seen = summary["events"] + summary["lost"]
    case.check(summary["ledger"] == "balanced" and wanted <= seen <= wanted + THREADS,
               "what it wrote before the SIGKILL is delivered, or told as lost", wanted, summary)


def in_a_child(case, daemon, binary, socket):
    program = Traced(case, binary, socket, "fork", 100)
    stream = case.stream(daemon, "-p", "app:request_done", "-o", "json")
    case.check_equal(program.go().process.wait().code, 0, "a program that forks ends well")
    stream.await_all(200)
    events = stream.interrupt().lines
    pids = {event["args"]["thread"]: event["pid"] for event in events}
    case.check(len(events) == 200 and pids[0] == program.pid and pids[1] != program.pid,
               "the child's events are the child's", pids)


def main(case):
    binary, squatter = build(case, "traced", "traced"), build(case, "squatter", "traced", "-DSQUATS")
    socket = os.path.join(case.path("run"), "programs.sock")
    alone = Traced(case, binary, socket, turns=TURNS)
    case.check(not alone.attached and alone.go().process.wait().code == 0, "without a daemon it runs as ever")
    daemon = case.daemon(f"--programs={socket}")
    case.check_equal(os.stat(socket).st_mode & 0o777, 0o666, "every user may connect")
    program = Traced(case, binary, socket, turns=TURNS)
    case.check(program.attached, "it is attached as it starts")
    check_list(case, daemon)
    enable_one(case, daemon, binary, socket, program)
    count_all(case, daemon, program)
    count_what_passes(case, daemon, binary, socket)
    in_a_child(case, daemon, binary, socket)
    kill_in_the_middle(case, daemon, binary, socket)
    case.check_equal(listed_as(case, daemon), "no process has it now", "the list knows who has ended")
    refused = Traced(case, squatter, socket, turns=TURNS)
    case.check(not refused.attached and refused.go().process.wait().code == 0,
               "one that calls its probe as the kernel's is not attached, and runs")
    counters = daemon.stat()["counters"]
    case.check_equal((counters["programs_refused"], counters["program_records_bad"], counters["programs_corrupt"]),
                     (1, 0, 0), "the daemon counted that")
    case.check_balanced(daemon)


ringtail.run(main)
