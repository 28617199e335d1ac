#!/usr/bin/env python3
"""clients/python: reads the recorded files event by event as `tracectl read` does; gives out each event of a fleet's records
once, and its ledger closes over all that is missing; and refuses whatever is damaged, with a reason, at once.
"""
import glob
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
sys.path.insert(1, os.path.join(ROOT, "tests/tools"))

import read_as_json  # noqa: E402  the first: it finds a Python that has the packages
import ringtail_reader  # noqa: E402
import zstandard  # noqa: E402
from google.protobuf import descriptor_pb2  # noqa: E402
from ringtail_reader import CutShort, Damaged, End, Event, Fleet, Gap, Loss, Run, Stream, Watermark  # noqa: E402
from ringtail_reader import ringtail_pb2 as pb  # noqa: E402
from ringtail_reader.batch import CPUS_MAX, EVENTS_MAX, FIELDS_MAX  # noqa: E402
from ringtail_reader.frame import HEADER, REQUESTS, TYPES, crc32c, open_frame, split  # noqa: E402
from ringtail_reader.stream import RUNS_MAX  # noqa: E402

BUILD = os.path.join(ROOT, os.environ.get("RINGTAIL_BUILD", "build"))
DATA = os.path.join(ROOT, "tests/data")
MUTANTS = 1500          # of messages in frames that are sound, and a fifth of it of a file's bytes
HANGS_S = 20            # all mutants together take one
NUMBER = {name: number for number, name in TYPES.items()}
BOOT = bytes(range(16))
RUN = b"00010203-0405-0607-0809-0a0b0c0d0e0f/7"


def recordings():
    return sorted(glob.glob(f"{DATA}/**/*.rt", recursive=True) + glob.glob(f"{DATA}/**/*.seg", recursive=True))


def seal(name, message):
    raw = message if isinstance(message, bytes) else message.SerializeToString()
    head = struct.pack("<HBBII", 0x7452, 1, NUMBER[name], len(raw), len(raw))
    return head + struct.pack("<I", crc32c(head + raw)) + raw


def hello(epoch=7):
    return seal("ServerHello", pb.ServerHello(version=1, hostname="self", boot_id=BOOT, epoch=epoch, realtime_ns=1000))


def catalog():
    fields = [pb.Field(name="duration", type=pb.FIELD_DURATION), pb.Field(name="ret", type=pb.FIELD_RESULT),
              pb.Field(name="fd", type=pb.FIELD_FD, bits=32)]
    return seal("Catalog", pb.Catalog(probe=[pb.Probe(id=5, provider="syscall", function="close", name="call", field=fields)]))


def batch(first, end, cpu=0, skipped=(), losses=()):
    """All of its numbers are events, but for those that are skipped or lost."""
    lost = sum(loss.count + loss.skipped for loss in losses)
    events = end - first - sum(skipped) - lost
    return pb.Batch(cpu=cpu, first_seq=first, end_seq=end, time_ns=100, events=events, thread=[pb.Thread(tid=9)], probe=[5],
                    event_probe=[0] * events, event_thread=[0] * events, changed=[1] * events, value=[1] * events,
                    time_high=[0] * events, gap_low=[1] * events, span_low=[2] * events,
                    event_skipped=list(skipped) + [0] * (events - len(skipped)) if skipped else [], loss=losses)


def take(stream, name, message):
    return stream.take(open_frame(seal(name, message)))


def begin():
    stream = Stream("web-1")
    for frame in (hello(), catalog()):
        stream.take(open_frame(frame))
    return stream


def seqs(items):
    return [item.seq for item in items if isinstance(item, Event)]


