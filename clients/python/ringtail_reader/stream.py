# SPDX-License-Identifier: BSD-2-Clause
"""stream: the frames of one host, in their order, as items: each once. Its ledger closes over them:

    span = events + lost + skipped + gaps + holes           in attempts
    frames = taken + duplicate                              of Subscribed, Batch, Gap, Watermark and Bye
"""
from dataclasses import dataclass

from . import ringtail_pb2 as pb
from .batch import CPUS_MAX, Batch, read_catalog
from .frame import CutShort, Damaged, Refused, frames
from .items import End, Event, Gap, Run, Watermark, reason_name, stage_name

RUNS_MAX = 16                           # of one host: whose numbers are remembered


@dataclass
class Ledger:
    frames: int = 0
    taken: int = 0
    duplicate: int = 0
    span: int = 0
    events: int = 0
    lost: int = 0
    skipped: int = 0
    gaps: int = 0
    holes: int = 0                      # of these, nothing told; this reader found them missing
    unknown: int = 0                    # places of which nobody knows how many are missing there

    @property
    def residual(self):
        return self.span - self.events - self.lost - self.skipped - self.gaps - self.holes

    @property
    def frames_residual(self):
        return self.frames - self.taken - self.duplicate


class Numbers:
    """Of one run: for each CPU the number that is expected next."""

    def __init__(self):
        self.next = {}
        self.unknown = {}               # by CPU: where the last gap of no size is
        self.watermark_ns = 0


def _count_from(span, seq):
    """How much of a span of numbers is not before seq."""
    return max(0, span[1] - max(span[0], seq))


def _cpu(cpu):
    if cpu >= CPUS_MAX:
        raise Damaged(f"CPU {cpu} is out of range")
    return cpu


def _positions(cursor):
    return {_cpu(each.cpu): each.seq for each in cursor.position}


