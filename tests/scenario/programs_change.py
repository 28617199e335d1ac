"""Programs with probes become other programs, fork where nobody is told of it, have a thousand threads, load and unload
objects with probes, and run where memory is refused to them or to the daemon: every event that they pass while they are
attached comes, and where they cannot be attached they run on."""
import os
import shutil

import ringtail
from lib.probing import Program, await_ended, build
from lib.process import wait_until

TURNS, IMAGES = 100, 20
THREADS = max(1000 // ringtail.FEWER, 10)
LOADS = 100
DESCRIPTORS = 160
TINY_SHM = "mount -t tmpfs -o size=8k shm /dev/shm && { dd if=/dev/zero of=/dev/shm/full bs=1k 2>/dev/null; exec \"$0\" \"$@\"; }"


def pass_all(case, daemon, program, wanted, probes, text):
    """All its events come, of those processes that the kernel knows it by."""
    stream = case.stream(daemon, *(word for probe in probes for word in ("-p", probe)), "-o", "json")
    case.check_equal(program.go().process.wait().code, 0, f"{text}: the program ends well")
    await_ended(daemon)
    stream.await_all(wanted)
    case.check_balanced(daemon)
    done = stream.interrupt()
    case.check_stream(done, events=wanted)
    return done.lines


def become(case, daemon, binary, socket):
    program = Program(case, binary, socket, "image", TURNS, IMAGES)
    events = pass_all(case, daemon, program, TURNS * IMAGES, ["lives:turn"], "it becomes the same program again")
    case.check_equal({event["pid"] for event in events}, {program.pid}, "all images are one process")


def fork_bare(case, daemon, binary, socket):
    program = Program(case, binary, socket, "bare_fork", TURNS)
    pass_all(case, daemon, program, 2 * TURNS, ["lives:turn"], "a child that no handler knows of")


def have_threads(case, daemon, binary, socket):
    program = Program(case, binary, socket, "threads", THREADS, 10)
    events = pass_all(case, daemon, program, THREADS * 10, ["lives:turn"], f"{THREADS} threads")
    turns = {}
    for event in events:
        turns.setdefault(event["tid"], []).append(event["args"]["turn"])
    # The kernel may give the number of a thread that has ended to a later one: its turns begin again.
    case.check(all(seen == list(range(10)) * (len(seen) // 10) for seen in turns.values()),
               "and each has its events in its order", len(turns))


def load_objects(case, daemon, binary, socket):
    plugin = build(case, "plugin.so", "plugin", "-shared", "-fPIC")
    stopped = case.start_stream(daemon, "-p", "lives:turn", "-o", "none").await_subscribed()
    learn = Program(case, binary, socket, "loads", plugin, 1)
    case.check_equal(learn.go().process.wait().code, 0, "its object is known then")
    stopped.interrupt()
    listed = case.tracectl(daemon, "list", "plugin:*").out
    case.check("plugin:pass:event(turn, i, arg2, cpu)" in listed and "plugin.c:" in listed, "and is listed", listed)
    program = Program(case, binary, socket, "loads", plugin, LOADS)
    events = pass_all(case, daemon, program, LOADS * 11, ["lives:turn", "plugin:pass"], f"an object comes {LOADS} times")
    case.check_equal(program.passed(), LOADS * 11, "as it has counted itself")
    seen = [event["args"]["turn"] for event in events if event["probe"].startswith("plugin")]
    case.check_equal(seen, [turn for turn in range(LOADS) for _ in range(10)], "and those of the object are in order")


def have_full_shm(case, daemon, binary, socket):
    if not shutil.which("unshare"):
        return case.say("not tried: a full /dev/shm takes unshare")
    program = Program(case, binary, socket, "threads", 4, TURNS, before=["unshare", "-m", "sh", "-c", TINY_SHM])
    case.check(program.attached, "with a full /dev/shm, it is attached", program.process.read("err"))
    pass_all(case, daemon, program, 4 * TURNS, ["lives:turn"], "a full /dev/shm")
    return None


def have_no_address_space(case, socket, binary):
    program = Program(case, binary, socket, "threads", 4, TURNS, before=["prlimit", "--as=4194304"])
    case.check(not program.attached and program.go().process.wait().code == 0 and program.passed() == 4 * TURNS,
               "one that cannot map its rings runs without", program.out)


def refuse_memory(case, binary):
    """A daemon without descriptors cannot make the program's memory; when others have gone, it can."""
    socket = os.path.join(case.path("run"), "full.sock")
    daemon = case.daemon(f"--programs={socket}", before=["prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}"])
    crowd = Program(case, binary, "", "crowd", socket, DESCRIPTORS)
    crowd.go().process.wait_for("there", "out")
    case.check("no memory for its rings: Too many open files" in daemon.log, "the daemon says why it refuses one")
    case.check_equal(crowd.go().process.wait().code, 0, "all the others run on, and so does that one")
    case.check(0 < crowd.passed() < DESCRIPTORS, "that was not the first", crowd.passed())
    await_ended(daemon)
    program = Program(case, binary, socket, "waits", TURNS)
    wait_until(lambda: "passed" in program.out and program.go().passed() >= TURNS, "when they have gone, another is attached")
    stream = case.stream(daemon, "-p", "lives:turn", "-o", "none")
    begun = program.passed()
    wait_until(lambda: program.go().passed() >= begun + 10 * TURNS, "it writes")
    stream.await_all(TURNS)
    program.process.popen.kill()
    program.process.wait()
    await_ended(daemon)
    stream.await_all()
    case.check_balanced(daemon)
    summary = stream.interrupt().summary
    case.check(summary["ledger"] == "balanced" and summary["lost"] == 0 and
               program.passed() - begun - TURNS <= summary["events"],
               "and all its events come", begun, program.passed(), summary)


def main(case):
    if not shutil.which("prlimit"):
        raise ringtail.Skip("this takes prlimit")
    socket = os.path.join(case.path("run"), "programs.sock")
    binary = build(case, "lives", "lives")
    daemon = case.daemon(f"--programs={socket}", "--ring-size=4MiB")
    case.check(Program(case, binary, socket, "threads", 1, 1).go().process.wait().code == 0, "its probes are known then")
    become(case, daemon, binary, socket)
    fork_bare(case, daemon, binary, socket)
    have_threads(case, daemon, binary, socket)
    load_objects(case, daemon, binary, socket)
    have_full_shm(case, daemon, binary, socket)
    have_no_address_space(case, socket, binary)
    counters = daemon.stat()["counters"]
    case.check_equal((counters["program_records_bad"], counters["programs_corrupt"], counters["programs_cut"]),
                     (0, 0, 0), "nothing of all that is broken")
    case.check_balanced(daemon)
    refuse_memory(case, binary)


ringtail.run(main)
