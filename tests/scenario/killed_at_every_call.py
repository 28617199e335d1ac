"""The daemon is killed right after a write, a sync or a rename, at every one there is from its start to
its orderly end: nothing that was stored is lost, nothing comes twice, what is missing is named."""
import shutil

import ringtail
from lib.killing import Killing, count_calls, strace

CALLS = ("fdatasync", "fsync", "renameat", "write")
# Of each, spread over all there are.
KILLS_MAX = 60 if ringtail.LONG else 3 if ringtail.SLOW == 1 else 1


def main(case):
    if not shutil.which("strace"):
        raise ringtail.Skip("this takes strace")
    killing = Killing(case, 1 + KILLS_MAX * len(CALLS))
    killing.daemon.stop()
    log = case.path("count.strace")
    killing.run_under(*strace(log, "-e", f"trace={','.join(CALLS)}"))
    counts = count_calls(log, CALLS)
    case.say(f"of one thread: {counts}")
    case.check(counts["fdatasync"] and counts["renameat"] and counts["write"],
               "such a run syncs, renames and writes", counts)
    killed = 0
    for name in CALLS:
        step = max(counts[name] / KILLS_MAX, 1)
        for i in range(KILLS_MAX):
            when = int(i * step + case.random.uniform(0, step)) + 1
            if when > counts[name]:
                break
            log = case.path(f"{name}-{when}.strace")
            code = killing.run_under(*strace(log, "-e", f"trace={name}", "-e",
                                             f"inject={name}:signal=SIGKILL:when={when}"))
            killed += code == -9
    case.check(killed > 0, f"it was killed in {killed} of them")
    killing.finish()


ringtail.run(main)
