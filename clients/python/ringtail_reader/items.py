# SPDX-License-Identifier: BSD-2-Clause
"""items: what a stream consists of, for whoever reads it. All of it is made of a frame's message, and never changed."""
from dataclasses import dataclass, field as member
from functools import cached_property

from . import ringtail_pb2 as pb

WORD = (1 << 64) - 1
NEVER = WORD                            # the duration of a call that never returns
STRING_BYTES_MAX = 128                  # a string of so many was cut


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: int                           # of ringtail_pb2.FieldType
    c_type: str
    bits: int                           # 8, 16, 32 or 64
    bytes: int                          # TEXT, BYTES: in its own word and those behind it; 0: they are attached
    is_signed: bool                     # an element of BYTES

    def value(self, word):
        """The word as the number that it means."""
        word &= (1 << self.bits) - 1
        if self.type in (pb.FIELD_SIGNED, pb.FIELD_FD, pb.FIELD_RESULT) and word >> (self.bits - 1):
            word -= 1 << self.bits
        return word


@dataclass(frozen=True)
class Probe:
    id: int
    spec: str                           # "syscall:openat:call"
    fields: tuple                       # of all words, duration and result among them
    print: str = ""                     # how the kernel would print it

    @cached_property
    def has_duration(self):
        return bool(self.fields) and self.fields[0].type == pb.FIELD_DURATION

    @cached_property
    def result(self):
        """Index of the result's field; None: there is none."""
        at = int(self.has_duration)
        return at if at < len(self.fields) and self.fields[at].type == pb.FIELD_RESULT else None

    @cached_property
    def args(self):
        """Indexes of the fields behind duration and result."""
        return range(self.has_duration + (self.result is not None), len(self.fields))


@dataclass(frozen=True, slots=True)
class Thread:
    tid: int
    pid: int
    comm: bytes
    uid: int
    ppid: int
    is_kernel: bool
    exe: bytes                          # empty: it is not known
    cgroup: bytes
    cgroup_id: int


@dataclass(frozen=True, slots=True)
class Run:
    """What follows is of this run of the rings: numbers of events belong to it."""
    host: str
    boot_id: bytes
    epoch: int
    hello: object                       # the ServerHello: kernel, software, source, ...

    def wall_ns(self, time_ns):
        return self.hello.realtime_ns + time_ns - self.hello.monotonic_ns


@dataclass(frozen=True)
class Event:
    run: Run
    cpu: int
    seq: int
    time_ns: int                        # when it ended
    probe: Probe
    thread: Thread
    words: tuple                        # one for each of the probe's fields
    attachments: tuple = ()             # (kind, index of the field, bytes or addresses)
    stands_for: int = 1                 # where events are counted: so many

    @property
    def host(self):
        return self.run.host

    @property
    def wall_ns(self):
        return self.run.wall_ns(self.time_ns)

    @property
    def returned(self):
        return not self.probe.has_duration or self.words[0] != NEVER

    @property
    def duration_ns(self):
        """None: it has none, or never returns."""
        return self.words[0] if self.probe.has_duration and self.returned else None

    @property
    def result(self):
        """None: it has none, or never returns. From -4095 to -1 it is minus an errno."""
        at = self.probe.result
        return self.probe.fields[at].value(self.words[at]) if at is not None and self.returned else None

    @cached_property
    def args(self):
        """By name: a number; bytes of a text; a tuple of an array; None of bytes that could not be read."""
        fields = self.probe.fields
        return {fields[at].name: self._arg(at) for at in self.probe.args if fields[at].type != pb.FIELD_MORE}

    def _arg(self, at):
        field = self.probe.fields[at]
        if field.type not in (pb.FIELD_TEXT, pb.FIELD_BYTES):
            return field.value(self.words[at])
        if field.bytes:
            data = b"".join(word.to_bytes(8, "little") for word in self.words[at:at + (field.bytes + 7) // 8])[:field.bytes]
        else:
            data = next((data for kind, of, data in self.attachments if kind == pb.ATTACH_STRING and of == at), None)
        if data is None or field.type == pb.FIELD_TEXT:
            return data if data is None else data.partition(b"\0")[0]
        step = field.bits // 8
        return tuple(int.from_bytes(data[i:i + step], "little", signed=field.is_signed)
                     for i in range(0, len(data) - step + 1, step))

    @cached_property
    def strings(self):
        """By the name of the field that it belongs to: what it points to, or stands for."""
        fields = self.probe.fields
        return {fields[at].name: data for kind, at, data in self.attachments if kind == pb.ATTACH_STRING and
                fields[at].type in (pb.FIELD_STRING, pb.FIELD_FD, pb.FIELD_RESULT, pb.FIELD_HEX)}

    @property
    def kernel_stack(self):
        """Return addresses, innermost first."""
        return next((frames for kind, _, frames in self.attachments if kind == pb.ATTACH_KSTACK), ())

    @property
    def user_stack(self):
        return next((frames for kind, _, frames in self.attachments if kind == pb.ATTACH_USTACK), ())


def stage_name(stage):
    """"ring", as tracectl has it."""
    name = pb.LossStage.Name(stage) if stage in pb.LossStage.values() else "LOSS_UNKNOWN"
    return name.removeprefix("LOSS_").lower().replace("_", "-")


def reason_name(reason):
    name = pb.LossReason.Name(reason) if reason in pb.LossReason.values() else "REASON_UNKNOWN"
    return name.removeprefix("REASON_").lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Loss:
    """Attempts seq .. seq + count - 1 became no event; in their place within a batch."""
    run: Run
    cpu: int
    seq: int
    count: int
    stage: str
    reason: str


@dataclass(frozen=True, slots=True)
class Gap:
    """Attempts first_seq .. end_seq - 1 are missing; if these are equal, nobody knows how many are."""
    run: Run                            # of a run that nothing decodes: the one before; None: there was none
    cpu: int
    first_seq: int
    end_seq: int
    stage: str
    reason: str
    events: int = 0                     # of these, how many were or may have been events; 0: nobody knows
    hole: bool = False                  # no frame told of it: this reader found it missing


@dataclass(frozen=True, slots=True)
class Watermark:
    """No event that is older than time_ns will come from any CPU."""
    run: Run
    time_ns: int
    positions: dict = member(default_factory=dict)      # by CPU: every attempt before it has been dealt with


@dataclass(frozen=True, slots=True)
class End:
    run: Run
    reason: str
    final: bool
    positions: dict
    dump: object = None                 # of a dump's file: what it is
