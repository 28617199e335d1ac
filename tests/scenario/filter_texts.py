"""Filters see the texts of arguments, in the daemon and in a recording: what they choose is known; a text that
is cut or was not recorded keeps no event out; the strings come along without being asked for. They
see names of numbers, too."""
import json
import os
import socket

import ringtail

LONG = "long-" + "x" * 150
CALLS = [("wanted", 7), ("other", 5), ("log/today", 3), (f"{LONG}-wanted", 2), (f"{LONG}-other", 1)]
PROGRAM = """
import ctypes, os, sys
sys.stdin.read(1)
libc = ctypes.CDLL(None)
for name, times in %r:
    for _ in range(times):
        libc.open(os.path.join(sys.argv[1], name).encode(), 0)
libc.open(None, 0)
libc.open(ctypes.c_void_p(4096), 0)
"""


def expectations(root, pid):
    """Filter, how many pass (of those of the long name: all of which nobody knows the end)."""
    mine = f"pid == {pid} && "
    within = f'{mine}filename =~ "{root}/*" && '
    unread = 1      # open(4096): nobody knows what stands there
    return [
        (f'{mine}filename == "{root}/wanted"', 7 + unread),
        (f'{within}filename =~ "*/log/*"', 3 + 3 + unread),
        (f'{within}filename =~ "*-wanted"', 3 + unread),
        (f'{within}filename != "{root}/wanted"', 5 + 3 + 3 + unread),
        (f'{within}!(filename =~ "*/long-*")', 7 + 5 + 3 + unread),
        (f'{within}filename in ("{root}/other", "{root}/log/today")', 5 + 3 + unread),
        (f'{mine}filename == "{root}/nobody"', unread),
        (f'{within}error != EFAULT', 18),
    ]


def said(line):
    return line["time"], line["seq"], line["args"], line.get("strings")


def names_of_numbers(case, daemon):
    """What the kernel's own trace calls a number, a filter knows, too."""
    probe, wanted = "tracepoint:sock:inet_sock_set_state", f"pid == {os.getpid()} && newstate == TCP_LISTEN"
    path = case.path("states.rt")
    live = case.stream(daemon, "-p", probe, "-f", wanted, "-o", "json")
    record = case.stream(daemon, "-p", probe, "-f", f"pid == {os.getpid()}", "-w", path, command="record")
    for _ in range(3):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
    case.await_rings_empty(daemon)
    live.await_all(3)
    record.await_all()
    done = live.interrupt()
    case.check_stream(done, events=3)
    case.check_stream(record.interrupt())
    again = case.tracectl(None, "read", path, "-f", wanted, "-o", "json")
    case.check_equal([said(line) for line in map(json.loads, again.out.splitlines())],
                     [said(line) for line in done.lines], "a recording gives the same three")
    wrong = case.tracectl(daemon, "stream", "-p", probe, "-f", "newstate == TCP_LISEN")
    case.check("column 13" in wrong.err and "did you mean `TCP_LISTEN`" in wrong.err, "the nearest name", wrong.err)


def main(case):
    daemon = case.daemon()
    root = os.path.dirname(case.path("x"))
    case.check(len(f"{root}/{LONG}") > 128 and len(root) < 110, "the long name is cut in its middle")
    process = case.start("python3", "-c", PROGRAM % CALLS, root, stdin=-1)
    wanted = expectations(root, process.popen.pid)
    live = [case.stream(daemon, "-p", "openat", "-p", "open", "-f", text, "-o", "json") for text, _ in wanted]
    path, bare = case.path("with.rt"), case.path("without.rt")
    own = f"pid == {process.popen.pid}"
    recorders = [case.stream(daemon, "-p", "openat", "-w", path, "-f", own, "--flags", "strings",
                             command="record"),
                 case.stream(daemon, "-p", "openat", "-w", bare, "-f", own, command="record")]
    process.popen.stdin.write(b"!")
    process.popen.stdin.close()
    case.check_equal(process.wait().code, 0, "the files are asked for")
    case.await_rings_empty(daemon)
    for stream in live + recorders:
        stream.await_all()
    for recorder in recorders:
        case.check_stream(recorder.interrupt())
    for stream, (text, count) in zip(live, wanted):
        done = stream.interrupt()
        case.check_stream(done, events=count)
        again = case.tracectl(None, "read", path, "-f", text, "-o", "json")
        case.check_equal([said(line) for line in map(json.loads, again.out.splitlines())],
                         [said(line) for line in done.lines], f"a recording gives the same {count} of {text}")
        case.check(all("filename" in line.get("strings", {}) or line.get("error") == "EFAULT"
                       for line in done.lines), "with their texts, without --flags strings", done.out)
    done = case.tracectl(None, "read", bare, "-f", f'filename == "{root}/wanted" && flags == 0', "-o",
                         "none")
    case.check("let through because a text that the filter asks for is cut or was not recorded" in done.err,
               "where no text was recorded, none is kept out, and that is told", done.err)
    case.check(daemon.stat()["counters"]["filter_undecided"] >= 3, "the daemon counts what it could not decide")
    names_of_numbers(case, daemon)
    case.check_balanced(daemon)


ringtail.run(main)
