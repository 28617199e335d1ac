"""`-- COMMAND` is traced from its exec to its end, with all that it forks, also what outlives its parent: strace -f
counts the same calls. It ends with the command's status. --tree follows a process that runs already, --pid one."""
import collections
import json
import os
import re
import signal
import subprocess

import ringtail
from lib.process import PATIENCE_S

# Three generations: the middle one is gone before the last makes its calls, and a thread beside.
PROGRAM = r"""
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void *calls(void *n)
{
	for (long i = 0; i < (long)n; i++)
		syscall(SYS_getppid);
	return NULL;
}

static void orphan(int gone, int held)
{
	char byte;

	read(gone, &byte, 1);		/* its end: the parent has ended */
	calls((void *)70);
	(void)held;
	_exit(0);
}

int main(int argc, char **argv)
{
	int gone[2], held[2];
	char byte;
	pthread_t thread;

	if (argc > 1)
		read(0, &byte, 1);
	for (int i = 0; i < 30; i++)
		if (!fork())
			_exit(i);
	for (int i = 0; i < 30; i++)
		wait(NULL);
	pipe(held);
	if (!fork()) {
		pipe(gone);
		if (!fork()) {
			close(gone[1]);
			close(held[0]);
			orphan(gone[0], held[1]);
		}
		_exit(0);
	}
	wait(NULL);
	close(held[1]);
	read(held[0], &byte, 1);	/* its end: the orphan has ended */
	pthread_create(&thread, NULL, calls, (void *)100);
	pthread_join(thread, NULL);
	if (argc > 1)
		_exit(0);
	return 7;
}
"""
# They depend on who comes first: futex waits, and what a signal interrupts.
VARIES = {"futex", "rt_sigreturn", "restart_syscall", "set_robust_list", "rseq"}


def count(pairs):
    counts = collections.Counter()
    for name, number in pairs:
        counts[name] += number
    return {name: number for name, number in counts.items() if name not in VARIES}


def strace(case, program):
    report = case.path("strace.txt")
    done = case.start("strace", "-f", "-o", report, program).wait()
    case.check_equal(done.code, 7, "strace says how it ended")
    with open(report) as text:
        lines = text.read()
    # A fork that a child's end interrupts, it begins anew: strace's stops make room for that.
    again = re.findall(r"^\d+ +(?:<\.\.\. )?(\w+)[( ].*ERESTARTNOINTR", lines, re.M)
    return count([(name, 1) for name in re.findall(r"^\d+ +(\w+)\(", lines, re.M)] +
                 [(name, -1) for name in again])


def rows(done):
    lines = [json.loads(line) for line in done.out.splitlines()]
    return count((line["key"]["function"], line["count"]) for line in lines if "key" in line)


# Forks at the first byte; the child makes its calls at the second, and ends at the third.
FORKS = """
import ctypes, os
libc = ctypes.CDLL(None)
os.read(0, 1)
if not os.fork():
    os.read(0, 1)
    for _ in range(50):
        libc.syscall(110)
    os.write(1, b"called")
    os.read(0, 1)
    os._exit(0)
os.write(1, b"forked")
os.wait()
"""


def fork_among_the_lost(case):
    """The fork is lost with much else; what the child does then is not."""
    daemon = case.daemon("--ring-size=16KiB")
    process = case.start("python3", "-c", FORKS, stdin=-1)
    stream = case.start_stream(daemon, "--tree", str(process.popen.pid), "-p", "getppid", "--by", "pid", "-o",
                               "json", command="count")
    filler = case.stream(daemon, "-p", "getppid", "-p", "getuid", "-o", "none")
    stream.await_subscribed()
    daemon.signal(signal.SIGSTOP)
    cpus = os.cpu_count()
    case.load(20_000 * cpus, processes=cpus, cpus=list(range(cpus))).run()
    process.popen.stdin.write(b"1")
    process.popen.stdin.flush()
    ringtail.wait_until(lambda: "forked" in process.read("out"), "it forks while no ring has room")
    daemon.signal(signal.SIGCONT)
    case.load(100, processes=cpus, cpus=list(range(cpus))).run()      # so that the losses are told
    case.await_rings_empty(daemon)
    stream.await_all()
    process.popen.stdin.write(b"2")
    process.popen.stdin.flush()
    ringtail.wait_until(lambda: "called" in process.read("out"), "the child makes its calls")
    case.await_rings_empty(daemon)
    stream.await_all()
    filler.interrupt()
    done = stream.interrupt()       # who reads of the losses only now must find the child still there
    process.popen.stdin.write(b"3")
    process.popen.stdin.close()
    process.wait()
    counts = [line["count"] for line in map(json.loads, done.out.splitlines()) if "key" in line]
    case.check_equal((done.code, counts), (3, [50]), "its child is found again", done.out, done.err)
    case.check_balanced(daemon)
    daemon.stop()


