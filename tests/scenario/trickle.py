"""A client whose bytes come one at a time is served like any other."""
import time

import ringtail
from lib import hostile, wire


def main(case):
    healthy = hostile.Healthy(case)
    with healthy.daemon.connect() as connection:
        for byte in wire.hello():
            connection.send(bytes([byte]))
            time.sleep(0.001)
        hello = connection.await_frame("ServerHello").values
        case.check_equal(hello["version"], 1, "the hello is understood")
        for byte in wire.message("ListRequest", glob="syscall:openat:*"):
            connection.send(bytes([byte]))
            time.sleep(0.001)
        names = [probe["name"] for probe in connection.await_frame("Catalog").values["probe"]]
        case.check_equal(sorted(names), ["call", "entry", "return"], "and so is the request")
    with healthy.daemon.connect() as connection:
        connection.send(wire.hello() + wire.message("ListRequest", glob="syscall:openat:call") +
                        wire.message("StatRequest") + wire.message("Subscribe",
                                                                   probe=["syscall:openat"]))
        for name in ("ServerHello", "Catalog", "Stat", "Catalog", "Subscribed"):
            case.check_equal(connection.frame().name, name, f"all at once: a {name} comes next")
    healthy.check()


ringtail.run(main)
