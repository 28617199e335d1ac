"""A field that an event does not have is absent in filters as it is in JSON: no comparison with it holds.
Real events of which some have `ret`, `duration` and `fd` and some do not; the witness reads the JSON of an
unfiltered stream and knows nothing of how filters are compiled, in the kernel, in the daemon or by
`tracectl read`, which chooses the same events of a recording."""
import operator
import subprocess

import ringtail
from lib.process import PATIENCE_S

ROUNDS = 40
RANDOM_FILTERS = 12
# exit, exit_group, calls that fail and calls that do not, with and without arguments.
PROGRAM = f"""
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{{
	char byte;

	if (read(0, &byte, 1) != 1)
		return 1;
	for (int i = 0; i < {ROUNDS}; i++) {{
		pid_t child = fork();

		if (child == 0) {{
			openat(AT_FDCWD, i & 1 ? "/nothing-is-here" : "/", O_RDONLY);
			close(i & 2 ? -1 : 3);
			getppid();
			syscall(i & 1 ? SYS_exit : SYS_exit_group, i & 3);
		}}
		waitpid(child, NULL, 0);
	}}
	return 0;
}}
"""
PROBES = ("syscall:*:call", "syscall:openat:entry", "syscall:close:return",
          "tracepoint:sched:sched_process_fork", "tracepoint:sched:sched_process_exit")
OPS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
       ">": operator.gt, ">=": operator.ge}
NAMES = ("ret", "duration", "error", "fd", "dfd", "error_code", "child_tid", "group_dead", "pid")
ERRNO = {"ENOENT": 2, "EBADF": 9}


def value(event, name):
    """What the event's JSON says; None: it does not."""
    if name == "error":
        return -event["ret"] if event.get("ret", 1) < 0 else 0 if "ret" in event else None
    if name in event:
        return event[name]
    return event["args"].get(name)


class Compare:
    def __init__(self, name, op, other):
        self.name, self.op, self.other = name, op, other
        self.text = f"{name} {op} {other}"

    def holds(self, event):
        left = value(event, self.name)
        right = self.other if isinstance(self.other, int) else \
            ERRNO.get(self.other) or value(event, self.other)
        return left is not None and right is not None and OPS[self.op](left, right)


class In:
    def __init__(self, name, wanted, *among):
        self.name, self.wanted, self.among = name, wanted, among
        self.text = f"{name} {'' if wanted else '!'}in ({', '.join(map(str, among))})"

    def holds(self, event):
        left = value(event, self.name)
        return left is not None and (left in self.among) == self.wanted


class Bare:
    text = "error"

    def holds(self, event):
        return bool(value(event, "error"))


class Function:
    def __init__(self, glob, prefix):
        self.text, self.prefix = f'function =~ "{glob}"', prefix

    def holds(self, event):
        return event["probe"].split(":")[1].startswith(self.prefix)


class Not:
    def __init__(self, inner):
        self.inner, self.text = inner, f"!({inner.text})"

    def holds(self, event):
        return not self.inner.holds(event)


class Chain:
    def __init__(self, sign, left, right):
        self.sign, self.left, self.right = sign, left, right
        self.text = f"({left.text} {sign} {right.text})"

    def holds(self, event):
        both = self.left.holds(event), self.right.holds(event)
        return all(both) if self.sign == "&&" else any(both)


def random_filter(random, pid, depth):
    kind = random.randrange(8 if depth else 5)
    name = random.choice(NAMES)
    if kind < 2:
        other = random.choice([-2, -1, 0, 1, 3, random.choice(NAMES), pid])
        return Compare(name, random.choice(list(OPS)), other)
    if kind == 2:
        return In(name, random.random() < 0.5, 0, random.randrange(-2, 4))
    if kind == 3:
        return Bare()
    if kind == 4:
        return Function("exit*", "exit")
    if kind == 5:
        return Not(random_filter(random, pid, depth - 1))
    return Chain("&&" if kind == 6 else "||", random_filter(random, pid, depth - 1),
                 random_filter(random, pid, depth - 1))


