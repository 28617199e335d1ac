"""Tracepoints that are made on request, beside the kernel's own record of the same run: ftrace's."""
import json
import re
import subprocess
import sys

import ringtail
from lib.ftrace import Ftrace, unpaired

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


def agree(event, theirs):
    return all(same(event["args"][name], value) for name, value in theirs.items() if name in event["args"])


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
        items = [json.loads(line) for line in done.out.splitlines()]
        events = [item for item in items if "probe" in item]
        # The kernel runs no program of a tracepoint while a map is changed on the CPU, which anybody's BPF may do.
        refused = sum(item["lost"] for item in items if item.get("reason") == "refused")
        case.check_stream(done, lost=refused)
        compared, missing = 0, 0
        for probe in ftrace.events:
            mine = [event for event in events if event["probe"] == f"tracepoint:{probe}"]
            theirs = [values(text) for _, text in ftrace.lines(probe, load.pid)]
            missing += len(theirs) - len(mine)
            case.check(len(theirs) >= len(mine), f"no more {probe} than ftrace has", len(mine), len(theirs))
            case.check_equal(unpaired(mine, theirs, agree), [], f"and with the same values: {probe}")
            compared += sum(name in event["args"] for event, other in zip(mine, theirs) for name in other)
        case.check_equal(missing, refused, "as many as ftrace has, but for those that the kernel refused")
        case.check(compared >= 3 * (SIGNALS - refused), "their values agree", compared)
        sent = [event["args"]["comm"] for event in events
                if event["probe"].endswith("signal_generate") and event["args"]["sig"] == 10]
        case.check(SIGNALS - refused <= len(sent) <= SIGNALS, "every signal is there", len(sent), refused)
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
