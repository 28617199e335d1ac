"""What strace -f says, call by call."""
import re

BEGUN = re.compile(r"^(\d+) +(\w+\(.*) <unfinished \.\.\.>(?:\) += \?)?$", re.DOTALL)
RESUMED = re.compile(r"^(\d+) +<\.\.\. \w+ resumed>(.*)$", re.DOTALL)


def calls_of(text):
    """(thread, "name(arguments) = result ...") of each line, in order of the calls' ends: strace writes a call in two
    lines when another thread comes between its begin and its end. Exits and signals come as they stand."""
    begun = {}
    for line in text.splitlines():
        found = BEGUN.match(line)
        if found:
            begun[found[1]] = found[2]
            continue
        found = RESUMED.match(line)
        tid, rest = (found[1], begun.pop(found[1]) + found[2]) if found else line.split(None, 1)
        yield int(tid), rest
