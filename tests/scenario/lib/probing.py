"""probing: programs with probes of their own (ringtail-probe.h), built here, and what they say that they did."""
import os
import shutil
import struct
import subprocess

from .process import PATIENCE_S, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
AT_SECURE = 23
HEADERS = os.path.join(HERE, "..", "..", "..", "proto")
THREADS = 4                     # of traced.c


def build(case, name, source, *options):
    """Of lib/SOURCE.c."""
    program = case.path(name)
    subprocess.run(["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-pthread", f"-I{HEADERS}", *options, "-o",
                    program, os.path.join(HERE, f"{source}.c")], check=True, timeout=PATIENCE_S)
    return program


class Program:
    """It stands before its first line of input."""

    def __init__(self, case, binary, socket, *words, before=(), **environment):
        self.process = case.start(*before, binary, *map(str, words), stdin=subprocess.PIPE,
                                  env=dict(os.environ, RINGTAIL_PROGRAMS=socket, **environment))
        self.pid = self.process.pid
        wait_until(lambda: self.out or not self.process.running, "the program is there")

    @property
    def out(self):
        return self.process.read("out")

    @property
    def attached(self):
        return self.out.startswith("attached")

    def go(self):
        self.process.popen.stdin.write(b"\n")
        self.process.popen.stdin.flush()
        return self

    def passed(self):
        """What it said last that it has passed."""
        return int(self.out.rsplit("passed ", 1)[1].split()[0])


class Traced(Program):
    """traced.c: four threads, each with a word in a file."""

    def __init__(self, case, binary, socket, mode="threads", turns=0):
        self.counts = case.path(f"counts-{mode}-{turns}-{os.path.basename(binary)}")
        super().__init__(case, binary, socket, mode, self.counts, *([turns] if turns else []))

    def witness(self):
        with open(self.counts, "rb") as file:
            return sum(struct.unpack(f"{THREADS}Q", file.read(8 * THREADS)))


def check_secure(case, binary, socket, *words, **environment):
    """One with rights that its user has not (its file sets the group) does not look where its environment says."""
    copy = case.path("secure")
    shutil.copy(os.path.realpath(binary), copy)
    os.chown(copy, 0, 1)
    os.chmod(copy, 0o2755)
    program = Program(case, copy, socket, *words, **environment)
    with open(f"/proc/{program.pid}/auxv", "rb") as file:
        vector = dict(struct.iter_unpack("QQ", file.read()))
    if vector[AT_SECURE]:
        case.check(not program.attached, "a program that sets its group believes no environment", program.out)
    else:
        case.say("no program sets its group on this filesystem")
    program.process.popen.kill()
    program.process.wait()


def await_ended(daemon, attached=0):
    """All that programs wrote before they ended is in the daemon's ring; `attached` of them are there yet."""
    def look():
        counters = daemon.stat()["counters"]
        return counters["programs_ended"] + attached == counters["programs_attached"]
    wait_until(look, "what programs wrote last is read")
