# SPDX-License-Identifier: BSD-2-Clause
"""batch: the columns of a Batch, undone. docs/protocol.md, "A batch". A column that is too short or too long, an index that
points nowhere, numbers that do not add up, and entries out of order are Damaged."""
from . import ringtail_pb2 as pb
from .frame import Damaged
from .items import WORD, Event, Field, Loss, Probe, Thread, reason_name, stage_name

CPUS_MAX = 1024
FIELDS_MAX, PROBES_MAX = 24, 8192
EVENTS_MAX = 8192
FULL_WIDTH = (pb.FIELD_RESULT, pb.FIELD_DURATION, pb.FIELD_STRING)


def _field(message):
    bits = message.bits if message.bits in (8, 16, 32) else 64
    if message.type in FULL_WIDTH:
        bits = 64
    elif message.type == pb.FIELD_FD:
        bits = 32
    return Field(message.name, message.type, message.c_type, bits, message.bytes, message.element_signed)


def _check_words(probe):
    """What lies in several words has them."""
    for at, field in enumerate(probe.fields):
        if field.type in (pb.FIELD_TEXT, pb.FIELD_BYTES) and field.bytes > 8 * (len(probe.fields) - at):
            raise Damaged(f"the field {field.name} of {probe.spec} is longer than its words")


def read_catalog(message):
    """Probes by their ids."""
    if len(message.probe) > PROBES_MAX:
        raise Damaged(f"the catalog has {len(message.probe)} probes")
    probes = {}
    for each in message.probe:
        if len(each.field) > FIELDS_MAX or each.id in probes:
            raise Damaged(f"probe {each.id} of the catalog is there twice, or has {len(each.field)} fields")
        spec = f"{each.provider}:{each.function}:{each.name}"
        probes[each.id] = Probe(each.id, spec, tuple(map(_field, each.field)), each.print)
        _check_words(probes[each.id])
    return probes


def _text(batch, index):
    if index > len(batch.text):
        raise Damaged(f"a thread names text {index} of {len(batch.text)}")
    return batch.text[index - 1] if index else b""


def _threads(batch):
    return [Thread(each.tid, each.pid, each.comm, each.uid, each.ppid, each.kernel, _text(batch, each.exe),
                   _text(batch, each.cgroup), each.cgroup_id) for each in batch.thread]


def _stacks(batch):
    for stack in batch.stack:
        address, frames = 0, []
        for difference in stack.frame:
            address = (address + difference) & WORD
            frames.append(address)
        yield tuple(frames)


def _attachments(batch):
    """Of each event that has any, in the order of events."""
    stacks, by_event, last = list(_stacks(batch)), {}, 0
    for each in batch.attachment:
        if not last <= each.event < batch.events or each.stack > len(stacks):
            raise Damaged("an attachment is out of order, or of an event or a stack that the batch does not have")
        last = each.event
        data = each.text
        if each.kind in (pb.ATTACH_KSTACK, pb.ATTACH_USTACK):
            data = stacks[each.stack - 1] if each.stack else tuple(each.frame)
        by_event.setdefault(each.event, []).append((each.kind, each.arg, data))
    return by_event


def _check(batch):
    """Columns of one entry for each event have them."""
    if batch.cpu >= CPUS_MAX or batch.end_seq < batch.first_seq or batch.events > EVENTS_MAX:
        raise Damaged("the batch's CPU, span or number of events is out of range")
    columns = [batch.event_probe, batch.event_thread, batch.changed, batch.time_high, batch.span_low]
    if batch.event_skipped:
        columns.append(batch.event_skipped)
    if batch.HasField("counts"):
        columns.append(batch.counts.events)
    if any(len(column) != batch.events for column in columns):
        raise Damaged("a column of the batch has another length than its events")


class Batch:
    """Walks the columns side by side. `skipped`: spans of numbers that are neither events nor losses."""

    def __init__(self, run, catalog, message):
        _check(message)
        self.run, self.message = run, message
        self.threads = _threads(message)
        self.probes = []
        for probe in message.probe:
            if probe not in catalog:
                raise Damaged(f"the batch names probe {probe}, which the catalog does not have")
            self.probes.append(catalog[probe])
        self.attached = _attachments(message)
        self.skipped = []
        self.seq = message.first_seq

    def _skip(self, count):
        if count:
            self.skipped.append((self.seq, self.seq + count))
            self.seq += count

    def _loss(self, loss):
        self._skip(loss.skipped)
        item = Loss(self.run, self.message.cpu, self.seq, loss.count, stage_name(loss.stage), reason_name(loss.reason))
        self.seq += loss.count
        return item

    def items(self):
        """Each event and loss, in the order of their numbers: all of them are sound, or none is given out."""
        try:
            found = list(self._walk())
        except IndexError:
            raise Damaged("an event names a thread or a probe that the batch does not have") from None
        return found

    def _walk(self):
        message = self.message
        values, more, low = iter(message.value), iter(message.gap_more), iter(message.gap_low)
        begin = time_ns = message.time_ns
        ends, lasts = {}, {}
        losses, next_loss = list(message.loss), 0
        skipped, counts = list(message.event_skipped), list(message.counts.events)
        rows = zip(message.event_probe, message.event_thread, message.changed, message.time_high, message.span_low)
        for i, (index, of, changed, high, span) in enumerate(rows):
            while next_loss < len(losses) and losses[next_loss].before == i:
                yield self._loss(losses[next_loss])
                next_loss += 1
            if skipped:
                self._skip(skipped[i])
            probe, thread = self.probes[index], self.threads[of]
            has_duration, start, origin = probe.has_duration, 0, time_ns
            if has_duration:
                gap = high & 7
                if gap == 7:
                    gap += _next(more)
                start = (ends.get(of, begin) + gap * 128 + _next(low)) & WORD
                origin = max(origin, start)
            time_ns = (origin + (high >> 3) * 128 + span) & WORD
            if has_duration:
                ends[of] = time_ns
            words = lasts.get((index, of))
            if words is None:
                words = lasts[index, of] = [0] * (len(probe.fields) - has_duration)
            if changed >> len(words):
                raise Damaged(f"an event changes a field that {probe.spec} does not have")
            at = 0
            while changed:
                if changed & 1:
                    words[at] = (words[at] + _next(values)) & WORD
                changed >>= 1
                at += 1
            attached = self._attached(i, probe)
            all_words = ((time_ns - start) & WORD, *words) if has_duration else tuple(words)
            yield Event(self.run, message.cpu, self.seq, time_ns, probe, thread, all_words, attached,
                        counts[i] if counts else 1)
            self.seq += 1
        while next_loss < len(losses) and losses[next_loss].before == message.events:
            yield self._loss(losses[next_loss])
            next_loss += 1
        if next_loss < len(losses) or any(next(column, None) is not None for column in (values, more, low)):
            raise Damaged("a column of the batch is too long, or a loss is out of order")
        if self.seq > message.end_seq:
            raise Damaged("the numbers of the batch do not add up")
        self._skip(message.end_seq - self.seq)

    def _attached(self, i, probe):
        attached = tuple(self.attached.get(i, ()))
        for kind, arg, _ in attached:
            if kind == pb.ATTACH_STRING and arg >= len(probe.fields):
                raise Damaged(f"a string belongs to field {arg} of {probe.spec}")
        return attached


def _next(column):
    value = next(column, None)
    if value is None:
        raise Damaged("a column of the batch is too short")
    return value
