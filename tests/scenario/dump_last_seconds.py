"""dump: the last seconds come out of the daemon's memory, and out of its spool, while a stream goes on and loses
nothing by it; filtered; and of what cannot be given it is said that it is missing, why, and exit 3."""
import os
import time

import ringtail
from lib import past

LATER = 500


def read(case, path, events, code=0):
    done = case.tracectl(None, "--summary", "json", "read", path, "-o", "none")
    case.check_equal((done.code, done.summary["events"], done.summary["ledger"]), (code, events, "balanced"),
                     "the file reads as whole", done.err)


def dump(case, what, where, events):
    """Of two processes' calls and of a third's, dumps have those that were asked for."""
    recorded = past.Past(case, *where)
    later = case.load(LATER)
    stream = case.stream(recorded.daemon, "-p", "syscall:getppid:call", "-f", later.filter, "-o", "none")
    age = f"{time.time() - recorded.begun + 60:.0f}s"       # from when the daemon is asked: a busy machine takes its time
    path = case.path(f"{what}.rt")
    done = case.tracectl(recorded.daemon, "--summary", "json", "dump", "--last", age, "-f", recorded.load.filter,
                         "-w", path)
    # The daemon itself began inside that span, or a moment before: what it says of that is for the next check.
    case.check(done.code in (0, 3) and done.summary["events"] == events, f"{what}: all of it is dumped", done.err)
    read(case, path, events, done.code)
    later.run()
    case.await_rings_empty(recorded.daemon)
    done = case.tracectl(recorded.daemon, "--summary", "json", "dump", "--last", "1h", "-f", later.filter, "-w", path)
    case.check_equal((done.code, done.summary["events"]), (3, LATER), f"{what}: a filter chooses", done.err)
    case.check("the past is not all there" in done.err, f"{what}: and that an hour is not there is said, with what "
               "to do", done.err)
    read(case, path, LATER, 3)
    stream.await_all(LATER)
    case.check_stream(stream.interrupt(), events=LATER)
    recorded.end()


def main(case):
    dump(case, "memory", past.memory(), past.CALLS)
    dump(case, "spool", past.spool(case), past.CALLS)
    daemon = case.daemon()
    path = case.path("nothing.rt")
    done = case.tracectl(daemon, "dump", "--last", "10s", "-p", "syscall:getppid:call", "-w", path)
    case.check(done.code == 3 and "record it always" in done.err, "of what nobody recorded, that is said", done.err)
    bare = case.tracectl(daemon, "dump", "-w", path)
    case.check(bare.code == 1 and "[no-default-probes]" in bare.err and "tracectl enable" in bare.err and
               "tracectl stream" not in bare.err, "where nothing is always on, the hint is one for a dump", bare.err)
    case.check("-w FILE is missing" in case.tracectl(daemon, "dump").err, "and so it is where no file is named")
    for words in (("dump",), ("dump", "--last", "yesterday", "-w", path), ("dump", "-w", path, "--since", "-1m")):
        case.check_equal(case.tracectl(daemon, *words).code, 2, f"{' '.join(words[:3])} is usage")
    case.check(os.path.getsize(path), "and nothing is spoiled")
    case.check_balanced(daemon)


ringtail.run(main)