def main(case):
    program = case.path(case.own_comm)
    subprocess.run(["gcc", "-O1", "-w", "-pthread", "-o", program, case.write("calls.c", PROGRAM)],
                   check=True, timeout=PATIENCE_S)
    theirs = strace(case, program)
    daemon = case.daemon(ringtail.ROOM)

    done = case.tracectl(daemon, "count", "--by", "function", "-o", "json", "--", program)
    case.check_equal(done.code, 7, "tracectl ends with the command's status", done.err)
    case.check_equal(rows(done), theirs, "of each call as many as strace -f")
    case.check_equal(rows(done)["getppid"], 170, "the orphan's too")

    done = case.tracectl(daemon, "--summary", "json", "stream", "-p", "getppid", "-f", "ret == 1 || ret != 1",
                         "-o", "json", "--", program)
    case.check_equal(len(done.out.splitlines()), 170, "a filter and a probe choose among them")
    case.check_equal(json.loads(done.err.splitlines()[-1])["events"], 170, "the summary counts these")

    path = case.path("all.rt")
    done = case.tracectl(daemon, "record", "-w", path, "-p", "syscall:*:call", "--", program)
    case.check_equal(done.code, 7, "of a recording too", done.err)
    case.check("--tree PID" in done.err, "it says how to read it", done.err)

    for words, code in ((["sh", "-c", "kill -9 $$"], 137), (["/nonexistent/x"], 1), (["/etc/passwd"], 1),
                        (["sh", "-c", "exit 0"], 0)):
        done = case.tracectl(daemon, "stream", "-o", "none", "--", *words)
        case.check_equal(done.code, code, f"{words} ends with {code}", done.err)
    done = case.tracectl(daemon, "stream", "-f", "pid = 3", "--pid", "1", "--", "true")
    case.check_equal(done.code, 2, "a slip in the filter is told")
    case.check("column 5" in done.err, "at its own column", done.err)

    # One that runs already, and waits.
    process = case.start(program, "wait", stdin=-1)
    pid = process.popen.pid
    tree = case.start_stream(daemon, "--by", "function", "--tree", str(pid), "-o", "json", command="count")
    alone = case.start_stream(daemon, "--by", "function", "--pid", str(pid), "--pid", "1", "-p", "getppid",
                              "-o", "json", command="count")
    own = case.stream(daemon, "-w", case.path("tree.rt"), "-p", "syscall:*:call", "--tree", str(pid),
                      command="record")
    tree.await_subscribed()
    alone.await_subscribed()
    process.popen.stdin.write(b"!")
    process.popen.stdin.close()
    process.wait()
    case.await_rings_empty(daemon)
    for stream in (tree, alone, own):
        stream.await_all()
    answer = tree.interrupt()
    case.check_equal(rows(answer)["getppid"], 170, "--tree has them all")
    case.check_equal(rows(alone.interrupt()), {"getppid": 100}, "--pid has that process' alone")
    own.interrupt()
    done = case.tracectl(None, "count", "--by", "function", "-p", "syscall:*:call", "--tree", str(pid), "-o",
                         "json", case.path("tree.rt"))
    case.check_equal(rows(done), rows(answer), "and a recording gives the same")
    case.check_balanced(daemon)
    daemon.stop()
    fork_among_the_lost(case)


ringtail.run(main)
