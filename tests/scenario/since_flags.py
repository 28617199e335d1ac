"""--since with --flags: strings that were recorded come; those that were not are missed, not their events."""
import os
import time

from lib.past import CALLS, Past, memory, spool
import ringtail

OPENS = 50


def opens(case):
    for _ in range(OPENS):
        os.close(os.open(case.path("named"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))


def one(case, where, *options):
    past = Past(case, *options, probes=("syscall:openat:call", "syscall:getppid:call"))
    # Another subscription has strings: what it recorded is the past of one that asks for a part of it.
    # It is of this process: others' files would push these out of a memory that is small.
    asked, ours = ("-p", "syscall:openat:call", "--flags", "strings"), f"pid == {os.getpid()}"
    other = case.stream(past.daemon, *asked, "-f", ours, "-o", "none")
    subscribed = time.time()
    opens(case)
    ringtail.wait_until(lambda: past.daemon.client(other.pid)["delivered"] >= OPENS, "they came")
    mine = ("-f", f"(mode == 0x180) && ({ours})")
    done = case.start_stream(past.daemon, "-o", "json", "--since", f"@{subscribed:.6f}",
                             "--until", "now", *asked, *mine).wait()
    named = [event for event in done.lines
             if event.get("strings", {}).get("filename") == case.path("named")]
    case.check_equal((done.code, len(done.lines), len(named)), (0, OPENS, OPENS),
                     f"{where}: with their strings", done.err)
    done = past.ask("--flags", "strings", "-p", "syscall:getppid:call", "-f", past.load.filter)
    case.check_equal((done.code, done.summary["events"], done.summary["gaps"],
                      done.summary["ledger"]), (3, CALLS, 1, "balanced"),
                     f"{where}: what has none recorded comes without, and a gap says so", done.err)
    other.interrupt()
    past.end()


def main(case):
    one(case, "memory", *memory())
    one(case, "spool", *spool(case))


ringtail.run(main)
