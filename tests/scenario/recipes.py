"""The questions of docs/recipes.md, each command as it stands there, all at once beside one program whose doings are
known: each answer has what the program did. A question without an answer here fails, so the page cannot rot. Commands of
the page's other sections are explained: a probe, a field or a name that is unknown fails."""
import os
import re
import shlex
import signal
import socket

import ringtail
from lib import known
from lib.cgroups import LittleMemory


# Of all DNS servers that were asked meanwhile; this one sleeps for 20 ms, and may be late on a busy machine.
LONGER_THAN_ITS_SERVER = r"^  \d+ values, .* max (([2-9]\d|\d{3,})(\.\d+)?ms|\d+(\.\d+)?s)$"
LATER_BYTES = r"^  1 values?, .* max (([6-9]\d|\d{3,})(\.\d+)?ms|\d+(\.\d+)?s)$"


EXPLAINED = ("What does this program do?", "Files and disks", "Processes", "Network", "Inside the kernel", "Who does most?",
             "What happened just before?", "Where is the CPU?", "What happened before?")


def questions():
    """Question and command of each row of the section."""
    return [(question, command.strip("`")) for question, command in
            known.rows(known.section("recipes.md", "Questions and commands"))]


def on_disk(path):
    """Whether what is written there goes to a disk."""
    number = os.stat(path).st_dev
    return os.path.exists(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")


def wanted(case, app, pid, port, memory):
    """What each answer has: expressions, all of them; `app` is the program's name, `pid` its process. Without a disk below
    it, or a cgroup that is killed, there is nothing to see there, and the commands end well."""
    return {
        "Who opens `/etc/passwd`?": [rf" {app} +{pid}/\d+ .*openat\(.*filename=\"/etc/passwd\""],
        "Which files does it not find?": [r"^ +3  .*missing$"],
        "Which of its calls are slow?": [r"clock_nanosleep\(", r"futex\("],
        "Where does its time go?": [r" 5 +0  (\S+  )?fsync$", r" 5 +0  (\S+  )?clock_nanosleep$"],
        "Which of its calls fail, and how?": [rf"^ +3  {app}  openat  ENOENT$", rf"^ +1  {app}  connect  ECONNREFUSED$",
                                              rf"^ +5  {app}  futex  ETIMEDOUT$"],
        "What does a command do, with all that it starts?": [r"execve\(.*\) = 0 ", r"\"/etc/passwd\"",
                                                             r" true +\d+/\d+ "],
        "Where does the time of a command go?": [r" 5 +0  fsync$", r" 11 +0  getppid$"],
        "Which files does a command write?": [r"^ +1  written$", r"^ +1  both$", r"^ +1  app.conf.old$"],
        "What does it rename, and to what?": [r"^ +1  app.conf.old  \./app.conf$"],
        "What do process 1234 and its children do?": [rf"^ +11  {app}  getppid$", rf"^ +5  {app}  fsync$"],
        "Who changes or deletes this file?": [r"chmod(at)?\(", r"unlink(at)?\("],
        "How long do its syncs take?": [r"^  5 values, p50 "],
        "Who writes how much?": [rf"^ +5 +50 +10 +10 +10  {app}$"],
        "How long do the disks take?": [r"^  \d[\d.]* values, p50 "] if on_disk(case.dir) else [],
        "How many page faults does it have?": [rf"^ +([3-9]\d\d|\d,?\d\d\d)  {app}$"],
        "Whom does the kernel kill for want of memory, and is it a cgroup's limit?":
            [r"mark_victim: .*comm=python3", r" mem_cgroup_out_of_memory\+"] if memory.works else [],
        "Who sends SIGKILL, and to whom?": [rf" {app} +{pid}/{pid} +kill\(pid=\d+, sig=SIGKILL\)"],
        "What was killed, also for want of memory?": [rf" {app} .*sched_process_exit"],
        "Which processes end with an error?": [rf" {app} .*sched_process_exit.*status 3$"],
        "Which programs start?": [r"execve\(filename=\"/bin/true\", argv=.*\"true\".* = 0 "],
        "Who starts processes?": [rf"^ +5  {app}$"],
        "What does this user do?": [rf"^ +11  {app}  getppid$"],
        "Who connects where?": [rf" {app} .*connect\(.*\"127.0.0.1:{port}\".* = 0 ", rf" {app} .*\"127.0.0.9:1\""],
        "Which connections are refused?": [rf" {app} .*connect\(.*\"127.0.0.9:1\".* ECONNREFUSED"],
        "How long after an accept does its first byte go out?": [LATER_BYTES],
        "How long does a DNS server take?": [LONGER_THAN_ITS_SERVER],
        "Why is it off the CPU, and for how long?": [rf"  {app}  .*nanosleep", rf"  {app}  .*futex"],
        "How long do woken threads wait for a CPU?": [r"^  \d[\d.]* values, p50 "],
        "How long do its threads wait for a CPU?": [r"^  \d+ values, p50 "],
        "Where is the CPU?": [rf"^{app};.*burn \d+$"],
        "Which container, unit or program burns it?": [rf"  {app}$"],
        "What waits for a lock?": [rf" {app} .*futex\(.*ETIMEDOUT"],
        "What hangs, since when, and where in the kernel?": [rf" {app} +{pid}/{pid} +read\(fd=0"],
        "What happened in the minute before the alert?": [rf" {app} .*sched_process_exit.*status 3$"],
        "Which programs started, and which processes ended, before the alert?": [r"sched_process_exec.*\"/bin/true\"",
                                                                rf" {app} .*sched_process_exit.*status 3$"],
    }


def explained():
    """Words behind tracectl of each question there that a daemon answers, without what a shell does with the answer."""
    for title in EXPLAINED:
        text = known.section("recipes.md", title).replace("PID", "1234").replace("1234", str(os.getpid()))
        for *_, command in known.rows(text):
            for asked in re.findall(r"`tracectl ((?:stream|count|hist|summary) .*?)`", command):
                words = shlex.split(asked)
                words = words[:min(words.index(word) if word in words else len(words) for word in "|>")]
                if not any(word.endswith(".rt") or re.match("f(entry|exit):", word) for word in words):
                    yield words


def check_explained(case, daemon):
    commands = list(explained())
    for words in commands:
        done = case.tracectl(daemon, words[0], "--explain", *words[1:])
        if done.code:
            case.check(False, f"the daemon knows what {words} means", done.err)
    case.check(len(commands) > 50, f"the daemon knows what {len(commands)} other commands mean")


def check(case, question, command, done, expressions):
    for expression in expressions:
        known.late_if_lost(done, expression, command)
        case.check(re.search(expression, done.out, re.M), f"{question} {expression}", command, done.out[-3000:])


def check_stuck(case, daemon, question, command, words, expressions):
    """Asked while the program waits for its end, which is soon a wait of a second."""
    def look():
        done = case.tracectl(daemon, *words)
        return done if all(re.search(expression, done.out, re.M) for expression in expressions) else None
    check(case, question, command, ringtail.wait_until(look, f"{question} {expressions}"), expressions)


def answer_of(case, daemon, words):
    """What the command prints, or what it has written, read."""
    written = case.path(words[words.index("-w") + 1]) if "-w" in words else None
    done = case.tracectl(daemon, *(written if words[at - 1:at] == ["-w"] else word for at, word in enumerate(words)))
    return case.tracectl(None, "read", written) if written and done.code in (0, 3) else done


def main(case):
    memory = LittleMemory()
    try:
        run(case, memory)
    finally:
        memory.remove()


def run(case, memory):
    app = case.own_comm
    program, where = case.path(app), case.path("directory")
    os.mkdir(where)
    known.build(case, program)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    daemon = case.daemon("--ring-size=32MiB", "--queue-size=64MiB", "--probe=tracepoint:sched:sched_process_*")
    process = case.start(program, where, str(port), stdin=-1)
    pid = process.popen.pid
    answers = wanted(case, app, pid, port, memory)
    asked = questions()
    case.check_equal([question for question, _ in asked], list(answers), "each question has its answer here")
    live, waiting, later = [], [], []
    for question, command in asked:
        words = known.words_of(command.split("`, then `")[0], app, pid, [program, where])
        if words[0] == "stuck":
            waiting.append((question, command, words))
        elif "--" in words or "--since" in words or words[0] == "dump":
            later.append((question, command, words))
        else:
            live.append((question, command, case.start_stream(daemon, *words[1:], command=words[0])))
    for _, _, stream in live:
        stream.await_subscribed()
    maps = case.stream(daemon, "-p", "process:map:executable", "-f", f"pid == {pid}")
    process.popen.stdin.write(b"!")
    process.popen.stdin.flush()
    maps.wait_for(rf"/{app}\"", "out")
    for question, command, words in waiting:
        check_stuck(case, daemon, question, command, words, answers[question])
    process.popen.stdin.close()
    process.wait()
    case.check_equal(process.popen.returncode, 0, "the program does what it does")
    if memory.works:
        case.check_equal(memory.exceed(), -signal.SIGKILL, "the kernel kills for want of memory")
    case.await_rings_read(daemon)       # machines are never silent
    for question, command, stream in live:
        stream.await_all()
        done = stream.interrupt()
        case.check(done.code in (0, 3), f"{command} ends well", done.err)
        check(case, question, command, done, answers[question])
    for question, command, words in later:
        done = answer_of(case, daemon, words)
        case.check(done.code in (0, 3), f"{command} ends well", done.err)
        check(case, question, command, done, answers[question])
    if "ASAN_OPTIONS" not in os.environ:        # which the test of --explain has
        check_explained(case, daemon)
    case.check_balanced(daemon)


ringtail.run(main)
