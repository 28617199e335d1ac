"""What is always on comes with strings where an operator enabled it so, or the configuration says so: the past and dumps
have texts, also after a restart; what cannot be always on is refused."""
import json
import os
import time

import ringtail

OURS = f"pid == {os.getpid()}"      # of nobody else anything is always on


def opened(case, daemon, name):
    """Since when all is recorded, and the file that was opened since; that is recorded, too."""
    case.stream(daemon, "-o", "none").interrupt()       # its events are kept by now
    since = time.time()
    path = case.path(name)
    before = daemon.recorded()
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    ringtail.wait_until(lambda: daemon.recorded() > before, "the open is recorded")
    return since, path


def texts(done):
    return [line["strings"].get("filename") for line in done.lines if "strings" in line]


def past(case, daemon, since, path, what):
    done = case.start_stream(daemon, "-o", "json", "--since", f"@{since:.6f}", "--until", "now", "-p", "openat",
                             "-f", OURS, "--flags", "strings").wait()
    case.check_equal((done.code, done.summary["gaps"]), (0, 0), f"{what}: the past is whole", done.err)
    case.check(path in texts(done), f"{what}: and has the text", done.out)
    file = case.path("dump.rt")
    done = case.tracectl(daemon, "dump", "--last", "5min", "--flags", "strings", "-w", file)
    case.check(done.code in (0, 3), f"{what}: it is dumped", done.err)      # the daemon is younger than that
    done = case.tracectl(None, "read", file, "-o", "json", "-p", "openat")
    case.check(path in texts(done), f"{what}: with the text", done.out)


def main(case):
    state = case.path("state")
    words = [f"--state-dir={state}", f"--filter={OURS}"]
    daemon = case.daemon(*words)
    case.check_equal(case.tracectl(daemon, "enable", "openat").code, 0, "without strings")
    done = case.tracectl(daemon, "enable", "--flags", "strings,kstack", "openat")
    case.check(done.code == 1 and "[bad-flags]" in done.err, "stacks are not for what is always on", done.err)
    done = case.tracectl(daemon, "enable", "--flags", "strings", "openat")
    case.check(done.code == 0 and "all of these come with: strings" in done.out, "strings are", done.out, done.err)
    since, path = opened(case, daemon, "one")
    past(case, daemon, since, path, "enabled")
    with open(f"{state}/audit.log") as file:
        lines = [json.loads(line) for line in file]
    case.check_equal([line.get("flags") for line in lines], [None, "strings"], "the audit log has the flags")
    case.check_balanced(daemon)
    case.check_equal(daemon.stop(), 0, "it stops")

    again = case.daemon(*words)
    since, path = opened(case, again, "two")
    past(case, again, since, path, "after a restart")
    probes = case.tracectl(again, "probes", "-o", "json").lines[0]
    case.check_equal((probes["probes"][0]["flags"], probes["flags"]), (["strings"], ["strings"]), "probes says so")
    done = case.tracectl(again, "disable", "openat")
    case.check(done.code == 0 and "come with" not in done.out, "disabled, nothing comes with strings", done.out)
    case.check_balanced(again)
    case.check_equal(again.stop(), 0, "it stops")

    third = case.daemon(*words, "--probe=openat", "--probe-flags=strings,fds")
    since, path = opened(case, third, "three")
    past(case, third, since, path, "configured")
    case.check_balanced(third)


ringtail.run(main)
