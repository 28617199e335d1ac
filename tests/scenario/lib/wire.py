"""wire: frames as proto/frame.h draws them, and a connection that may say anything at all."""
import ctypes
import os
import re
import socket
import struct
import subprocess
import time

from . import protobuf
from .process import PATIENCE_S, Late

MAGIC, VERSION, HEADER_BYTES = 0x7452, 1, 16
HEADER = struct.Struct("<HBBII")
RAW_BYTES_MAX = 1 << 20         # FRAME_RAW_BYTES_MAX
ZSTD = ctypes.CDLL("libzstd.so.1")
ZSTD.ZSTD_getFrameContentSize.restype = ctypes.c_uint64         # or the two largest: it is not told
ZSTD.ZSTD_decompress.restype = ctypes.c_size_t


def _read_types():
    path = os.path.join(protobuf.ROOT, "proto", "frame_types.def")
    with open(path) as file:
        rows = re.findall(r"^FRAME\((\w+),\s*(\d+),\s*(\w+)", file.read(), re.M)
    return {int(value): (name, message) for name, value, message in rows}


TYPES = _read_types()
TYPE_OF = {message: value for value, (_, message) in TYPES.items()}


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = _crc_table()


def crc32c(*parts):
    crc = 0xFFFFFFFF
    for part in parts:
        for byte in part:
            crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def seal(kind, body, raw_bytes=None, magic=MAGIC, version=VERSION, body_bytes=None, crc=None):
    """A frame; any field of the header may be a lie. `kind`: a message's name or a number."""
    head = HEADER.pack(magic, version, TYPE_OF.get(kind, kind),
                       len(body) if body_bytes is None else body_bytes,
                       len(body) if raw_bytes is None else raw_bytes)
    return head + struct.pack("<I", crc32c(head, body) if crc is None else crc) + body


def message(name, **values):
    """A frame that holds that message."""
    return seal(name, protobuf.encode(name, values))


def hello(**values):
    return message("ClientHello", **{"version_min": 1, "version_max": 1, "software": "scenario",
                                     **values})


def unzstd(data):
    """A zstd frame that says how long it is undone. Hundreds come at a time: no process for each."""
    size = ZSTD.ZSTD_getFrameContentSize(data, ctypes.c_size_t(len(data)))
    if size > RAW_BYTES_MAX:
        raise ValueError(f"no zstd frame, or none that says how long it is undone: {size:#x}")
    out = ctypes.create_string_buffer(size or 1)
    got = ZSTD.ZSTD_decompress(out, ctypes.c_size_t(size), data, ctypes.c_size_t(len(data)))
    if got != size:
        raise ValueError(f"bad zstd frame of {len(data)} bytes, undone {size}")
    return out.raw[:size]


def zstd(data):
    return subprocess.run(["zstd", "-cq", "-1", "--no-check"], input=data, stdout=subprocess.PIPE,
                          check=True).stdout


class Frame:
    """`name`: the message's; `raw`: its bytes; `values`: the message, decoded when asked for."""

    def __init__(self, data):
        magic, version, kind, body_bytes, raw_bytes = HEADER.unpack_from(data)
        if (magic, version) != (MAGIC, VERSION) or kind not in TYPES:
            raise ValueError(f"no frame: magic {magic:#x}, version {version}, type {kind}")
        self.bytes = data[:HEADER_BYTES + body_bytes]
        if len(self.bytes) != HEADER_BYTES + body_bytes:
            raise ValueError("frame is cut")
        self.name = TYPES[kind][1]
        self.compressed = body_bytes != raw_bytes
        self.raw_bytes = raw_bytes

    def check(self):
        crc, = struct.unpack_from("<I", self.bytes, 12)
        return crc == crc32c(self.bytes[:12], self.bytes[HEADER_BYTES:])

    @property
    def raw(self):
        body = self.bytes[HEADER_BYTES:]
        return unzstd(body) if self.compressed else body

    @property
    def values(self):
        return protobuf.decode(self.name, self.raw)


def cut(data):
    """The frames of a file's bytes."""
    frames = []
    while data:
        frames.append(Frame(data))
        data = data[len(frames[-1].bytes):]
    return frames


class Connection:
    """A client made by hand. `receive` buffer small: one that falls behind at once."""

    def __init__(self, address, receive_bytes=None):
        kind, rest = address.split(":", 1)
        unix = kind == "unix"
        self.socket = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(PATIENCE_S)
        host, _, port = rest.rpartition(":")
        self.socket.connect(rest if unix else (host, int(port)))
        self.unread = b""

    def send(self, data):
        self.socket.sendall(data)

    def frame(self, timeout=PATIENCE_S):
        """The next frame, or None when the daemon has closed the connection."""
        deadline = time.monotonic() + timeout
        while True:
            if len(self.unread) >= HEADER_BYTES:
                size = HEADER_BYTES + HEADER.unpack_from(self.unread)[3]
                if len(self.unread) >= size:
                    frame, self.unread = Frame(self.unread[:size]), self.unread[size:]
                    return frame
            self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = self.socket.recv(1 << 18)
            except ConnectionResetError:
                return None
            except TimeoutError:
                raise Late(f"no frame of the daemon's within {timeout:.0f} s") from None
            if not data:
                return None
            self.unread += data

    def frames(self, timeout=PATIENCE_S):
        """All frames up to the end of the connection."""
        deadline = time.monotonic() + timeout
        while (frame := self.frame(max(deadline - time.monotonic(), 0.001))):
            yield frame

    def await_frame(self, name, timeout=PATIENCE_S):
        for frame in self.frames(timeout):
            if frame.name == name:
                return frame
        raise EOFError(f"the daemon closed the connection before a {name}")

    def greet(self):
        self.send(hello())
        return self.await_frame("ServerHello").values

    def subscribe(self, probes, filter="", **values):
        self.send(message("Subscribe", probe=probes, filter=filter, **values))
        return self.await_frame("Subscribed").values

    def stat(self):
        self.send(message("StatRequest"))
        return self.await_frame("Stat").values

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
