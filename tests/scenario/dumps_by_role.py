"""Over TLS: a viewer lists dumps, fetches those of what is always on, byte for byte, and no other, and deletes none; an operator
fetches all and deletes. Who was denied, and who was not, is in the audit logs."""
import json
import os
import re

import ringtail
from lib import rules, tls

PART_BYTES = 1 << 18            # a dump is fetched in parts of 256 KiB: this one takes two at least,
CALLS, LOADS_MAX = 200_000, 50  # of how many calls, their times decide


def main(case):
    server = tls.Server(case)
    rule = rules.slow_rule(case, "dump 1h, enable sched:sched_process_fork 1s every 1h")
    daemon = case.daemon(*server.options(), "--viewer=cert:vera", "--operator=cert:oscar", "--viewer-probe=syscall",
                         "--ring-size=64MiB", config=f"probe = syscall:getppid:call\non = {rule}\n",
                         listen=[f"unix:{case.path('run')}/d.sock", "tcp:127.0.0.1:0"])
    address = re.search(r"listening on (tcp:127.0.0.1:\d+)", daemon.log)[1]
    vera, oscar = server.client("vera"), server.client("oscar")

    def ask(who, *words):
        return case.start(os.path.join(ringtail.BUILD, "tracectl"), "--connect", address, *who, "dumps", *words).wait()

    witness = case.stream(daemon, "-o", "none")     # it is sent the frames that the dump is made of
    for loads in range(1, LOADS_MAX):
        case.load(CALLS, 2).run()
        if witness.await_all(loads * CALLS)["wire_bytes"] > 2 * PART_BYTES:
            break
    case.check_equal(witness.interrupt().code, 0, f"{loads * CALLS} calls are enough")
    rules.nap(case, 0.1)
    rules.await_dumps(case, daemon, 2)
    done = ask(vera, "-o", "json")
    found = {json.loads(line)["id"]: json.loads(line) for line in done.out.splitlines()}
    always, forks = sorted(found)
    case.check(forks == f"{always}-2", "a viewer lists them", done.out, done.err)
    path = case.path("always.rt")
    done = ask(vera, "get", always, "-w", path)
    case.check_equal((done.code, done.err), (0, ""), "and fetches what is always on")
    with open(path, "rb") as got, open(f"{case.path(daemon.name)}.state/dumps/{always}.rt", "rb") as there:
        data = there.read()
        case.check(got.read() == data and len(data) == found[always]["bytes"] > PART_BYTES,
                   "byte for byte, in several parts", len(data))
    done = ask(vera, "get", forks, "-w", case.path("forks.rt"))
    case.check(done.code == 1 and "[viewer-probes]" in done.err and not os.path.exists(case.path("forks.rt")),
               "what it may not ask for it may not fetch, and no file is left", done.err)
    case.check_equal(ask(oscar, "get", forks, "-w", case.path("forks.rt")).code, 0, "an operator may")
    done = ask(vera, "remove", always)
    case.check(done.code == 1 and "[not-allowed]" in done.err, "a viewer deletes none", done.err)
    done = ask(oscar, "remove", always)
    case.check(done.code == 0 and always + " " not in done.out and forks in done.out, "an operator does", done.out, done.err)
    ringtail.wait_until(lambda: not os.path.exists(f"{case.path(daemon.name)}.state/dumps/{always}.rt"), "the file is gone")
    with open(f"{case.path(daemon.name)}.state/audit.log", encoding="utf-8") as log:
        lines = [json.loads(line) for line in log]
    case.check_equal([(line["who"], line["action"]) for line in lines],
                     [("trigger:slow", "trigger"), ("cert:oscar", "delete-dump")], "the audit log has what was done")
    with open(f"{case.path(daemon.name)}.state/audit-denied.log", encoding="utf-8") as log:
        denied = json.loads(log.readline())
    case.check_equal((denied["who"], denied["action"], denied["dump"]), ("cert:vera", "delete-dump", always),
                     "and what was denied")
    case.check_balanced(daemon)


ringtail.run(main)
