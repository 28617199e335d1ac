"""ftrace beside the daemon: the kernel's own record of the same events."""
import collections
import itertools
import os
import pathlib
import re
import subprocess
import tempfile


BETWEEN_MAX = 1000      # events of one interrupt
UNPAIRED_MAX = 20       # to be shown


def unpaired(ours, theirs, same):
    """What is left of both, as pairs, once each of ours has met its like. The kernel calls one tracer after the other:
    what an interrupt does between the two calls comes before the event for one, and after it for the other."""
    left, odd = collections.deque(theirs), []
    for one in ours:
        at = next((i for i, other in enumerate(itertools.islice(left, BETWEEN_MAX)) if same(one, other)), None)
        if at is None:
            odd.append(one)
        else:
            del left[at]
        if len(odd) == UNPAIRED_MAX:
            break
    return list(zip(odd, left))


class Ftrace:
    """An instance of its own, on a tracefs of its own: the machine's is left as it is."""

    def __init__(self, events, kilobytes=4096):
        self.printed = None
        self.mount = pathlib.Path(tempfile.mkdtemp(prefix="ringtail-tracefs-"))
        subprocess.run(["mount", "-t", "tracefs", "none", str(self.mount)], check=True)
        self.path = self.mount / "instances" / f"ringtail_test_{os.getpid()}"
        self.path.mkdir()
        (self.path / "buffer_size_kb").write_text(str(kilobytes))
        (self.path / "trace_clock").write_text("mono")
        self.events = [event for event in events if self.directory(event).is_dir()]

    def begin(self, pid=None):
        for event in self.events:
            if pid:
                (self.directory(event) / "filter").write_text(f"common_pid == {pid}")
            (self.directory(event) / "enable").write_text("1")

    def directory(self, event):
        return self.path / "events" / event.replace(":", "/")

    def identity(self, event):
        return int((self.directory(event) / "id").read_text())

    def lines(self, event, pid):
        """(time, text) of each. The events are over: the kernel takes long to print them, and does it once."""
        if self.printed is None:
            self.printed = collections.defaultdict(list)
            pattern = re.compile(r"-(\d+)\s+\[\d+\].*?([\d.]+): (\w+): (.*)")
            for match in map(pattern.search, (self.path / "trace").read_text(errors="replace").splitlines()):
                if match:
                    self.printed[match[1], match[3]].append((match[2], match[4]))
        return self.printed[str(pid), event.split(":")[1]]

    def _stat(self, name):
        return sum(int(line.split()[1]) for stats in self.path.glob("per_cpu/cpu*/stats")
                   for line in stats.read_text().splitlines() if line.startswith(f"{name}:"))

    def entries(self):
        """How many events it has, of all processes."""
        return self._stat("entries")

    def overrun(self):
        return self._stat("overrun")

    def close(self):
        self.close_instance()
        self.close_mount()

    def close_instance(self):
        (self.path / "events" / "enable").write_text("0")
        self.path.rmdir()

    def close_mount(self):
        subprocess.run(["umount", str(self.mount)], check=True)
        self.mount.rmdir()


class Event:
    """An event of ftrace's own making, gone at the end: `file` is uprobe_events or kprobe_events."""

    def __init__(self, ftrace, file, kind, text):
        self.file, self.group = ftrace.mount / file, f"ringtail{os.getpid()}"
        self.name = f"{self.group}:{text.split()[0]}"
        self.append(f"{kind}:{self.group}/{text}\n")

    def append(self, line):
        """In one write, behind what others have there."""
        fd = os.open(self.file, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(fd, line.encode())
        finally:
            os.close(fd)

    def close(self):
        self.append(f"-:{self.name.replace(':', '/')}\n")
