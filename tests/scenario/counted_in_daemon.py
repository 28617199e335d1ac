"""What the daemon counts is what a client counts of every event: the same load, asked live and recorded beside it, by
several fields, with filters, in intervals, and where events are lost. Live, a small part of the bytes comes. What
only a client can count, it counts; hostile questions are refused."""
import json
import signal
import subprocess

import ringtail
from lib.process import PATIENCE_S

PROGRAM = r"""
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

static void work(const char *there, int rounds)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd, udp = socket(AF_INET, SOCK_DGRAM, 0);
	char bytes[4096];

	for (int i = 0; i < rounds; i++) {
		open(i % 2 ? "/nonexistent/odd" : "/nonexistent/even", O_RDONLY);
		fd = open(there, O_RDONLY);
		for (int k = 0; k < 12; k++)
			read(fd, bytes, 1 << k);
		close(fd);
		to.sin_port = htons(i % 3 + 1);
		connect(udp, (struct sockaddr *)&to, sizeof(to));
		getppid();
	}
}

int main(int argc, char **argv)
{
	(void)argc;
	for (int i = 0; i < 3; i++)
		if (!fork()) {
			work(argv[1], 500 * (i + 1));
			_exit(i);
		}
	while (wait(0) > 0)
		;
	return 0;
}
"""
QUESTIONS = (
    ("count", "--by", "function,error"),
    ("count", "--by", "comm,pid,function", "--of", "ret"),
    ("count", "--by", "filename,flags"),
    ("count", "--by", "arg.fd,count", "--top", "5"),
    ("count", "--by", "port,arg.filename"),
    ("count", "--by", "addr"),
    ("count",),
    ("hist", "--by", "function"),
    ("hist", "--of", "ret", "--by", "pid", "-f", "ret > 0 && fd > 2"),
    ("summary",),
    ("summary", "--by", "pid,comm,cpu", "-f", "error"),
    ("summary", "--by", "exe,uid,ppid"),
)


def split(text):
    lines = [json.loads(line) for line in text.splitlines()]
    rows = [line for line in lines if "key" in line]
    return rows, [line for line in lines if "key" not in line]


def own(words, filter_):
    """The question with its filter narrowed to the load."""
    words = list(words)
    if "-f" in words:
        at = words.index("-f") + 1
        words[at] = f"({words[at]}) && {filter_}"
    else:
        words += ["-f", filter_]
    return words


def follow(case, daemon, words, filter_):
    words = own(words, filter_)
    return case.start_stream(daemon, *words[1:], "-p", "syscall:*:call", "--flags", "strings,context", "-o", "json",
                             command=words[0])


def known_load(case):
    name = case.own_comm
    program = case.path(name)
    subprocess.run(["gcc", "-O1", "-w", "-o", program, case.write("calls.c", PROGRAM)], check=True,
                   timeout=PATIENCE_S)
    return program, case.write("file", "x" * 8192), f'comm == "{name}"'


def same_answers(case, daemon, path, filter_, questions, run):
    """Each question live, beside a recording of all; what both answer."""
    recorder = case.stream(daemon, "-w", path, "-p", "syscall:*:call", "-f", filter_, "--flags", "strings,context",
                           command="record")
    live = [follow(case, daemon, words, filter_) for words in questions]
    for stream in live:
        stream.await_subscribed()
    run()
    case.await_rings_empty(daemon)
    recorder.await_all()
    for stream in live:
        stream.await_all()
    case.check_balanced(daemon)
    recorded = recorder.interrupt()
    for words, stream in zip(questions, live):
        done = stream.interrupt()
        answer = case.tracectl(None, words[0], path, *own(words, filter_)[1:], "-o", "json")
        rows, ends = split(done.out)
        file_rows, file_ends = split(answer.out)
        case.check(rows, f"{' '.join(words)} answers", done.out, done.err)
        case.check_equal(rows, file_rows, f"{' '.join(words)}: as the recording says")
        for name in ("events", "lost", "gaps", "rows"):
            case.check_equal(ends[-1][name], file_ends[-1][name], f"so many {name}")
        case.check_equal(done.summary["ledger"], "balanced", "the client's ledger is balanced")
        case.check_equal(done.summary["lost"], recorded.summary["lost"], "and as much is lost")
        yield done, recorded


