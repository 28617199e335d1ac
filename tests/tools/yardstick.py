"""yardstick: what a fixed piece of work costs on this machine, so that CPU time can be compared between machines.

The work is to compile a text. It is done again and again while the check runs, on the CPU of the job that
starts next, because a CPU second buys less beside a busy neighbour than alone: measured once, after everything
had ended, the same check cost 1,988 yardsticks on one machine and 2,271 on another.
"""
import os
import subprocess
import threading
import time

EVERY_S = 60            # each costs half a second or more, and a dozen are enough for a median
AT_LEAST = 5            # measurements; those that the check was too short for are made at its end
TEXT = "".join(f"unsigned f{i}(const unsigned *a, unsigned n) {{ unsigned s = {i}; "
               f"for (unsigned k = 0; k < n; k++) s = s * {2 * i + 3}u + (a[k] ^ s >> {i % 13 + 1}); "
               "return s; }\n" for i in range(200)).encode()


def compile_seconds():
    """CPU seconds that it takes to compile TEXT now. ccache is told to stay away."""
    compiler = subprocess.Popen(["gcc", "-O2", "-x", "c", "-S", "-o", "/dev/null", "-"],
                                stdin=subprocess.PIPE, env={**os.environ, "CCACHE_DISABLE": "1"})
    compiler.stdin.write(TEXT)
    compiler.stdin.close()
    _, status, used = os.wait4(compiler.pid, 0)
    compiler.returncode = os.waitstatus_to_exitcode(status)
    if compiler.returncode:
        raise RuntimeError("gcc could not compile the yardstick's text")
    return used.ru_utime + used.ru_stime


class Yardstick:
    def __init__(self):
        self.taken, self.last, self.lock = [], time.monotonic(), threading.Lock()

    def measure_if_due(self):
        """Call it before a job that keeps a CPU busy: the measurement takes that CPU."""
        with self.lock:
            if time.monotonic() - self.last < EVERY_S:
                return
            self.last = time.monotonic()
        self.taken.append(compile_seconds())

    def seconds(self):
        """The median of all measurements."""
        while len(self.taken) < AT_LEAST:
            self.taken.append(compile_seconds())
        return sorted(self.taken)[len(self.taken) // 2]
