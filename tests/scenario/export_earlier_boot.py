"""What was spooled before the machine was booted anew is told as the kernel of that boot would have told
it: with the time on the wall that it was then, though the clock of the events began anew; under that
boot's id and kernel, and the name that the host had; and never in one request with what is told of now.

The boot is made of a run of the daemon just now: what its spool and its consumers say is rewritten."""
import glob
import os
import time
import uuid

import ringtail
from lib import exporting, wire
from lib.backend import Backend

CALLS = 300
BOOT = uuid.uuid4()
KERNEL, HOST = "5.10.0-earlier", "earlier"
AGO_NS = 30 * 86400 * 10**9     # how long before now that boot had the same monotonic time
ROUNDING_NS = 100_000_000       # between two readings of two clocks, on a host that is busy


def start(case, backend):
    daemon = case.daemon(backend.url("otlp-logs"), *exporting.options(), "--durability=written",
                         f"--state-dir={case.path('state')}")
    exporting.await_begun(daemon)
    return daemon


def rewrite_segment(path):
    """As another boot would have written it; returns this boot's id."""
    with open(path, "rb") as file:
        frames = wire.cut(file.read())
    head, hello = frames[0].values, frames[1].values
    ours = head["boot_id"]
    head["boot_id"] = hello["boot_id"] = BOOT.bytes
    hello.update(hostname=HOST, kernel=KERNEL, realtime_ns=hello["realtime_ns"] - AGO_NS)
    with open(path, "wb") as file:
        file.write(wire.message("SegmentHead", **head) + wire.message("ServerHello", **hello) +
                   b"".join(frame.bytes for frame in frames[2:]))
    return ours


def rewrite(state):
    """All that the run which was killed has left."""
    for path in glob.glob(os.path.join(state, "spool", "*", "*.open")):
        ours = rewrite_segment(path)
    with open(os.path.join(state, "consumers")) as file:
        text = file.read()
    with open(os.path.join(state, "consumers"), "w") as file:
        file.write(text.replace(ours.hex(), BOOT.hex))


def await_stored(daemon, backend):
    ringtail.wait_until(lambda: exporting.stat(daemon, backend)["events"] >= CALLS and
                        not any(spool["in_flight"] for spool in daemon.stat()["spool"]),
                        "it is on disk", 60)


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
    rewrite(case.path("state"))
    backend.start()
    daemon = start(case, backend)
    exporting.fail_often(CALLS, CALLS)

    def look():
        return len(set(exporting.numbers(backend.records()))) == 2 * CALLS
    ringtail.wait_until(look, "each call is stored", 60)
    system, mixed = os.uname(), 0
    with open("/proc/sys/kernel/random/boot_id") as file:
        here = file.read().strip()
    for request in backend.stored:
        numbers = exporting.numbers(request.records)
        earlier = numbers[0] < CALLS
        mixed += earlier != (numbers[-1] < CALLS)
        case.check_equal([request.resource[key] for key in
                          ("ringtail.boot.id", "host.name", "os.version")],
                         [str(BOOT), HOST, KERNEL] if earlier else
                         [here, system.nodename, system.release],
                         f"calls {numbers[0]} to {numbers[-1]} are of the "
                         f"{'earlier' if earlier else 'present'} boot")
        for record in request.records if earlier else ():
            at = record["time_unix_nano"] + AGO_NS
            if not began - ROUNDING_NS <= at <= ended + ROUNDING_NS:
                case.check(False, "it has the time that it was then", began, at, ended)
    case.check_equal(mixed, 0, "no request holds both")
    case.check_equal(len(exporting.numbers(backend.records())), 2 * CALLS, "each came once")
    case.check_equal(backend.errors, [], "every body was understood")
    case.check_balanced(daemon)


ringtail.run(main)
