"""A program calls through another ABI (`int 0x80`): its calls are not recorded, and `stat`, in text and
JSON, and /metrics say how many there were."""
import os
import re
import subprocess

import ringtail
from lib import http
from lib.process import PATIENCE_S

CALLS = 1000
NOT_HERE = 3
NAME = f"foreign-{os.getpid()}"         # nobody else is called that
# getpid is 20 there.
PROGRAM = f"""
#include <unistd.h>

static long call(void)
{{
	long ret = -1;

#ifdef __x86_64__
	ret = 20;
	__asm__ volatile("int $0x80" : "+a"(ret) : : "memory", "r8", "r9", "r10", "r11");
#endif
	return ret;
}}

int main(void)
{{
	for (int i = 0; i < {CALLS}; i++)
		if (call() != getpid())
			return {NOT_HERE};
	return 0;
}}
"""


def call(case):
    program = case.path(NAME)
    subprocess.run(["gcc", "-O1", "-o", program, case.write("foreign.c", PROGRAM)], check=True,
                   timeout=PATIENCE_S)
    code = subprocess.run([program], timeout=PATIENCE_S).returncode
    if code == NOT_HERE or code < 0:
        raise ringtail.Skip("this kernel has no other ABI")
    case.check_equal(code, 0, "the calls are made")


def foreign(stat):
    return sum(ring["foreign"] for ring in stat["rings"])


def main(case):
    # What is metered is all that the machine does: whether that is lost or not is not the matter here.
    daemon, meter = case.daemon("--ring-size=16MiB"), case.daemon("--http=127.0.0.1:0")
    stream = case.stream(daemon, "-p", "syscall:*:call", "-f", f'comm == "{NAME}"', "-o", "json")
    before = foreign(case.tracectl(daemon, "stat", "-o", "json").lines[0])
    # What it meters, it asks for when it is ready.
    ringtail.wait_until(lambda: sum(ring["events"] for ring in meter.stat()["ring"]), "all calls are metered")
    call(case)

    def counted():
        return foreign(case.tracectl(daemon, "stat", "-o", "json").lines[0]) >= before + CALLS
    ringtail.wait_until(counted, f"{CALLS} foreign calls are counted")
    text = case.tracectl(daemon, "stat").out
    shown = re.search(r"beside the rings: (\d+) foreign: ", text)
    case.check(shown and int(shown[1]) >= before + CALLS, "the text says so", text)

    def metered():
        shown = http.metrics(meter).all("ringtail_collector_ring_foreign_total")
        return sum(value for _, value in shown) >= CALLS
    ringtail.wait_until(metered, "metrics say so")
    ringtail.wait_until(lambda: 'exit_group:call"' in stream.read("out"), "the program's end")
    done = stream.interrupt()
    case.check_stream(done)
    own = sum(event["probe"] == "syscall:getpid:call" for event in done.lines)
    case.check_equal(own, CALLS, "its own ABI's calls are events, and no others")
    case.check_balanced(daemon, meter)


ringtail.run(main)
