"""A viewer that asks for what it may not, as much and as often as it can, pushes nothing out of the audit
log: what was allowed is there, also in the journal; what was denied is short, and told by number."""
import json
import os
import re

import ringtail
from ringtail import wire

ASKED = 400
SPECS, SPEC_BYTES = 64, 250
LINES_MAX = 8                   # AUDIT_DENIED_MAX
LINE_BYTES_MAX = 1024           # AUDIT_DENIED_BYTES_MAX
ALLOWED = 30                    # more than LOG_BURST


def lines(state, name):
    with open(os.path.join(state, name)) as file:
        return file.read().splitlines()


def main(case):
    state = case.path("state")
    daemon = case.daemon("--insecure", f"--state-dir={state}",
                         listen=[f"unix:{case.path('run')}/d.sock", "tcp:127.0.0.1:0"])
    plain = re.search(r"listening on (tcp:127.0.0.1:\d+)", daemon.log)[1]
    specs = ['"' * SPEC_BYTES] * SPECS      # each is written as two bytes
    with wire.Connection(plain) as viewer:
        viewer.greet()
        for i in range(ASKED):
            viewer.send(wire.message("Change", enable=specs))
            error = viewer.await_frame("Error").values
            if error["code"] != "not-allowed":
                case.check_equal(error["code"], "not-allowed", "a viewer may not")
            if i % (ASKED // ALLOWED) == 0:
                verb = "disable" if i // (ASKED // ALLOWED) % 2 else "enable"
                case.check_equal(case.tracectl(daemon, verb, "syscall:getpgid:call").code, 0,
                                 f"meanwhile an operator may {verb}")
    counters = daemon.stat()["counters"]
    case.check_equal(counters["changes_denied"], ASKED, "each is counted")
    allowed = counters["changes_allowed"]
    case.check_equal(daemon.log.count("[audit] "), allowed, "the journal has all that was allowed")
    case.check_balanced(daemon)
    case.check_equal(daemon.stop(), 0, "it stops")
    case.check_equal(len(lines(state, "audit.log")), allowed, "and so has the audit log")
    denied = lines(state, "audit-denied.log")
    # A line for those that go uncounted at each end of a minute, and one at the end.
    case.check(all(len(line) < LINE_BYTES_MAX for line in denied) and len(denied) <= ASKED // 4,
               "what was denied is short", len(denied), max(map(len, denied)))
    parsed = [json.loads(line) for line in denied]
    whole = [line for line in parsed if "outcome" in line]
    more = sum(line.get("denied_more", 0) for line in parsed)
    case.check_equal(len(whole) + more, ASKED, "and told of by number")
    case.check(len(whole) >= LINES_MAX and whole[0]["enable_more"] == SPECS - len(whole[0]["enable"]),
               "with how much was asked for", whole[0])


ringtail.run(main)
