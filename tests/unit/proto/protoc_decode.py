#!/usr/bin/env python3
"""Undoes the columns of a Batch from what `protoc --decode` prints, as docs/protocol.md tells it.

    protoc_decode.py MESSAGE PROBES

MESSAGE is a file with one Batch message, PROBES one line for each probe: id, number of fields, and
1 if the first of them is a duration. Prints a line for each loss and event, in the order of the ring.
It shares nothing with the C decoder, so that the two can be held against each other.
"""
import re
import shutil
import subprocess
import sys

U64 = (1 << 64) - 1
COLUMNS = {"event_probe", "event_thread", "changed", "value", "time_high", "gap_more", "gap_low",
           "span_low", "event_skipped"}
REPEATED = COLUMNS | {"thread", "probe", "loss", "attachment", "frame"}
STAGES = ["LOSS_RING", "LOSS_DECODE", "LOSS_QUEUE", "LOSS_HISTORY"]
REASONS = ["REASON_UNKNOWN", "REASON_RING_FULL", "REASON_NEST", "REASON_STOPPED", "REASON_BUSY"]


def parse(lines):
    """Text format to dicts; what is repeated becomes a list."""
    message = {}
    for line in lines:
        line = line.strip()
        if line == "}":
            break
        if line.endswith("{"):
            name, value = line[:-1].strip(), parse(lines)
        else:
            name, value = line.split(": ", 1)
            if re.fullmatch(r"-?\d+", value):
                value = int(value)
        if name in REPEATED:
            message.setdefault(name, []).append(value)
        else:
            message[name] = value
    return message


class Undo:
    """Walks the columns side by side."""

    def __init__(self, batch, probes):
        self.batch, self.probes = batch, probes
        self.column = {name: iter(batch.get(name, [])) for name in COLUMNS}
        self.seq = batch.get("first_seq", 0)
        self.time_ns = batch.get("time_ns", 0)
        self.thread_end_ns = {}
        self.last = {}

    def take(self, name):
        return next(self.column[name])

    def time(self, thread, has_duration):
        """The event's time, and its duration if it has one."""
        high, from_ns, start = self.take("time_high"), self.time_ns, 0
        if has_duration:
            gap = high & 7
            if gap == 7:
                gap += self.take("gap_more")
            gap = gap << 7 | self.take("gap_low")
            start = (self.thread_end_ns.get(thread, self.batch.get("time_ns", 0)) + gap) & U64
            from_ns = max(from_ns, start)
        self.time_ns = (from_ns + (high >> 3 << 7 | self.take("span_low"))) & U64
        if has_duration:
            self.thread_end_ns[thread] = self.time_ns
        return self.time_ns, (self.time_ns - start) & U64

    def event(self):
        index, thread = self.take("event_probe"), self.take("event_thread")
        probe = self.batch["probe"][index]
        fields, has_duration = self.probes[probe]
        if "event_skipped" in self.batch:
            self.seq += self.take("event_skipped")
        time_ns, duration = self.time(thread, has_duration)
        last = self.last.setdefault((thread, index), [0] * (fields - has_duration))
        changed = self.take("changed")
        for i in range(len(last)):
            if changed >> i & 1:
                last[i] = (last[i] + self.take("value")) & U64
        tid = self.batch["thread"][thread].get("tid", 0)
        values = [duration] * has_duration + last
        print("event", self.seq, probe, tid, time_ns, *values)
        self.seq += 1

    def loss(self, loss):
        self.seq += loss.get("skipped", 0)
        stage = STAGES.index(loss.get("stage", STAGES[0]))
        reason = REASONS.index(loss.get("reason", REASONS[0]))
        print("loss", self.seq, loss["count"], stage, reason)
        self.seq += loss["count"]

    def run(self):
        losses = self.batch.get("loss", [])
        for i in range(self.batch.get("events", 0) + 1):
            while losses and losses[0].get("before", 0) == i:
                self.loss(losses.pop(0))
            if i < self.batch.get("events", 0):
                self.event()
        for name in COLUMNS:
            if next(self.column[name], None) is not None:
                sys.exit(f"column {name} goes on")
        print("end", self.batch.get("end_seq", 0))


def main():
    if not shutil.which("protoc"):
        print("skipped: no protoc here", file=sys.stderr)
        sys.exit(77)
    probes = {}
    for line in open(sys.argv[2], encoding="ascii"):
        probe, fields, has_duration = map(int, line.split())
        probes[probe] = fields, has_duration
    with open(sys.argv[1], "rb") as message:
        command = ["protoc", "-I.", "--decode=ringtail.v1.Batch", "proto/ringtail.proto"]
        text = subprocess.check_output(command, stdin=message, timeout=60).decode("utf-8")
    Undo(parse(iter(text.splitlines())), probes).run()


main()
