"""cgroups of the unified hierarchy, in a mount of their own; and one with little memory, wherever memory is counted."""
import os
import subprocess

from .process import Skip


class Cgroups:
    def __init__(self, case):
        self.root = case.path("cgroups")
        self.made = []
        os.mkdir(self.root)
        if os.geteuid() or subprocess.run(["mount", "-t", "cgroup2", "none", self.root],
                                          stderr=subprocess.DEVNULL).returncode:
            raise Skip("no cgroups can be mounted here")

    def make(self, path):
        for i, letter in enumerate(path + "/"):
            if i and letter == "/" and not os.path.isdir(self.root + path[:i]):
                os.mkdir(self.root + path[:i])
                self.made.append(self.root + path[:i])
        return path

    def enter(self, path, pid="0"):
        with open(f"{self.root}{path}/cgroup.procs", "w") as file:
            file.write(str(pid))

    def close(self):
        for path in reversed(self.made):
            os.rmdir(path)
        self.made = []
        subprocess.run(["umount", "-l", self.root], check=True)


class LittleMemory:
    """A cgroup whose processes may have 16 MiB together, where the machine lets it be made."""

    def __init__(self):
        base = "/sys/fs/cgroup/memory" if os.path.isdir("/sys/fs/cgroup/memory") else "/sys/fs/cgroup"
        limit = "memory.limit_in_bytes" if base.endswith("memory") else "memory.max"
        self.path = f"{base}/ringtail-{os.getpid()}"
        try:
            os.mkdir(self.path)
            self.write(limit, 16 << 20)
        except OSError:
            self.remove()
            self.path = None
            return
        # What is swapped out does not count. A kernel without swap has neither file.
        for name, most in (("memory.swap.max", 0), ("memory.memsw.limit_in_bytes", 16 << 20)):
            if os.path.exists(f"{self.path}/{name}"):
                self.write(name, most)

    @property
    def works(self):
        return bool(self.path) and self.run("true") == 0

    def write(self, name, value):
        with open(f"{self.path}/{name}", "w", encoding="ascii") as file:
            file.write(str(value))

    def run(self, *words):
        def enter():
            self.write("cgroup.procs", os.getpid())
        return subprocess.run(words, preexec_fn=enter, check=False).returncode

    def exceed(self):
        """The exit code of a python3 that asks for 64 MiB. Tests beside each other see each other's: all have that name."""
        return self.run("python3", "-c", "x = bytearray(64 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1")

    def remove(self):
        if self.path and os.path.isdir(self.path):
            os.rmdir(self.path)
