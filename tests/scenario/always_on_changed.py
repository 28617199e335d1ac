"""An operator enables and disables what is always on: audited before, recorded, kept, undone."""
import json
import os
import stat

import ringtail
from lib import wire

CALLS = 2000


def audit(state, name="audit.log"):
    with open(f"{state}/{name}") as file:
        return [json.loads(line) for line in file]


def main(case):
    state = case.path("state")
    before, load, late = (case.load(CALLS, comm=case.own_comm) for _ in range(3))
    words = [f"--state-dir={state}", "--probe=syscall:getpgid:call",
             f"--filter=comm == \"{case.own_comm}\""]
    daemon = case.daemon(*words)
    before.run()
    case.await_rings_empty(daemon)
    case.check_equal(daemon.recorded(), 0, "getppid is not recorded yet")
    done = case.tracectl(daemon, "enable", "syscall:getppid:call", "tracepoint:sched:sched_process_exec")
    case.check(done.code == 0 and "user:root" in done.out and "config" in done.out,
               "enable answers with all that is always on", done.out, done.err)
    lines = audit(state)
    case.check_equal([(line["who"], line["role"], line["outcome"], line["enable"])
                      for line in lines],
                     [("user:root", "operator", "allowed",
                       ["syscall:getppid:call", "tracepoint:sched:sched_process_exec"])],
                     "the audit log has who, what and the outcome")
    case.check_equal(stat.S_IMODE(os.stat(f"{state}/audit.log").st_mode), 0o600,
                     "it is closed to others")
    case.check(daemon.recording(), "programs are attached")
    load.run()
    ringtail.wait_until(lambda: daemon.recorded() >= CALLS, "the kernel records it")
    case.say("ok: the kernel records it")

    done = case.tracectl(daemon, "enable", "syscall:nosuchcall:call")
    case.check(done.code == 1 and "[unknown-probe]" in done.err, "an unknown probe is refused",
               done.err)
    done = case.tracectl(daemon, "disable", "syscall:getppid:cal")
    case.check(done.code == 1 and "[not-enabled]" in done.err and
               "syscall:getppid:call" in done.err, "one that is not on, too, with the nearest",
               done.err)
    done = case.tracectl(daemon, "disable", "syscall:getpgid:call")
    case.check(done.code == 0 and "getpgid" not in done.out,
               "one of the configuration is disabled", done.out)
    case.check_equal(([line["outcome"] for line in audit(state)],
                      [line["outcome"] for line in audit(state, "audit-denied.log")]),
                     (["allowed", "allowed"], ["unknown-probe", "not-enabled"]),
                     "each attempt is in an audit log")
    case.check_balanced(daemon)

    case.check_equal(daemon.stop(), 0, "it stops")
    again = case.daemon(*words)
    probes = case.tracectl(again, "probes", "-o", "json").lines[0]["probes"]
    case.check_equal([(probe["probe"], probe["by"]) for probe in probes],
                     [("syscall:getppid:call", "user:root"),
                      ("tracepoint:sched:sched_process_exec", "user:root")],
                     "after a restart it is as the operator left it")
    stream = case.stream(again, "-f", late.filter + " && function == \"getppid\"", "-o", "none")
    late.run()
    stream.await_all(CALLS)
    case.check_stream(stream.interrupt(), events=CALLS)
    done = case.tracectl(again, "disable", "syscall:getppid:call",
                         "tracepoint:sched:sched_process_exec")
    case.check(done.code == 0 and "nothing is always on" in done.out, "all can be disabled",
               done.out, done.err)
    case.check(case.tracectl(again, "enable", "syscall:getpgid:call").code == 0 and
               case.tracectl(again, "probes", "-o", "json").lines[0]["probes"][0]["by"] == "config",
               "enabling what the configuration has takes its disabling back")

    # Where nothing can be written down, nothing changes.
    os.rename(f"{state}/audit.log", f"{state}/audit.kept")
    os.mkdir(f"{state}/audit.log")
    done = case.tracectl(again, "enable", "syscall:getsid:call")
    case.check(done.code == 1 and "[audit-failed]" in done.err, "no audit log, no change", done.err)
    case.check("getsid" not in case.tracectl(again, "probes").out, "nothing was changed")
    os.rmdir(f"{state}/audit.log")
    with again.connect() as connection:
        connection.greet()
        connection.send(wire.message("Change", enable=["syscall:getsid:call"]) +
                        wire.message("ListRequest", glob="syscall:getsid:*") +
                        wire.message("ProbesRequest"))
        names = [connection.frame().name for _ in range(3)]
        case.check_equal(names, ["Probes", "Catalog", "Probes"], "answers come in order")
    case.check_balanced(again)


ringtail.run(main)
