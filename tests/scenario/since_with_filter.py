"""--since with a filter of its own: what is always on recorded the past, and it comes, filtered."""
from lib.past import CALLS, Past, memory, spool
import ringtail


def one(case, where, *options):
    past = Past(case, *options)
    of_load, first = past.load.filter, f"pid == {past.load.pids[0]}"
    past.expect(f"{where}: both processes", CALLS, "-f", of_load)
    past.expect(f"{where}: one of them", CALLS // 2, "-f", first)
    past.expect(f"{where}: nothing of them", 0, "-f", f"({of_load}) && ret < 0")
    past.expect(f"{where}: the probe by name", CALLS, "-p", "syscall:getppid:call", "-f", of_load)
    past.end()


def of_what_is_filtered(case):
    """What is always on is filtered itself, and is narrowed."""
    load = case.load(1)
    past = Past(case, "--filter=uid >= 0 && (comm != \")\" || ret > 0)")
    load.run()
    past.expect("narrowed", CALLS // 2, "-f", f"pid == {past.load.pids[0]}")
    done = past.ask("-p", "syscall:getppid:call", "-f", f"pid == {past.load.pids[0]}")
    case.check_equal((done.code, done.summary["events"], done.summary["gaps"]), (3, CALLS // 2, 1),
                     "of a filter that may have left something out what is there comes, and a gap",
                     done.err)
    past.end()


def main(case):
    one(case, "memory", *memory())
    one(case, "spool", *spool(case))
    of_what_is_filtered(case)


ringtail.run(main)