class Recordings(unittest.TestCase):
    def test_events_are_those_of_tracectl(self):
        for path in recordings():
            wrong, events = read_as_json.differ(BUILD, path)
            self.assertEqual(wrong, "", path)
            self.assertGreater(events, 0, path)

    def test_ledgers_close(self):
        for path in recordings():
            stream = Stream()
            with open(path, "rb") as file:
                kinds = {type(item) for item in ringtail_reader.read(file, stream)}
            ledger = stream.ledger
            self.assertEqual((ledger.residual, ledger.frames_residual, ledger.holes), (0, 0, 0), path)
            self.assertEqual(ledger.span, ledger.events + ledger.skipped, path)
            self.assertTrue({Run, Event, Watermark} <= kinds, path)

    def test_the_messages_are_those_of_the_proto(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "set")
            subprocess.run(["protoc", f"-I{ROOT}/proto", f"--descriptor_set_out={path}", "ringtail.proto"], check=True)
            with open(path, "rb") as file:
                made = descriptor_pb2.FileDescriptorSet.FromString(file.read()).file[0]
        for message in made.message_type:
            for field in message.field:
                field.ClearField("json_name")
        mine = descriptor_pb2.FileDescriptorProto()
        pb.DESCRIPTOR.CopyToProto(mine)
        self.assertEqual(mine, made, "make ringtail_pb2.py anew: see clients/python/README.md")


