"""An overloaded ring, metered and watched: the status page, stat, doctor and the line in the stream each
say what to do about it; and where nothing was lost, none of them does."""
import json
import re
import signal

import ringtail
from lib import http

CALLS = 100_000
REMEDY = "raise ring-size, or ask for fewer probes or a narrower filter"


def told_by(case, daemon):
    """By whom the remedy is named."""
    page = json.loads(http.get(daemon, "/api/live")[2])
    lost = [loss for ring in page["rings"] for loss in ring["lost"] if loss["count"]]
    by = {command for command in ("stat", "doctor")
          if re.search(rf"ring full: .*\n +-> {REMEDY} \(ring-size is 16\S* ?KiB now\)",
                       case.tracectl(daemon, command).out)}
    stat = json.loads(case.tracectl(daemon, "stat", "-o", "json").out)
    if any(loss["remedy"] == REMEDY for ring in stat["rings"] for loss in ring["lost"]
           if loss["count"]):
        by.add("stat -o json")
    return by | ({"page"} if any(loss["remedy"] == REMEDY for loss in lost) else set())


def main(case):
    # What others do beside this test must not fill so small a ring: of everybody, what nobody does is metered.
    daemon = case.daemon("--ring-size=16KiB", "--http=127.0.0.1:0", "--metrics-probe=syscall:swapoff:call")
    load, few = case.load(CALLS, cpus=[0]), case.load(10, cpus=[0])
    pids = ", ".join(map(str, [*load.pids, *few.pids]))
    case.check_equal(told_by(case, daemon), set(), "nothing was lost: there is no advice")
    case.check("none since the daemon started" in case.tracectl(daemon, "doctor").out,
               "doctor says that nothing was lost")
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", f"pid in ({pids})", "-o", "text")
    daemon.signal(signal.SIGSTOP)
    load.run()
    daemon.signal(signal.SIGCONT)
    case.await_rings_empty(daemon)
    few.run()
    ringtail.wait_until(lambda: any(ring["lost"] for ring in daemon.stat()["ring"]),
                        "the loss is counted")
    case.check_equal(told_by(case, daemon), {"page", "stat", "stat -o json", "doctor"},
                     "each that tells of the loss names the remedy")
    stream.await_all()
    case.check_balanced(daemon)
    out = stream.interrupt().out
    case.check(re.search(rf"^--- .* lost on CPU 0: ring full \({REMEDY}\) ---$", out, re.M),
               "so does the stream", out[-2000:])


ringtail.run(main)
