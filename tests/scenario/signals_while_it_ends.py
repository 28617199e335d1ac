"""Signals that come while the daemon ends, after it has left its loop, do not kill it: what it has still to write is
written, and it exits with 0."""
import os
import signal

import ringtail
from lib.service_manager import ServiceManager

SENT = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def takes_none(daemon):
    """Whether it has no handler for them any more, or lets them wait."""
    with open(f"/proc/{daemon.pid}/status") as status:
        masks = dict(line.split(":\t") for line in status.read().splitlines() if line.startswith("Sig"))
    bits = 1 << signal.SIGTERM - 1
    return int(masks["SigBlk"], 16) & bits or not int(masks["SigCgt"], 16) & bits


def main(case):
    daemon = ServiceManager(case).daemon()
    os.kill(daemon.loader, signal.SIGSTOP)      # whom it asks for nothing more, as it hands over, and waits for
    try:
        daemon.signal(signal.SIGTERM)
        ringtail.wait_until(lambda: not daemon.running or takes_none(daemon), "it has left its loop")
        for number in SENT:
            daemon.signal(number)
    finally:
        os.kill(daemon.loader, signal.SIGCONT)
    case.check_equal(daemon.stop(), 0, "it ends as if there had been one signal")


ringtail.run(main)
