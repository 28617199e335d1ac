"""Functions of the kernel, called and left, beside the kernel's own record of the same calls: ftrace's kprobes. Where
the kernel lets nobody have such probes, the refusal names the cause, and something that can be asked for instead."""
import json
import re
import signal
import subprocess
import sys

import ringtail
from lib.ftrace import Event, Ftrace

TURNS = 300
ODD = 4711          # bytes that only our own reads ask for
READER = f"""
import os, signal, sys
zeros = os.open("/dev/zero", os.O_RDONLY)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
print("ready", flush=True)
for line in sys.stdin:
    for i in range({TURNS}):
        os.read(zeros, {ODD} + i % 2)
    os.kill(os.getpid(), signal.SIGUSR1)
    try:
        os.stat("/no/such/place")
    except OSError:
        pass
    for i in range({TURNS}):
        os.getpgid(0)
    print("done", flush=True)
"""


class Reader:
    """A process that calls the functions, a turn for each line."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-c", READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.process.stdout.readline()
        self.pid = self.process.pid

    def turn(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()


def refused(case, daemon, spec, code):
    """Why, where this kernel has none; None where it has."""
    done = case.tracectl(daemon, "list", spec)
    if done.code == 0:
        return None
    case.check(f"[{code}]" in done.err and "tracectl list 'tracepoint:*'" in done.err and "doctor" in done.err,
               f"the refusal of {spec} names the cause, and what to ask for instead", done.err)
    return done.err



def record(case, daemon, reader, specs):
    """ftrace's lines of vfs_read's calls and returns, and our events by probe."""
    ftrace = Ftrace([], kilobytes=8192)
    events = [Event(ftrace, "kprobe_events", "p", "entered vfs_read count=%dx:x64"),
              Event(ftrace, "kprobe_events", "r", "left vfs_read result=$retval:x64")]
    stream = case.stream(daemon, *(word for spec in specs for word in ("-p", spec)), "-f", f"pid == {reader.pid}",
                         "--flags", "strings,kstack", "-o", "json")
    try:
        ftrace.events = [event.name for event in events]
        ftrace.begin(reader.pid)    # only it: to read the trace is to call vfs_read, too
        reader.turn()
        case.await_rings_empty(daemon)
        stream.await_all()
        case.check_balanced(daemon)
        done = stream.interrupt()
        theirs = [ftrace.lines(event.name, reader.pid) for event in events]
    finally:
        (ftrace.path / "events" / "enable").write_text("0")
        ftrace.close_instance()
        for event in events:
            event.close()
        ftrace.close_mount()
    items = [json.loads(line) for line in done.out.splitlines()]
    return theirs, {spec: [item for item in items if item.get("probe") == spec] for spec in specs}


def ours(values):
    """Those of the reads that only the process makes; it also reads the lines that it is sent."""
    return [value for value in values if value in (ODD, ODD + 1)]


def check_reads(case, theirs, got):
    made = [ODD + i % 2 for i in range(TURNS)]
    entered, left = ([int(text.split("=")[-1], 16) for _, text in lines] for lines in theirs)
    case.check_equal((ours(entered), ours(left)), (made, made), "ftrace has the calls that were made")
    for spec, name in (("fentry:vfs_read:call", "count"), ("kprobe:vfs_read:call", "count"),
                       ("kretprobe:vfs_read:return", "retval")):
        if spec in got:
            case.check_equal(ours(item["args"][name] for item in got[spec]), made, f"{spec} has the same, in their order")
    spec = "fexit:vfs_read:return"
    if spec in got:
        both = [(item["args"]["count"], item["args"]["retval"]) for item in got[spec]]
        case.check_equal([pair for pair in both if pair[0] in made], list(zip(made, made)),
                         "fexit has arguments and result in one event")
        case.check(all(list(item["args"]) == ["file", "buf", "count", "pos", "retval"] for item in got[spec]),
                   "by their names")
    stacks = [item.get("kstack", []) for items in got.values() for item in items]
    case.check(stacks and all(stacks), "each has a stack of the kernel")
    named = {spec: {item["kstack_names"][0].get("name") for item in items} for spec, items in got.items()}
    case.check(not any(re.match(r"bpf_(prog|trampoline)_", name or "") for names in named.values() for name in names),
               "which begins behind the frames of the recording itself", named)


def check_typed(case, daemon, reader):
    """Signs, enums by name, and strings."""
    specs = ["fentry:do_send_sig_info:call", "fentry:getname_flags:call"]
    streams = [case.stream(daemon, *(word for spec in specs for word in ("-p", spec)), "-f", f"pid == {reader.pid}",
                           "--flags", flags, "-o", output)
               for flags, output in (("strings", "json"), ("strings", "text"), ("none", "json"))]
    reader.turn()
    case.await_rings_empty(daemon)
    for stream in streams:
        stream.await_all()
    items, text, bare = (stream.interrupt().out for stream in streams)
    case.check("getname_flags" in bare and '"strings"' not in bare, "who did not ask for strings gets none that others did",
               bare)
    items = [json.loads(line) for line in items.splitlines() if '"probe"' in line]
    sent = [item["args"] for item in items if item["probe"] == specs[0]]
    case.check_equal([(args["sig"], args["type"]) for args in sent], [(signal.SIGUSR1, 1)], "numbers are numbers")
    case.check("type=PIDTYPE_TGID" in text, "and in text, enums have their names", text)
    names = [item.get("strings", {}).get("filename") for item in items if item["probe"] == specs[1]]
    case.check("/no/such/place" in names, "strings are read where they are asked for", names)


def main(case):
    daemon = case.daemon("--ring-size=16MiB")
    why = {"fentry": refused(case, daemon, "fentry:vfs_read", "fentry-not-here"),
           "kprobe": refused(case, daemon, "kprobe:vfs_read", "kprobe-not-here")}
    if all(why.values()):
        case.check("Operation not permitted" in why["fentry"] or "BTF" in why["fentry"], "with what the kernel said")
        return
    reader = Reader()
    specs = ["fentry:vfs_read:call", "fexit:vfs_read:return"] if not why["fentry"] else []
    if not why["kprobe"]:
        specs += ["kprobe:vfs_read:call", "kretprobe:vfs_read:return", "kprobe:__x64_sys_getpgid:call"]
    theirs, got = record(case, daemon, reader, specs)
    if not why["kprobe"]:
        case.check_equal(len(got.pop("kprobe:__x64_sys_getpgid:call")), TURNS,
                         "a function without types is recorded, too")
    check_reads(case, theirs, got)
    if not why["fentry"]:
        check_typed(case, daemon, reader)
        listed = case.tracectl(daemon, "list", "fentry:vfs_*").out.splitlines()
        case.check("fentry:vfs_read:call(file, buf, count, pos)" in listed and len(listed) > 20,
                   "they are listed", listed)
        for spec, code in (("fentry:vfs_raed", "unknown-probe"), ("fexit:*", "too-many-probes")):
            done = case.tracectl(daemon, "stream", "-p", spec)
            case.check(done.code == 1 and f"[{code}]" in done.err, f"{spec} is refused", done.err)
    reader.process.stdin.close()
    case.check_equal(reader.process.wait(), 0, "the process went on unharmed")
    case.check_balanced(daemon)


ringtail.run(main)
