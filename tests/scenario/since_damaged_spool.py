"""--since with a time out of a spool of which segments are damaged or deleted: the only one, the first,
one in the middle, the last. Whoever asks for that past is told that it is not there."""
import glob
import os
import shutil
import time

import ringtail

CALLS, FEW_CALLS = 20_000, 200


def flip(path):
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 0x40]))


class Spool:
    """Some segments that an earlier run has written; or, of=SPOOL, what a copy of the disk has of that one's."""

    def __init__(self, case, name, segments=None, of=None):
        self.case = case
        self.directory = case.path(name)
        self.options = ("--ring-size=64MiB", "--probe=syscall:getppid:call",
                        f"--filter=comm == \"{case.own_comm}\"", "--durability=written",
                        f"--state-dir={self.directory}", "--user=root",
                        "--spool-segment-size=64KiB", "--history-size=64KiB", "--queue-size=64KiB")
        if of:
            shutil.copytree(of.directory, self.directory)
            self.begun, self.calls = of.begun, of.calls
            return
        daemon = case.daemon(*self.options)
        case.stream(daemon, "-o", "none").interrupt()
        self.begun, self.calls = time.time(), 0
        while len(self.files()) + 1 < segments or not self.calls:
            self.record(daemon, CALLS if segments > 1 else FEW_CALLS)      # CALLS are most of a segment
        if segments > 1:        # so that the last one, which may have just begun, has events
            self.record(daemon, FEW_CALLS)
        daemon.stop()

    def record(self, daemon, calls):
        self.case.load(calls, 2, comm=self.case.own_comm).run()
        self.calls += calls
        ringtail.wait_until(lambda: daemon.recorded() == self.calls, "all are recorded")
        ringtail.wait_until(lambda: not daemon.stat()["spool"][0]["in_flight"], "all is stored")

    def files(self):
        return sorted(glob.glob(f"{self.directory}/spool/*/*.seg"))

    def look(self, text, reason, *more):
        daemon = self.case.daemon(*self.options, *more)
        stream = self.case.stream(daemon, "-o", "json", "--since", f"@{self.begun:.6f}")
        # Before the spool is read nothing is under way to it.
        ringtail.wait_until(lambda: f'"reason":"{reason}"' in stream.read("out"), f"{text}: a gap is told")
        stream.await_all()
        self.case.check_balanced(daemon)
        done = stream.interrupt()
        gaps = [line for line in done.lines if "lost" in line]
        self.case.check_equal((done.code, done.summary["ledger"]), (3, "balanced"), text, done.err)
        self.case.check(reason in {gap["reason"] for gap in gaps}, f"{text}: why", gaps)
        self.case.check(done.summary["events"] < self.calls, f"{text}: events are missing")
        daemon.stop()


def main(case):
    only = Spool(case, "only", 1)
    case.check_equal(len(only.files()), 1, "one segment")
    flip(only.files()[0])
    only.look("the only segment is damaged", "corrupt")
    only.look("it was set aside by the daemon before", "corrupt")

    whole = Spool(case, "whole", 3)
    for place, which in (("first", 0), ("middle", 1), ("last", -1)):
        spool = Spool(case, place, of=whole)
        flip(spool.files()[which])
        spool.look(f"the {place} segment is damaged", "corrupt")

    deleted = Spool(case, "deleted", of=whole)
    os.unlink(deleted.files()[0])       # as spool-size and spool-age do
    deleted.look("the first segment was deleted", "spool-full")


ringtail.run(main)
