"""What strace -f says, call by call; and a user for it whom the kernel can tell from all others."""
import os
import re
import sys

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


class OwnUser:
    """A user that no other process has. What `stream -- COMMAND` shows, it chooses from the calls of all processes, of
    which a busy machine makes too many; those of a user are chosen in the kernel. It may all that root may, until a shell
    gives that up."""

    def __init__(self, case):
        self.uid = 1_000_000 + os.getpid() if os.geteuid() == 0 else os.geteuid()
        self.filter = f"uid == {self.uid}"
        self.directory = case.path("own")
        os.mkdir(self.directory)
        os.chown(self.directory, self.uid, -1)

    def command(self, *words):
        """Becomes the user, then the command."""
        change = "import os, sys; os.setreuid(int(sys.argv[1]), -1); os.execvp(sys.argv[2], sys.argv[2:])"
        return (sys.executable, "-c", change, str(self.uid), *words)
