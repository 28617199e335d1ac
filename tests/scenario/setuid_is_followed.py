"""A filter on uid follows a thread that was known with one uid and then takes another."""
import os
import subprocess

import ringtail

CALLS = 300
UID = 40_000 + os.getpid() % 20_000     # nobody else's
PROBE = "syscall:getppid:call"


def call_before_and_after(name):
    """CALLS getppid calls as root, then as many as UID, of one thread that is called `name`."""
    script = ("import ctypes, os\n"
              "libc = ctypes.CDLL(None)\n"
              f"libc.prctl(15, b'{name}')\n"
              f"for i in range({CALLS}): os.getppid()\n"
              f"os.setuid({UID})\n"
              f"for i in range({CALLS}): os.getppid()\n")
    subprocess.run(["python3", "-c", script], check=True)


def main(case):
    daemon = case.daemon("--history-age=0s")
    name = f"rt-{case.seed % 100000}"
    everything = case.stream(daemon, "-p", PROBE, "-f", f'comm == "{name}"', "-o", "none")
    before = case.stream(daemon, "-p", PROBE, "-f", f'comm == "{name}" && uid == 0', "-o", "none")
    after = case.stream(daemon, "-p", PROBE, "-f", f"uid == {UID}", "-o", "none")
    call_before_and_after(name)
    everything.await_all(2 * CALLS)
    before.await_all(CALLS)
    after.await_all(CALLS)
    case.check_stream(everything.interrupt(), events=2 * CALLS)
    case.check_stream(before.interrupt(), events=CALLS)
    case.check_stream(after.interrupt(), events=CALLS)
    case.check_balanced(daemon)


ringtail.run(main)
