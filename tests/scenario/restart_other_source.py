"""A source whose rings end with its run stops in order even where a manager stores descriptors, and
what a run with another source has left is let go of."""
import os

import ringtail
from lib.service_manager import ServiceManager

CAPTURE = os.path.join(ringtail.ROOT, "tests", "data", "capture.rt")


def main(case):
    manager = ServiceManager(case)
    daemon = manager.daemon("--ring-size=1MiB")
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-o", "none")
    ringtail.wait_until(lambda: any(".link." in name for name in manager.names()),
                        "links are stored")
    stream.interrupt()
    case.check_equal(daemon.stop(), 0, "a run that traces the kernel ends well")
    case.check("the kernel keeps recording" in daemon.log, "and leaves its programs to the next")

    daemon = manager.daemon(source=f"replay:{CAPTURE}")
    ringtail.wait_until(lambda: not any(name.startswith("source.") for name in manager.names()),
                        "the programs are let go of by a run that replays a file")
    case.say("ok: a run that replays a file lets go of them")
    case.check_balanced(daemon)
    case.check_equal(daemon.stop(), 0, "it ends well")
    case.check("draining the rings" in daemon.log, "and drains its rings", daemon.log)


ringtail.run(main)
