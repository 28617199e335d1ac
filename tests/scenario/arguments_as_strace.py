"""Beside strace -y -v on the same processes: each argument of each call, as text, is what strace shows, or differs in
one of the ways that docs/comparison.md ("Beside strace") lists. Structures, descriptors and times have scenarios of
their own."""
import collections
import os
import re
import sys

import ringtail
from lib import programs
from lib.strace import OwnUser, calls_of

PROGRAM = r"""
import fcntl, os, select, signal, socket, sys, threading
os.chdir(sys.argv[1])
file = os.open("new", os.O_CREAT | os.O_RDWR, 0o640)
for command in (fcntl.F_GETFD, fcntl.F_GETFL):
    fcntl.fcntl(file, command)
fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
fcntl.fcntl(file, fcntl.F_DUPFD, 20)
os.chown("new", -1, -1)
os.umask(0o27)
os.mkfifo("fifo")
os.open("none", os.O_RDONLY | os.O_NONBLOCK | os.O_CREAT | os.O_EXCL, 0)
one, other = socket.socketpair()
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen()
client = socket.create_connection(server.getsockname())
client.send(b"text\n\0\1\xff")
server.accept()[0].recv(100)
signal.signal(40, signal.SIG_IGN)
thread = threading.Thread(target=lambda: None)
thread.start()
thread.join()
os.kill(os.getpid(), 0)
os.getcwd()
"""
CALL = re.compile(r"^(\w+)\((.*)\) += (?:0x[0-9a-f]+|-?\d+|\?)", re.DOTALL)
OURS = re.compile(r"^\S+ \[\d+\] .{16} +\d+/(\d+) +(\w+)\((.*)\) = (?:-?\d+|0x[0-9a-f]+|\?)")
OPENING, CLOSING = "([{<", ")]}>"
# Where strace shows another order of the arguments than the kernel has.
REORDERED = {"clone"}


def arguments(text):
    """At commas that are in no quotes and no brackets. None: it was cut within a structure."""
    found, depth, quoted, begin, at = [], 0, False, 0, 0
    while at < len(text):
        letter = text[at]
        if quoted:
            at += letter == "\\"
            quoted = letter != '"'
        elif letter == '"':
            quoted = True
        elif text.startswith("->", at):
            at += 1
        elif letter in OPENING:
            depth += 1
        elif letter in CLOSING:
            depth -= 1
        elif letter == "," and not depth:
            found.append(text[begin:at].strip())
            begin = at + 1
        at += 1
    if depth or quoted:
        return None
    return [*found, text[begin:].strip()] if text.strip() else []


