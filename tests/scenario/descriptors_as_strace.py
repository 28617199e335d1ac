"""--flags fds and data, beside strace -y on the same processes: each descriptor of each call stands for the same file,
pipe or device, also of close and of what a call returns; buffers hold the same bytes; sockets have both ends. What a
thread closes elsewhere, a file that is renamed or deleted, is shown as it is then. Without the flags nothing of it
comes, and viewers get none of it."""
import json
import os
import re
import shutil
import socket

import ringtail
from lib.strace import calls_of

PROGRAMS = (
    "cat /etc/hostname", "sh -c 'echo a | tr a b'", "sh -c 'exec 7<>/dev/null; exec 8>&7 7>&-; echo y >&8'",
    "cp /etc/hostname {dir}/copy", "mv {dir}/copy {dir}/moved", "tar cf {dir}/a.tar /etc/apt", "find /etc/apt",
)
# Also in the long form.
MORE = (
    "rm {dir}/moved", "ls /etc/apt", "head -c 10 /dev/zero", "sort /etc/passwd", "wc -l /etc/group",
    "grep root /etc/passwd", "gzip -f {dir}/a.tar", "dd if=/dev/zero of={dir}/d bs=512 count=3", "stat /etc",
    "touch {dir}/t", "readlink /proc/self/exe", "env true", "sed -n 1p /etc/passwd", "awk 1 /etc/passwd",
    "cut -d: -f1 /etc/passwd", "uniq /etc/group", "tail -n 2 /etc/passwd", "tee {dir}/tee", "ln -s a {dir}/link",
    "mkdir {dir}/made", "chmod 600 {dir}/t", "md5sum /etc/passwd", "diff /etc/passwd /etc/group", "xargs echo",
    "id", "date", "uname -a", "df /", "du /etc/apt", "ps", "bash -c 'while read a; do :; done < /etc/group'",
    "perl -e 'open F, q(/etc/group); print <F>'", "python3 -c 'print(open(chr(47)+\"etc/group\").read())'",
)

# What strace knows of a call: name, arguments, what it returned.
CALL = re.compile(r"^(\w+)\((.*)\) += (?:-?\d+|0x[0-9a-f]+|\?)(<.*>)?", re.DOTALL)
SHOWN = re.compile(r"(?<![\w\"])(-?\d+)<((?:[^<>]|\\[<>]|<[^<>]*>)*)>")


def theirs_of(text):
    """{pid: [(name, {descriptor: text}, text of the result)]}"""
    calls = {}
    for pid, rest in calls_of(text):
        found = CALL.match(rest)
        if found:
            name, args, result = found.groups()
            args = re.sub(r'"(?:[^"\\]|\\.)*"', '""', args)
            calls.setdefault(pid, []).append(
                (name, {int(fd): shown for fd, shown in SHOWN.findall(args)}, result and result[1:-1]))
    return calls


def plain(text):
    """As ringtail writes it: strace names a device's numbers, and escapes what it is not sure of."""
    text = re.sub(r"<(char|block) [^>]*>$", "", text)
    return re.sub(r"\(deleted\)$", " (deleted)", text) if not text.endswith(" (deleted)") else text


def is_inet(text):
    return (text or "").startswith(("TCP ", "UDP "))


def compare(case, program, theirs, ours):
    """How many descriptors were compared. Differences that are explained, beside those of plain(): strace -y does
    not name the ends of a socket of IPv4 or IPv6."""
    compared = 0
    for pid, calls in theirs.items():
        mine = [event for event in ours if event["pid"] == pid]
        first = next((i for i, event in enumerate(mine) if event["probe"] == "syscall:execve:call"), 0)
        if calls and calls[0][0] == "execve":
            mine = mine[first:]
        for name, shown, result in calls:
            at = next((i for i, event in enumerate(mine) if event["probe"].split(":")[1] == name), None)
            if at is None:
                break
            event, mine = mine[at], mine[at + 1:]
            strings, args = event.get("strings", {}), event["args"]
            for field in ("fd", "dfd", "fildes", "fd_in", "fd_out", "oldfd"):
                if field in args and args[field] in shown and not is_inet(strings.get(field)):
                    case.check_equal(strings.get(field), plain(shown[args[field]]),
                                     f"{program}: {name}: what {field} {args[field]} is", event, shown)
                    compared += 1
            if result and event.get("ret", -1) >= 0 and "ret" in strings and not is_inet(strings["ret"]):
                case.check_equal(strings["ret"], plain(result), f"{program}: what {name} returned", event)
                compared += 1
    return compared


def of_programs(program):
    """A filter for the kernel, of what runs there: what all other processes do with descriptors is much."""
    names = {"strace", "sh", *(word for word in re.findall(r"[\w-]+", program) if shutil.which(word))}
    return f"comm in ({', '.join(json.dumps(name) for name in sorted(names))})"


def beside_strace(case, daemon):
    compared, quiet = 0, case.say
    for program in PROGRAMS + (MORE if os.environ.get("RINGTAIL_LONG") else ()):
        program = program.format(dir=case.dir)
        report = case.path("strace.txt")
        case.say = lambda text: None if text.startswith("ok") else quiet(text)
        done = case.tracectl(daemon, "stream", "-o", "json", "--flags", "strings,fds", "-p", "syscall:*:call", "-f",
                             of_programs(program), "--", "strace", "-f", "-y", "-o", report, "sh", "-c",
                             f"exec {program} >{case.path('out.txt')} 2>&1")
        case.say = quiet
        case.check(done.code in (0, 1), f"{program} runs", done.code, done.err[-500:], done.out[-500:])
        with open(report, encoding="utf-8", errors="replace") as file:
            theirs = theirs_of(file.read())
        case.say = lambda text: None if text.startswith("ok") else quiet(text)
        ours = [event for event in done.lines if "probe" in event]
        mine = compare(case, program, theirs, ours)
        case.say = quiet
        case.check(mine >= 5, f"{program}: {mine} descriptors are what strace says")
        compared += mine
    case.figure("descriptors compared", compared, "")


