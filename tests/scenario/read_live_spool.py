"""A spool is read while the daemon writes it, seals its segments and deletes the oldest: whatever was
deleted before it could be read is a gap, with its size, and nothing is called damaged."""
import glob
import json
import os
import select
import subprocess
import threading

import ringtail
from lib.process import PATIENCE_S

CALLS = 40_000                  # of each load, of which there are
LOADS_MAX = 500                 # until there were so many
READS = 2                       # one is slower than the daemon writes


def look(case, out, err, code):
    """Whether something was deleted before it was read."""
    lines = [json.loads(line) for line in out.splitlines() if '"lost"' in line]
    gaps = {(line["stage"], line["reason"]) for line in lines if "lost" in line}
    summary = json.loads(err.splitlines()[-1])
    case.check(gaps <= {("spool", "spool-full")}, "what is missing was deleted", gaps)
    case.check("tracectl:" not in err, "nothing is damaged", err)
    case.check_equal(summary["ledger"], "balanced", "the ledger is balanced")
    case.check_equal(code, 3 if gaps else 0, "the exit code is that of a gap, or of none")
    return bool(gaps)


def read(case, daemon, directory, waits):
    """`waits`: its output does, until two more than there were at first have been deleted."""
    words = [os.path.join(ringtail.BUILD, "tracectl"), "--summary", "json", "read", directory,
             "-o", "json"]
    reader = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if waits:
        readable, _, _ = select.select([reader.stdout], [], [], PATIENCE_S)      # it has begun to read
        case.check(readable, "a reader has begun")
        spool = daemon.stat()["spool"][0]
        enough = spool["deleted"] + spool["segments"] + 2
        ringtail.wait_until(lambda: daemon.stat()["spool"][0]["deleted"] >= enough,
                            "all that there was is deleted")
    out, err = reader.communicate(timeout=PATIENCE_S)
    return look(case, out, err, reader.returncode)


def main(case):
    state = case.path("state")
    daemon = case.daemon("--ring-size=64MiB", "--durability=written", f"--state-dir={state}",
                         "--user=root", "--spool-segment-size=64KiB", "--spool-size=1MiB",
                         "--history-size=64KiB", "--queue-size=64KiB")
    words = ["-p", "syscall:getppid:call", "-f", f"comm == \"{case.own_comm}\"", "-o", "none",
             "--consumer", "away"]
    case.check_stream(case.stream(daemon, *words).interrupt(), events=0)
    directory, = glob.glob(f"{state}/spool/*")
    done, loads = threading.Event(), 0

    def load():
        nonlocal loads
        while not done.is_set() and loads < LOADS_MAX:
            case.load(CALLS, 2, comm=case.own_comm).run()
            loads += 1

    thread = threading.Thread(target=load)
    thread.start()
    try:
        ringtail.wait_until(lambda: daemon.stat()["spool"][0]["deleted"], "the oldest are deleted")
        late = 0
        for i in range(READS):
            late += read(case, daemon, directory, i % 2)
    finally:
        done.set()
        thread.join()
    case.check(late >= READS // 2, f"of {READS} reads, while {loads * CALLS} calls were recorded, "
               f"{late} were overtaken")
    case.check_balanced(daemon)


ringtail.run(main)
