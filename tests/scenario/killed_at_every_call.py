"""The daemon is killed right after a write, a sync or a rename of a run, from its start to its orderly
end: nothing that was stored is lost, nothing comes twice, what is missing is named.

The long form kills it at each one there is: of each call at the first, the second, and so on, until
runs come to their end before there are so many. The short form takes a few, spread over all.
"""
import itertools
import shutil

import ringtail
from lib.killing import Killing, count_calls, strace

CALLS = ("fdatasync", "fsync", "renameat", "write")
KILLS_MAX = 3 if ringtail.SLOW == 1 else 1      # of each, in the short form
ENDS = 2                        # runs in a row that make fewer calls: there are no more


def spread(case, most):
    """Some of the first, the second, ... the last."""
    step = max(most / KILLS_MAX, 1)
    for i in range(KILLS_MAX):
        when = int(i * step + case.random.uniform(0, step)) + 1
        if when <= most:
            yield when


def main(case):
    if not shutil.which("strace"):
        raise ringtail.Skip("this takes strace")
    killing = Killing(case, 1 if ringtail.LONG else 1 + KILLS_MAX * len(CALLS))
    killing.daemon.stop()
    log = case.path("count.strace")
    killing.run_under(*strace(log, "-e", f"trace={','.join(CALLS)}"))
    counts = count_calls(log, CALLS)
    case.say(f"of one thread: {counts}")
    case.check(counts["fdatasync"] and counts["renameat"] and counts["write"],
               "such a run syncs, renames and writes", counts)
    killed = 0
    for name in CALLS:
        ends = 0
        for when in itertools.count(1) if ringtail.LONG else spread(case, counts[name]):
            log = case.path(f"{name}-{when}.strace")
            code = killing.run_under(*strace(log, "-e", f"trace={name}", "-e",
                                             f"inject={name}:signal=SIGKILL:when={when}"))
            killed += code == -9
            ends = 0 if code == -9 else ends + 1
            if ringtail.LONG and ends == ENDS:
                case.figure(f"killed at each {name}, up to the", when - ENDS, "th")
                break
    case.check(killed > 0, f"it was killed in {killed} of them")
    killing.finish()


ringtail.run(main)
