"""Processes that exit, are killed and dump core: sched_process_exit says status, signal and core, as waitpid and
strace do; filters know signals by name, there and in signal:*."""
import os
import re
import resource
import shutil
import signal
import subprocess

import ringtail

EXIT = "tracepoint:sched:sched_process_exit"
ENDS = [(f"exits with {status}", f"exit {status}") for status in (0, 3, 255)] + \
       [(f"is ended by {name}", f"kill -{getattr(signal, name):d} $$")
        for name in ("SIGKILL", "SIGTERM", "SIGSEGV", "SIGABRT", "SIGUSR1")]


def may_dump_core():
    resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, resource.RLIM_INFINITY))


def end(case, script):
    """A process that ends so: its pid, and what waitpid says."""
    process = subprocess.Popen(["/bin/sh", "-c", script], cwd=case.dir, preexec_fn=may_dump_core)
    pid, status = os.waitpid(process.pid, 0)
    process.returncode = status     # it is no child any more
    return pid, status


def compare_with_strace(case, daemon):
    """strace says the same of a process of its own. A virtual machine has none; strace_agrees needs it elsewhere."""
    if not shutil.which("strace"):
        case.say("there is no strace to compare with")
        return
    program = case.path(f"abort-{os.getpid()}")
    stream = case.stream(daemon, "-p", EXIT, "-f", f"group_dead == 1 && comm == \"{os.path.basename(program)}\"", "-n",
                         "1")
    os.symlink("/bin/sh", program)
    subprocess.run(["strace", "-o", case.path("strace"), program, "-c", "kill -ABRT $$"], cwd=case.dir,
                   stderr=subprocess.DEVNULL, check=False)
    with open(case.path("strace")) as file:
        [words] = re.findall(r"\+\+\+ (killed by .*) \+\+\+", file.read())
    case.check(f", {words}\n" in stream.wait().out, f"strace says {words}, too", stream.read("out"))


def main(case):
    daemon = case.daemon()
    mine = f"ppid == {os.getpid()} && group_dead == 1 && comm == \"sh\""
    everything = case.stream(daemon, "-p", EXIT, "-f", mine, "-o", "json", "-n", str(len(ENDS)))
    text = case.stream(daemon, "-p", EXIT, "-f", mine, "-n", str(len(ENDS)))
    faults = case.stream(daemon, "-p", EXIT, "-f", f"{mine} && signal == SIGSEGV", "-o", "json", "-n", "1")
    sent = case.stream(daemon, "-p", "tracepoint:signal:signal_generate", "-f",
                       f"ppid == {os.getpid()} && comm == \"sh\" && sig == SIGUSR1 && code == SI_USER", "-o", "json", "-n", "1")
    ended = {}
    for name, script in ENDS:
        pid, status = end(case, script)
        ended[pid] = (name, status)
    events = {event["tid"]: event["args"] for event in everything.wait().lines}
    shown = text.wait().out
    for pid, (name, status) in ended.items():
        wanted = (os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0,
                  os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
                  int(os.WCOREDUMP(status)))
        got = events[pid]
        case.check_equal((got["status"], got["signal"], got["core"]), wanted, f"a process {name}")
        case.check_equal(got["exit_code"], status, "the code is what waitpid says")
        words = f"killed by {signal.Signals(wanted[1]).name}" if wanted[1] else f"status {wanted[0]}"
        words += " (core dumped)" if wanted[2] else ""
        case.check(re.search(rf"{pid} \[\d+\], the last of its process, {re.escape(words)}$", shown, re.M),
                   f"as text: {words}", shown)
    [fault] = faults.wait().lines
    case.check_equal(ended[fault["tid"]][0], "is ended by SIGSEGV", "a filter finds a signal by its name")
    [usr1] = sent.wait().lines
    case.check_equal(ended[usr1["tid"]][0], "is ended by SIGUSR1", "also where it is sent, with its code")
    compare_with_strace(case, daemon)
    case.check_balanced(daemon)


ringtail.run(main)