def calls(case, where):
    """Of a process that is traced: what is read and written, and to whom."""
    folder = case.path(where)
    os.mkdir(folder)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("::1", 0), family=socket.AF_INET6):
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            own = client.getsockname()[1]
            peer, _ = server.accept()
            client.send(b"hello\n\0\xff" + b"x" * 200)
            peer.recv(1000)
            peer.close()
        file = os.open(os.path.join(folder, "a"), os.O_RDWR | os.O_CREAT)
        os.rename(os.path.join(folder, "a"), os.path.join(folder, "b"))
        os.write(file, b"to b")
        os.unlink(os.path.join(folder, "b"))
        os.pread(file, 2, 1)
        os.close(file)
        try:
            os.write(file, b"nobody")
        except OSError:
            pass
    return {"port": port, "own": own, "folder": folder}


def fork(case, where):
    """A child that makes the calls when a byte comes: (pid, how to let it)."""
    start, begin = os.pipe()
    told, tell = os.pipe()
    pid = os.fork()
    if not pid:
        os.read(start, 1)
        os.write(tell, json.dumps(calls(case, where)).encode())
        os._exit(0)
    os.close(start)
    os.close(tell)

    def go():
        os.write(begin, b"!")
        with open(told, "rb") as file:
            answer = json.load(file)
        os.waitpid(pid, 0)
        return answer
    return pid, go


def find(events, name, **values):
    """The strings of the one call of that name whose strings hold these."""
    found = [event.get("strings", {}) for event in events if event["probe"] == f"syscall:{name}:call"]
    return next((strings for strings in found if values.items() <= strings.items()), found)


def shown(case, daemon):
    pid, go = fork(case, "shown")
    words = ("-p", "syscall:*:call", "-f", f"pid == {pid}", "-o", "json")
    full = case.stream(daemon, *words, "--flags", "fds,data")
    texts = case.stream(daemon, *words[:-2], "--flags", "fds,data")
    strings = case.stream(daemon, *words, "--flags", "strings")
    told = go()
    case.await_rings_empty(daemon)
    for stream in (full, texts, strings):
        stream.await_all()
    done, out, bare = full.interrupt(), texts.interrupt().out, strings.interrupt()
    case.check_stream(done)
    here, there = f"127.0.0.1:{told['own']}", f"127.0.0.1:{told['port']}"
    wanted = {
        "sendto": {"fd": f"TCP {here}->{there}", "buff": "hello\n\0\udcff"},
        "accept4": {"fd": f"TCP {there}", "ret": f"TCP {there}->{here}"},
        "recvfrom": {"fd": f"TCP {there}->{here}"},
        "write": {"fd": f"{told['folder']}/b", "buf": "to b"},
        "pread64": {"fd": f"{told['folder']}/b (deleted)", "buf": "o "},
    }
    for name, values in wanted.items():
        values = {field: text for field, text in values.items() if field != "buff"}
        case.check(isinstance(find(done.lines, name, **values), dict), f"{name} has {values}",
                   find(done.lines, name, **values))
    case.check(isinstance(find(done.lines, "close", fd=f"{told['folder']}/b (deleted)"), dict),
               "what close() closes is what it was as it began")
    nobody = [event for event in done.lines if event["probe"] == "syscall:write:call" and
              event.get("error") == "EBADF"]
    case.check(nobody and all("fd" not in event.get("strings", {}) for event in nobody),
               "of a descriptor that is none, nothing is claimed", nobody)
    case.check("hello" in out and f"<{told['folder']}/b (deleted)>" in out and "x" * 119 + '"...' in out,
               "text shows them, and says what was cut", out[-3000:])
    case.check(not any({"fd", "buf", "ret", "buff"} & set(event.get("strings", {})) for event in bare.lines),
               "strings alone have none of it")


def guarded(case):
    """Viewers get no data, and descriptors only with viewer-strings; rules hide both."""
    daemon = case.daemon("--listen=tcp:127.0.0.1:0", "--insecure", config="viewer = local\n"
                         "redact = * fd */redacted*\nredact = syscall:write buf to*\nredact = * ret TCP*\n")
    port = re.search(r"listening on tcp:127.0.0.1:(\d+)", daemon.log)[1]
    for flags, what in (("fds", "strings"), ("data", "data")):
        done = case.tracectl(f"tcp:127.0.0.1:{port}", "stream", "-p", "syscall:read", "--flags", flags, "-n", "1")
        case.check(done.code == 1 and "[viewer-flags]" in done.err and what in done.err, f"viewers get no {flags}",
                   done.err)
    pid, go = fork(case, "redacted")
    stream = case.stream(daemon, "-p", "syscall:*:call", "-f", f"pid == {pid}", "-o", "json", "--flags", "fds,data")
    told = go()
    case.await_rings_empty(daemon)
    stream.await_all()
    done = stream.interrupt()
    out = done.out
    case.check("to b" not in out and "redacted/b" not in out and '"ret":"TCP' not in out,
               "what the rules hide is not there", told)
    case.check('"fd":"[redacted]"' in out and '"buf":"[redacted]"' in out and '"ret":"[redacted]"' in out,
               "and that it is hidden is told", out[-2000:])
    case.check_balanced(daemon)


def main(case):
    daemon = case.daemon(ringtail.ROOM)
    shown(case, daemon)
    beside_strace(case, daemon)
    case.check_balanced(daemon)
    guarded(case)


ringtail.run(main)
