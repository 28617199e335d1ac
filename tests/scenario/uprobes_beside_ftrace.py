"""Functions of a program, entered and left, beside the kernel's own record of the same run: ftrace's uprobe."""
import json
import os
import subprocess

import ringtail
from lib import probed
from lib.ftrace import Ftrace

TURNS = 5000
DEPTH = 100         # of calls inside each other: the kernel follows 64 of one thread


def file_offset(path, symbol):
    """Where the function lies in the file, as binutils see it."""
    names = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    address = next(int(line.split()[0], 16) for line in names.splitlines() if line.endswith(f" T {symbol}"))
    headers = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True).stdout
    for line in headers.splitlines():
        word = line.split()
        if word[:1] == ["LOAD"] and int(word[2], 16) <= address < int(word[2], 16) + int(word[4], 16):
            return address - int(word[2], 16) + int(word[1], 16)
    raise ringtail.Failure(f"{symbol} is not loaded")


class Event:
    """An event of ftrace's, gone at the end."""

    def __init__(self, ftrace, text):
        self.file, self.group = ftrace.mount / "uprobe_events", f"ringtail{os.getpid()}"
        self.name = f"{self.group}:{text.split()[0]}"
        self.append(f"p:{self.group}/{text}\n")

    def append(self, line):
        """In one write, behind what others have there."""
        fd = os.open(self.file, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(fd, line.encode())
        finally:
            os.close(fd)

    def close(self):
        self.append(f"-:{self.name.replace(':', '/')}\n")


def main(case):
    daemon = case.daemon("--ring-size=16MiB")
    path = probed.build(case)
    program = probed.Probed(path, str(DEPTH))
    specs = [f"uprobe:{path}:work", f"uretprobe:{path}:work", f"uprobe:{path}:deeper",
             f"uretprobe:{path}:deeper"]
    ftrace = Ftrace([], kilobytes=8192)
    event = Event(ftrace, f"work {path}:{file_offset(path, 'work'):#x} a=%di b=%si")
    stream = case.stream(daemon, *(word for spec in specs for word in ("-p", spec)),
                         "-f", f"pid == {program.pid}", "-o", "json")
    try:
        ftrace.events = [event.name]
        ftrace.begin()
        program.turn(TURNS)
        case.await_rings_empty(daemon)
        case.check_balanced(daemon)
        done = stream.interrupt()
        theirs = ftrace.lines(event.name, program.pid)
        case.check_equal(ftrace.overrun(), 0, "ftrace has all of them")
    finally:
        (ftrace.directory(event.name) / "enable").write_text("0")
        ftrace.close_instance()
        event.close()
        ftrace.close_mount()
    items = [json.loads(line) for line in done.out.splitlines()]
    by = {spec: [item for item in items if item.get("probe") == spec] for spec in specs}
    entered, left = by[specs[0]], by[specs[1]]
    case.check_equal((len(entered), len(theirs)), (TURNS, TURNS), "as many calls as ftrace has, and as were made")
    mine = [(item["args"]["arg0"], item["args"]["arg1"]) for item in entered]
    case.check_equal([f"a={a} b={b}" for a, b in ((int(str(a), 0), int(str(b), 0)) for a, b in mine)],
                     [" ".join(f"{name}={int(value, 16)}" for name, value in
                               (part.split("=") for part in text.split(" ")[-2:])) for _, text in theirs],
                     "with the same arguments")
    case.check_equal([item["args"]["retval"] for item in left], [i * 3 + 2 for i in range(TURNS)],
                     "and each returned what it did")
    case.check(all(item["pid"] == program.pid and item["comm"] == "probed" for item in items if "probe" in item),
               "by the thread that made it")
    case.check_equal(len(by[specs[2]]), DEPTH + 1, "calls inside each other are entered")
    case.check_equal(program.end(), 0, "the program went on unharmed")
    for spec, code in ((f"uprobe:{path}:wrok", "unknown-symbol"), (f"uprobe:{path}:work+4096", "symbol-offset"),
                       ("uprobe:/no/such:work", "probe-no-file"), ("uprobe:relative:work", "probe-bad-path"),
                       ("uprobe:/dev/zero:work", "probe-no-file"), ("uprobe:/etc/passwd:work", "not-elf"),
                       (f"uprobe:{path}*:work", "probe-is-pattern"), (f"uprobe:{path}:zz*", "unknown-probe"),
                       ("uprobe:/usr/lib/x86_64-linux-gnu/libc.so.6:*", "too-many-probes"), (f"usdt:{path}:test:palin", "unknown-probe")):
        refused = case.tracectl(daemon, "stream", "-p", spec)
        case.check(refused.code == 1 and f"[{code}]" in refused.err, f"{spec} is refused", refused.err)
    listed = case.tracectl(daemon, "list", f"uprobe:{path}:mark_*")
    case.check_equal(sorted(line.split("(")[0] for line in listed.out.splitlines()),
                     [f"uprobe:{path}:mark_guarded", f"uprobe:{path}:mark_twice"], "those of a pattern are listed")
    listed = case.tracectl(daemon, "list", f"usdt:{path}:*")
    case.check_equal(sorted(listed.out.splitlines()),
                     [f"usdt:{path}:test:guarded(ip, arg0, arg1)",
                      f"usdt:{path}:test:plain(ip, arg0, arg1, arg2, arg3, arg4)",
                      f"usdt:{path}:test:twice(ip, arg0)"], "and so are marks, with their arguments")
    listed = case.tracectl(daemon, "list", f"usdt:{path}:no:*")
    case.check(listed.code == 1 and "[unknown-probe]" in listed.err, "none is none", listed.err)
    case.check_balanced(daemon)


ringtail.run(main)