class Once(unittest.TestCase):
    """Each event comes once, and what is missing is told."""

    def check(self, stream, **expected):
        ledger = stream.ledger
        self.assertEqual({name: getattr(ledger, name) for name in expected}, expected)
        self.assertEqual((ledger.residual, ledger.frames_residual), (0, 0))

    def test_event_has_its_values(self):
        event = take(begin(), "Batch", batch(10, 12))[1]
        self.assertEqual((event.host, event.cpu, event.seq, event.time_ns, event.wall_ns, event.duration_ns, event.result,
                          event.args, event.probe.spec, event.thread.tid),
                         ("web-1", 0, 11, 106, 1106, 2, 2, {"fd": 0}, "syscall:close:call", 9))

    def test_batch_that_came_before(self):
        stream = begin()
        self.assertEqual(seqs(take(stream, "Batch", batch(10, 20))), list(range(10, 20)))
        self.assertEqual(take(stream, "Batch", batch(10, 20)), [])
        self.assertEqual(take(stream, "Batch", batch(12, 15)), [])
        self.check(stream, frames=3, taken=1, duplicate=2, span=10, events=10)

    def test_part_of_a_batch_came_before(self):
        stream = begin()
        take(stream, "Batch", batch(10, 20))
        losses = [pb.Loss(before=1, count=8, reason=pb.REASON_RING_FULL)]
        items = take(stream, "Batch", batch(15, 30, skipped=(1,), losses=losses))
        self.assertEqual((seqs(items), [(loss.seq, loss.count, loss.stage, loss.reason) for loss in items
                                        if isinstance(loss, Loss)]), (list(range(25, 30)), [(17, 8, "ring", "ring-full")]))
        self.check(stream, span=20, events=15, lost=5)

    def test_batch_begins_later(self):
        stream = begin()
        take(stream, "Batch", batch(10, 20))
        gap = take(stream, "Batch", batch(25, 30))[0]
        self.assertEqual((gap.first_seq, gap.end_seq, gap.hole), (20, 25, True))
        self.check(stream, span=20, events=15, holes=5)

    def test_watermark_says_what_was_skipped(self):
        stream = begin()
        take(stream, "Batch", batch(10, 20, cpu=1))
        mark = pb.Watermark(time_ns=500, position=[pb.Position(cpu=1, seq=26, skipped=4), pb.Position(cpu=2, seq=3)])
        gap, watermark = take(stream, "Watermark", mark)
        self.assertEqual((gap.cpu, gap.first_seq, gap.end_seq, watermark.positions), (1, 20, 22, {1: 26, 2: 3}))
        self.assertEqual(take(stream, "Watermark", mark), [])
        self.assertEqual(seqs(take(stream, "Batch", batch(26, 28, cpu=1))), [26, 27])
        self.check(stream, span=18, events=12, skipped=4, holes=2, duplicate=1)

    def test_gaps(self):
        stream = begin()
        take(stream, "Batch", batch(10, 20))
        gap = pb.Gap(first_seq=15, end_seq=40, stage=pb.LOSS_SPOOL, reason=pb.REASON_DISK, events=25)
        told, = take(stream, "Gap", gap)
        self.assertEqual((told.first_seq, told.end_seq, told.events, told.stage, told.reason), (20, 40, 20, "spool", "disk"))
        self.assertEqual(take(stream, "Gap", gap), [])
        unknown = pb.Gap(first_seq=40, end_seq=40, reason=pb.REASON_RESTART)
        self.assertEqual(len(take(stream, "Gap", unknown) + take(stream, "Gap", unknown)), 1)
        self.check(stream, span=30, events=10, gaps=20, unknown=1, duplicate=2)

    def test_where_a_consumer_resumes(self):
        stream = begin()
        start, since = (pb.Cursor(boot_id=BOOT, epoch=7, position=[pb.Position(cpu=0, seq=seq)]) for seq in (10, 14))
        take(stream, "Subscribed", pb.Subscribed(start=start, since=since))
        self.assertEqual(seqs(take(stream, "Batch", batch(10, 16))), [14, 15])
        self.check(stream, span=2, events=2)

    def test_runs_have_numbers_of_their_own(self):
        stream = begin()
        take(stream, "Batch", batch(10, 20))
        for epoch, expected in ((8, [10, 11]), (7, []), (8, [])):
            stream.take(open_frame(hello(epoch)))
            stream.take(open_frame(catalog()))
            self.assertEqual(seqs(take(stream, "Batch", batch(10, 12))), expected)
        self.check(stream, events=12, span=12, duplicate=2)


    def enter(self, stream, epoch):
        stream.take(open_frame(hello(epoch)))
        stream.take(open_frame(catalog()))

    def test_so_many_runs_are_remembered(self):
        stream = Stream("web-1")
        for epoch in range(RUNS_MAX):
            self.enter(stream, epoch)
            take(stream, "Batch", batch(10, 12))
        self.enter(stream, 0)           # the last one now
        self.assertEqual(take(stream, "Batch", batch(10, 12)), [])
        self.enter(stream, RUNS_MAX)
        for epoch, expected in ((0, []), (2, []), (1, [10, 11])):
            self.enter(stream, epoch)
            self.assertEqual(seqs(take(stream, "Batch", batch(10, 12))), expected, epoch)

    def test_a_run_has_a_catalog_of_its_own(self):
        stream = begin()
        stream.take(open_frame(hello(8)))
        with self.assertRaisesRegex(Damaged, "before its catalog"):
            take(stream, "Batch", batch(10, 12))

    def test_subscribed_once_more(self):
        stream = begin()
        take(stream, "Batch", batch(10, 20))
        start = pb.Cursor(boot_id=BOOT, epoch=7, position=[pb.Position(cpu=0, seq=10)])
        take(stream, "Subscribed", pb.Subscribed(start=start))
        self.assertEqual(take(stream, "Batch", batch(10, 20)), [])
        self.check(stream, events=10, span=10, duplicate=2)

    def test_gap_of_another_run_has_no_place_here(self):
        stream = begin()
        take(stream, "Batch", batch(10, 20))
        gap = pb.Gap(first_seq=500, end_seq=510, reason=pb.REASON_OTHER_EPOCH)
        told, = take(stream, "Gap", gap)
        self.assertEqual((told.first_seq, told.end_seq), (500, 510))
        self.assertEqual(seqs(take(stream, "Batch", batch(20, 22))), [20, 21])
        self.check(stream, events=12, span=12, gaps=0, unknown=1)

    def test_two_gaps_of_no_size(self):
        stream = begin()
        for reason in (pb.REASON_RESTART, pb.REASON_NOT_RECORDED):
            self.assertEqual(len(take(stream, "Gap", pb.Gap(first_seq=40, end_seq=40, reason=reason))), 1)
        self.check(stream, unknown=2, duplicate=0)

    def test_time_does_not_go_back(self):
        stream = begin()
        self.assertEqual(len(take(stream, "Watermark", pb.Watermark(time_ns=500))), 1)
        self.assertEqual(len(take(stream, "Watermark", pb.Watermark(time_ns=300, position=[pb.Position(seq=5)]))), 1)
        self.assertEqual(take(stream, "Watermark", pb.Watermark(time_ns=400)), [])
        self.assertEqual(len(take(stream, "Watermark", pb.Watermark(time_ns=501))), 1)

    def test_event_that_stands_for_others(self):
        message = batch(10, 12)
        message.counts.events.extend([5, 1])
        self.assertEqual([event.stands_for for event in take(begin(), "Batch", message)], [5, 1])
        self.assertEqual([event.stands_for for event in take(begin(), "Batch", batch(10, 12))], [1, 1])

    def test_bye_of_a_dump(self):
        self.assertIsNone(take(begin(), "Bye", pb.Bye())[0].dump)
        self.assertIsNotNone(take(begin(), "Bye", pb.Bye(dump=pb.Dump()))[0].dump)

    def test_error(self):
        self.assertEqual(take(begin(), "Error", pb.Error(code="ack-beyond")), [])
        for stream in (begin(), Stream()):
            with self.assertRaisesRegex(ringtail_reader.Refused, "not-allowed"):
                take(stream, "Error", pb.Error(code="not-allowed"))

    def test_type_that_is_not_known(self):
        kind = max(max(TYPES), max(REQUESTS)) + 1
        head = struct.pack("<HBBII", 0x7452, 1, kind, 1, 1)
        frame = open_frame(head + struct.pack("<I", crc32c(head + b"x")) + b"x")
        self.assertEqual((frame.type, frame.message), ("", None))
        self.assertEqual(begin().take(frame), [])


