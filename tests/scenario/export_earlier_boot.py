"""What was spooled before the machine was booted anew is told as the kernel of that boot would have told
it: with the time on the wall that it was then, though the clock of the events began anew; under that
boot's id and kernel, and the name that the host had; and never in one request with what is told of now.

The boot is made of a run of the daemon just now: what its spool and its consumers say is rewritten."""
import os
import time

import ringtail
from lib import boots, exporting
from lib.backend import Backend

CALLS = 300
ROUNDING_NS = 100_000_000       # between two readings of two clocks, on a host that is busy


def start(case, backend):
    daemon = case.daemon(backend.url("otlp-logs"), *exporting.options(), "--durability=written",
                         f"--state-dir={case.path('state')}")
    exporting.await_begun(daemon)
    return daemon


def await_stored(daemon, backend):
    ringtail.wait_until(lambda: exporting.stat(daemon, backend)["events"] >= CALLS and
                        not any(spool["in_flight"] for spool in daemon.stat()["spool"]),
                        "it is on disk")


def main(case):
    backend = Backend()
    backend.stop()
    daemon = start(case, backend)
    began = time.time_ns()
    exporting.fail_often(CALLS)
    ended = time.time_ns()
    await_stored(daemon, backend)
    case.check_balanced(daemon)
    daemon.crash()
    boots.rewrite(case.path("state"))
    backend.start()
    daemon = start(case, backend)
    exporting.fail_often(CALLS, CALLS)

    def look():
        return len(set(exporting.numbers(backend.records()))) == 2 * CALLS
    ringtail.wait_until(look, "each call is stored")
    system, mixed = os.uname(), 0
    with open("/proc/sys/kernel/random/boot_id") as file:
        here = file.read().strip()
    for request in backend.stored:
        numbers = exporting.numbers(request.records)
        earlier = numbers[0] < CALLS
        mixed += earlier != (numbers[-1] < CALLS)
        case.check_equal([request.resource[key] for key in
                          ("ringtail.boot.id", "host.name", "os.version")],
                         [str(boots.BOOT), boots.HOST, boots.KERNEL] if earlier else
                         [here, system.nodename, system.release],
                         f"calls {numbers[0]} to {numbers[-1]} are of the "
                         f"{'earlier' if earlier else 'present'} boot")
        for record in request.records if earlier else ():
            at = record["time_unix_nano"] + boots.AGO_NS
            if not began - ROUNDING_NS <= at <= ended + ROUNDING_NS:
                case.check(False, "it has the time that it was then", began, at, ended)
    case.check_equal(mixed, 0, "no request holds both")
    case.check_equal(len(exporting.numbers(backend.records())), 2 * CALLS, "each came once")
    case.check_equal(backend.errors, [], "every body was understood")
    case.check_balanced(daemon)


ringtail.run(main)
