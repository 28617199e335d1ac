"""profile:hz:99 names the functions of a known program: live, from a recording after it has ended, and of
one that lives for a moment only. perf(1), beside it, sees the same."""
import os
import re
import shutil
import subprocess

import ringtail
from lib.process import PATIENCE_S

CHAIN = "busy_outer;busy_middle;busy_twice"


def folded(text):
    stacks = {}
    for line in text.splitlines():
        stack, count = line.rsplit(" ", 1)
        stacks[stack] = stacks.get(stack, 0) + int(count)
    return stacks


def leaves(stacks):
    """The part of the samples in each function, of those in the program's own."""
    parts = {}
    for stack, count in stacks.items():
        leaf = stack.rsplit(";", 1)[-1]
        if leaf.startswith("busy_"):
            parts[leaf] = parts.get(leaf, 0) + count
    total = sum(parts.values())
    return {leaf: count / total for leaf, count in parts.items()}, total


def check_chain(case, text, comm, least, what):
    stacks = folded(text)
    own = {stack: count for stack, count in stacks.items() if stack.startswith(comm + ";")}
    named = sum(count for stack, count in own.items() if "main;" + CHAIN in stack)
    case.check(own and named >= least, f"{what}: the chain of calls is named", stacks)
    return own


def perf_leaves(case, busy):
    """What perf sees of the same program; None where there is no perf."""
    data = case.path("perf.data")
    try:
        done = subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", "499", "-g", "-o", data, busy,
                               "1000"], capture_output=True, timeout=PATIENCE_S)
        shown = subprocess.run(["perf", "script", "-i", data, "-F", "ip,sym"], capture_output=True,
                               timeout=PATIENCE_S, text=True)
    except FileNotFoundError:
        return None
    if done.returncode or shown.returncode:
        return None
    parts = {}
    for sample in shown.stdout.split("\n\n"):
        first = re.search(r"^\s*[0-9a-f]+ (busy_\w+)", sample)
        if first:
            parts[first[1]] = parts.get(first[1], 0) + 1
    total = sum(parts.values())
    return {leaf: count / total for leaf, count in parts.items()} if total > 100 else None


def main(case):
    daemon = case.daemon()
    busy = case.path(f"busy-{os.getpid()}")
    shutil.copy(os.path.join(ringtail.BUILD, "tools", "busy"), busy)
    comm = os.path.basename(busy)[:15]
    only = ["-f", f'comm == "{comm}"']

    # One that runs when the stream begins, and two that begin and end meanwhile; all end before it does.
    recording = case.path("profile.rt")
    record = case.stream(daemon, "-p", "profile:hz:99", "--flags", "kstack,ustack", *only, "-w", recording,
                         command="record")
    stream = case.stream(daemon, "-o", "folded", *only)
    # Of its path nothing is left in those that come later.
    far = case.path("/".join(["directory"] * 15))
    os.makedirs(far)
    shutil.copy(busy, far)
    case.start(os.path.join(far, os.path.basename(busy)), "300").wait()
    case.start(busy, "1500").wait()
    case.start(busy, "300").wait()
    case.await_rings_empty(daemon)
    for one in stream, record:
        one.await_all()
    case.check_balanced(daemon)
    done = stream.interrupt()
    case.check_stream(done)
    live = check_chain(case, done.out, comm, 30, "live")
    parts, total = leaves(live)
    case.figure("samples", total, "")
    case.check(0.45 < parts.get("busy_twice", 0) < 0.85, "two thirds of the time are where they belong",
               parts)
    case.check_stream(record.interrupt())

    os.unlink(busy)
    shutil.copy(os.path.join(ringtail.BUILD, "tools", "busy"), busy)
    done = case.tracectl(None, "read", recording, "-o", "folded")
    check_chain(case, done.out, comm, 30, "from a recording, when the program has ended")
    text = case.tracectl(None, "read", recording, "-n", "30").out
    case.check(re.search(r"busy_twice\+0x\w+ \(/.*busy-", text), "in text, with its file", text[-2000:])
    case.check("executable(" not in text, "the maps themselves are not shown")
    done = case.tracectl(None, "--summary", "json", "read", recording, "-o", "json")
    case.check(done.summary["maps"] > 0, "the summary counts them", done.summary)
    case.check_equal(done.summary["events"],
                     sum("probe" in item and "loss" not in item for item in done.lines),
                     "beside the events that were asked for")
    maps = case.tracectl(None, "read", recording, "-p", "process:map").out
    case.check(re.search(r"build_id0=0x\w+.*path=\"/.*busy-", maps), "unless they are asked for", maps[:2000])
    maps = [item["strings"] for item in case.tracectl(None, "read", recording, "-p", "process:map", "-o", "json").lines
            if "strings" in item]
    case.check({"path": busy} in maps, "a path ends where it ends", maps)
    case.check_equal({texts["path"] + texts["path_more"] for texts in maps if "directory" in texts["path"]},
                     {os.path.join(far, os.path.basename(busy))}, "a long one too")

    of_perf = perf_leaves(case, busy)
    if of_perf is None:
        case.say("there is no perf to compare with")
        return
    case.check(all(abs(of_perf.get(leaf, 0) - part) < 0.2 for leaf, part in parts.items() if part > 0.05),
               "perf sees the same functions, for as much of the time", (parts, of_perf))


ringtail.run(main)
