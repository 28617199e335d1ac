"""What `ask` asks always is answered on /metrics: exactly, while nothing is lost; the busiest keys by themselves and the
others together, all series of a question being all its events; what was lost stands beside. A reload keeps what has not
changed; a question that nobody could answer refuses the start, with its column."""
import os
import re
import sys

import ringtail
from lib import http
from lib.strace import OwnUser

# Opens that fail: of a file that is not there, and of one that is no directory; and calls that take a while.
LOAD = """
import os, select, sys
for i in range(300):
    for path, flags in (("/nowhere", os.O_RDONLY), ("/etc/passwd", os.O_DIRECTORY), ("/dev/null", os.O_RDONLY)):
        try:
            os.close(os.open(path, flags))
        except OSError:
            pass
for i in range(40):
    for k in range(40 - i):
        try:
            os.open(f"/nowhere/{i}", os.O_RDONLY)
        except OSError:
            pass
for i in range(5):
    select.select([], [], [], 0.012)
"""
QUESTIONS = """
ask = errors: count syscall:openat:call by error where uid == {uid} && (filename == "/nowhere" || filename == "/etc/passwd")
ask = files: count syscall:openat:call by comm,filename top 5 where uid == {uid} && filename =~ "/nowhere/*"
ask = waits: hist syscall:select:call,syscall:pselect6:call by function where uid == {uid}
ask = calls: summary syscall:openat:call where uid == {uid} && filename =~ "/nowhere/*"
"""
SAMPLE = re.compile(r'^(ringtail_ask_\w+)\{(.*)\} (\S+)$', re.M)


def answers(daemon):
    """{(metric, question): {labels: value}}"""
    found = {}
    for metric, labels, value in SAMPLE.findall(http.get(daemon, "/metrics")[2]):
        ask = re.search(r'(?:^|,)ask="(\w+)",?', labels)
        found.setdefault((metric, ask[1]), {})[labels.replace(ask[0], "")] = float(value)
    return found


def load(case, user):
    done = case.start(*user.command(sys.executable, "-I", "-S", "-c", LOAD)).wait()
    case.check_equal(done.code, 0, "the load ends well", done.err[-500:])


def await_live(daemon, *asks):
    ringtail.wait_until(lambda: all(answers(daemon).get(("ringtail_ask_live", ask)) == {"": 1.0} for ask in asks),
                        f"{', '.join(asks)}: recorded")


def await_events(daemon, ask, labels, count):
    return ringtail.wait_until(lambda: answers(daemon).get(("ringtail_ask_events_total", ask), {}).get(labels) == count,
                               f"{ask}: {labels} is {count}")


def exact(case, daemon, user):
    await_live(daemon, "errors", "files", "waits", "calls")
    load(case, user)
    await_events(daemon, "errors", 'error="ENOTDIR"', 300)
    await_events(daemon, "errors", 'error="ENOENT"', 300)
    await_events(daemon, "calls", "", 820)
    ringtail.wait_until(lambda: sum(answers(daemon)["ringtail_ask_duration_seconds_count", "waits"].values()) == 5,
                        "five waits")
    ringtail.wait_until(lambda: sum(answers(daemon)["ringtail_ask_events_total", "files"].values()) == 820,
                        "all series of a question are all its events")
    found = answers(daemon)
    files = found["ringtail_ask_events_total", "files"]
    case.check_equal(len(files), 6, "five by themselves, and the others")
    case.check(any('filename="(others)"' in labels for labels in files), "which have a name of their own", files)
    histogram = found["ringtail_ask_duration_seconds_bucket", "waits"]
    at_once = {labels: value for labels, value in histogram.items()
               if float(re.search(r'le="([^"]+)"', labels)[1]) < 0.008}
    case.check(at_once and not any(at_once.values()), "none of them took less than 8 ms", histogram)
    errors = sum(found["ringtail_ask_errors_total", "calls"].values())
    case.check_equal(errors, 820, "a summary counts what failed")


def told(case, daemon):
    for ask in ("errors", "files", "waits", "calls"):
        ringtail.wait_until(lambda ask=ask: set(answers(daemon)["ringtail_ask_residual", ask].values()) == {0.0},
                            f"{ask}: residual 0")
        found = answers(daemon)
        case.check_equal(set(found["ringtail_ask_live", ask].values()), {1.0}, f"{ask}: is recorded")
        lost = found["ringtail_ask_lost_total", ask]
        case.check(lost and not any(lost.values()), f"{ask}: what was lost stands beside: nothing", lost)


def reloaded(case, daemon, user):
    """One question goes, one comes, one stays."""
    more = "ask = pids: count syscall:openat:call by pid where uid == 1\n"
    keep = "".join(line + "\n" for line in QUESTIONS.format(uid=user.uid).splitlines() if "waits" not in line and "files" not in line)
    case.write(f"{daemon.name}.conf", keep + more)
    daemon.reload(r"\[reloaded\]")
    await_live(daemon, "pids")
    found = answers(daemon)
    case.check(("ringtail_ask_live", "waits") not in found, "the one that was taken out is not")
    load(case, user)
    await_events(daemon, "calls", "", 2 * 820)
    case.say("ok: the one that stayed goes on counting")


def refused(case):
    line = "count syscall:openat:call by comm,filname"
    done = case.refused("--source=bpf", "--http=127.0.0.1:0", config=f"ask = {line}\n")
    case.check(done.code != 0 and "[ask-field] ask: column 35" in done.err and "did you mean `filename`" in done.err,
               f"`{line}` is refused, with what was perhaps meant", done.err[-600:])
    done = case.refused("--source=bpf", config="ask = count syscall:openat:call\n")
    case.check(done.code != 0 and "[ask-untold]" in done.err, "whom nobody would be told is refused", done.err[-600:])


def main(case):
    refused(case)
    user = OwnUser(case)
    # The other metrics want a call that nobody makes: of all that the host does, the kernel records this user's calls, and
    # what others do loses nothing.
    daemon = case.daemon(ringtail.ROOM, "--http=127.0.0.1:0", "--metrics-probe=syscall:sched_rr_get_interval:call",
                         config=QUESTIONS.format(uid=user.uid))
    exact(case, daemon, user)
    told(case, daemon)
    reloaded(case, daemon, user)
    case.check_balanced(daemon)


ringtail.run(main)
