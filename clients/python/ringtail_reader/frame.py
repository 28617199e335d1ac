# SPDX-License-Identifier: BSD-2-Clause
"""frame: the 16 bytes before each message, its checksum and its compression. docs/protocol.md, "A frame"."""
import struct
from typing import NamedTuple

import zstandard
from google.protobuf.message import DecodeError

from . import ringtail_pb2

HEADER = struct.Struct("<HBBIII")
MAGIC, VERSION = 0x7452, 1
BYTES_MAX = 1 << 20                     # of a message, compressed or not
# Those that belong into a stream; of the others a reader knows that they do not.
TYPES = {2: "ServerHello", 3: "Error", 4: "Catalog", 7: "Subscribed", 8: "Batch", 9: "Watermark", 10: "Gap", 11: "Bye",
         19: "SegmentHead", 20: "SegmentEnd"}
REQUESTS = {1, 5, 6, 12, 13, 14, 15, 16, 17, 18, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30}


class Damaged(ValueError):
    """What came is no frame, or tells what cannot be."""


class CutShort(Damaged):
    """The file ends amid a frame, or without the frame that ends it."""


class Refused(Exception):
    """The daemon sent an Error: `code`, what happened, and what to do."""

    def __init__(self, error):
        super().__init__(f"[{error.code}] {error.what}: {error.hint}")
        self.code = error.code


class Frame(NamedTuple):
    type: str
    message: object                     # of ringtail_pb2; None: a type that is not known here, to be passed over
    data: bytes                         # all of it, with its header


def _table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


_CRC = tuple(_table())


def crc32c(data):
    crc, table = 0xFFFFFFFF, _CRC
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _expand(body, raw_bytes):
    """The size is looked at before anything is allocated."""
    try:
        if zstandard.get_frame_parameters(body).content_size != raw_bytes:
            raise Damaged("the compressed message announces another size than its frame")
        raw = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompress(body)
    except zstandard.ZstdError as error:
        raise Damaged(f"the message cannot be decompressed: {error}") from None
    if len(raw) != raw_bytes:
        raise Damaged("the compressed message has another size than it announces")
    return raw


def unpack(name, raw):
    message = getattr(ringtail_pb2, name)()
    try:
        if message.ParseFromString(raw) != len(raw):
            raise Damaged(f"the body is no {name}: it ends before its frame does")
    except DecodeError as error:
        raise Damaged(f"the body is no {name}: {error}") from None
    return message


def _header(data):
    magic, version, kind, body_bytes, raw_bytes, crc = HEADER.unpack(data)
    if magic != MAGIC or version != VERSION:
        raise Damaged("no frame of this protocol begins here")
    if body_bytes > raw_bytes or raw_bytes > BYTES_MAX:
        raise Damaged(f"it announces {body_bytes} bytes for a message of {raw_bytes}: at most {BYTES_MAX} are allowed")
    return kind, body_bytes, raw_bytes, crc


def open_frame(data):
    """The Frame that all of these bytes are."""
    if len(data) < HEADER.size:
        raise Damaged(f"{len(data)} bytes are no frame")
    kind, body_bytes, raw_bytes, crc = _header(data[:HEADER.size])
    body = data[HEADER.size:]
    if len(body) != body_bytes:
        raise Damaged(f"its message has {len(body)} bytes, and {body_bytes} are announced")
    if crc32c(data[:12] + body) != crc:
        raise Damaged("its checksum is wrong")
    if kind in REQUESTS:
        raise Damaged(f"a frame of type {kind} has no place in a stream")
    if kind not in TYPES:
        return Frame("", None, data)
    raw = body if body_bytes == raw_bytes else _expand(body, raw_bytes)
    return Frame(TYPES[kind], unpack(TYPES[kind], raw), data)


def split(data):
    """The frames' bytes, one after the other: of a record that has several."""
    at = 0
    while at < len(data):
        if len(data) - at < HEADER.size:
            raise Damaged(f"{len(data) - at} bytes at byte {at} are no frame")
        end = at + HEADER.size + _header(data[at:at + HEADER.size])[1]
        yield data[at:end]
        at = end


def frames(file):
    """Each Frame of an open binary file."""
    at = 0
    while True:
        head = file.read(HEADER.size)
        if not head:
            return
        try:
            if len(head) < HEADER.size:
                raise CutShort("the file ends amid a frame")
            _, body_bytes, _, _ = _header(head)
            body = file.read(body_bytes)
            if len(body) < body_bytes:
                raise CutShort("the file ends amid a frame")
            frame = open_frame(head + body)
        except Damaged as error:
            raise type(error)(f"frame at byte {at}: {error}") from None
        yield frame
        at += len(frame.data)
