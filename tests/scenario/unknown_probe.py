"""A probe that is not there is refused with the nearest names, wherever it is asked for; one that is called by
its end alone is found."""
import re

import ringtail


def main(case):
    daemon = case.daemon()
    for spec, near in (("syscall:openatt:call", "syscall:openat:call"),
                       ("syscall:openat:cal", "syscall:openat:call"),
                       ("tracepoint:sched:sched_swich", "tracepoint:sched:sched_switch"),
                       ("sycall:openat:call", "syscall:openat:call"),
                       ("opennat", "syscall:openat:call"), ("gettppid", "syscall:getppid:call"),
                       ("sched_swich", "tracepoint:sched:sched_switch")):
        for words in (["stream", "-p", spec], ["list", spec]):
            done = case.tracectl(daemon, *words)
            case.check(done.code == 1 and "[unknown-probe]" in done.err and spec in done.err and
                       re.search(f"did you mean.*{near}", done.err),
                       f"{' '.join(words)}: did you mean {near}?", done.code, done.err)
    for spec, whole in (("openat", "syscall:openat:call"), ("sched_switch", "tracepoint:sched:sched_switch"),
                        ("sched:sched_switch", "tracepoint:sched:sched_switch")):
        short, full = (case.tracectl(daemon, "list", name) for name in (spec, whole))
        case.check_equal((short.code, short.out), (0, full.out), f"{spec} is {whole}")
    for words in (["stream", "-p", "syscall:openat:call", "-p", "syscall:zzz*"],
                  ["record", "-w", case.path("x"), "-p", "syscall:zzz*"], ["list", "syscall:zzz*"]):
        done = case.tracectl(daemon, *words)
        case.check(done.code == 1 and "[unknown-probe]" in done.err and "zzz" in done.err,
                   f"{' '.join(words)} is refused", done.code, done.err)
    done = case.tracectl(daemon, "stream", "-p", "syscall:[openat:call")
    case.check(done.code == 1 and "[" in done.err, "so is a broken glob", done.code, done.err)
    done = case.tracectl(daemon, "stream")
    case.check(done.code == 1 and "[no-default-probes]" in done.err,
               "and no probe at all, where none is always on", done.code, done.err)
    case.check_equal(daemon.recording(), 0, "nothing is recorded for any of them")
    case.check_balanced(daemon)


ringtail.run(main)
