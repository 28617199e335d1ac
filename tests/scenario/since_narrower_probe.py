"""--since with fewer probes than are always on: the past of those comes, and of no other."""
from lib.past import CALLS, Past, memory, spool
import ringtail


def one(case, where, *options):
    past = Past(case, *options, probes=("syscall:getppid:call", "syscall:openat:call"))
    probe = ("-p", "syscall:getppid:call")
    done = past.ask(*probe, output="json")
    case.check_equal((done.code, done.summary["gaps"], done.summary["ledger"]), (0, 0, "balanced"),
                     f"{where}: the past is all there", done.err)
    case.check_equal({event["probe"] for event in done.lines}, {"syscall:getppid:call"},
                     f"{where}: of that probe alone")
    case.check_equal(sum(event["pid"] in past.load.pids for event in done.lines), CALLS,
                     f"{where}: every call of the load")
    past.expect(f"{where}: and filtered", CALLS, *probe, "-f", past.load.filter)
    done = past.ask(*probe, "-p", "syscall:getuid:call", "-f", past.load.filter)
    case.check_equal((done.code, done.summary["events"], done.summary["gaps"]), (3, CALLS, 1),
                     f"{where}: with a probe that was not recorded, those that were and a gap",
                     done.err)
    past.end()


def main(case):
    one(case, "memory", *memory())
    one(case, "spool", *spool(case))


ringtail.run(main)
