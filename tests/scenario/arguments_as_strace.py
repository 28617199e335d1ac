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
# Strace's names of clone's arguments, and the kernel's; strace leaves those out that the flags do not ask for.
CLONE = {"child_stack": "newsp", "flags": "clone_flags", "parent_tid": "parent_tidptr", "tls": "tls",
         "child_tidptr": "child_tidptr"}
# Calls whose structures or buffers are addresses here, and the fields in question.
LEFT = {
    "ioctl": {"arg"}, "getsockopt": {"optval", "optlen"}, "setsockopt": {"optval"}, "sysinfo": {"info"},
    "statfs": {"buf"}, "fstatfs": {"buf"}, "capget": {"header", "dataptr"}, "capset": {"header", "data"},
    "sched_getaffinity": {"user_mask_ptr"}, "setxattr": {"value"}, "getrandom": {"ubuf"}, "execve": {"envp"},
    "clone": {"parent_tidptr"}, "timer_create": {"timer_event_spec", "created_timer_id"},
    "get_mempolicy": {"policy", "nmask"}, "set_mempolicy": {"nmask"},
}


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


def in_words(address):
    """The address of a socket that strace shows by its members, in our words; None: of another family, or unnamed."""
    if found := re.search(r"_port=htons\((\d+)\).*\"([\d.]+|[\da-f:.]*:[\da-f:.]*)\"", address):
        return f'"[{found[2]}]:{found[1]}"' if ":" in found[2] else f'"{found[2]}:{found[1]}"'
    found = re.search(r'sun_path=(@?)"(.*)"', address)
    return found and f'"{found[1]}{found[2]}"'


def explained(name, mine, theirs):
    """Which row of the table says why; None: nothing does."""
    field, _, mine = mine.partition("=")
    theirs = re.sub(r" ?/\*.*?\*/", "", theirs)
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
    if mine[:1] == '"' and theirs.startswith("{sa_family=") and in_words(theirs) in (None, mine):
        return "an address in words"
    if mine[:1] == '"' and theirs[:2] in ("[{", "[[") and name in ("sendto", "recvfrom"):
        return "messages of netlink are bytes"
    if (mine[:1] in "[{~" or mine.startswith("left ")) and theirs[:1] in "[{~":
        return "a structure"                    # structures_as_strace
    if field.endswith("len") and re.fullmatch(r"0x[0-9a-f]+", mine) and re.fullmatch(r"\[\d+( => \d+)?\]", theirs):
        return "a length by its address"
    if re.fullmatch(r"0x[0-9a-f]+", mine) and theirs[:1] in '[{"' and (field in LEFT.get(name, ()) or theirs in ('""', "[]")):
        return "left as an address"
    if set(mine.split("|")) == set(theirs.split("|")) - {"AT_STATX_SYNC_AS_STAT"}:
        return "flags in another order"
    return "one of several names" if mine in theirs.split(" or ") else None


def pairs(name, ours, theirs):
    """Each of ours beside what strace shows of it; None: one of the two has more of them."""
    if name == "rt_sigreturn" and not ours:
        return []                               # it has none: strace reads a mask from the stack
    if name == "clone":
        mine = {text.partition("=")[0]: text for text in ours}
        named = [(mine.get(CLONE.get(text.partition("=")[0])), text.partition("=")[2]) for text in theirs]
        return named if all(text for text, _ in named) else None
    return list(zip(ours, theirs)) if len(ours) == len(theirs) else None


def compare(theirs, ours, counts, wrong):
    for tid, calls in theirs.items():
        mine = ours.get(tid, [])
        if calls[0][0] == "execve":
            mine = mine[next((i for i, call in enumerate(mine) if call[0] == "execve"), 0):]
        if len(mine) < len(calls):
            wrong.append(("so many calls", len(mine), len(calls)))
        for (name, text), (other, whole) in zip(mine, calls):
            if name != other:
                wrong.append((f"another call, where strace has {other}", name, whole))
                break
            ours_of, theirs_of = arguments(text), arguments(whole)
            if ours_of is None or theirs_of is None:
                continue
            beside = pairs(name, ours_of, theirs_of)
            if beside is None:
                wrong.append((f"so many arguments of {name}", text, whole))
            for one, another in beside or ():
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
    for program in programs.FEW + (programs.MORE if os.environ.get("RINGTAIL_LONG") else ()):
        program = program.format(dir=user.directory)
        beside_strace(case, daemon, user, program, ("sh", "-c", f"exec {program} >{user.directory}/out.txt 2>&1"), counts)
    for how, count in counts.most_common():
        case.figure(str(how), count, "arguments")
    case.check(counts["the same"] > sum(counts.values()) / 2, "most are the same, letter by letter", counts)
    case.check_balanced(daemon)


ringtail.run(main)
