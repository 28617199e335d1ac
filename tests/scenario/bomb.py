"""Bodies that would decompress to far more than they say, or than is allowed."""
import struct

import ringtail
from lib import hostile, wire
from lib.process import Failure

BLOCK_BYTES = 128 << 10


def rle_bomb(announced, blocks):
    """A zstd frame, by hand: run-length blocks of 128 KiB, and an announced size that may lie."""
    head = struct.pack("<IB", 0xFD2FB528, 0x80 | 0x20) + struct.pack("<I", announced)
    body = b"".join(struct.pack("<I", BLOCK_BYTES << 3 | 1 << 1 | (i == blocks - 1))[:3] + b"\0"
                    for i in range(blocks))
    return head + body


def rss(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))


def main(case):
    if len(wire.unzstd(rle_bomb(2 * BLOCK_BYTES, 2))) != 2 * BLOCK_BYTES:
        raise Failure("the bomb is not zstd")
    healthy = hostile.Healthy(case)
    before = rss(healthy.daemon.pid)
    true_size = 8000 * BLOCK_BYTES              # a gigabyte in 32 KB
    for text, body, raw_bytes, code in (
            ("true to its word, a gigabyte", rle_bomb(true_size, 8000), true_size, "too-large"),
            ("its header says 60000 bytes", rle_bomb(true_size, 8000), 60000, "bad-zstd"),
            ("header and zstd say 60000 bytes", rle_bomb(60000, 8000), 60000, "bad-zstd"),
            ("less than is said", wire.zstd(b"a" * 5000), 60000, "bad-zstd"),
            ("more than is said", wire.zstd(b"a" * 5000), 4999, "bad-zstd"),
            ("not zstd", b"\x07" * 100, 60000, "bad-zstd")):
        case.say(text)
        with healthy.daemon.connect() as connection:
            connection.greet()
            connection.send(wire.seal("ListRequest", body, raw_bytes=raw_bytes))
            hostile.check_refused(case, connection, code)
    grown = rss(healthy.daemon.pid) - before
    case.check(grown < 64 << 20, f"the engine grew by {grown >> 10} KiB")
    healthy.check()


ringtail.run(main)
