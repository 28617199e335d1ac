"""A program in a container: it has PIDs, mounts and a root of its own, and finds the daemon where the documentation mounts the
socket's directory. The host knows it by the host's PID, and has each of its events; without that mount it runs as ever."""
import os
import shutil
import struct

import ringtail
from lib.probing import THREADS, Program, await_ended, build
from lib.process import children

TURNS = 500
IN_CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount", "--propagation=private", "sh", "-c")


def start(case, tree, mounts):
    """Of the environment it has nothing that names the socket."""
    run = f"cd {tree} && {mounts} exec chroot {tree} /bin/traced threads /counts {TURNS}"
    return Program(case, "env", "", "-u", "RINGTAIL_PROGRAMS", *IN_CONTAINER, run)


def descendant(pid):
    """The last of the line: the program itself, by the host's number."""
    while children(pid):
        pid = children(pid)[0]
    return pid


def witness(tree):
    with open(f"{tree}/counts", "rb") as file:
        return sum(struct.unpack(f"{THREADS}Q", file.read(8 * THREADS)))


def main(case):
    if os.geteuid() or not shutil.which("unshare"):
        raise ringtail.Skip("only root can make a container")
    tree, directory = case.path("tree"), case.path("run")
    for place in ("bin", "run/ringtail"):
        os.makedirs(f"{tree}/{place}")
    shutil.copy(build(case, "traced", "traced", "-static"), f"{tree}/bin/traced")
    daemon = case.daemon(f"--programs={directory}/programs.sock")
    alone = start(case, tree, "")
    case.check(not alone.attached, "without the mount there is no daemon", alone.out, alone.process.read("err"))
    alone.go().process.wait()
    place = f"{tree}/run/ringtail"
    program = start(case, tree, f"mount --bind {directory} {place} && mount -o remount,bind,ro {place} &&")
    case.check(program.attached, "with it there is one", program.out, program.process.read("err"))
    pid = descendant(program.pid)
    with open(f"/proc/{pid}/status") as file:
        inner = next(line.split()[1:] for line in file if line.startswith("NSpid:"))
    case.check(len(inner) > 1 and inner[0] == str(pid), "it has a number of its own", inner)
    case.check_equal(os.listdir(f"{tree}/run/ringtail"), [], "the host has nothing there")
    stream = case.stream(daemon, "-p", "app:request_done", "-f", f"pid == {pid}", "-o", "json")
    program.go().process.wait()
    await_ended(daemon)
    case.check_equal(witness(tree), THREADS * TURNS, "it has done what it was to")
    stream.await_all(THREADS * TURNS)
    case.check_balanced(daemon)
    done = stream.interrupt()
    case.check_stream(done, events=THREADS * TURNS)
    case.check_equal({(event["pid"], event["tid"], event["comm"]) for event in done.lines}, {(pid, pid, "traced")},
                     "each event has the host's number of the process")
    turns = [[event["args"]["turn"] for event in done.lines if event["args"]["thread"] == i] for i in range(THREADS)]
    case.check_equal(turns, [list(range(TURNS))] * THREADS, "each thread's are whole, and in their order")
    case.check_balanced(daemon)


ringtail.run(main)
