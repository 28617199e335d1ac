#!/usr/bin/env python3
"""`make demo-fleet` tells its story to the end, in time, and leaves nothing behind."""
import glob
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "..", "scenario"))

import ringtail  # noqa: E402

TIMEOUT_S = 600


def left_behind(mark):
    """What it started has the mark in its environment."""
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                if mark.encode() in file.read():
                    found.append(path.split("/")[2])
        except OSError:
            pass                # it has ended, or is nobody's business
    return found


def main(case):
    mark = f"RINGTAIL_DEMO_MARK={os.getpid()}"
    scratch = case.path("scratch")
    os.makedirs(scratch)
    os.chmod(scratch, 0o755)
    began = time.monotonic()
    done = subprocess.run([sys.executable, os.path.join(HERE, "..", "demo_fleet.py"), ringtail.BUILD],
                          env={**os.environ, **dict([mark.split("=")]), "TMPDIR": scratch}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False)
    case.say(done.stdout)
    case.figure("the demo took", time.monotonic() - began, "s")
    case.check_equal(left_behind(mark), [], "every process that it started has ended")
    case.check_equal(os.listdir(scratch), [], "nothing is left in the temporary directory")
    if done.returncode == 77:
        raise ringtail.Skip(done.stdout.strip().splitlines()[-1])
    case.check_equal(done.returncode, 0, "it ends well")
    case.check("count --by host,path" in done.stdout and "none lost, no gap" in done.stdout, "one question over both hosts"
               " is answered, and the ledgers are closed", done.stdout)


ringtail.run(main)
