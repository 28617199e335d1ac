"""--explain says what of a question runs where; the kernel's part is what it records: no more than that reaches the
rings. A mistake is shown at its column, as it was written."""
import os

import ringtail


def main(case):
    daemon = case.daemon()
    pid = os.getpid()

    def explain(*words, code=0):
        done = case.tracectl(daemon, words[0], "--explain", *words[1:])
        case.check_equal(done.code, code, f"{words} ends with {code}", done.err)
        return done.out if not code else done.err

    text = explain("stream", "-p", "syscall:getppid:call", "-f", f"(pid == {pid} || comm == \"x\") && ret > 0")
    case.check(f"records these events only where pid == {pid} || comm == \"x\"" in text or
               f"records these events only where comm == \"x\" || pid == {pid}" in text, "the kernel's part", text)
    case.check("probes  1 of " in text and "whole filter lets through: (pid" in text, "the daemon's", text)
    text = explain("count", "-p", "openat", "-f", 'filename =~ "/etc/*" && container == "3f2a5cbd1e90"', "--by",
                   "comm")
    case.check("of every process" in text and "turns strings on" in text and "asks for context" in text and
               "daemon  counts" in text, "texts and context", text)
    own = "kernel  counts system calls"
    case.check("kernel  counts" not in text, "which the kernel cannot ask", text)
    for words, counts in (((), True), (("--by", "function,cpu"), True), (("-f", f"pid == {pid}"), True),
                          (("--by", "comm"), False), (("--of", "ret"), False), (("-i", "1s"), False),
                          (("-f", "ret < 0"), False), (("--tree", "1"), False)):
        text = explain("count", "-p", "getppid", *words)
        case.check((own in text) == counts, f"count {words}: {counts}", text)
    case.check(own not in explain("summary", "-p", "getppid"), "a summary has times")
    text = explain("stream", "--pid", "1", "--", "false")
    case.check("client  chooses" in text, "a command is not executed", text)
    text = explain("stream", "-p", "openat", "-f", "ret < 0 && filname == 3", "--pid", "1", code=1)
    case.check("column 12" in text and "did you mean `filename`?" in text, "a mistake", text)
    lines = text.splitlines()
    mark = next(line for line in lines if line.strip() == "^")
    case.check_equal(lines[lines.index(mark) - 1][mark.index("^"):][:7], "filname", "marked where it stands", text)

    # What is made when it is asked for, and pairs, whose probes are those of --from and --to.
    text = explain("stream", "-p", "tracepoint:task:task_newtask", "-p", "tracepoint:task:*", "-p", "openat")
    case.check(text.startswith(f"probes  {1 + len(case.tracectl(daemon, 'list', 'tracepoint:task:*').out.splitlines())} of "),
               "probes that the daemon can make", text)
    explain("stream", "-p", "tracepoint:irq:softirq_exit", "-f", "vec == RCU")
    explain("stream", "-p", "tracepoint:writeback:writeback_dirty_inode", "-f", "state & I_DIRTY_PAGES")
    text = explain("stream", "-p", "tracepoint:irq:softirq_exit", "-f", "vec == RCUU", code=1)
    case.check("column 8" in text and "did you mean `RCU`" in text, "names of a probe that is not made", text)
    text = explain("offcpu", "-c", "nginx")
    case.check("probes  1 of " in text and "of every process: there is no filter" in text and "pairs" in text,
               "pairs of a name", text)
    text = explain("stream", "-p", "tracepoint:task:no_such", code=1)
    case.check("no probe matches `tracepoint:task:no_such`" in text, "a probe that is not there", text)

    # What the explanation says is what is recorded.
    load = case.load(1000)
    explained = explain("stream", "-p", "syscall:getppid:call", "-f", load.filter)
    case.check("of every process" not in explained, "the load's filter runs in the kernel", explained)
    other = case.load(5000, comm="other-than-it")
    before = daemon.recorded()
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter, "-o", "none")
    other.run()
    load.run()
    case.await_rings_empty(daemon)
    stream.await_all(1000)
    case.check_equal(daemon.recorded() - before, 1000, "the kernel records no more than that")
    case.check_stream(stream.interrupt(), events=1000)
    case.check_balanced(daemon)


ringtail.run(main)
