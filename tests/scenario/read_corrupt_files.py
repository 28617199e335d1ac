"""`tracectl read` of files that are cut, damaged, or something else altogether."""
import gzip
import os

import ringtail
from lib import wire

CALLS = 100_000


def record(case):
    daemon = case.daemon("--ring-size=16MiB")
    file = case.path("good.rt")
    load = case.load(CALLS)
    stream = case.stream(daemon, "-w", file, "-p", "syscall:getppid:call", "-f", load.filter,
                         command="record")
    load.run()
    stream.await_all(CALLS)
    case.check_balanced(daemon)
    case.check_stream(stream.interrupt(), events=CALLS)
    case.check_equal(daemon.stop(), 0, "a recording is made")
    with open(file, "rb") as recorded:
        return recorded.read()


def read(case, data, *words):
    return case.tracectl(None, "--summary", "json", "read", case.write("bad.rt", data), "-o",
                         "none",
                         *words)


def check_cut(case, good, frames):
    """Cut at a frame's edge, in a header, after one, and in a body; within the first frame, too."""
    offsets, at = [], 0
    for frame in frames:
        offsets.append(at)
        at += len(frame.bytes)
    third = [i for i, frame in enumerate(frames) if frame.name == "Batch"][2]
    for what, end in (("in the middle of a body", offsets[third] + (wire.HEADER_BYTES + len(frames[third].bytes)) // 2),
                      ("right after a header", offsets[third] + wire.HEADER_BYTES),
                      ("in the middle of a header", offsets[third] + 7),
                      ("one byte before the end", len(good) - 1)):
        done = read(case, good[:end])
        begin = max(offset for offset in offsets if offset < end)
        case.check(done.code == 1 and "[truncated]" in done.err and f"byte {begin}" in done.err,
                   f"cut {what}: exit 1, where, and how much was there", done.code, done.err)
        case.check("events were read before" in done.err, "and what came before is shown", done.err)
    done = read(case, good[:offsets[third]])
    case.check("cut" in done.err or done.code == 0,
               f"cut between two frames: exit {done.code}, {done.err.splitlines()[0]}", done.err)
    for end in (1, 2, wire.HEADER_BYTES, len(frames[0].bytes) - 1):
        done = read(case, good[:end])
        case.check(done.code == 1 and "bad.rt" in done.err and "[truncated]" in done.err,
                   f"the first {end} bytes alone: exit 1", done.code, done.err)


def check_flips(case, good):
    """Not one flipped bit goes unnoticed, and none makes it crash."""
    for _ in range(60):
        bit = case.random.randrange(8 * len(good))
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        done = read(case, bytes(bad))
        if done.code != 1 or "tracectl: " not in done.err:
            case.check(False, f"bit {bit} flipped is noticed", done.code, done.err)
    case.say("ok: each of 60 flipped bits is noticed")


def check_order(case, frames):
    """Good frames in a bad order, twice, or missing."""
    parts = [frame.bytes for frame in frames]
    batches = [i for i, frame in enumerate(frames) if frame.name == "Batch"]
    one = case.random.choice(batches)
    done = read(case, b"".join(parts[1:]))
    case.check(done.code == 1 and "hello" in done.err, "without its hello: exit 1", done.err)
    done = read(case, parts[0] + b"".join(parts[2:]))
    case.check(done.code == 1 and "catalog" in done.err, "without its catalog: exit 1", done.err)
    for gone in case.random.sample(batches[:-1], min(8, len(batches) - 1)):
        done = read(case, b"".join(parts[:gone] + parts[gone + 1:]))
        case.check(done.code == 3 and "residual" in done.summary["ledger"],
                   f"with frame {gone} missing: exit 3, the ledger does not close", done.code,
                   done.err)
    twice = b"".join(parts[:one + 1] + parts[one:])
    done = read(case, twice)
    case.check(done.code == 3 and "residual" in done.summary["ledger"],
               "with a batch twice: exit 3, the ledger does not close", done.code, done.err)


def check_foreign(case):
    with open("/bin/true", "rb") as program:
        elf = program.read()
    for data, words in ((b"", "empty"), (gzip.compress(b"text"), "gzip"), (elf, "ELF"),
                        (b"PERFILE2" + bytes(100), "perf"), (b"hello, world\n" * 20, "text"),
                        (bytes(5000), "zeros"), (b'{"events":1}\n', "JSON"),
                        (wire.zstd(b"abc" * 100), "zstd"), (case.random.randbytes(3000), "")):
        done = read(case, data)
        case.check(done.code == 1 and "[foreign-file]" in done.err and words in done.err,
                   f"{words or 'noise'}: {done.err.splitlines()[0]}", done.code, done.err)
    done = case.tracectl(None, "read", case.path("no-such-file"))
    case.check(done.code == 1 and "No such file" in done.err, "no file: exit 1", done.err)
    done = case.tracectl(None, "read", case.dir)
    case.check(done.code == 1 and "irectory" in done.err, "a directory: exit 1", done.err)


def main(case):
    good = record(case)
    frames = wire.cut(good)
    done = read(case, good)
    case.check_stream(done, events=CALLS)
    check_cut(case, good, frames)
    check_flips(case, good)
    check_order(case, frames)
    check_foreign(case)
    case.check(os.path.exists(case.path("good.rt")), "the good file is as it was")


ringtail.run(main)
