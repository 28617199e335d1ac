"""A program's file that is replaced on disk: where the old one is mapped, it goes on being traced, and who asks again
traces the new one, too."""
import json
import os

import ringtail
from lib import probed

TURNS = 100


def pids(done):
    """Whose events they are."""
    return [json.loads(line)["pid"] for line in done.out.splitlines() if '"probe"' in line]


def main(case):
    daemon = case.daemon()
    path, other = probed.build(case, "probed"), probed.build(case, "other", "-O1")
    spec = f"uprobe:{path}:work"
    old = probed.Probed(path)
    first = case.stream(daemon, "-p", spec, "-o", "json")
    old.turn(TURNS)
    first.await_all(TURNS)
    os.rename(other, path)
    new = probed.Probed(path)
    old.turn(TURNS)
    first.await_all(2 * TURNS)
    case.check_equal(pids(first.interrupt()), [old.pid] * 2 * TURNS, "the old file is traced where it is mapped")

    second = case.stream(daemon, "-p", spec, "-o", "json")
    new.turn(TURNS)
    second.await_all(TURNS)
    old.turn(TURNS)
    second.await_all(2 * TURNS)
    done = second.interrupt()
    case.check_equal(pids(done), [new.pid] * TURNS + [old.pid] * TURNS, "who asks again gets both")
    case.check_stream(done, events=2 * TURNS)
    case.check_equal((old.end(), new.end()), (0, 0), "the programs went on unharmed")
    case.check_balanced(daemon)


ringtail.run(main)