class Records(unittest.TestCase):
    """Of a fleet, in Kafka."""

    def setUp(self):
        self.fleet = Fleet()
        self.catalog = b"%08x" % crc32c(catalog())
        self.key = b"web-1\0" + RUN + b"\0" + self.catalog
        self.fleet.learn(self.key, hello() + catalog())

    def take(self, name, message, run=RUN, value=None, host=b"web-1"):
        headers = {"schema": b"ringtail.v1", "type": name.lower().encode(), "run": run, "catalog": self.catalog}
        if name in ("Batch", "Gap"):
            headers.update(cpu=b"%d" % message.cpu, first=b"%d" % message.first_seq, end=b"%d" % message.end_seq)
        return self.fleet.take(host, seal(name, message) if value is None else value, list(headers.items()))

    def check(self, host="web-1", **expected):
        host = self.fleet.hosts[host]
        self.assertEqual({name: getattr(host, name) for name in expected}, expected)
        self.assertEqual((host.residual, host.ledger.residual, host.ledger.frames_residual), (0, 0, 0))

    def test_each_once(self):
        items = self.take("Batch", batch(10, 20))
        self.assertEqual((type(items[0]), items[0].host, seqs(items)), (Run, "web-1", list(range(10, 20))))
        self.assertEqual(self.take("Batch", batch(10, 20)), [])
        self.assertEqual(seqs(self.take("Batch", batch(15, 25))), list(range(20, 25)))
        self.assertIsInstance(self.take("Bye", pb.Bye(final=True))[0], End)
        self.check(records=4, taken=3, duplicate=1, damaged=0)

    def test_damaged_record_is_a_gap(self):
        self.take("Batch", batch(10, 20))
        gap, = self.take("Batch", batch(20, 30), value=seal("Batch", batch(20, 30))[:-1] + b"?")
        self.assertEqual((gap.first_seq, gap.end_seq, gap.reason, gap.hole), (20, 30, "corrupt", True))
        self.assertEqual(seqs(self.take("Batch", batch(30, 31))), [30])
        gap, = self.take("Batch", batch(31, 40), value=seal("Batch", batch(31, 39)))
        self.assertEqual((gap.first_seq, gap.end_seq), (31, 40))
        self.assertEqual(self.take("Watermark", pb.Watermark(position=[pb.Position(cpu=4000)])), [])
        self.check(records=5, taken=2, damaged=3)

    def test_first_record_is_damaged(self):
        run, gap = self.take("Batch", batch(10, 20), value=b"Rt")
        self.assertEqual((run.epoch, gap.first_seq, gap.end_seq, gap.run), (7, 10, 20, run))
        self.check(records=1, damaged=1)

    def test_run_is_not_there(self):
        gap, = self.take("Batch", batch(10, 20), run=RUN + b"1")
        self.assertEqual((gap.reason, gap.first_seq == gap.end_seq), ("corrupt", True))
        self.assertEqual(self.take("Batch", batch(20, 30), run=RUN + b"1"), [])
        self.assertEqual(seqs(self.take("Batch", batch(10, 12))), [10, 11])
        self.check(records=3, taken=1, damaged=2)

    def test_run_was_deleted(self):
        self.fleet.learn(self.key, None)
        self.assertIsInstance(self.take("Batch", batch(10, 20))[0], Gap)
        self.check(records=1, damaged=1)

    def test_other_records(self):
        self.assertEqual(self.fleet.take(b"web-1", b"", [("type", b"batch")]), [])
        self.assertEqual(self.fleet.take(b"web-1", None, None), [])
        self.assertEqual((self.fleet.other, self.fleet.hosts), (2, {}))


