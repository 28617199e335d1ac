"""A program makes system calls whose numbers no table has (1000, -1): each is recorded as syscall:unknown:call,
with its number and its arguments, as strace prints it, and filters know the number. None is counted as
another ABI's."""
import re
import subprocess

import ringtail
from lib.process import PATIENCE_S

NUMBERS = (1000, 1022, 1023, 1024, 5000, 0x3FFFFFFF, -1, -2)
ROUNDS = 20
PROGRAM = f"""
#include <unistd.h>

int main(void)
{{
	static const long numbers[] = {{ {", ".join(map(str, NUMBERS))} }};

	for (int i = 0; i < {ROUNDS} * {len(NUMBERS)}; i++)
		if (syscall(numbers[i % {len(NUMBERS)}], i, 2L << 40, 3, -4L, 5, 6) != -1)
			return 1;
	return 0;
}}
"""
LINE = re.compile(r"^syscall_(0x[0-9a-f]+)\((.*)\) += -1 ENOSYS", re.M)
U64 = (1 << 64) - 1



def theirs(report):
    return [(int(number, 0), [int(word, 0) for word in words.split(",")])
            for number, words in LINE.findall(report)]


def ours(events):
    return [(event["args"]["nr"] & U64, [int(event["args"][f"arg{i}"], 0) for i in range(6)])
            for event in events]


def none_is_foreign(case, daemon, program, own):
    """Another program's calls of another ABI are counted meanwhile; but they come to an end."""
    def foreign():
        case.await_rings_empty(daemon)
        return sum(ring["foreign"] for ring in daemon.stat()["ring"])

    def is_none():
        before = foreign()
        subprocess.run([program], check=True, timeout=PATIENCE_S)
        return foreign() == before
    stream = case.stream(daemon, "-p", "syscall:unknown:call", "-f", own, "-o", "none")
    ringtail.wait_until(is_none, "none is counted as another ABI's")
    case.check(stream.await_all(ROUNDS * len(NUMBERS)), "none is counted as another ABI's")
    case.check_stream(stream.interrupt())


def main(case):
    name = case.own_comm
    program, report = case.path(name), case.path("strace.txt")
    subprocess.run(["gcc", "-O1", "-o", program, case.write("calls.c", PROGRAM)], check=True,
                   timeout=PATIENCE_S)
    daemon = case.daemon("--ring-size=4MiB")
    own = f'comm == "{name}"'
    everything = case.stream(daemon, "-p", "syscall:*:call", "-f", own, "-o", "json")
    alone = case.stream(daemon, "-p", "syscall:unknown:call", "-f", f"{own} && nr == 1000", "-o", "json")
    subprocess.run(["strace", "-o", report, "-X", "raw", program], check=True, timeout=PATIENCE_S)
    case.await_rings_empty(daemon)
    everything.await_all(ROUNDS * len(NUMBERS))
    alone.await_all(ROUNDS)
    done = everything.interrupt()
    case.check_stream(done)
    unknown = [event for event in done.lines if event["probe"] == "syscall:unknown:call"]
    with open(report) as file:
        wanted = theirs(file.read())
    case.check_equal(len(wanted), ROUNDS * len(NUMBERS), "strace has seen all of them")
    case.check_equal(ours(unknown), wanted, "they are what strace says, one by one")
    case.check(all(event["ret"] == -38 and event["error"] == "ENOSYS" and event["duration"] >= 0
                   for event in unknown), "with their results")
    done = alone.interrupt()
    case.check_stream(done, events=ROUNDS)
    case.check(all(event["args"]["nr"] == 1000 for event in done.lines), "a filter knows the number")
    none_is_foreign(case, daemon, program, own)
    case.check_balanced(daemon)


ringtail.run(main)
