"""What the traced program pays with the kernel module, in a virtual machine whose clock counts
instructions: ringtail's call record, its entry and return, ftrace's raw_syscalls pair and
lttng-modules' (tests/kmod/bench.sh, which prints finished rows)."""
import json
import subprocess

import report
from peers.host import Unavailable

NAME = "kmod"
TIMEOUT_S = 1200


def measure(bench):
    done = subprocess.run(["sh", "tests/kmod/bench.sh", str(bench.build)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S)
    if done.returncode != 0:
        raise Unavailable(done.stderr.strip().splitlines()[-1] if done.stderr else "it failed")
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            if row["budget"] is not None and row["ratio"] is not None:
                row["met"] = row["ratio"] <= 1
            yield report.given(row)
