"""A trigger: a slow call makes a dump of what was before it, which is listed, fetched and read like any recording; a
call that is not slow makes none; one soon after the first is counted, and makes none either. A rule that is wrong does not
start, and does not reload."""
import json

import ringtail
from lib import rules

CALLS = 2000


def fires(case):
    # How long a nap takes on a machine that is busy, nobody knows; but not an hour.
    config = "\n".join(("probe = syscall:getppid:call", f"on = {rules.slow_rule(case, 'dump 1h every 1h')}",
                        f"on = {rules.slow_rule(case, 'dump 1h', 'hour').replace('50ms', '1h')}"))
    daemon = case.daemon(config=config)
    load = case.load(CALLS)
    load.run()
    case.check_equal(rules.dumps(case, daemon), [], "where nothing has matched, there is no dump")
    rules.nap(case, 0.1)
    dump, = rules.await_dumps(case, daemon)
    case.check(dump["trigger"] == "slow" and dump["state"] == "whole" and dump["events"] >= CALLS,
               "a slow one makes one, of what was before", dump)
    case.check("clock_nanosleep" in daemon.log and "trigger slow fired" in daemon.log, "the log has the event")
    path = case.path("got.rt")
    done = case.tracectl(daemon, "dumps", "get", dump["id"], "-w", path)
    case.check_equal((done.code, done.err), (0, ""), "it is fetched")
    done = case.tracectl(None, "--summary", "json", "read", path, "-f", load.filter, "-o", "none")
    # It did not reach back for an hour: that is a gap.
    case.check_equal((done.code, done.summary["events"], done.summary["lost"], done.summary["ledger"]),
                     (3, CALLS, 0, "balanced"), "and read: every call is there, and what is missing is told", done.err)
    rules.nap(case, 0.1)
    ringtail.wait_until(lambda: daemon.stat()["counters"]["trigger_suppressed"] == 1, "another is counted")
    case.check_equal([one["id"] for one in rules.dumps(case, daemon)], [dump["id"]], "and makes no other dump")
    with open(f"{case.path(daemon.name)}.state/audit.log", encoding="utf-8") as log:
        lines = [json.loads(line) for line in log]
    case.check_equal([(line["who"], line["action"], line["outcome"]) for line in lines],
                     [("trigger:slow", "trigger", "allowed")], "the audit log has it", lines)
    done = case.tracectl(daemon, "dumps", "get", "20200101T000000Z-none", "-w", case.path("none.rt"))
    case.check(done.code == 1 and "[dump-unknown]" in done.err, "one that is not there is not fetched", done.err)
    done = case.tracectl(daemon, "dumps", "remove", dump["id"])
    case.check(done.code == 0 and "no dumps" in done.out, "it is deleted", done.out, done.err)
    stat = {one["name"]: one for one in case.tracectl(daemon, "stat", "-o", "json").lines[0]["triggers"]}
    case.check_equal((stat["slow"]["matches"], stat["slow"]["fired"], stat["hour"]["matches"], stat["hour"]["fired"]),
                     (2, 1, 0, 0), "a call that is not slow enough for a rule does not match it", stat)
    case.check_balanced(daemon)
    return daemon, config


def reloads(case, daemon, config):
    def write(text):
        case.write(f"{daemon.name}.conf", text)
    write(config + "\non = 'syscall:getppid:call durration > 5ms' dump 1s\n")
    daemon.reload("reload-refused")
    case.check("on: column 23:" in daemon.log and "duration" in daemon.log, "a rule that is wrong is not reloaded, with its"
               " column", daemon.log[-1500:])
    write(config.replace("dump 1h", "dump 100ms").replace("slow:", "nap:"))
    daemon.reload(r"\[reloaded\]")
    rules.nap(case, 0.1)
    dump, = rules.await_dumps(case, daemon)
    case.check_equal((dump["trigger"], dump["gaps"]), ("nap", 0), "another rule is, and fires")
    case.check_balanced(daemon)


def refuses(case):
    for rule, column, code in (("'syscall:getppid:call pid = 12' dump 1s", 27, ""), ("'getppid' dmp 1s", 11, "trigger-action"),
                               ("'getppid' dump", 15, "trigger-incomplete"), ("'getppid dump 1s", 1, "trigger-open-quote"),
                               ("signal SIGSEGVV dump 1s", 8, "trigger-signal"), ("'getppid' dump 1s 2s", 19, "trigger-rest"),
                               ("'getppid' at 5 dump 1s", 14, "trigger-rate"), ("'syscall:nosuchcall' dump 1s", 2, "")):
        how = ["--source=bpf"] if "nosuch" in rule else ["--check-config"]
        done = case.refused(*how, config=f"on = {rule}\n")
        case.check(done.code and f"column {column}" in done.err and code in done.err, f"{rule}: column {column}", done.code,
                   done.err)


def main(case):
    reloads(case, *fires(case))
    refuses(case)


ringtail.run(main)
