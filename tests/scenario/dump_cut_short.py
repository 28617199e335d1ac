"""The daemon is killed while it writes a dump, and the disk is full while it writes one: the first is listed as cut short by the next
run, which fetches what of it is there; of the second nothing is left, the log says why, and no stream loses anything."""
import errno
import os
import subprocess

import ringtail
from lib import rules

CALLS = 20_000


def killed(case):
    state = case.path("state")
    options = (f"--state-dir={state}", "--user=root", ringtail.ROOM)
    # `enable` writes for a minute: the kill comes in its middle.
    config = "\n".join(("probe = syscall:getppid:call",
                        f"on = {rules.slow_rule(case, 'enable syscall:getppid:call 1min, dump 100ms')}"))
    daemon = case.daemon(*options, config=config)
    rules.nap(case, 0.1)
    load = case.load(CALLS)
    ringtail.wait_until(lambda: len(rules.listed(case, daemon)) == 2, "both files are begun")
    load.run()
    def writing():
        found = [dump for dump in rules.listed(case, daemon) if dump["state"] == "writing"]
        return len(found) == 1 and found[0]["bytes"] > 1000 and found[0]
    cut = ringtail.wait_until(writing, "one is being written, the other is whole")
    whole = next(dump["id"] for dump in rules.listed(case, daemon) if dump["state"] == "whole")
    done = case.tracectl(daemon, "dumps", "get", cut["id"], "-w", case.path("early.rt"))
    case.check(done.code == 1 and "[dump-writing]" in done.err, "one that is being written is not fetched", done.err)
    daemon.crash()
    daemon = case.daemon(*options, config=config)
    found = {dump["id"]: dump["state"] for dump in rules.dumps(case, daemon)}
    case.check_equal(found, {cut["id"]: "cut", whole: "whole"}, "the next run lists it as cut, not as whole")
    case.check(f"the dump {cut['id']} is cut short" in daemon.log, "and says so")
    path = case.path("cut.rt")
    done = case.tracectl(daemon, "dumps", "get", cut["id"], "-w", path)
    case.check(done.code == 3 and "cut short" in done.err, "what of it is there is fetched, with exit 3", done.err)
    done = case.tracectl(None, "--summary", "json", "read", path, "-f", load.filter, "-o", "none")
    case.check(done.summary["events"] <= CALLS and done.summary["lost"] == 0, "and read up to its end", done.summary)
    case.check_equal(case.tracectl(daemon, "dumps", "get", whole, "-w", path).code, 0, "the whole one is whole")
    with open(f"{state}/dumps/{whole}.rt", "r+b") as file:
        file.truncate(os.path.getsize(file.name) - 1)
    daemon.stop()
    daemon = case.daemon(*options, config=config)
    found = {dump["id"]: dump["state"] for dump in rules.dumps(case, daemon)}
    case.check_equal(found[whole], "damaged", "one whose end is gone is not called whole")
    case.check_balanced(daemon)


def full(case, state):
    config = "\n".join(("probe = syscall:getppid:call", f'filter = comm == "{case.own_comm}"',
                        f"on = {rules.slow_rule(case, 'dump 1h every 1s')}"))
    daemon = case.daemon(f"--state-dir={state}", "--user=root", config=config)
    stream = case.stream(daemon, "-o", "none")
    with open(f"{state}/fill", "wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError as error:
            case.check_equal(error.errno, errno.ENOSPC, "the disk is full")
    case.load(CALLS, comm=case.own_comm).run()
    rules.nap(case, 0.1)
    ringtail.wait_until(lambda: daemon.stat()["counters"]["dumps_failed"] == 1, "a full disk fails the dump")
    case.check("[dump-disk] cannot write the dump" in daemon.log, "the log says why")
    ringtail.wait_until(lambda: rules.listed(case, daemon) == [], "nothing of it is listed")
    case.check_equal(os.listdir(f"{state}/dumps") if os.path.exists(f"{state}/dumps") else [], [], "or left")
    stream.await_all(CALLS)
    os.unlink(f"{state}/fill")
    ringtail.wait_until(lambda: rules.quiet_nap(case) or daemon.stat()["counters"]["dumps_written"], "then it is written again")
    case.check_stream(stream.interrupt(), events=CALLS)
    case.check_balanced(daemon)
    daemon.stop()


def main(case):
    killed(case)
    if os.geteuid():
        return
    state = case.path("small")
    os.mkdir(state)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "none", state], check=False).returncode:
        return
    try:
        full(case, state)
    finally:
        subprocess.run(["umount", "-l", state], check=False)


ringtail.run(main)
