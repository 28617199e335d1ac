"""A client that says hello and nothing else is told so, and let go; one with a request may stay."""
import time

import ringtail
from lib import hostile, wire


def main(case):
    healthy = hostile.Healthy(case, hello_timeout=hostile.SHORT)
    with healthy.daemon.connect() as quiet, healthy.daemon.connect() as patient:
        patient.greet()
        patient.stat()
        quiet.greet()
        hostile.check_refused(case, quiet, "request-timeout", "no request in time after its hello")
        time.sleep(0.3)         # past the time-out of the other one too
        patient.send(wire.message("StatRequest"))
        case.check_equal(patient.frame().name, "Stat",
                         "one that asked for something is not sent away")
    healthy.check()


ringtail.run(main)
