"""Path arguments come as text and stacks as addresses, where asked for, and only there."""
import bisect
import os
import re
import time

import ringtail


def opens(case, daemon, *flags):
    """What a stream shows of this process opening three names, one of them too long."""
    names = [case.path("plain"), case.path("sp ace-\u00e4\u20ac"), case.path("x" * 200)]
    stream = case.stream(daemon, "-p", "syscall:openat:call", "-f", f"pid == {os.getpid()}", "-o",
                         "json", "-n", "3", *flags)
    me = None
    for name in names:
        me = os.open(name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        os.close(me)
    done = stream.wait()
    case.check_stream(done, events=3)
    return names, done.lines


def kernel_symbols():
    """(address, name), sorted; none where this user is not shown the kernel's addresses."""
    with open("/proc/kallsyms") as file:
        words = (line.split() for line in file)
        return sorted((int(at, 16), name) for at, _, name, *_ in words if int(at, 16))


def stacks_begin_at_the_event(case, daemon, probe, symbols):
    own = re.compile(r"bpf_prog_|bpf_trace_run|__bpf_trace_|__traceiter_")
    words = ["-p", probe, "--flags", "kstack", "-n", "20"]
    text, objects = case.stream(daemon, *words), case.stream(daemon, *words, "-o", "json")
    for _ in range(1000):
        os.close(os.open("/dev/null", os.O_RDONLY))
        time.sleep(0.0001)
    done = text.wait()
    # Deeper down a tracer may stand that was itself switched away from, as this daemon's loader is.
    first = re.findall(r"^\S.*\n +0xf\w+ (\w\S*)", done.out, re.M)
    case.check(done.code == 0 and first and not any(own.match(name) for name in first),
               f"{probe}: no frame of the tracer's own in text", done.out[:2000])
    frames = {int(event["kstack"][0], 16) for event in objects.wait().lines if event["kstack"]}
    names = {symbols[bisect.bisect(symbols, (frame, "\x7f")) - 1][1] for frame in frames}
    case.check(names and not any(own.match(name) for name in names), "nor in JSON", names)


def main(case):
    daemon = case.daemon()
    names, events = opens(case, daemon)
    case.check(not any({"strings", "kstack", "ustack"} & set(event) for event in events),
               "without flags an event has no string and no stack", events)
    case.check(all(event["args"]["mode"] == hex(0o600) and event["args"]["dfd"] == -100 and
                   int(event["args"]["flags"], 16) & 3 == os.O_RDWR for event in events),
               "its arguments are right", events)

    names, events = opens(case, daemon, "--flags", "strings,kstack,ustack")
    case.check(all("strings" in event for event in events), "each has its string", events)
    texts = [event["strings"]["filename"] for event in events]
    case.check_equal(texts[:2], names[:2], "paths come as text, UTF-8 and all")
    case.check(names[2].startswith(texts[2]) and 100 <= len(texts[2]) <= 128,
               "one that is too long comes cut", texts[2])
    case.check_equal([event.get("strings_cut") for event in events], [None, None, ["filename"]],
                     "and says so")
    for event in events:
        kernel = [int(address, 16) for address in event["kstack"]]
        user = [int(address, 16) for address in event["ustack"]]
        if not (kernel and user and min(kernel) >> 63 and not max(user[:1]) >> 48):
            case.check(False, "stacks are addresses of their side", event)
    case.say("ok: each has a kernel stack of kernel addresses and a user stack of user addresses")
    symbols = kernel_symbols()
    if symbols:
        for probe in ("syscall:openat:call", "syscall:openat:entry",
                      "tracepoint:sched:sched_switch"):
            stacks_begin_at_the_event(case, daemon, probe, symbols)
    case.check_balanced(daemon)


ringtail.run(main)
