"""The life of a process in scheduler events: fork, exec, switch, wakeup, exit, and its names.

A timer's wakeup is an event of whichever thread the interrupt hits, and a kernel may hide some of those from BPF
programs (pid 1's in some virtual machines). So the sleeper waits for us, on our CPU.
"""
import json
import os
import subprocess

import ringtail

PROBES = ["sched_switch", "sched_wakeup", "sched_process_fork", "sched_process_exec",
          "sched_process_exit"]


def main(case):
    daemon = case.daemon(ringtail.ROOM, "--queue-size=64MiB")
    words = [word for probe in PROBES for word in ("-p", f"tracepoint:sched:{probe}")]
    stream = case.stream(daemon, *words, "-o", "json", "--flags", "strings")
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    shell = case.start("/bin/sh", "-c", "/bin/cat; exit 3", stdin=subprocess.PIPE)
    cat, = ringtail.wait_until(lambda: ringtail.children(shell.pid), "the shell forks")
    stream.wait_for(rf'sched_switch",.*"tid":{cat},"comm":"cat","args":{{"prev_prio":\d+,"prev_state":"0x1"', "out")
    shell.popen.stdin.close()
    case.check_equal(shell.wait().code, 3, "the shell ran")
    # It comes out in time order: with the exit, everything before it is there.
    stream.wait_for(rf'sched_process_exit","pid":{shell.pid},', "out")
    case.check_balanced(daemon)
    done = stream.interrupt()
    case.check_stream(done)
    events = [json.loads(line) for line in done.out.splitlines()]

    def of(function, **wanted):
        return [event for event in events if event["probe"] == f"tracepoint:sched:{function}" and
                all({**event, **event["args"]}[key] == value for key, value in wanted.items())]

    execs = of("sched_process_exec", pid=shell.pid)
    case.check_equal([event["strings"]["filename"] for event in execs], ["/bin/sh"],
                     "the shell's exec, with its file")
    case.check_equal(execs[0]["comm"], "sh", "and its new name")
    forks = of("sched_process_fork", pid=shell.pid)
    case.check_equal(len(forks), 1, "the shell forks once")
    child = forks[0]["args"]["child_tid"]
    case.check_equal(forks[0]["args"]["child_pid"], child, "a process, not a thread")
    execs = of("sched_process_exec", pid=child)
    case.check_equal([event["strings"]["filename"] for event in execs], ["/bin/cat"],
                     "the child becomes cat")
    naps = of("sched_switch", tid=child, prev_state="0x1")
    case.check(naps, "cat is switched away from, asleep", of("sched_switch", tid=child))
    wakes = of("sched_wakeup", target_tid=child, pid=os.getpid())
    case.check(any(event["time"] > naps[-1]["time"] for event in wakes), "and woken by us", naps, wakes)
    for pid, comm in ((child, "cat"), (shell.pid, "sh")):
        exits = of("sched_process_exit", pid=pid)
        case.check_equal([(event["comm"], event["args"]["group_dead"]) for event in exits],
                         [(comm, 1)], f"{comm} exits, the last of its threads")
    switched_to = of("sched_switch", next_tid=child)
    case.check(switched_to, "switches to the child are there")
    case.check_balanced(daemon)


ringtail.run(main)
