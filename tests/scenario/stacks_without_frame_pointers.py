"""User stacks of a program without frame pointers are whole, through a library that has none either: the daemon reads
.eh_frame of the files that the process has mapped. So are those of a second process."""
import os
import shutil
import subprocess
import time

import ringtail
from lib.process import PATIENCE_S

CHAIN = ["main", "frameless_outer", "qsort_r", "frameless_compare", "frameless_middle", "frameless_leaf"]
SAMPLES = 20


def is_whole(stack):
    """Whether the functions of the chain are in it, in that order; between them are the library's own."""
    names = iter(stack.split(";"))
    return all(any(name.split("@")[0] == wanted for name in names) for wanted in CHAIN)


def take(case, daemon, comm):
    """So many samples of it: {stack: count}."""
    done = case.stream(daemon, "-p", "profile:hz:99", "-o", "folded", "--flags", "ustack", "-n", str(SAMPLES),
                       "-f", f'comm == "{comm}"').wait()
    case.check_stream(done, events=SAMPLES)
    return {stack: int(count) for stack, count in (line.rsplit(" ", 1) for line in done.out.splitlines())}


def await_whole(case, daemon, comm, what):
    """The first samples come before the files were read: until all of a stream are whole, but what was interrupted beside
    the chain."""
    end = time.monotonic() + PATIENCE_S
    while True:
        stacks = take(case, daemon, comm)
        whole = sum(count for stack, count in stacks.items() if is_whole(stack))
        if whole >= SAMPLES - 2 or time.monotonic() > end:
            break
    case.check(whole >= SAMPLES - 2, what, stacks)
    return stacks


def main(case):
    if os.uname().machine != "x86_64":
        case.say("frame pointers are all that there is to go by on this processor")
        return
    daemon = case.daemon()
    path = case.path("frameless")
    shutil.copy(os.path.join(ringtail.BUILD, "tools", "frameless"), path)
    # As long as somebody wants user stacks, what was read is kept.
    keeper = case.stream(daemon, "-p", "profile:hz:99", "-o", "none", "--flags", "ustack", "-f", 'comm == "nobody"')

    first = case.start(path, stdin=subprocess.PIPE)
    stacks = await_whole(case, daemon, "frameless", "the stacks of a program without frame pointers are whole")
    case.check(all("could not unwind" not in stack for stack in stacks if is_whole(stack)),
               "and end where the program begins", stacks)
    first.popen.stdin.close()
    first.wait()

    again = case.start(path, stdin=subprocess.PIPE)
    await_whole(case, daemon, "frameless", "those of another process of it, too")
    again.popen.stdin.close()
    again.wait()
    case.check_stream(keeper.interrupt())
    case.await_rings_empty(daemon)
    case.check_balanced(daemon)


ringtail.run(main)
