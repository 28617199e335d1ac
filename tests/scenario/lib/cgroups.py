"""cgroups of the unified hierarchy, in a mount of their own."""
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
