"""A storm of events that match: one dump is made, and the rest is counted to the event; a stream beside it loses nothing while the
dump is written, the ledgers close, and the oldest dumps make room for new ones. A rate fires at its number and not before."""
import re

import ringtail
from lib import rules

CALLS = 200_000
RATE = 1000             # that even a machine with much else to do comes to


def one_dump(case):
    name = case.own_comm
    daemon = case.daemon("--ring-size=64MiB", "--queue-size=64MiB", config="\n".join((
        "probe = syscall:getppid:call", f'filter = comm == "{name}"',
        f"""on = storm: 'syscall:getppid:call comm == "{name}"' dump 1h every 1h""",
        f"""on = often: 'syscall:getppid:call comm == "{name}"' at {RATE}/s log every 1h""",
        f"""on = never: 'syscall:getppid:call comm == "{name}"' at {100 * CALLS}/s log every 1h""")))
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", f'comm == "{name}"', "-o", "none")
    told = case.load(CALLS, 2, comm=name).run()
    case.figure("matches a second", CALLS / (told["elapsed_ns"] / 1e9), "/s")
    stream.await_all(CALLS)
    case.check_stream(stream.interrupt(), events=CALLS)
    dump, = rules.await_dumps(case, daemon)
    case.check_equal((dump["trigger"], dump["state"], dump["lost"]), ("storm", "whole", 0), "one dump of all of it")
    # Three rules count each of them; the dump's rule acted on the events of one batch.
    ringtail.wait_until(lambda: daemon.stat()["counters"]["trigger_matches"] == 3 * CALLS, "each match is counted")
    counters = daemon.stat()["counters"]
    case.check(CALLS - 8192 <= counters["trigger_suppressed"] < 3 * CALLS, "and what nothing was done about", counters)
    case.check_equal((counters["dumps_written"], counters["dumps_failed"]), (1, 0), "one dump is written")
    case.check("trigger often fired" in daemon.log and "trigger never fired" not in daemon.log,
               "a rate that was reached fires, and one that was not does not")
    case.check_equal(counters["triggers_fired"], 2, "each rule at most once")
    case.check_balanced(daemon)


def oldest_go(case):
    daemon = case.daemon(config="\n".join(("probe = syscall:getppid:call", "dump-count = 2",
                                           f"on = {rules.slow_rule(case, 'dump 100ms every 1s')}")))
    def counted(name):
        return daemon.stat()["counters"][name]

    # While it may not fire again, a nap does nothing: naps go on until three dumps are there; more, where one takes long.
    ringtail.wait_until(lambda: counted("dumps_written") >= 3 or rules.quiet_nap(case), "three dumps are written")
    naps = sum(process.name.startswith("nap-") for process in case.processes)
    ringtail.wait_until(lambda: counted("trigger_matches") == naps, "each nap has matched")
    ringtail.wait_until(lambda: counted("dumps_written") + counted("dumps_failed") == counted("triggers_fired"),
                        "no dump is being written")
    written = re.findall(r"wrote the dump (\S+);", daemon.log)
    case.check_equal([dump["id"] for dump in rules.dumps(case, daemon)], written[-2:], "the newest two are there")
    case.check_equal(counted("dumps_deleted"), len(written) - 2, "the oldest were deleted, and are counted")
    case.check_equal(re.findall(r"deleted the oldest dump, (\S+)", daemon.log), written[:-2], "and the log says so")
    case.check_balanced(daemon)


def main(case):
    one_dump(case)
    oldest_go(case)


ringtail.run(main)
