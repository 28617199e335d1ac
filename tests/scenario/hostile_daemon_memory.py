"""What a daemon, or a file, sends is small; what tracectl makes of it has a bound, whatever it is: catalogs
that replace each other, batches of as many CPUs as there may be, each with as many threads, pairs or
attachments as a batch may have, gaps, batches that no watermark lets out, answers full of empty elements.
Measured as the peak of tracectl's resident memory, of a stream and of a file."""
import functools
import json
import os
import subprocess

import ringtail
from lib import fake_daemon, protobuf, wire
from lib.fake_daemon import PROBE, FakeDaemon

CPUS = 1024             # CURSOR_POSITIONS_MAX
EVENTS = 8192           # BATCH_EVENTS_MAX
PEAK_KIB_MAX = 256 << 10        # docs/libringtail.md: what waits, decoders, a catalog twice, and the rest
SANITIZED = "asan" in ringtail.BUILD    # whose memory is another
start = fake_daemon.catalog() + fake_daemon.subscribed()


def varints(number, values):
    return fake_daemon.packed(number, values)


def columns(n, threads):
    """Columns of n events that differ from none before: each costs a byte in each."""
    body = bytes(n)
    thread = b"".join(protobuf.put_varint(i % threads) for i in range(n))

    def column(number, data):
        return protobuf.put_varint(number << 3 | 2) + protobuf.put_varint(len(data)) + data
    return (column(9, body) + column(10, thread) + column(11, body) + column(13, body) +
            column(16, b"\x01" * n))


@functools.cache
def tables(threads):
    return protobuf.encode("Batch", {"thread": [{"tid": i} for i in range(threads)]}) + \
        varints(7, [PROBE])


def head(cpu, n, time_ns, threads):
    return protobuf.encode("Batch", {"cpu": cpu, "first_seq": 0, "end_seq": n, "time_ns": time_ns,
                                     "events": n}) + tables(threads)


def wide_batches():
    """Each CPU has a batch in which every event is a thread's first: they are merged one by one."""
    tail = columns(400, 400)
    for cpu in range(CPUS):
        yield fake_daemon.compressed("Batch", head(cpu, 400, cpu, 400) + tail)


def long_batches():
    tail = columns(EVENTS, 64) + varints(7, [PROBE] * 127)
    for cpu in range(CPUS // 16):
        yield fake_daemon.compressed("Batch", head(cpu, EVENTS, cpu, 64) + tail)


def attachments():
    one = protobuf.encode("Attachment", {"event": 0, "kind": 1})
    many = (protobuf.put_varint(18 << 3 | 2) + protobuf.put_varint(len(one)) + one) * (3 * EVENTS)
    for cpu in range(CPUS):
        yield fake_daemon.compressed("Batch", head(cpu, 1, cpu, 1) + columns(1, 1) + many)


def waiting():
    """Batches of one event that are as large as a frame may be, and compress to nothing."""
    for i in range(256):
        raw = head(i % 4, 1, 1 << 60, 1) + columns(1, 1)
        pad = (1 << 20) - len(raw) - 8
        yield fake_daemon.compressed("Batch", raw + protobuf.put_varint(31 << 3 | 2) +
                                     protobuf.put_varint(pad) + bytes(pad))


def catalogs():
    """Each another one, of thousands of probes with all their fields, and a batch that needs it."""
    field = {"name": "", "c_type": ""}
    probes = protobuf.encode("Catalog", {"probe": [{"id": i + 10, "field": [field] * 16}
                                                   for i in range(4000)]})
    for i in range(120):
        own = [{"id": PROBE}, {"id": 9000 + i, "provider": f"p{i}"}]
        yield fake_daemon.compressed("Catalog", protobuf.encode("Catalog", {"probe": own}) + probes)
        yield fake_daemon.compressed("Batch", head(i, 1, 1 << 60, 1) + columns(1, 1))


def gaps():
    gap = wire.message("Gap", cpu=3, first_seq=5, end_seq=6, events=1, stage=2, reason=6)
    yield gap * 200_000


def empties(message, number, n):
    """A message with n elements of which each is empty: two bytes, or three."""
    return fake_daemon.compressed(message, (protobuf.put_varint(number << 3 | 2) + b"\0") * n)


def watermarks():
    yield empties("Watermark", 2, 260_000)


def subscribed():
    cursor = b"\x1a\x00" * 500_000
    yield fake_daemon.compressed("Subscribed", b"\x0a" + protobuf.put_varint(len(cursor)) + cursor)


# With how many events they have; None: what is no stream of ours is refused.
STREAMS = [(wide_batches, 400 * CPUS), (long_batches, EVENTS * CPUS // 16), (attachments, None),
           (waiting, 256), (catalogs, 120), (gaps, 0), (watermarks, None), (subscribed, None)]
# A message, and the number of each of its repeated fields.
ANSWERS = [("Catalog", "ListRequest", ["list", "-o", "json"], (1,)),
           ("Stat", "StatRequest", ["stat", "-o", "json"], (4, 5, 6, 10, 11, 12)),
           ("Stat", "StatRequest", ["stat"], (4, 5, 6, 10, 11, 12)),
           ("Probes", "ProbesRequest", ["probes", "-o", "json"], (1,))]


def run(case, what, *words):
    """tracectl to its end, with its peak."""
    process = subprocess.Popen([os.path.join(ringtail.BUILD, "tracectl"), *words],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    case.check(process.returncode >= 0, f"{what}: tracectl is not killed", process.returncode)
    case.figure(what.replace(" ", "_"), usage.ru_maxrss, "KiB")
    case.check(SANITIZED or usage.ru_maxrss < PEAK_KIB_MAX, f"{what}: at most {PEAK_KIB_MAX} KiB",
               usage.ru_maxrss)
    return said


def check_events(case, said, events):
    summary = json.loads(said.splitlines()[-1])
    if events is not None:
        case.check_equal(summary["events"], events, "all of it was taken", said)


def main(case):
    for make, events in STREAMS:
        frames = start + b"".join(make())
        path = case.write("hostile.rt", fake_daemon.hello() + frames)
        case.say(f"{make.__name__}: {len(frames)} bytes")
        check_events(case, run(case, f"file {make.__name__}", "--summary", "json", "read", path, "-o",
                               "json"), events)
        daemon = FakeDaemon(case, {"Subscribe": frames + wire.message("Bye", final=True)})
        check_events(case, run(case, f"stream {make.__name__}", "--summary", "json", "--connect",
                               daemon.address, "stream", "-o", "json"), events)
        daemon.stop()
    for message, request, words, numbers in ANSWERS:
        for number in numbers:
            for n in (260_000, 30_000):
                daemon = FakeDaemon(case, {request: empties(message, number, n) * 3})
                run(case, f"{' '.join(words)} {number} {n}", "--connect", daemon.address, *words)
                daemon.stop()
    hello = fake_daemon.hello(hostname="x" * (1 << 19), software="y" * (1 << 18))
    daemon = FakeDaemon(case, {"ClientHello": hello})
    run(case, "hello", "--connect", daemon.address, "stat")
    daemon.stop()
    error = wire.message("Error", code="x" * 300_000, what="y" * 300_000, hint="z" * 300_000)
    daemon = FakeDaemon(case, {"StatRequest": error})
    run(case, "error", "--connect", daemon.address, "stat")


ringtail.run(main)
