"""The daemon is killed when its spool's first segment has a name and nothing in it: who was served from
the ring has those events; who comes to the spool later is told that they are missing, and why."""
import glob
import os

import ringtail
from lib.killing import CALLS, RATE, Killing


def main(case):
    killing = Killing(case, 3)

    def segments():
        return glob.glob(f"{killing.state}/spool/*/*.open")

    def empty_the_segment():
        for path in segments():
            os.truncate(path, 0)
    killing.kill_after(CALLS / RATE, lambda: ringtail.wait_until(segments, "a segment is begun"), empty_the_segment)
    case.check("[spool-damaged]" not in killing.daemon.log, "an empty segment is no damage",
               killing.daemon.log)
    killing.kill_at_random()
    killing.kill_at_random()
    killing.finish()


ringtail.run(main)
