"""A recording that tracectl ends itself (-n, --duration, SIGINT, SIGTERM), or whose source ends, has an end:
a Bye with its reason. One that is cut between two frames, or whose tracectl was killed, has none, and
whoever reads it is told so, and exits with 3. A spool that is being written to is no such thing."""
import glob
import os
import signal

import ringtail
from lib import wire

CALLS = 3_000


def frames_of(path):
    """(offset, frame) of each frame."""
    with open(path, "rb") as file:
        data = file.read()
    at, frames = 0, []
    for frame in wire.cut(data):
        frames.append((at, frame))
        at += len(frame.bytes)
    return data, frames


def check_whole(case, path, reason, events=None):
    data, frames = frames_of(path)
    bye = frames[-1][1]
    case.check_equal((bye.name, [frame.name for _, frame in frames].count("Bye")), ("Bye", 1),
                     "it ends with a Bye, and has no other")
    case.check(reason in bye.values["reason"], f"which says why: {bye.values['reason']}", reason)
    read = case.tracectl(None, "--summary", "json", "read", path, "-o", "none")
    case.check_equal((read.code, read.summary["ledger"]), (0, "balanced"), "it reads as whole")
    if events is not None:
        case.check_equal(read.summary["events"], events, "with all its events")
    return data, frames


def check_cut(case, path):
    for words in (["read", path], ["read", path, "-o", "json"], ["read", path, "-o", "none"]):
        read = case.tracectl(None, "--summary", "json", *words)
        case.check_equal((read.code, read.summary["ledger"]), (3, "cut short"), "it is not whole")
        case.check(f"{path} has no end" in read.err and "[cut-short]" in read.err, "and says so",
                   read.err)
    piped = case.start("bash", "-c", f"cat {path} | {ringtail.BUILD}/tracectl read - -o none").wait()
    case.check_equal(piped.code, 3, "nor through a pipe")
    case.check("stdin has no end" in piped.err, "where it is told too", piped.err)


def record(case, daemon, name, *words):
    """A recording of CALLS events, and the tracectl that is still at it."""
    path = case.path(name)
    load = case.load(CALLS)
    running = case.stream(daemon, "-w", path, "-p", "syscall:getppid:call", "-f", load.filter, *words,
                          command="record")
    load.run()
    return path, running


def is_written(case, path):
    """All of a recording that has no end yet, as far as it goes."""
    read = case.tracectl(None, "--summary", "json", "read", path, "-o", "none")
    return read.code == 3 and read.summary["events"] == CALLS


def main(case):
    state = case.path("state")
    daemon = case.daemon("--ring-size=8MiB", "--durability=written", f"--state-dir={state}",
                         "--probe=syscall:getppid:call", f"--filter=comm == \"{case.own_comm}\"")
    for number, name in (signal.SIGINT, "int.rt"), (signal.SIGTERM, "term.rt"):
        path, running = record(case, daemon, name)
        running.await_all(CALLS)
        running.signal(number)
        case.check_equal(running.wait().code, 0, "tracectl ends well")
        data, frames = check_whole(case, path, "interrupted", CALLS)
    path, running = record(case, daemon, "count.rt", "-n", str(CALLS))
    case.check_equal(running.wait().code, 0, "-n ends it")
    check_whole(case, path, "-n", CALLS)
    path = case.path("duration.rt")
    case.check_equal(case.tracectl(daemon, "record", "-w", path, "--duration", "300ms").code, 0,
                     "--duration ends it")
    check_whole(case, path, "--duration")

    # Cut between any two frames behind the first.
    for offset, _ in frames[1:]:
        cut = case.write("cut.rt", data[:offset])
        if offset in (frames[1][0], frames[-1][0]):
            check_cut(case, cut)
        else:
            case.check_equal(case.tracectl(None, "read", cut, "-o", "none").code, 3,
                             f"cut at byte {offset}")
    path, running = record(case, daemon, "killed.rt")
    running.await_all(CALLS)
    # What has come is written when nothing more is at hand: whole frames then.
    ringtail.wait_until(lambda: is_written(case, path), "it is written")
    running.popen.kill()
    running.popen.wait()
    check_cut(case, path)

    # The newest segment of a spool that is being written has no end, and nothing is wrong with it.
    load = case.load(CALLS, comm=case.own_comm)
    load.run()
    directory, = glob.glob(f"{state}/spool/*")

    def stored():
        read = case.tracectl(None, "--summary", "json", "read", directory, "-o", "none")
        return read.summary["events"] == CALLS and read
    read = ringtail.wait_until(stored, "all of it is stored")
    case.check_equal((read.code, read.summary["events"], read.summary["ledger"]),
                     (0, CALLS, "balanced"), "a spool that is being written to is whole")
    opened, = glob.glob(f"{directory}/*.open")
    case.check_equal(case.tracectl(None, "read", opened, "-o", "none").code, 3,
                     "its newest segment alone is not")
    case.check_balanced(daemon)
    daemon.stop()
    sealed, = glob.glob(f"{directory}/*.seg")
    case.check_equal(case.tracectl(None, "read", sealed, "-o", "none").code, 0, "once sealed it is")

    # A source that ends; and one of an older version, which had no end, gets one by being replayed.
    older = case.write("older.rt", data[:frames[-1][0]])
    replay = case.daemon("--replay-pace=fast", source=f"replay:{older}")
    path = case.path("replayed.rt")
    done = case.tracectl(replay, "record", "-w", path, "-p", "*:*:*", "--flags", "strings")
    case.check_equal(done.code, 0, "tracectl ends with its source")
    check_whole(case, path, "", CALLS)
    case.check("[recording-cut-short]" in replay.log, "the daemon says that it had no end")


ringtail.run(main)
