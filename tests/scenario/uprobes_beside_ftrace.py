"""Functions of a program, entered and left, beside the kernel's own record of the same run: ftrace's uprobe."""
import json
import os
import struct

import ringtail
from lib import probed
from lib.ftrace import Event, Ftrace

TURNS = 5000
DEPTH = 100         # calls inside each other,
FOLLOWED = 64       # of which the kernel follows so many of one thread


def file_offset(path, symbol):
    """Where the function lies in the file: in that part of it whose addresses have the symbol's."""
    with open(path, "rb") as file:
        elf = file.read()
    programs, sections = struct.unpack_from("<QQ", elf, 32)
    _, program_count, section_bytes, section_count = struct.unpack_from("<4H", elf, 54)
    section = [struct.unpack_from("<IIQQQQII", elf, sections + i * section_bytes) for i in range(section_count)]
    for _, kind, _, _, place, size, names, _ in section:
        for at in range(place, place + size, 24) if kind == 2 else ():     # SHT_SYMTAB
            name, _, _, _, address = struct.unpack_from("<IBBHQ", elf, at)
            begin = section[names][4] + name
            if elf[begin:elf.index(0, begin)] == symbol.encode():
                break
        else:
            continue
        break
    for i in range(program_count):
        kind, _, place, loaded, _, _, size = struct.unpack_from("<IIQQQQQ", elf, programs + i * 56)
        if kind == 1 and loaded <= address < loaded + size:     # PT_LOAD
            return address - loaded + place
    raise ringtail.Failure(f"{symbol} is not loaded")


def libc():
    """The C library's file, which has many functions."""
    with open("/proc/self/maps") as maps:
        return next(line.split()[-1] for line in maps if "/libc.so" in line or "/libc-" in line)


def main(case):
    daemon = case.daemon("--ring-size=16MiB")
    path = probed.build(case)
    program = probed.Probed(path, str(DEPTH))
    specs = [f"uprobe:{path}:work", f"uretprobe:{path}:work", f"uprobe:{path}:deeper",
             f"uretprobe:{path}:deeper"]
    ftrace = Ftrace([], kilobytes=8192)
    event = Event(ftrace, "uprobe_events", "p", f"work {path}:{file_offset(path, 'work'):#x} a=%di b=%si")
    stream = case.stream(daemon, *(word for spec in specs for word in ("-p", spec)),
                         "-f", f"pid == {program.pid}", "-o", "json")
    try:
        ftrace.events = [event.name]
        ftrace.begin()
        program.turn(TURNS)
        case.await_rings_empty(daemon)
        stream.await_all()
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
    case.check_equal([item["args"]["retval"] for item in by[specs[3]]], list(range(DEPTH + 2 - FOLLOWED, DEPTH + 2)),
                     "those return that the kernel follows")
    refused = [item for item in items if item.get("reason") == "refused"]
    case.check_equal(sum(item["lost"] for item in refused), DEPTH + 1 - FOLLOWED,
                     "and the others are counted as lost, in their place")
    case.check_equal(program.end(), 0, "the program went on unharmed")
    for spec, code in ((f"uprobe:{path}:wrok", "unknown-symbol"), (f"uprobe:{path}:work+4096", "symbol-offset"),
                       ("uprobe:/no/such:work", "probe-no-file"), ("uprobe:relative:work", "probe-bad-path"),
                       ("uprobe:/dev/zero:work", "probe-no-file"), ("uprobe:/etc/passwd:work", "not-elf"),
                       (f"uprobe:{path}*:work", "probe-is-pattern"), (f"uprobe:{path}:zz*", "unknown-probe"),
                       (f"uprobe:{libc()}:*", "too-many-probes"), (f"usdt:{path}:test:palin", "unknown-probe")):
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