def chosen_filters(pid):
    never = Function("exit*", "exit")
    yield from (Chain("&&", never, inner) for inner in (
        Compare("ret", "==", 0), Compare("ret", "!=", 1), Compare("ret", "<", 1),
        In("ret", True, 0), Not(In("ret", False, 1)), Compare("error", "==", 0),
        Not(Compare("ret", "==", 0))))
    yield Not(Chain("||", Compare("ret", "<", 0), Compare("duration", ">=", 0)))
    yield Chain("||", Compare("pid", "==", pid), Compare("error", "==", "ENOENT"))
    yield Not(Chain("||", Compare("pid", "!=", pid), Compare("fd", "==", 3)))


def identities(events):
    return {(event["cpu"], event["seq"]) for event in events}


def check_recording(case, path, events, filters):
    for filter in filters:
        read = case.tracectl(None, "--summary", "json", "read", path, "-f", filter.text, "-o", "json")
        wanted = [event for event in events if filter.holds(event)]
        case.check_equal((read.code, read.summary["ledger"], read.summary["events"],
                          read.summary["filtered"]),
                         (0, "balanced", len(wanted), len(events) - len(wanted)),
                         f"{filter.text}: read counts what it chooses of the recording")
        case.check_equal(identities(read.lines), identities(wanted), "and these are the same events")
    read = case.tracectl(None, "read", path, "-p", "syscall:exit*", "-p", "syscall:openat:entry", "-o",
                         "json")
    case.check_equal(identities(read.lines),
                     identities(event for event in events if event["probe"] == "syscall:openat:entry" or
                                event["probe"].startswith("syscall:exit")),
                     "read chooses by probe, with the globs that stream takes")
    for words, said in ((("-f", "rett == 1"), "no name is called `rett`"),
                        (("-p", "syscall:opennat"), "no probe matches `syscall:opennat`")):
        read = case.tracectl(None, "read", path, *words)
        case.check(read.code == 1 and said in read.err and not read.out,
                   f"read {words} says that no event can be meant", read.err)
    read = case.tracectl(None, "read", path, "-f", "ret >> 1")
    case.check(read.code == 2 and "column 6" in read.err, "and where a filter is no filter", read.err)


def main(case):
    name = case.own_comm
    program = case.path(name)
    subprocess.run(["gcc", "-O1", "-o", program, case.write("calls.c", PROGRAM)], check=True,
                   timeout=PATIENCE_S)
    daemon = case.daemon(ringtail.ROOM)
    load = case.start(program, stdin=subprocess.PIPE)
    own = f'comm == "{name}"'
    words = [word for probe in PROBES for word in ("-p", probe)]
    witness = case.stream(daemon, *words, "-f", own, "-o", "json")
    path = case.path("all.rt")
    recorder = case.stream(daemon, "-w", path, *words, "-f", own, command="record")
    filters = [*chosen_filters(load.pid), *(random_filter(case.random, load.pid, 3)
                                            for _ in range(RANDOM_FILTERS))]
    streams = [case.start_stream(daemon, *words, "-f", f"{own} && {filter.text}", "-o", "json")
               for filter in filters]
    for stream in streams:
        stream.await_subscribed()
    load.popen.stdin.write(b"!")
    load.popen.stdin.close()
    case.check_equal(load.wait().code, 0, "the calls are made")
    case.await_rings_empty(daemon)
    witness.await_all(ROUNDS)
    events = witness.interrupt().lines
    never = [event for event in events if event["probe"].startswith("syscall:exit")]
    case.check(len(never) >= ROUNDS and not any("ret" in event or "duration" in event
                                                for event in never),
               f"JSON has no ret and no duration of {len(never)} calls that never return", never[:3])
    recorder.await_all(ROUNDS)
    case.check_stream(recorder.interrupt())
    check_recording(case, path, events, filters)
    for stream, filter in zip(streams, filters):
        stream.await_all()
        done = stream.interrupt()
        case.check_stream(done)
        wanted = identities(event for event in events if filter.holds(event))
        got = identities(done.lines)
        wrong = [event for event in events + done.lines
                 if (event["cpu"], event["seq"]) in wanted ^ got]
        case.check(got == wanted and len(got) == len(done.lines),
                   f"{filter.text}: the same {len(got)} of {len(events)} events", wrong[:3])
    case.check_balanced(daemon)


ringtail.run(main)
