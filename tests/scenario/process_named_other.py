"""Processes whose names are what metrics call the remainder, or nothing, or whatever acts on a terminal:
with `metrics-comm` each series of /metrics comes once, also beyond the bound of names."""
import collections
import re
import subprocess
import sys

import ringtail
from lib import http
from lib.process import PATIENCE_S

NAMES = [b"other", b"", b"(all other name", b"\\x6f\\x74", b"ot\nher", b"\x1b[2Jother", b"oth\xc2\x9ber",
         b"\x9bother", b"oth\xe2\x80\xaeer", b'o"t"her', b"other\\"]
CALLS = 50
SPAWN = f"""
import os
for name in {NAMES!r} + [b"many%d" % i for i in range(300)]:
    pid = os.fork()
    if not pid:
        with open("/proc/self/comm", "wb") as comm:
            comm.write(name or b"\\0")
        child = os.fork()       # it is called so from its beginning
        if child:
            os.waitpid(child, 0)
        else:
            for _ in range({CALLS}):
                os.getppid()
        os._exit(0)
    os.waitpid(pid, 0)
"""


def comms(daemon):
    return {labels["comm"]: value
            for labels, value in http.metrics(daemon).all("ringtail_comm_syscalls_total")}


def main(case):
    case.await_alone()          # its names would take the series of these
    daemon = case.daemon("--http=127.0.0.1:0", "--metrics-comm", "--ring-size=16MiB")
    http.await_metering(daemon)
    subprocess.run([sys.executable, "-c", SPAWN], check=True, timeout=PATIENCE_S)
    ringtail.wait_until(lambda: len(comms(daemon)) == 257,
                        "as many names as have series are seen")
    for openmetrics in (False, True):
        lines = http.metrics(daemon, openmetrics=openmetrics).text.splitlines()
        series = collections.Counter(re.sub(r" \S+$", "", line.split(" # ")[0])
                                     for line in lines if not line.startswith("#"))
        twice = [name for name, n in series.items() if n > 1]
        case.check_equal(twice, [], f"no series comes twice (OpenMetrics: {openmetrics})")
        for line in lines:
            if re.search("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffd]", line):
                case.check(False, "every character can be shown", line)
    found = comms(daemon)
    case.check(found.get("other", 0) >= CALLS, "the process has a series of its own", sorted(found))
    case.check(found.get("(all other names)", 0) >= CALLS, "and so has the remainder")
    case.check_balanced(daemon)


ringtail.run(main)
