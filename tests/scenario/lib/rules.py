"""rules: a daemon with triggers, and what makes them fire."""
import json
import os
import shutil

from .process import wait_until


def nap_of(case):
    """A program that sleeps, with a name that no other process has: its path and that name."""
    name = f"nap-{os.getpid()}"
    path = case.path(name)
    if not os.path.exists(path):
        shutil.copy(os.path.realpath(shutil.which("sleep")), path)
    return path, name


def nap(case, seconds):
    path, _ = nap_of(case)
    done = case.start(path, str(seconds)).wait()
    case.check_equal(done.code, 0, f"a nap of {seconds} s")


def slow_rule(case, action, name="slow"):
    """Fires when a nap of 50 ms or longer ends."""
    _, comm = nap_of(case)
    return f"""{name}: 'syscall:clock_nanosleep:call duration > 50ms && comm == "{comm}"' {action}"""


def dumps(case, daemon):
    done = case.tracectl(daemon, "dumps", "-o", "json")
    case.check_equal(done.code, 0, "dumps lists", done.err)
    return [json.loads(line) for line in done.out.splitlines()]


def listed(case, daemon):
    """The same without a word, for who waits."""
    done = case.tracectl(daemon, "dumps", "-o", "json")
    return [json.loads(line) for line in done.out.splitlines()]


def await_dumps(case, daemon, count=1):
    """Waits until so many are there and none is being written."""
    def look():
        found = listed(case, daemon)
        return len(found) >= count and not any(dump["state"] == "writing" for dump in found) and found
    return wait_until(look, f"{count} dumps are written")


def quiet_nap(case):
    """One long enough to match, and not a word about it: None."""
    path, _ = nap_of(case)
    case.start(path, "0.06").wait()
