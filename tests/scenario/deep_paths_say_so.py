"""Paths of more than 32 components: of an executable file, a cgroup and a file descriptor. /proc has them whole, and
of a process that is over nobody has; ours begin with "..." and end as /proc's do."""
import os
import shutil
import subprocess

import ringtail
from lib.cgroups import Cgroups

NAMES = 32      # that are kept
DEEP = "/d" * (NAMES + 3)

LOAD = """
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
input()
for _ in range(3):
    os.read(file, 1)
print(os.readlink("/proc/self/exe"), os.readlink(f"/proc/self/fd/{file}"), open("/proc/self/cgroup").read().split(":")[-1],
      sep="\\n", flush=True)
"""


def cut(path):
    """What is left of it."""
    return ".../" + "/".join(path.split("/")[-NAMES:])


def main(case):
    cgroups = Cgroups(case)
    daemon = case.daemon()
    try:
        directory = case.path("deep") + DEEP
        os.makedirs(directory)
        program = shutil.copy(os.path.realpath("/proc/self/exe"), os.path.join(directory, case.own_comm))
        file = os.path.join(directory, "file")
        with open(file, "w") as to:
            to.write("abc")
        place = cgroups.make(f"/ringtail-{os.getpid()}{DEEP}")
        load = subprocess.Popen([program, "-c", LOAD, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                preexec_fn=lambda: cgroups.enter(place))
        stream = case.stream(daemon, "-p", "syscall:read:call", "-f", f"pid == {load.pid}", "-o", "json", "--flags",
                             "context,fds")
        proc = load.communicate("\n")[0].split()
        case.check_equal(load.returncode, 0, "the load ran")
        case.await_rings_empty(daemon)
        stream.await_all()
        events = [event for event in stream.interrupt().lines
                  if event.get("strings", {}).get("fd", "").endswith("/file")]
        case.check_equal(len(events), 3, "its reads are there")
        case.check_equal(len(proc), 3, "/proc shows three", proc)
        exe, fd, cgroup = proc
        for event in events:
            case.check_equal(event["exe_path"], cut(exe), "the executable file has lost its beginning, and says so")
            case.check_equal(event["exe"], os.path.basename(exe), "its name is whole")
            case.check_equal(event["strings"]["fd"], cut(fd), "so has what the descriptor stands for")
            case.check_equal(event["cgroup"], cut(cgroup), "and the cgroup")
        case.check_balanced(daemon)
    finally:
        cgroups.close()


ringtail.run(main)
