"""Beside strace -v -T on the same processes: the same calls in the same order with the same results, and each member of
each structure that we show (times, what stat finds, polls, signals, limits, what a child came to, strings of an exec,
vectors) is what strace says; no call lasts longer than strace has measured around it. Rules hide structures, and the
strings within. Without the flag there are none."""
import os
import re
import sys

import ringtail
from lib import programs
from lib.strace import OwnUser, calls_of

# -I: what lies where it is started is not looked at.
PYTHON = (sys.executable, "-I", "-c")
ENTRIES = 40                    # of a directory: more than are shown
PROGRAM = r"""
import os, resource, select, signal, socket, subprocess, sys, threading, time
os.listdir(sys.argv[1])
time.sleep(0.0015)
for path in ("/etc/passwd", "/etc", "/dev/null", "/tmp", "/bin/su", "/nonexistent"):
    try:
        os.stat(path)
        os.lstat(path)
    except OSError:
        pass
here, there = os.pipe()
one, other = socket.socketpair()
for which in ({signal.SIGINT, signal.SIGCHLD}, set(), signal.valid_signals(), {40}, set()):
    signal.pthread_sigmask(signal.SIG_SETMASK, which)
os.utime("/dev/null", ns=(1500000000, 2500000001))
os.write(there, b"x")
poll = select.poll()
poll.register(here, select.POLLIN)
poll.register(one, select.POLLIN | select.POLLOUT)
poll.poll(10)
select.select([here, one], [], [], 0.001)
epoll = select.epoll()
epoll.register(here, select.EPOLLIN | select.EPOLLET)
epoll.poll(0.01)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
resource.getrlimit(resource.RLIMIT_NOFILE)
resource.getrusage(resource.RUSAGE_SELF)
for how in (lambda: os._exit(3), lambda: os.kill(os.getpid(), 9)):
    child = os.fork()
    if not child:
        how()
    os.wait4(child, 0)
child = os.fork()
if not child:
    os._exit(5)
os.waitid(os.P_PID, child, os.WEXITED)
os.uname()
os.writev(there, [b'hello "q"\n', b"second\n"])
one.sendmsg([b"abc", b"def"])
other.recvmsg(100)
os.readv(here, [bytearray(4), bytearray(100)])
signal.setitimer(signal.ITIMER_REAL, 5000.5)
signal.getitimer(signal.ITIMER_REAL)
signal.setitimer(signal.ITIMER_REAL, 0)
thread = threading.Thread(target=lambda: None)
thread.start()
thread.join()
lock = threading.Lock()
lock.acquire()
lock.acquire(timeout=0.001)
signal.sigtimedwait([signal.SIGUSR2], 0.001)
for words in (["a b", "tab\there"], [f"arg{i}" for i in range(40)]):
    subprocess.run(["/bin/echo", *words], stdout=subprocess.DEVNULL)
try:
    os.execv("/nonexistent", ["no", "such"])
except OSError:
    pass
"""
# What a program reads and writes, which may begin with anything.
BUFFERS = {"filename", "buf", "buff", "ubuf", "optval", "pathname", "path"}

CALL = re.compile(r"^(\w+)\((.*)\) += (0x[0-9a-f]+|-?\d+|\?)(.*?)(?: <(\d+\.\d+)>)?$")
# name=value of a structure, and what stands in brackets.
MEMBER = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|makedev\([^)]*\)|[^ ={},\[\]]+)')
# In nanoseconds: strace's clock is read to the microsecond.
ROUNDED = 1000


def theirs_of(text):
    """{pid: [(name, what follows it, result, ns)]}"""
    calls = {}
    for pid, rest in calls_of(text):
        found = CALL.match(rest)
        if found:
            took = int(float(found[5]) * 1e9) if found[5] else None
            calls.setdefault(pid, []).append((found[1], found[2] + found[4], found[3], took))
    return calls


def words_of(text):
    """The members of all structures, flags as sets."""
    return {(name, frozenset(value.split("|"))) for name, value in MEMBER.findall(text)}


def is_same(name, mine, theirs):
    """Differences that are explained (docs/comparison.md, "Beside strace"): members that are left out, what a poll
    finds, octal escapes, the sign of sa_flags, the bytes of the second part of a vector. What a poll has left of its
    time strace shows only if there is some: it does not begin with a bracket, and is not compared."""
    cut = mine.endswith("...")
    if cut:
        mine = mine[:max(mine.rfind("|"), mine.rfind(", "))]
    mine = re.sub(r"iov_base=0x\w+", "", mine.replace("revents=", "events="))
    theirs = theirs.replace("revents=", "events=")
    theirs = re.sub(r"\d+ => |\|0xffffffff00000000", "", theirs)
    if name == "getdents64":            # those that are shown, in that order
        entries = re.findall(r"d_type=\w+, d_name=\"[^\"]*\"", mine)
        return entries and entries == re.findall(r"d_type=\w+, d_name=\"[^\"]*\"", theirs)[:len(entries)]
    if name in ("execve", "uname"):
        return mine.rstrip(".,]} ") in theirs.replace(r"\33", "\\x1b")
    members, whole = words_of(mine), words_of(theirs)
    if not members:
        return mine in theirs
    return all(any(name == other and (values == more or cut and values < more) for other, more in whole)
               for name, values in members)