class Broken(unittest.TestCase):
    def setUp(self):
        signal.setitimer(signal.ITIMER_PROF, HANGS_S)      # of CPU time, whatever else runs

    def tearDown(self):
        signal.setitimer(signal.ITIMER_PROF, 0)

    def refused(self, data):
        """Why; an exception of any other kind fails the test."""
        stream = Stream()
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            try:
                for _ in ringtail_reader.read(file, stream):
                    pass
            except (Damaged, ringtail_reader.Refused) as error:
                self.assertTrue(str(error))
                return error
            finally:
                self.assertEqual((stream.ledger.residual, stream.ledger.frames_residual), (0, 0))
        return None

    def test_bytes_of_files(self):
        chance = random.Random(1)
        with open(f"{DATA}/0.1.0/recording.rt", "rb") as file:
            whole = file.read()
        for _ in range(MUTANTS // 5):
            data = bytearray(whole)
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            self.assertRegex(str(self.refused(data)), "^frame at byte [0-9]+: ")
        for _ in range(MUTANTS // 20):
            self.assertIsInstance(self.refused(whole[:chance.randrange(1, len(whole))]), CutShort)

    def test_messages_in_sound_frames(self):
        chance = random.Random(2)
        whole = list(split(hello() + catalog() + seal("Batch", batch(10, 20, skipped=(1,), losses=[pb.Loss(count=1)])) +
                           seal("Watermark", pb.Watermark(time_ns=5, position=[pb.Position(seq=30, skipped=3)])) +
                           seal("Gap", pb.Gap(first_seq=30, end_seq=40)) + seal("Bye", pb.Bye())))
        self.assertIsNone(self.refused(b"".join(whole)))
        reasons = set()
        for _ in range(MUTANTS):
            frames = list(whole)
            at = chance.randrange(len(frames) - 1)
            raw = bytearray(frames[at][HEADER.size:])
            for _ in range(chance.randrange(1, 4)):
                raw[chance.randrange(len(raw))] = chance.choice((0, 1, 0x7f, 0x80, 0xff, chance.randrange(256)))
            frames[at] = seal(TYPES[frames[at][3]], bytes(raw))
            reasons.add(str(self.refused(b"".join(frames))).partition(": ")[2])
        self.assertGreater(len(reasons), 10, reasons)

    def test_columns_of_another_length(self):
        for column, values in (("value", [1] * 9), ("value", [1] * 11), ("gap_low", [1] * 9), ("gap_more", [1]),
                               ("changed", [1] * 9), ("event_thread", [0] * 9 + [1]), ("event_probe", [1] * 10),
                               ("changed", [4] * 10)):
            message = batch(10, 20)
            getattr(message, column)[:] = values
            error = self.refused(hello() + catalog() + seal("Batch", message))
            self.assertRegex(str(error), "a column of the batch|an event (names|changes)", column)

    def damaged(self, name, message, why):
        with self.assertRaisesRegex(Damaged, why):
            take(begin(), name, message)

    def test_bounds(self):
        take(begin(), "Gap", pb.Gap(cpu=CPUS_MAX - 1, end_seq=1))
        self.damaged("Gap", pb.Gap(cpu=CPUS_MAX, end_seq=1), "out of range")
        self.damaged("Gap", pb.Gap(first_seq=5, end_seq=4), "before it begins")
        self.damaged("Batch", pb.Batch(first_seq=5, end_seq=4), "out of range")
        self.assertEqual(len(take(begin(), "Batch", batch(0, EVENTS_MAX))), EVENTS_MAX)
        self.damaged("Batch", batch(0, EVENTS_MAX + 1), "out of range")
        self.damaged("ServerHello", pb.ServerHello(boot_id=BOOT[1:]), "no boot id")
        for fields in (FIELDS_MAX, FIELDS_MAX + 1):
            probe = pb.Probe(id=5, field=[pb.Field(name="f%d" % i, bits=64) for i in range(fields)])
            if fields == FIELDS_MAX:
                take(begin(), "Catalog", pb.Catalog(probe=[probe]))
            else:
                self.damaged("Catalog", pb.Catalog(probe=[probe]), "there twice, or has")
        self.damaged("Catalog", pb.Catalog(probe=[pb.Probe(id=5), pb.Probe(id=5)]), "there twice")

    def test_attachments(self):
        for events, arg, good in (((1, 1), 2, True), ((0, 1), 2, True), ((1, 0), 2, False), ((1, 1), 3, False)):
            message = batch(10, 12)
            for event in events:
                message.attachment.add(event=event, kind=pb.ATTACH_STRING, arg=arg, text=b"x")
            if good:
                self.assertEqual(len(take(begin(), "Batch", message)), 2)
            else:
                self.damaged("Batch", message, "out of order|belongs to field 3")

    def test_where_it_is(self):
        before = hello() + catalog()
        unknown = batch(10, 12)
        unknown.probe[:] = [6]
        error = self.refused(before + seal("Batch", unknown))
        self.assertRegex(str(error), f"^frame at byte {len(before)}: ")
        error = self.refused(before + seal("Batch", batch(10, 12))[:-1] + b"?")
        self.assertRegex(str(error), f"^frame at byte {len(before)}: ")

    def test_request_in_a_stream(self):
        for kind in REQUESTS:
            head = struct.pack("<HBBII", 0x7452, 1, kind, 0, 0)
            with self.assertRaisesRegex(Damaged, "no place in a stream"):
                open_frame(head + struct.pack("<I", crc32c(head)))

    def test_more_than_it_unpacks_to(self):
        head = struct.pack("<HBBII", 0x7452, 1, NUMBER["Bye"], 9, 8)
        with self.assertRaisesRegex(Damaged, "it announces 9 bytes for a message of 8"):
            open_frame(head + struct.pack("<I", 0) + bytes(9))

    def test_what_it_announces_is_looked_at_first(self):
        body = zstandard.ZstdCompressor().compress(bytes(1 << 22))
        head = struct.pack("<HBBII", 0x7452, 1, NUMBER["Bye"], len(body), 1000)
        error = self.refused(hello() + head + struct.pack("<I", crc32c(head + body)) + body)
        self.assertIn("announces another size", str(error))
        frame = seal("Bye", pb.Bye())
        for header in ((0x7452, 1, 11, 5, 1 << 21, 0), (0x7452, 1, 11, 9, 8, 0), (0x7452, 2, 11, 0, 0, 0)):
            self.assertIsInstance(self.refused(HEADER.pack(*header) + frame), Damaged)


if __name__ == "__main__":
    unittest.main()
