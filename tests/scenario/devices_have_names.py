"""The number of a block device has the device's name beside it, as /proc/partitions has it."""
import json
import os
import pathlib
import re
import subprocess
import sys

import ringtail

LOAD = r"""
import os, sys, tempfile
input()
for _ in range(3):
    with tempfile.NamedTemporaryFile(dir=sys.argv[1]) as file:
        file.write(os.urandom(100_000))
        file.flush()
        os.fsync(file.fileno())
"""


def partitions():
    """{"254:0": "vda"}"""
    rows = [line.split() for line in pathlib.Path("/proc/partitions").read_text().splitlines()[2:]]
    return {f"{row[0]}:{row[1]}": row[3] for row in rows}


def place(names):
    """A directory on a block device."""
    for path in ("/var/tmp", "/tmp", os.getcwd()):
        dev = os.stat(path).st_dev
        if f"{os.major(dev)}:{os.minor(dev)}" in names:
            return path
    return None


def main(case):
    names = partitions()
    path = place(names)
    if not path:
        raise ringtail.Skip("no file system on a block device")
    daemon = case.daemon("--trace-self")
    load = subprocess.Popen([sys.executable, "-c", LOAD, path], stdin=subprocess.PIPE)
    words = ["-p", "tracepoint:block:block_bio_queue", "-f", f"pid == {load.pid}"]
    as_json = case.stream(daemon, *words, "-o", "json")
    as_text = case.stream(daemon, *words, "-o", "text")
    load.communicate(b"\n")
    case.check_equal(load.returncode, 0, "the load ran")
    case.await_rings_empty(daemon)
    for stream in (as_json, as_text):
        stream.await_all()
    done, lines = as_json.interrupt(), [line for line in as_text.interrupt().out.splitlines() if line[:4] != "--- "]
    # The kernel may refuse to run a tracepoint's program; that is told, and no other loss.
    gaps = [event for event in done.lines if "lost" in event]
    case.check_equal({gap["reason"] for gap in gaps} - {"refused"}, set(), "nothing else is lost", gaps)
    case.check_stream(done, lost=done.summary["lost"])
    events = [event for event in map(json.loads, done.out.splitlines()) if "args" in event]
    case.check(events, "the device was asked for something")
    case.check_equal({event["args"]["dev"] for event in events} - set(names), set(),
                     "numbers are as /proc/partitions has them")
    wrong = [event for event in events if event["devices"] != {"dev": names[event["args"]["dev"]]}]
    case.check_equal(wrong[:1], [], "and so are names")
    case.check_equal(len(lines), len(events), "as many as text")
    plain = [re.search(r": (\d+),(\d+) .* \[dev=(\S+)\]$", line) for line in lines]
    case.check(all(plain) and all(names[f"{one[1]}:{one[2]}"] == one[3] for one in plain),
               "which ends in the name", lines[:1])
    case.check_balanced(daemon)


ringtail.run(main)