def plain(text):
    """The bytes of a text in quotes, whichever escapes it has."""
    def byte(match):
        escape = match[1]
        return {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f", '"': '"', "\\": "\\"}.get(escape) or \
            chr(int(escape[1:], 16) if escape[0] == "x" else int(escape, 8))
    body = re.match(r'"((?:[^"\\]|\\.)*)"', text, re.DOTALL)[1]
    text = re.sub(r'\\(x[0-9a-f]{2}|[0-7]{1,3}|[ntrvf"\\])', byte, body)
    return b"".join(letter.encode("latin-1") if ord(letter) < 256 else letter.encode() for letter in text)


def number(text):
    try:
        return int(text, 8 if re.fullmatch("0[0-7]+", text) else 0)
    except ValueError:
        return {"NULL": 0}.get(text)


def explained(name, mine, theirs):
    """Which row of the table says why; None: nothing does."""
    mine, theirs = mine.partition("=")[2], re.sub(r" ?/\*.*?\*/", "", theirs)
    if mine == theirs:
        return "the same"
    if number(mine) is not None and number(mine) == number(theirs):
        return "a number in another base"
    if mine == "AT_FDCWD" or (re.match(r"-?\d+<", mine) or re.match(r"-?\d+<", theirs)) and \
            mine.partition("<")[0] == theirs.partition("<")[0]:
        return "a descriptor"                   # descriptors_as_strace
    if mine[:1] == '"' and theirs[:1] == '"':
        short, whole = plain(mine), plain(theirs)
        same = short.rstrip(b"\0") == whole if name == "getcwd" else \
            whole.startswith(short) if mine.endswith("...") or len(whole) > 128 else short == whole
        # UTF-8 is as it is here, and octal there.
        return "escapes, and how much of a text" if same or any(byte > 127 for byte in whole) else None
    if mine[:1] == '"' and theirs.startswith("{sa_family="):
        return "an address in words"
    if mine[:1] == '"' and theirs[:2] in ("[{", "[["):
        return "messages of netlink are bytes"
    if mine[:2] in ("[{", "[]", "[", "{") or mine[:1] in "[{~" or mine.startswith("left "):
        return "a structure"                    # structures_as_strace
    if re.fullmatch(r"0x[0-9a-f]+", mine) and theirs[:1] in '[{"':
        return "left as an address"
    if set(mine.split("|")) == set(theirs.split("|")) - {"AT_STATX_SYNC_AS_STAT"}:
        return "flags in another order"
    return "one of several names" if mine in theirs.split(" or ") else None


def compare(theirs, ours, counts, wrong):
    for tid, calls in theirs.items():
        mine = ours.get(tid, [])
        if calls[0][0] == "execve":
            mine = mine[next((i for i, call in enumerate(mine) if call[0] == "execve"), 0):]
        for (name, text), (other, whole) in zip(mine, calls):
            if name != other:
                wrong.append((f"another call, where strace has {other}", name, whole))
                break
            ours_of, theirs_of = arguments(text), arguments(whole)
            if name in REORDERED or ours_of is None or theirs_of is None:
                continue
            if len(ours_of) != len(theirs_of) and name in ("open", "openat", "fcntl", "futex", "mknodat"):
                wrong.append((f"so many arguments of {name}", text, whole))
            for one, another in zip(ours_of, theirs_of):
                how = explained(name, one, another)
                counts[how] += 1
                if not how:
                    wrong.append((name, one, another))


def beside_strace(case, daemon, user, program, command, counts):
    report = os.path.join(user.directory, "strace.txt")
    done = case.tracectl(daemon, "stream", "--flags", "strings,fds,data", "-p", "syscall:*:call", "-f", user.filter, "--",
                         *user.command("strace", "-f", "-y", "-v", "-s", "300", "-o", report, *command))
    theirs, ours, wrong = {}, {}, []
    with open(report, encoding="utf-8", errors="surrogateescape") as file:
        for tid, rest in calls_of(file.read()):
            found = CALL.match(rest)
            if found:
                theirs.setdefault(tid, []).append((found[1], found[2]))
    for line in done.out.splitlines():
        found = OURS.match(line)
        if found:
            ours.setdefault(int(found[1]), []).append((found[2], found[3]))
    compare(theirs, ours, counts, wrong)
    case.check(theirs and ours and not wrong, f"{program}: each difference is explained", wrong[:20],
               done.err[-300:])


def main(case):
    daemon = case.daemon("--ring-size=16MiB")
    user = OwnUser(case)
    counts = collections.Counter()
    beside_strace(case, daemon, user, "a program with many arguments", (sys.executable, "-I", "-c", PROGRAM, user.directory),
                  counts)
    for program in programs.FEW + (programs.MORE if os.environ.get("RINGTAIL_PROGRAMS") == "all" else ()):
        program = program.format(dir=user.directory)
        beside_strace(case, daemon, user, program, ("sh", "-c", f"exec {program} >{user.directory}/out.txt 2>&1"), counts)
    for how, count in counts.most_common():
        case.figure(str(how), count, "arguments")
    case.check(counts["the same"] > sum(counts.values()) / 2, "most are the same, letter by letter", counts)
    case.check_balanced(daemon)


ringtail.run(main)