def compare(case, program, theirs, ours):
    """(calls, structures that were compared, {calls that had one})"""
    calls, compared, seen = 0, 0, set()
    for pid, lines in theirs.items():
        mine = [event for event in ours if event["tid"] == pid]
        first = next((i for i, event in enumerate(mine) if event["probe"] == "syscall:execve:call"), 0)
        mine = mine[first:] if lines[0][0] == "execve" else mine
        names = [name for name, *_ in lines]
        case.check_equal([event["probe"].split(":")[1] for event in mine][:len(names)], names, f"{program}: {pid}")
        for event, (name, args, result, took) in zip(mine, lines):
            calls += 1
            if result not in ("?", "-1") and "ret" in event:
                case.check_equal(event["ret"], int(result, 8 if re.fullmatch("0[0-7]+", result) else 0),
                                 f"{program}: {name} returns", event)
            if took is not None and "duration" in event:
                case.check(event["duration"] <= took + ROUNDED, f"{program}: {name} is within strace's time",
                           event, took)
            for field, text in event.get("strings", {}).items():
                if text[:1] in "[{~" and field not in BUFFERS and "xattr" not in name:
                    case.check(is_same(name, text, args), f"{program}: {name}: {field}={text}", args)
                    compared, seen = compared + 1, seen | {name}
    return calls, compared, seen


def quietly(case, what, *args):
    """Thousands of checks: only those that fail are told."""
    said = case.say
    case.say = lambda text: None if text.startswith("ok") else said(text)
    try:
        return what(case, *args)
    finally:
        case.say = said


def beside_strace(case, daemon, user, program, command):
    report = os.path.join(user.directory, "strace.txt")
    done = case.tracectl(daemon, "stream", "-o", "json", "--flags", "strings,data", "-p", "syscall:*:call", "-f",
                         user.filter, "--", *user.command("strace", "-f", "-v", "-T", "-s", "300", "-o", report, *command))
    case.check(done.code in (0, 1, 2), f"{program} runs", done.code, done.err[-500:],
               [event for event in done.lines if "lost" in event])
    with open(report, encoding="utf-8", errors="replace") as file:
        theirs = theirs_of(file.read())
    calls, compared, seen = quietly(case, compare, program, theirs, [event for event in done.lines if "tid" in event])
    case.check(calls >= 15 and compared >= 3, f"{program}: {calls} calls, and {compared} structures are strace's")
    return calls, compared, seen


def full_directory(case):
    directory = case.path("many")
    if not os.path.exists(directory):
        os.mkdir(directory)
        for i in range(ENTRIES):
            case.write(f"many/entry-{i}", "")
    return directory


def all_beside_strace(case, daemon):
    user = OwnUser(case)
    calls, compared, seen = beside_strace(case, daemon, user, "a program with every structure",
                                          (*PYTHON, PROGRAM, full_directory(case)))
    wanted = {"clock_nanosleep", "newfstatat", "pipe2", "socketpair", "rt_sigprocmask", "rt_sigaction", "utimensat",
              "poll", "pselect6", "epoll_ctl", "epoll_wait", "prlimit64", "getrusage", "wait4", "waitid", "uname",
              "writev", "readv", "getdents64", "sendmsg", "recvmsg", "setitimer", "getitimer", "futex", "clone3", "execve"}
    case.check(wanted <= seen, "each of these calls had its structures", wanted - seen)
    for program in programs.FEW + (programs.MORE if os.environ.get("RINGTAIL_LONG") else ()):
        program = program.format(dir=user.directory)
        more = beside_strace(case, daemon, user, program,
                             ("sh", "-c", f"exec {program} >{user.directory}/out.txt 2>&1"))
        calls, compared = calls + more[0], compared + more[1]
    case.figure("calls compared", calls, "")
    case.figure("structures compared", compared, "")


def shown(case, daemon):
    words = ("-p", "pipe2", "-p", "newfstatat", "-p", "execve", "-p", "writev")
    command = ("--", *PYTHON, PROGRAM, full_directory(case))
    text = case.tracectl(daemon, "stream", "--flags", "strings", *words, *command).out
    for part in ("fildes=[3, 4]", "statbuf={st_mode=S_IFCHR|0666, st_rdev=makedev(0x1, 0x3), st_uid=0",
                 'argv=["/bin/echo", "a b", "tab\\there"]', '"arg1", ', "..., envp="):
        case.check(part in text, f"text shows {part}, without quotes of its own", text[-3000:])
    case.check("iov_base" not in text, "what is written comes with data alone")
    bare = case.tracectl(daemon, "stream", "-o", "json", *words, *command)
    case.check(not any("strings" in event for event in bare.lines), "without the flag there are none")


def hidden(case):
    daemon = case.daemon(config="redact = execve argv a b\nredact = newfstatat statbuf {st_mode=S_IFDIR*\n"
                         "redact = writev vec hello*\n")
    done = case.tracectl(daemon, "stream", "-o", "json", "--flags", "strings,data", "-p", "execve", "-p", "writev",
                         "-p", "newfstatat", "--", *PYTHON, PROGRAM, full_directory(case))
    texts = [event["strings"] for event in done.lines if "strings" in event]
    case.check("a b" not in done.out and "hello" not in done.out and "S_IFDIR" not in done.out,
               "what the rules hide is not there")
    for field in ("argv", "statbuf", "vec"):
        case.check({"[redacted]"} & {text.get(field) for text in texts}, f"{field}: that it is hidden is told")
    case.check("arg1" in done.out and "S_IFREG" in done.out, "the rest is")
    case.check_balanced(daemon)


def main(case):
    daemon = case.daemon("--ring-size=16MiB")
    all_beside_strace(case, daemon)
    shown(case, daemon)
    case.check_balanced(daemon)
    hidden(case)


ringtail.run(main)