def everything(case, program, file, filter_):
    daemon = case.daemon("--ring-size=16MiB")

    def run():
        case.check_equal(case.start(program, file).wait().code, 0, "the calls are made")
    wire = []
    for done, recorded in same_answers(case, daemon, case.path("all.rt"), filter_, QUESTIONS, run):
        wire.append(done.summary["raw_bytes"] / recorded.summary["raw_bytes"])
    case.check(max(wire) < 0.5, "what is counted is less than what is streamed", wire)
    # Tables of intervals: what they hold together is the same.
    live = follow(case, daemon, ("summary", "--by", "pid,function", "--interval", "300ms"), filter_)
    recorder = case.stream(daemon, "-w", case.path("again.rt"), "-p", "syscall:*:call", "-f", filter_, "--flags",
                           "strings,context", command="record")
    live.await_subscribed()
    run()
    case.await_rings_empty(daemon)
    recorder.await_all()
    recorded = recorder.interrupt()
    done = live.interrupt()          # what the daemon still holds comes before the end
    rows, ends = split(done.out)
    calls = {}
    for row in rows:
        key = json.dumps(row["key"], sort_keys=True)
        before = calls.get(key, (0, 0, 0))
        calls[key] = (before[0] + row["count"], before[1] + row["errors"], before[2] + row["sum"])
    answer = case.tracectl(None, "summary", case.path("again.rt"), "--by", "pid,function", "-o", "json")
    file_rows, _ = split(answer.out)
    case.check_equal(calls, {json.dumps(row["key"], sort_keys=True): (row["count"], row["errors"], row["sum"])
                             for row in file_rows}, f"{len(ends)} tables add up to the recording")
    case.check_equal(done.summary["events"], recorded.summary["events"], "no event is in two of them")
    case.check_stream(done)
    case.check_balanced(daemon)
    daemon.stop()


def losses(case):
    """The engine stands still while tiny rings overflow."""
    daemon = case.daemon("--ring-size=16KiB")
    load = case.load(50_000, cpus=[0])
    few = case.load(10, cpus=[0])
    pids = ", ".join(str(pid) for pid in [*load.pids, *few.pids])

    def run():
        daemon.signal(signal.SIGSTOP)
        load.run()
        daemon.signal(signal.SIGCONT)
        few.run()                  # the losses are noticed when the next record comes
    questions = (("count", "--by", "function,pid"), ("hist", "--by", "comm"), ("summary", "--by", "function"))
    for done, _ in same_answers(case, daemon, case.path("lossy.rt"), f"pid in ({pids})", questions, run):
        case.check(done.summary["lost"] > 0 and done.code == 3, "events were lost, and it says so", done.summary)
    case.check_balanced(daemon)
    daemon.stop()


def refused(case):
    daemon = case.daemon()
    good = {"by": ["comm"], "of": "duration"}
    for question, more in (({**good, "by": ["comm"] * 9}, {}), ({**good, "by": [""]}, {}),
                           ({**good, "by": ["x" * 64]}, {}), ({**good, "of": "x" * 64}, {}),
                           ({**good, "interval_ns": 99_999_999}, {}), (good, {"flag": [1]}),
                           (good, {"since_realtime_ns": 1}), (good, {"consumer": "counts"})):
        with daemon.connect() as connection:
            connection.greet()
            connection.send(ringtail.wire.message("Subscribe", probe=["syscall:getppid:call"], question=question,
                                                  **more))
            error = connection.await_frame("Error").values
            case.check_equal((error["code"], bool(error["fatal"])), ("question-invalid", True), f"{question} {more}")
    words = ("count", "-p", "syscall:getppid:call", "--explain")
    for more, where in ((("--by", "comm"), "daemon  counts"), (("--by", "stack"), "client  counts"),
                        (("--since", "-1s"), "client  counts"), (("--interval", "10ms"), "client  counts")):
        done = case.tracectl(daemon, *words, *more)
        case.check(where in done.out, f"{' '.join(more)}: {where}", done.out, done.err)
    case.check_balanced(daemon)


def main(case):
    program, file, filter_ = known_load(case)
    everything(case, program, file, filter_)
    losses(case)
    refused(case)


ringtail.run(main)
