"""Text on a terminal has strings without being asked, also beside a viewer who may not have them; into a pipe, and with
--flags none, it has none. The column of times is local, UTC, since the first event or since the line before. Lists and
help go through PAGER on a terminal, and nowhere else."""
import os
import re
import select
import subprocess
import time

import ringtail
from lib.process import PATIENCE_S

OPENED = 'filename="/etc/hostname"'


def on_terminal(case, daemon, *words, pager=None):
    """(what it shows on a terminal of its own, exit status)"""
    master, slave = os.openpty()
    env = {**os.environ, "NO_COLOR": "1", "TZ": "UTC", **({"PAGER": pager} if pager is not None else {})}
    with subprocess.Popen(case._tracectl(daemon, list(words)), stdin=subprocess.DEVNULL, stdout=slave,
                          stderr=subprocess.DEVNULL, env=env) as program:
        os.close(slave)
        text, deadline = b"", time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if not select.select([master], [], [], 1)[0]:
                continue
            try:
                text += os.read(master, 1 << 16)
            except OSError:         # nobody has the terminal open any more
                break
        os.close(master)
        return text.decode().replace("\r\n", "\n"), program.wait(PATIENCE_S)


COMMAND = ("--", "cat", "/etc/hostname")


def strings(case, daemon, viewed):
    shown, code = on_terminal(case, daemon, "stream", "-p", "openat", *COMMAND)
    case.check(code == 0 and OPENED in shown, "on a terminal strings come without being asked for", shown[-2000:])
    bare, _ = on_terminal(case, daemon, "stream", "-p", "openat", "--flags", "none", *COMMAND)
    case.check("openat(" in bare and OPENED not in bare, "--flags none has none", bare[-2000:])
    json, _ = on_terminal(case, daemon, "stream", "-p", "openat", "-o", "json", *COMMAND)
    case.check('"openat' not in json and "syscall:openat" in json and '"strings"' not in json, "JSON has none", json[-500:])
    piped = case.tracectl(daemon, "stream", "-p", "openat", *COMMAND)
    case.check("openat(" in piped.out and OPENED not in piped.out, "a pipe has none", piped.out[-2000:])
    asked, _ = on_terminal(case, viewed, "stream", "-p", "getppid", "-n", "1", "--flags", "strings")
    case.check(asked == "", "a viewer who asks for strings is refused", asked)
    shown, code = on_terminal(case, viewed, "stream", "-p", "read", *COMMAND)
    case.check(code == 0 and "read(" in shown, "one who does not ask gets the events without", shown)


def times(case, daemon):
    recording = case.path("trace.rt")
    case.tracectl(daemon, "record", "-w", recording, "-p", "openat", *COMMAND)

    def column(*words):
        out = case.tracectl(daemon, "read", recording, *words).out
        return [line.split()[0] for line in out.splitlines()]

    local, utc, since, delta = column(), column("--utc"), column("--time", "relative"), column("--time", "delta")
    case.check(len(local) > 1 and all(re.fullmatch(r"\d\d:\d\d:\d\d\.\d{6}", at) for at in local), "local times", local[:3])
    case.check(all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{9}Z", at) for at in utc), "UTC has the date", utc[:3])
    case.check_equal(column("--time", "utc"), utc, "--utc is --time utc")
    events = [event["time"] for event in case.tracectl(daemon, "read", recording, "-o", "json").lines]
    wanted = [(at - events[0]) / 1e9 for at in events]
    case.check_equal(since[0], "+0.000000", "the first event is the beginning")
    case.check(all(abs(float(at) - other) < 2e-6 for at, other in zip(since, wanted)), "relative times", since[:3], wanted[:3])
    steps = [0] + [later - sooner for sooner, later in zip(wanted, wanted[1:])]
    case.check(all(abs(float(at) - other) < 2e-6 for at, other in zip(delta, steps)), "times since the line before",
               delta[:3], steps[:3])


def pages(case, daemon):
    whole = case.tracectl(daemon, "list").out
    marked = "sed 's/^/| /'"
    for words, text in ((("list",), "syscall:openat:call("), (("--help",), "usage: tracectl"),
                        (("stream", "--help"), "usage: tracectl stream")):
        shown, code = on_terminal(case, daemon, *words, pager=marked)
        case.check(code == 0 and f"| {text}" in shown, f"{' '.join(words)} goes through PAGER", shown[:500])
        shown, code = on_terminal(case, daemon, *words, "--no-pager", pager=marked)
        case.check(code == 0 and text in shown and "| " + text not in shown, "--no-pager does without", shown[:500])
        shown, code = on_terminal(case, daemon, *words, pager="")
        case.check(code == 0 and text in shown, "an empty PAGER is none", shown[:500])
    shown, code = on_terminal(case, daemon, "list", pager="cat | cat")
    case.check_equal(shown, whole, "all of it comes through")
    shown, code = on_terminal(case, daemon, "list", pager="head -n 1")
    case.check_equal((shown, code), (whole.splitlines()[0] + "\n", 0), "who leaves early has seen enough")
    os.environ.pop("LESSSECURE", None)
    os.environ["SUDO_UID"] = "1000"
    shown, code = on_terminal(case, daemon, "list", pager="printenv LESSSECURE")
    case.check_equal((shown, code), ("1\n", 0), "less starts no programs for who came through sudo")
    del os.environ["SUDO_UID"]
    os.environ["PAGER"] = marked
    case.check_equal(case.tracectl(daemon, "list").out, whole, "a pipe has no pager")
    del os.environ["PAGER"]


def main(case):
    daemon = case.daemon("--listen=tcp:127.0.0.1:0", "--insecure", config="viewer = local\n")
    port = re.search(r"listening on tcp:127.0.0.1:(\d+)", daemon.log)[1]
    strings(case, daemon, f"tcp:127.0.0.1:{port}")
    times(case, daemon)
    pages(case, daemon)
    case.check_balanced(daemon)


ringtail.run(main)
