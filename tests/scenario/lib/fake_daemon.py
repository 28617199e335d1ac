"""fake_daemon: one that says what a test wants, and the frames to say it with."""
import ctypes
import os
import socket
import threading

from . import protobuf, wire

BOOT_ID = bytes(range(16))
PROBE = 7               # in catalog(): tracepoint:fake:seen, with a thread and a string
HELLO = {"version": 1, "software": "ringtaild fake", "hostname": "here", "kernel": "6.1",
         "machine": "x86_64", "source": "replay", "boot_id": BOOT_ID, "epoch": 1,
         "realtime_ns": 10**18, "cpus": 2, "role": "viewer"}


class FakeDaemon:
    """Answers each frame with what `answers` has for it: bytes, or None to close. A message that it has
    not gets nothing."""

    def __init__(self, case, answers):
        self.answers = {"ClientHello": hello(), **answers}
        self.path = case.path(f"fake-{id(self):x}")
        self.address = f"unix:{self.path}"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        data = b""
        with connection:
            try:
                while (part := connection.recv(1 << 16)):
                    data += part
                    while len(data) >= wire.HEADER_BYTES:
                        frame = wire.Frame(data)
                        data = data[len(frame.bytes):]
                        answer = self.answers.get(frame.name, b"")
                        if answer is None:
                            return
                        connection.sendall(answer)
            except (OSError, ValueError):
                return

    def stop(self):
        self.listener.close()
        os.unlink(self.path)


# ---- Frames

wire.ZSTD.ZSTD_compress.restype = wire.ZSTD.ZSTD_compressBound.restype = ctypes.c_size_t

def compressed(kind, raw):
    """A frame as small as its body becomes."""
    out = ctypes.create_string_buffer(wire.ZSTD.ZSTD_compressBound(ctypes.c_size_t(len(raw))))
    size = wire.ZSTD.ZSTD_compress(out, ctypes.c_size_t(len(out)), raw, ctypes.c_size_t(len(raw)), 1)
    body = out.raw[:size]
    return wire.seal(kind, body if len(body) < len(raw) else raw, raw_bytes=len(raw))


def hello(**values):
    return wire.message("ServerHello", **{**HELLO, **values})


def catalog():
    return wire.message("Catalog", probe=[{
        "id": PROBE, "provider": "tracepoint", "function": "fake", "name": "seen",
        "field": [{"name": "tid", "type": 6, "c_type": "int", "bits": 32},
                  {"name": "name", "type": 7, "c_type": "char *", "bits": 64}]}])


def subscribed(cpus=1):
    return wire.message("Subscribed", start={"boot_id": BOOT_ID, "epoch": 1,
                                             "position": [{"cpu": cpu} for cpu in range(cpus)]},
                        probes=1)


def packed(number, values):
    body = b"".join(map(protobuf.put_varint, values))
    return protobuf.put_varint(number << 3 | 2) + protobuf.put_varint(len(body)) + body


def batch(cpu, first_seq, time_ns, events):
    """The Batch of some events of PROBE, one a nanosecond; events: (comm, attached text)."""
    n = len(events)
    raw = protobuf.encode("Batch", {
        "cpu": cpu, "first_seq": first_seq, "end_seq": first_seq + n, "time_ns": time_ns, "events": n,
        "thread": [{"tid": 100 + i, "pid": 100 + i, "comm": comm} for i, (comm, _) in
                   enumerate(events)]})
    raw += packed(7, [PROBE]) + packed(9, [0] * n) + packed(10, range(n)) + packed(11, [3] * n)
    raw += packed(12, [value for i in range(n) for value in (2 * (100 + i), 2 * 4096)])
    raw += packed(13, [0] * n) + packed(16, [1] * n)
    return raw + protobuf.encode("Batch", {"attachment": [
        {"event": i, "kind": 1, "arg": 1, "text": text} for i, (_, text) in enumerate(events)]})


def stream(frames, bye="the end"):
    """What answers a Subscribe, to its end."""
    return catalog() + subscribed() + frames + wire.message("Bye", reason=bye, final=True)
