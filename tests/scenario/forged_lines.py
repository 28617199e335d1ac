"""A viewer asks with newlines and escapes in each text it can send: it is told which text that was, and nobody
else is shown a line, or given a record in a file, that it made up."""
import os
import re

import ringtail
from lib import hostile, wire

FORGED = "x\nclient 99 FORGED\x1b[2J"
REQUESTS = (("ListRequest", "glob", FORGED), ("Subscribe", "probe", [FORGED]),
            ("Subscribe", "filter", f'comm == "{FORGED}"'), ("Subscribe", "consumer", FORGED),
            ("Forget", "consumer", FORGED), ("Change", "enable", [FORGED]),
            ("Change", "disable", [FORGED]))


def main(case):
    state = case.path("state")
    healthy = hostile.Healthy(case, "--insecure", "--durability=written", f"--state-dir={state}",
                              "--user=root", f"--listen=unix:{case.path('run')}/v.sock",
                              "--listen=tcp:127.0.0.1:0")
    daemon = healthy.daemon
    plain = re.search(r"listening on (tcp:127.0.0.1:\d+)", daemon.log)[1]
    with wire.Connection(plain) as viewer:
        viewer.send(wire.hello(software=FORGED))
        hostile.check_refused(case, viewer, "text-invalid", "ClientHello.software")
    for name, field, value in REQUESTS:
        with wire.Connection(plain) as viewer:
            viewer.greet()
            viewer.send(wire.message(name, **{field: value}))
            hostile.check_refused(case, viewer, "text-invalid", f"{name}.{field} has U+000A")
    shown = case.tracectl(daemon, "stat").out
    case.check("FORGED" not in shown and "\x1b" not in shown, "nobody is shown any of it", shown)
    for name in os.listdir(state):
        if os.path.isfile(f"{state}/{name}"):
            with open(f"{state}/{name}") as file:
                case.check("FORGED" not in file.read(), f"nothing of it is in {name}")
    case.check("\nclient 99" not in daemon.log and "\x1b" not in daemon.log, "nor in the log")
    healthy.check()


ringtail.run(main)
