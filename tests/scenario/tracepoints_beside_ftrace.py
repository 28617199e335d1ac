"""Tracepoints that are made on request, beside the kernel's own record of the same run: ftrace's."""
import json
import re
import subprocess
import sys

import ringtail
from lib.ftrace import Ftrace

# Numbers with and without a sign, arrays as words; the last has texts elsewhere in the record, and Linux 6.1 has it
# not.
PROBES = ["signal:signal_generate", "task:task_newtask", "task:task_rename", "sched:sched_process_wait",
          "sched:sched_prepare_exec"]
SIGNALS = 200

LOAD = f"""
import os, signal, subprocess
signal.signal(signal.SIGUSR1, lambda *_: None)
input()
for _ in range({SIGNALS}):
    os.kill(os.getpid(), signal.SIGUSR1)
subprocess.run(["/bin/true"], check=True)
"""


def values(text):
    """"sig=10 errno=0 comm=sh" -> {"sig": "10", ...}"""
    return dict(re.findall(r"(\w+)=(\S+)", text))


def same(ours, theirs):
    """What the kernel printed, in whichever base, is what we recorded."""
    if not isinstance(ours, int):
        return ours == theirs or ours == "0x" + theirs
    return any(str(ours) == theirs or theirs.isalnum() and theirs == format(ours, base)
               for base in ("d", "x"))


def main(case):
    daemon = case.daemon("--ring-size=16MiB", "--trace-self")
    load = subprocess.Popen([sys.executable, "-c", LOAD], stdin=subprocess.PIPE)
    ftrace = Ftrace(PROBES)
    words = [word for probe in ftrace.events for word in ("-p", f"tracepoint:{probe}")]
    stream = case.stream(daemon, *words, "-f", f"pid == {load.pid}", "-o", "json")
    try:
        ftrace.begin()
        load.communicate(b"\n")
        case.check_equal(load.returncode, 0, "the load ran")
        case.await_rings_empty(daemon)
        stream.await_all()
        case.check_balanced(daemon)
        done = stream.interrupt()
        case.check_stream(done)
        events = [json.loads(line) for line in done.out.splitlines()]
        compared = 0
        for probe in ftrace.events:
            mine = [event for event in events if event["probe"] == f"tracepoint:{probe}"]
            theirs = ftrace.lines(probe, load.pid)
            case.check_equal(len(mine), len(theirs), f"as many {probe} as ftrace has")
            for event, (_, text) in zip(mine, theirs):
                for name, value in values(text).items():
                    if name in event["args"]:
                        compared += 1
                        if not same(event["args"][name], value):
                            case.check_equal(event["args"][name], value, f"{probe}.{name}")
        case.check(compared >= 3 * SIGNALS, "their values agree", compared)
        sent = [event["args"]["comm"] for event in events
                if event["probe"].endswith("signal_generate") and event["args"]["sig"] == 10]
        case.check_equal(len(sent), SIGNALS, "every signal is there")
    finally:
        ftrace.close()
    listed = case.tracectl(daemon, "list", "tracepoint:block:*", "-o", "json")
    block = [json.loads(line) for line in listed.out.splitlines()]
    case.check(len(block) > 10 and all(probe["fields"] for probe in block),
               "a system's tracepoints are listed with their fields", len(block))
    refused = case.tracectl(daemon, "stream", "-p", "tracepoint:block:no_such")
    case.check("unknown-probe" in refused.err, "what is none is refused", refused.err)
    refused = case.tracectl(daemon, "stream", "-p", "tracepoint:*")
    case.check("too-many-probes" in refused.err, "and so are all at once", refused.err)
    case.check_balanced(daemon)


ringtail.run(main)
