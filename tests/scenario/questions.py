"""count, hist and summary: the answer is what is known of the load, live and of a recording, and what strace
counts of the same program; what was lost stands beside the answer, and the truth lies between."""
import json
import re
import signal
import subprocess

import ringtail
from lib.process import PATIENCE_S

CALLS = 20_000
# Opens that are there and are not, reads of known sizes.
PROGRAM = r"""
#include <fcntl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char bytes[4096];
	int fd;

	(void)argc;
	for (int i = 0; i < 300; i++)
		open("/nonexistent/file", O_RDONLY);
	for (int i = 0; i < 200; i++) {
		fd = open(argv[1], O_RDONLY);
		for (int k = 0; k < 12; k++)
			read(fd, bytes, 1 << k);
		close(fd);
	}
	return 0;
}
"""


def rows_of(text):
    """The rows of an answer in JSON, and its last line."""
    lines = [json.loads(line) for line in text.splitlines()]
    return lines[:-1], lines[-1]


def ask(case, where, *words):
    done = case.tracectl(None, *words, "-o", "json", where)
    case.check_equal(done.code, 0, f"{' '.join(words)} answers")
    return rows_of(done.out)


def check_known(case, path, pid):
    rows, end = ask(case, path, "count", "--by", "function,error", "-f", f"pid == {pid}", "-p",
                    "syscall:openat:call", "-p", "syscall:read:call")
    counts = {(row["key"]["function"], row["key"]["error"]): row["count"] for row in rows}
    case.check_equal(counts["openat", "ENOENT"], 300, "so many files that are not there")
    case.check_equal(end["events"], sum(counts.values()), "the rows are all events")
    sizes = ", ".join(str(1 << k) for k in range(12))     # the loader of programs reads others
    rows, _ = ask(case, path, "hist", "--of", "ret", "--by", "pid", "-f",
                  f"pid == {pid} && ret == count && count in ({sizes})", "-p", "syscall:read:call")
    row, = rows
    case.check_equal(row["key"], {"pid": pid}, "by a number, which is one in JSON")
    case.check_equal((row["values"], row["min"], row["max"], row["sum"]),
                     (2400, 1, 2048, 200 * 4095), "as many reads, of these sizes")
    case.check_equal([count for _, _, count in row["buckets"]], [200] * 12, "spread as they were made")
    rows, _ = ask(case, path, "count", "--by", "filename", "-p", "syscall:openat:call", "-f",
                  f"pid == {pid}", "--top", "1")
    case.check_equal((len(rows), rows[0]["key"], rows[0]["count"]),
                     (1, {"filename": "/nonexistent/file"}, 300), "by the text of an argument")
    rows, end = ask(case, path, "count", "--by", "zebra")
    case.check_equal(end["unknown"], "zebra", "a name that no event has is told")


def check_strace(case, path, name, report):
    """strace -c of another run of the program against the summary of this one."""
    done = case.tracectl(None, "summary", path, "-f", f'comm == "{name}"')
    case.check(re.match(r" *%TIME +TOTAL +MEAN +P50 +P99 +MAX +CALLS +ERRORS +function\n", done.out),
               "the summary has a head", done.out)
    ours = {line.split()[8]: (int(line.split()[6]), int(line.split()[7]))
            for line in done.out.splitlines()[1:]}
    theirs = {}
    for line in report.splitlines()[2:]:
        words = line.split()
        if len(words) >= 5 and re.fullmatch(r"\w+", words[-1]) and words[-1] != "total":
            theirs[words[-1]] = (int(words[3]), int(words[4]) if len(words) == 6 else 0)
    for call in ("openat", "read", "close"):
        case.check_equal(ours[call], theirs[call], f"{call}: calls and errors as strace -c has them")


def main(case):
    name = case.own_comm
    program = case.path(name)
    subprocess.run(["gcc", "-O1", "-w", "-o", program, case.write("calls.c", PROGRAM)], check=True,
                   timeout=PATIENCE_S)
    file = case.write("file", "x" * 8192)
    strace = case.start("strace", "-c", program, file).wait()
    case.check_equal(strace.code, 0, "strace counts")

    daemon = case.daemon("--ring-size=8MiB")
    path = case.path("all.rt")
    own = f'comm == "{name}"'
    recorder = case.stream(daemon, "-w", path, "-p", "syscall:*:call", "-f", own, "--flags", "strings",
                           command="record")
    live = case.start_stream(daemon, "--by", "function,error", "-f", own, "-p", "syscall:openat:call",
                             "-o", "json", command="count")
    live.await_subscribed()
    program_run = case.start(program, file)
    case.check_equal(program_run.wait().code, 0, "the calls are made")
    case.await_rings_empty(daemon)
    recorder.await_all()
    live.await_all()
    case.check_stream(recorder.interrupt())
    check_known(case, path, program_run.popen.pid)
    check_strace(case, path, name, strace.err)
    rows, end = rows_of(live.interrupt().out)
    again, _ = ask(case, path, "count", "--by", "function,error", "-p", "syscall:openat:call")
    case.check_equal(rows, again, "live and of a recording, the answer is the same")

    # An answer every 2 ms: they add up.
    load = case.load(CALLS, comm=f"ask-{name}"[:15])
    live = case.start_stream(daemon, "--by", "comm", "-p", "syscall:getppid:call", "-f", load.filter,
                             "--interval", "2ms", "-o", "json", command="count")
    live.await_subscribed()
    load.run()
    case.await_rings_empty(daemon)
    live.await_all(CALLS)
    lines = [json.loads(line) for line in live.interrupt().out.splitlines()]
    case.check_equal(sum(line["count"] for line in lines if "count" in line), CALLS,
                     f"the {len(lines)} lines of intervals add up")
    case.check_balanced(daemon)
    daemon.stop()

    # What was lost: the truth is between what was seen and that and what was lost.
    daemon = case.daemon("--ring-size=16KiB")
    load = case.load(CALLS, cpus=[0])
    events = f"({load.filter}) && ret > 0"       # or the kernel counts, and loses nothing
    live = case.start_stream(daemon, "-p", "syscall:getppid:call", "-f", events, "--by", "function",
                             "-o", "json", command="count")
    text = case.start_stream(daemon, "-p", "syscall:getppid:call", "-f", events, "--by", "function",
                             command="count")
    live.await_subscribed()
    text.await_subscribed()
    daemon.signal(signal.SIGSTOP)
    load.run()
    daemon.signal(signal.SIGCONT)
    few = case.load(10, cpus=[0])
    few.run()
    case.await_rings_empty(daemon)
    live.await_all()
    text.await_all()
    interval = re.search(r"^ *(\d+)\.\.(\d+)  getppid$", text.interrupt().out, re.M)
    case.check(interval and int(interval[1]) < CALLS <= int(interval[2]), "text shows the interval", interval)
    done = live.interrupt()
    case.check_equal(done.code, 3, "an answer that lacks events ends with 3", done.err)
    rows, end = rows_of(done.out)
    case.check(end["lost"] and rows[0]["count"] < CALLS <= rows[0]["count_max"],
               f"{rows[0]['count']} <= {CALLS} <= {rows[0]['count_max']}", rows, end)
    case.check_balanced(daemon)


ringtail.run(main)