class Stream:
    """`host`: its name, where it is known from elsewhere; otherwise what the host calls itself."""

    def __init__(self, host=None):
        self.host = host
        self.run = None
        self.catalog = None
        self.ledger = Ledger()
        self.is_whole = False           # the last frame was an end
        self.numbers = None
        self._runs = {}                 # Numbers by run, the one that was used last at the end

    def take(self, frame):
        """A list of the items that this frame makes."""
        if frame.message is None:
            return []
        if self.run is None and frame.type not in ("ServerHello", "SegmentHead", "Error"):
            raise Damaged(f"a {frame.type} comes before the hello")
        self.is_whole = frame.type in ("Bye", "SegmentEnd")
        return getattr(self, "_take_" + frame.type)(frame.message)

    # ---- Before the stream -----------------------------------------------------------------------

    def _take_ServerHello(self, hello):
        if len(hello.boot_id) != 16:
            raise Damaged("the hello has no boot id")
        self.run = Run(self.host or hello.hostname, hello.boot_id, hello.epoch, hello)
        self.catalog = None
        self.numbers = self._runs.pop((hello.boot_id, hello.epoch), None) or Numbers()
        self._runs[hello.boot_id, hello.epoch] = self.numbers
        if len(self._runs) > RUNS_MAX:
            del self._runs[next(iter(self._runs))]
        return [self.run]

    def _take_Catalog(self, message):
        self.catalog = read_catalog(message)
        return []

    def _take_SegmentHead(self, _):
        return []

    def _take_SegmentEnd(self, _):
        return []

    def _take_Error(self, error):
        if error.code != "ack-beyond":  # nothing was changed, and the stream goes on
            raise Refused(error)
        return []

    def _take_Subscribed(self, message):
        starts = _positions(message.start)
        if (message.since.boot_id, message.since.epoch) == (self.run.boot_id, self.run.epoch):
            starts.update(_positions(message.since))
        moved = False
        for cpu, seq in starts.items():
            if cpu not in self.numbers.next:
                self.numbers.next[cpu] = seq
                moved = True
        self._count(moved)
        return []

    # ---- The stream --------------------------------------------------------------------------------

    def _count(self, taken):
        self.ledger.frames += 1
        self.ledger.taken += taken
        self.ledger.duplicate += not taken

    def advance(self, cpu, first, end):
        """`first` to `end` - 1 are dealt with, as far as they are new. A list: with the hole before them, if there is one."""
        before = self.numbers.next.get(cpu, first)
        self.numbers.next[cpu] = end
        self.ledger.span += end - before
        if first <= before:
            return []
        self.ledger.holes += first - before
        return [Gap(self.run, cpu, before, first, "history", "history-gone", hole=True)]

    def _take_Batch(self, message):
        if self.catalog is None:
            raise Damaged("a batch comes before its catalog")
        batch = Batch(self.run, self.catalog, message)
        items = batch.items()
        cpu, begin = message.cpu, self.numbers.next.get(message.cpu, message.first_seq)
        if message.end_seq <= begin and message.end_seq > message.first_seq:
            self._count(False)
            return []
        self._count(True)
        out = self.advance(cpu, message.first_seq, max(begin, message.end_seq))
        for item in items:
            if isinstance(item, Event):
                if item.seq >= begin:
                    self.ledger.events += 1
                    out.append(item)
                continue
            lost = _count_from((item.seq, item.seq + item.count), begin)
            self.ledger.lost += lost
            if lost:
                out.append(item)
        self.ledger.skipped += sum(_count_from(span, begin) for span in batch.skipped)
        return out

    def _take_Gap(self, message):
        cpu, first, end = _cpu(message.cpu), message.first_seq, message.end_seq
        if end < first:
            raise Damaged("a gap ends before it begins")
        stage, reason = stage_name(message.stage), reason_name(message.reason)
        if first == end or message.reason == pb.REASON_OTHER_EPOCH:
            return self._unknown(Gap(self.run, cpu, first, end, stage, reason, message.events))
        begin = self.numbers.next.get(cpu, first)
        self._count(end > begin)
        if end <= begin:
            return []
        out = self.advance(cpu, first, end)
        first = max(first, begin)
        self.ledger.gaps += end - first
        return [*out, Gap(self.run, cpu, first, end, stage, reason, min(message.events, end - first))]

    def _unknown(self, gap):
        """It has no numbers of this run; it comes once at its place."""
        place = gap.first_seq, gap.end_seq, gap.reason
        is_new = self.numbers.unknown.get(gap.cpu) != place
        self.numbers.unknown[gap.cpu] = place
        self._count(is_new)
        self.ledger.unknown += is_new
        return [gap] if is_new else []

    def _take_Watermark(self, message):
        out, positions = [], _positions(message)
        moved = message.time_ns > self.numbers.watermark_ns
        self.numbers.watermark_ns = max(self.numbers.watermark_ns, message.time_ns)
        for each in message.position:
            begin = self.numbers.next.get(each.cpu)
            if begin is not None and each.seq <= begin:
                continue
            moved = True
            skipped = 0 if begin is None else min(each.skipped, each.seq - begin)
            self.ledger.skipped += skipped
            first = each.seq - skipped
            out += self.advance(each.cpu, first, each.seq)
        self._count(moved)
        return [*out, Watermark(self.run, message.time_ns, positions)] if moved else []

    def _take_Bye(self, message):
        end = End(self.run, message.reason, message.final, _positions(message.end),
                  message.dump if message.HasField("dump") else None)
        self._count(True)
        return [end]


def read(file, stream=None):
    """Each item of a recording. `stream`: a Stream, for its ledger, or to go on in a further file of the same host."""
    stream, at = stream or Stream(), 0
    for frame in frames(file):
        try:
            items = stream.take(frame)
        except Damaged as error:
            raise Damaged(f"frame at byte {at}: {error}") from None
        yield from items
        at += len(frame.data)
    if not stream.is_whole:
        raise CutShort("the file ends without the frame that ends it")
