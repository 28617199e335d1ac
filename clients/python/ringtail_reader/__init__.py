# SPDX-License-Identifier: BSD-2-Clause
"""ringtail_reader: what ringtaild records, as typed items.

In: frames, of a file (`read`) or of records in Kafka (`Fleet`). Out: Run, Event, Loss, Gap, Watermark and End, each once,
and a ledger. What is damaged raises Damaged.
"""
from .fleet import Fleet, Host
from .frame import CutShort, Damaged, Frame, Refused, frames
from .items import End, Event, Field, Gap, Loss, Probe, Run, Thread, Watermark
from .stream import Ledger, Stream, read

__all__ = ["read", "Stream", "Fleet", "Host", "Ledger", "frames", "Frame", "Run", "Event", "Loss", "Gap", "Watermark", "End",
           "Probe", "Field", "Thread", "Damaged", "CutShort", "Refused"]
