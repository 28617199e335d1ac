#!/usr/bin/env python3
"""A second decoder, made of what `make install` leaves and of docs/protocol.md alone: ringtail.proto by
`protoc --decode`, the table of frames in the installed protocol.md, the installed recording. It reads the
same events as `tracectl read -o json`, field by field.
"""
import codecs
import ctypes
import errno
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
BUILD = os.path.join(ROOT, os.environ.get("RINGTAIL_BUILD", "build"))
U64 = (1 << 64) - 1
NEVER = U64
STRING_BYTES_MAX = 128
SAME_ERRNO = {"ENOTSUP": "EOPNOTSUPP", "EWOULDBLOCK": "EAGAIN", "EDEADLOCK": "EDEADLK"}
failed = 0


def check(name, wrong):
    global failed
    print(f"{'not ok' if wrong else 'ok'} {name}")
    if wrong:
        print(f"    {wrong}")
    failed += bool(wrong)


# ---- Frames ---------------------------------------------------------------------------------------

def crc32c(data):
    crc = U64 & 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def crc_of(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


CRC = [crc_of(byte) for byte in range(256)]


def unzstd(data, raw_bytes):
    zstd = ctypes.CDLL("libzstd.so.1")
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(raw_bytes)
    got = zstd.ZSTD_decompress(out, ctypes.c_size_t(raw_bytes), data, ctypes.c_size_t(len(data)))
    if got != raw_bytes:
        raise ValueError(f"{raw_bytes} bytes are announced, and {got} came")
    return out.raw


def frames(data, types):
    """(name of the message, its bytes) of each."""
    at = 0
    while at < len(data):
        magic, version, kind, body_bytes, raw_bytes, crc = struct.unpack_from("<HBBIII", data, at)
        body = data[at + 16:at + 16 + body_bytes]
        if (magic, version) != (0x7452, 1) or crc != crc32c(data[at:at + 12] + body):
            raise ValueError(f"no frame at byte {at}")
        at += 16 + body_bytes
        if kind in types:
            yield types[kind], body if body_bytes == raw_bytes else unzstd(body, raw_bytes)


def frame_types(page):
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (client|daemon|both) \|$", page, re.M)
    return {int(number): message for number, message, _ in rows}


# ---- Messages, as protoc prints them --------------------------------------------------------------

def parse(lines):
    """Text format to dictionaries; every field is a list."""
    message = {}
    for line in lines:
        line = line.strip()
        if line == "}":
            break
        if line.endswith("{"):
            name, value = line[:-1].strip(), parse(lines)
        else:
            name, value = line.split(": ", 1)
            if value[0] == '"':
                value = codecs.escape_decode(value[1:-1].encode())[0]
            elif re.fullmatch(r"-?\d+", value):
                value = int(value)
        message.setdefault(name, []).append(value)
    return message


def decode(proto, name, raw):
    text = subprocess.run(["protoc", f"-I{os.path.dirname(proto)}", f"--decode=ringtail.v1.{name}",
                           proto], input=raw, stdout=subprocess.PIPE, check=True, timeout=60).stdout
    return parse(iter(text.decode().splitlines()))


def one(message, name, default=0):
    return message.get(name, [default])[0]


# ---- A batch --------------------------------------------------------------------------------------

def events(batch, catalog):
    """(probe, seq, time, thread, values, attachments) of each event."""
    columns = {name: iter(batch.get(name, [])) for name in ("value", "gap_more", "gap_low")}
    skipped, losses = batch.get("event_skipped"), batch.get("loss", [])
    begin = time_ns = one(batch, "time_ns")
    seq, ends, last = one(batch, "first_seq"), {}, {}
    for i in range(one(batch, "events")):
        while losses and one(losses[0], "before") == i:
            loss = losses.pop(0)
            seq += one(loss, "skipped") + one(loss, "count")
        seq += skipped[i] if skipped else 0
        index, thread = batch["event_probe"][i], batch["event_thread"][i]
        probe = catalog[batch["probe"][index]]
        fields = probe.get("field", [])
        timed = bool(fields) and one(fields[0], "type") == "FIELD_DURATION"
        high, span_low = batch["time_high"][i], batch["span_low"][i]
        start, origin = 0, time_ns
        if timed:
            gap = high & 7
            gap += next(columns["gap_more"]) if gap == 7 else 0
            start = (ends.get(thread, begin) + gap * 128 + next(columns["gap_low"])) & U64
            origin = max(origin, start)
        time_ns = (origin + (high >> 3) * 128 + span_low) & U64
        if timed:
            ends[thread] = time_ns
        words = last.setdefault((index, thread), [0] * (len(fields) - timed))
        for bit in range(len(words)):
            if batch["changed"][i] >> bit & 1:
                words[bit] = (words[bit] + next(columns["value"])) & U64
        values = [(time_ns - start) & U64] * timed + words
        attached = [each for each in batch.get("attachment", []) if one(each, "event") == i]
        yield probe, seq, time_ns, batch["thread"][thread], values, attached
        seq += 1


def meaning(field, word):
    kind, bits = one(field, "type", "FIELD_UNSIGNED"), one(field, "bits")
    bits = bits if bits in (8, 16, 32) else 64
    bits = 32 if kind == "FIELD_FD" else bits
    if kind in ("FIELD_RESULT", "FIELD_DURATION", "FIELD_STRING"):
        bits = 64
    word &= (1 << bits) - 1
    if kind in ("FIELD_SIGNED", "FIELD_FD", "FIELD_RESULT") and word >> (bits - 1):
        word -= 1 << bits
    return word


# ---- As tracectl's manual says that JSON is --------------------------------------------------------

def text(data):
    return data.decode("utf-8", "replace")


def shown(field, word):
    kind = one(field, "type", "FIELD_UNSIGNED")
    return f"{meaning(field, word):#x}" if kind in ("FIELD_HEX", "FIELD_STRING") else meaning(field, word)


def json_of(cpu, clock_ns, event):
    probe, seq, time_ns, thread, values, attached = event
    fields, said = probe.get("field", []), {}
    wall_ns = clock_ns + time_ns
    said["time"], said["cpu"], said["seq"] = time_ns, cpu, seq
    said["wall"] = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(wall_ns // 10**9)) + \
        f".{wall_ns % 10**9:09}Z"
    said["probe"] = ":".join(text(one(probe, part)) for part in ("provider", "function", "name"))
    said["pid"], said["tid"] = one(thread, "pid"), one(thread, "tid")
    said["comm"] = text(one(thread, "comm", b""))
    args = list(zip(fields, values))
    returns = True
    if args and one(args[0][0], "type") == "FIELD_DURATION":
        returns = values[0] != NEVER
        if returns:
            said["duration"] = values[0]
        args.pop(0)
    if args and one(args[0][0], "type") == "FIELD_RESULT":
        ret = meaning(*args.pop(0))
        if returns:
            said["ret"] = ret
        if returns and -4095 <= ret < 0:
            said["error"] = SAME_ERRNO.get(errno.errorcode[-ret], errno.errorcode[-ret])
    said["args"] = {text(one(field, "name")): shown(field, word) for field, word in args}
    for string in attached:
        name = text(one(fields[one(string, "arg")], "name"))
        said.setdefault("strings", {})[name] = text(one(string, "text", b""))
        if len(one(string, "text", b"")) == STRING_BYTES_MAX:
            said.setdefault("strings_cut", []).append(name)
    return said


def read(path, proto, types):
    """The recording, as JSON would have it."""
    with open(path, "rb") as file:
        for name, raw in frames(file.read(), types):
            if name == "ServerHello":
                hello = decode(proto, name, raw)
                clock_ns = one(hello, "realtime_ns") - one(hello, "monotonic_ns")
            elif name == "Catalog":
                catalog = {one(probe, "id"): probe for probe in decode(proto, name, raw)["probe"]}
            elif name == "Batch":
                batch = decode(proto, name, raw)
                for event in events(batch, catalog):
                    yield json_of(one(batch, "cpu"), clock_ns, event)


def by_place(listed):
    return sorted(listed, key=lambda event: (event["cpu"], event["seq"]))


def main():
    if not shutil.which("protoc"):
        print("skipped: no protoc here")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as root:
        done = subprocess.run(["make", "-C", ROOT, "install", "-o", "all", f"BUILD={BUILD}",
                               f"DESTDIR={root}", "PREFIX=/usr"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        check("installs", done.stdout if done.returncode else "")
        share = f"{root}/usr/share"
        with open(f"{share}/doc/ringtail/protocol.md") as file:
            page = file.read()
        types = frame_types(page)
        with open(f"{share}/ringtail/frame_types.def") as file:
            rows = re.findall(r"^FRAME\(\w+,\s*(\d+),\s*(\w+)", file.read(), re.M)
        check("protocol.md has the table of frames as it is",
              "" if types == {int(number): message for number, message in rows} else f"{types}")
        capture = f"{share}/doc/ringtail/capture.rt"
        mine = by_place(read(capture, f"{share}/ringtail/ringtail.proto", types))
        said = subprocess.run([f"{BUILD}/tracectl", "read", capture, "-o", "json"], check=True,
                              stdout=subprocess.PIPE).stdout.decode("utf-8")
        theirs = by_place(event for event in map(json.loads, said.splitlines()) if "seq" in event)
        wrong = next((f"{a} is not {b}" for a, b in zip(mine, theirs) if a != b), "")
        if len(mine) != len(theirs) or not mine:
            wrong = f"{len(mine)} events, and tracectl reads {len(theirs)}"
        check(f"reads {len(theirs)} events as tracectl does", wrong)
        negative = any(value < 0 for event in theirs for value in event["args"].values()
                       if isinstance(value, int))
        never = any("syscall:exit" in event["probe"] and "ret" not in event for event in theirs)
        keys = {key for event in theirs for key in event}
        check("among them negative numbers, calls that never return, errors and strings",
              "" if negative and never and {"error", "strings"} <= keys else
              f"negative: {negative}, never returns: {never}, {keys}")
    sys.exit(1 if failed else 0)


main()
