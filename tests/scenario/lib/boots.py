"""boots: an earlier boot of the host, made of a run of the daemon just now, which was killed: what its spool
and its consumers say is rewritten."""
import glob
import os
import uuid

from . import wire

BOOT = uuid.uuid4()
KERNEL, HOST = "5.10.0-earlier", "earlier"
AGO_NS = 30 * 86400 * 10**9     # how long before now that boot had the same monotonic time


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
