"""The disk of the spool is full: what cannot be stored is counted and named, no client notices, and once
there is room again the spool goes on."""
import os
import subprocess

import ringtail

PROBE = "syscall:getppid:call"
CALLS = 400_000
RETRY_S_MAX = 60                # SPOOL_RETRY_NS_MAX


def spool(daemon):
    return next(iter(daemon.stat()["spool"]), {"state": "none", "lost": [], "stored": 0})


def lost(daemon):
    return sum(one["count"] for one in spool(daemon)["lost"])


def run(case, state):
    daemon = case.daemon("--ring-size=64MiB", "--queue-size=64MiB", "--probe", PROBE,
                         f"--filter=comm == \"{case.own_comm}\"",
                         "--durability=written", "--spool-policy=drop-new",
                         "--spool-segment-size=64KiB", f"--state-dir={state}", "--user=root")
    client = case.stream(daemon, "-o", "none")
    events = 0
    while (state_of_spool := spool(daemon)["state"]) != "failed" and events < 20 * CALLS:
        case.load(CALLS, comm=case.own_comm).run()
        events += CALLS
    case.check_equal(state_of_spool, "failed", "a full disk fails the spool")
    ringtail.wait_until(lambda: lost(daemon) > 0, "what does not come to disk is counted")
    case.check_equal(spool(daemon)["residual"], 0, "the spool's ledger closes")
    case.check_balanced(daemon)
    subprocess.run(["mount", "-o", "remount,size=256m", state], check=True)
    stored = spool(daemon)["stored"]
    ringtail.wait_until(lambda: spool(daemon)["state"] == "ok", "it is tried again, and goes on",
                        2 * RETRY_S_MAX)
    case.load(CALLS, comm=case.own_comm).run()
    ringtail.wait_until(lambda: spool(daemon)["stored"] >= stored + CALLS,
                        "what comes now is stored")
    case.check_equal(spool(daemon)["residual"], 0, "the spool's ledger closes")
    done = client.interrupt()
    case.check_equal((done.code, done.summary["lost"]), (0, 0), "the client lost nothing")
    case.check_balanced(daemon)


def main(case):
    state = case.path("state")
    os.mkdir(state, 0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k,mode=0700", "none", state], check=True)
    try:
        run(case, state)
    finally:
        subprocess.run(["umount", "--lazy", state], check=True)


ringtail.run(main)
