# SPDX-License-Identifier: BSD-2-Clause
"""fleet: records of PREFIX.runs and PREFIX.frames, as items. docs/fleet.md, "Records". Kafka's client is the caller's.

The ledger of each host closes: records = taken + duplicate + damaged; and that of its stream (stream.Ledger)."""
from dataclasses import dataclass

from .batch import CPUS_MAX
from .frame import Damaged, open_frame, split
from .items import Gap
from .stream import Ledger, Stream

SCHEMA = b"ringtail.v1"
TYPES = {b"subscribed": "Subscribed", b"batch": "Batch", b"gap": "Gap", b"watermark": "Watermark", b"bye": "Bye"}


@dataclass
class Label:
    """What the headers say."""
    type: str
    run: bytes
    catalog: bytes
    cpu: int
    first: int
    end: int


def read_label(headers):
    """None: the record is none of ours."""
    of = dict(headers or ())
    try:
        if of["schema"] != SCHEMA:
            return None
        numbers = [int(of.get(name, b"0")) for name in ("cpu", "first", "end")]
        if min(numbers) < 0:
            return None
        return Label(TYPES[of["type"]], of["run"], of["catalog"], *numbers)
    except (KeyError, ValueError, TypeError):
        return None


class Host:
    def __init__(self, name):
        self.name = name
        self.stream = Stream(name)
        self.entered = None             # the run and catalog that the stream is in
        self.lost_run = None            # the last one that nothing decodes: it is told once
        self.records = self.duplicate = self.damaged = self.taken = 0

    @property
    def ledger(self) -> Ledger:
        return self.stream.ledger

    @property
    def residual(self):
        return self.records - self.taken - self.duplicate - self.damaged


class Fleet:
    def __init__(self):
        self.hosts = {}
        self.other = 0                  # records of somebody else
        self._runs = {}
        self._values = {}               # hosts with the same kernel and probes have the same catalog: it is kept once

    def learn(self, key, value):
        """A record of PREFIX.runs; without a value, it is deleted."""
        if value is None:
            self._runs.pop(key, None)
            return
        parts = list(split(value))
        if len(parts) != 2:
            raise Damaged(f"a run's record has {len(parts)} frames")
        self._runs[key] = parts[0], self._values.setdefault(parts[1], parts[1])

    def take(self, key, value, headers):
        """A list of the items that a record of PREFIX.frames makes."""
        label = read_label(headers)
        name = (key or b"").decode("utf-8", "replace")
        if label is None or not name:
            self.other += 1
            return []
        host = self.hosts.setdefault(name, Host(name))
        host.records += 1
        duplicates = host.ledger.duplicate
        out = []
        try:
            out += self._enter(host, key, label)
            frame = open_frame(value or b"")
            self._check(frame, label)
            out += host.stream.take(frame)
        except Damaged:
            host.damaged += 1
            return out + self._lose(host, label)
        again = host.ledger.duplicate - duplicates
        host.duplicate += again
        host.taken += 1 - again
        return out

    def _enter(self, host, key, label):
        if host.entered == (label.run, label.catalog):
            return []
        frames = self._runs.get(b"\0".join((key, label.run, label.catalog)))
        if frames is None:
            raise Damaged("PREFIX.runs does not have its run")
        opened = [open_frame(frame) for frame in frames]
        if [frame.type for frame in opened] != ["ServerHello", "Catalog"]:
            raise Damaged("the run's record is no hello and no catalog")
        out = [item for frame in opened for item in host.stream.take(frame)]
        host.entered = label.run, label.catalog
        return out

    @staticmethod
    def _check(frame, label):
        if frame.type != label.type:
            raise Damaged(f"it is called {label.type}, and is a {frame.type}")
        if frame.type in ("Batch", "Gap") and \
                (frame.message.cpu, frame.message.first_seq, frame.message.end_seq) != (label.cpu, label.first, label.end):
            raise Damaged("its headers have other numbers")

    @staticmethod
    def _lose(host, label):
        """Its headers tell what is missing, if its run is known. Of a run that is not, nothing is: a gap of no size."""
        stream = host.stream
        if host.entered is None or host.entered[0] != label.run:
            is_new, host.lost_run = host.lost_run != label.run, label.run
            stream.ledger.unknown += is_new
            return [Gap(stream.run, label.cpu, label.first, label.first, "history", "corrupt", hole=True)] if is_new else []
        begin = max(label.first, stream.numbers.next.get(label.cpu, label.first))
        if label.end <= begin or label.cpu >= CPUS_MAX:
            return []
        out = stream.advance(label.cpu, label.first, label.end)
        stream.ledger.holes += label.end - begin
        return [*out, Gap(stream.run, label.cpu, begin, label.end, "history", "corrupt", hole=True)]
