"""What `-o kptrace` writes is Akaros' text of traced calls: a line for each event and each loss, whose times, number,
name, registers, value, process and data are those of `-o json`; the numbers are the kernel's own."""
import os
import re

import ringtail
from lib import fake_daemon, lossy
from lib.fake_daemon import FakeDaemon

LINE = re.compile(
    r"([EX]) \[ *(\d+)\.(\d{9})\]-\[ *(\d+)\.(\d{9})\] Syscall +(-?\d+) \( *(\S+)\):\(([^)]*)\) ret: (---|0x[0-9a-f]+) "
    r"proc: (\d+) core: +(\d+) vcore: -- errno: +(---|\d+) thread: (\d+) comm: '(.*?)' data: '(.*)'")
OTHER = re.compile(r"\[(\d+)\.(\d{9})\]:cpu(\d+): (\S+)(:|\().* proc: (\d+) thread: (\d+) comm: '(.*)'")
LOSS = re.compile(r"\[\d+\.\d{9}\]:cpu(\d+): up to (\d+) events lost: (\S+) \(")
NUMBERS = {"getppid": 110, "openat": 257, "exit_group": 231}


def unescaped(text):
    return re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), text).encode("latin-1")


def check_call(case, line, event):
    got = LINE.fullmatch(line)
    if not got:
        case.check(False, "a call is a line of Akaros", line)
    _, name, kind = event["probe"].split(":")
    ends = kind == "call" and "ret" in event
    start = event["time"] - event.get("duration", 0)
    failed = "error" in event
    wanted = ("X" if ends else "E", start, event["time"] if ends else 0, name,
              (0xffffffffffffffff if failed else event["ret"] & (1 << 64) - 1) if ends else None,
              -event["ret"] if failed else 0 if ends else None, event["pid"], event["cpu"], event["tid"],
              NUMBERS.get(name, int(got[6])))
    ours = (got[1], int(got[2]) * 10**9 + int(got[3]), int(got[4]) * 10**9 + int(got[5]), got[7],
            None if got[9] == "---" else int(got[9], 16), None if got[12] == "---" else int(got[12]), int(got[10]),
            int(got[11]), int(got[13]), int(got[6]))
    registers = [int(word, 16) for word in got[8].split(", ")] if got[8] else []
    values = [int(value, 16) if isinstance(value, str) else value for value in event["args"].values()]
    same = (ours == wanted and len(registers) == len(values) and
            all((a - b) % (1 << 32) == 0 for a, b in zip(registers, values)))
    strings = [text.encode("utf-8") for text in event.get("strings", {}).values()]
    data = unescaped(got[15])
    if not same or not data.startswith(b" -> ".join(strings)) or (b"errstr: " in data) != failed:
        case.check(False, "a line has what JSON has", line, event)


def check_file(case, path):
    """Events and losses of both, one by one."""
    items = case.tracectl(None, "read", path, "-o", "json").lines
    lines = case.tracectl(None, "read", path, "-o", "kptrace").out.splitlines()
    case.check_equal(len(lines), len(items), "each event and each loss is a line")
    for line, item in zip(lines, items):
        if "lost" in item:
            got = LOSS.match(line)
            if not got or (int(got[1]), int(got[2]), got[3]) != (item["cpu"], item["lost"], item["reason"]):
                case.check(False, "a loss stands in its place", line, item)
        elif item["probe"].startswith("syscall:"):
            check_call(case, line, item)
        else:
            got = OTHER.fullmatch(line)
            if not got or (got[4].rstrip(":"), int(got[6]), int(got[7])) != (item["probe"], item["pid"], item["tid"]):
                case.check(False, "an event that is no call has the form of trace_printk()", line, item)
    return items


def main(case):
    daemon = case.daemon("--ring-size=16KiB")
    path = case.path("lossy.rt")
    lossy.record(case, daemon, path, "--flags", "strings")
    items = check_file(case, path)
    case.check(any("lost" in item for item in items) and any("strings" in item for item in items) and
               any(item.get("probe", "").startswith("tracepoint:task:") for item in items),
               f"{len(items)} lines, with losses, texts and other events")

    live = case.stream(daemon, "-o", "kptrace", "-p", "syscall:openat:call", "-p", "syscall:openat:entry",
                       "--flags", "strings", "-f", f"pid == {os.getpid()}")
    name = case.path("live'\x01")
    for _ in range(2):
        try:
            os.open(name, os.O_RDONLY)
        except FileNotFoundError:
            pass
    ringtail.wait_until(lambda: sum(os.path.basename(name)[:4] in line and "errstr: " in line
                                    for line in live.read("out").splitlines()) == 2, "both have come")
    done = live.interrupt()
    shown = [LINE.fullmatch(line) for line in done.out.splitlines()]
    case.check(all(shown), "live, each line is one of Akaros, too", done.out)
    mine = [got for got in shown if unescaped(got[15]).startswith(name.encode()) and got[1] == "X"]
    case.check_equal([(int(got[6]), got[9], got[12], unescaped(got[15])) for got in mine],
                     [(257, "0xffffffffffffffff", "2", name.encode() + b" errstr: No such file or directory")] * 2,
                     "a call that failed says with which errno, and why")
    begun = [got for got in shown if got[1] == "E" and got[9] == got[12] == "---"]
    case.check(len(begun) >= 2, "a call that begins has no value yet", done.out)
    case.check_balanced(daemon)

    names = (b"a;b\nX [", b"\xff\xfe", b"\x1b[2J", b"'", b"\\", b"")
    batch = fake_daemon.compressed("Batch", fake_daemon.batch(0, 0, 1000, [(name, name) for name in names]))
    fake = FakeDaemon(case, {"Subscribe": fake_daemon.stream(batch)})
    case.tracectl(fake, "record", "-w", path)
    fake.stop()
    out = case.tracectl(None, "read", path, "-o", "kptrace").out
    got = [OTHER.fullmatch(line) for line in out.splitlines()]
    case.check(all(got) and [unescaped(each[8]) for each in got] == list(names),
               "hostile names are one line, and can be read back", out)


ringtail.run(main)
