#!/usr/bin/env python3
"""tshark reads a connection by the dissector that is made of ringtail.proto: every frame, over whatever segments of TCP,
with the values that protobuf has; a wrong checksum, a bad body and another protocol are said to be that.

	usage: wireshark_test.py BUILD
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(1, os.path.join(TOP, "tests", "scenario"))

from lib import protobuf, wire  # noqa: E402

SEGMENT = 1000          # bytes of TCP in one packet: no frame begins with one, but the first
DAEMON, CLIENT = 7117, 40000
failed = 0


def check(name, good, *facts):
    global failed
    print(f"{'ok' if good else 'not ok'} {name}")
    for fact in facts if not good else ():
        print(f"# {fact}")
    failed += not good


# ---- A capture -----------------------------------------------------------------------------------

def packet(source, port, sequence, data):
    tcp = struct.pack(">HHIIBBHHH", source, port, sequence, 1, 5 << 4, 0x18, 65535, 0, 0)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp) + len(data), 0, 0, 64, 6, 0, bytes([127, 0, 0, 1]),
                     bytes([127, 0, 0, 1]))
    return ip + tcp + data


def capture(path, streams):
    """streams: [(from, to, bytes)], a connection's directions. Link type 228: IPv4."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 228))
        for source, port, data in streams:
            for at in range(0, len(data), SEGMENT):
                one = packet(source, port, 1 + at, data[at:at + SEGMENT])
                file.write(struct.pack("<IIII", at // 1000000, at % 1000000, len(one), len(one)) + one)


def tshark(lua, path, *words):
    done = subprocess.run(["tshark", "-X", f"lua_script:{lua}", "-r", path, *words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=250)
    check(f"tshark reads {os.path.basename(path)}", done.returncode == 0 and "Lua" not in
          done.stderr.replace("Lua could be dangerous", ""), done.stderr[-600:])
    return done.stdout


def shown(lua, path):
    """The frames that it has seen: [(type, {field: [values]}), ...], in order."""
    text = tshark(lua, path, "-T", "json", "--no-duplicate-keys", "-J", "ringtail")
    found = []
    for one in json.loads(text):
        layers = one["_source"]["layers"].get("ringtail", [])
        for layer in layers if isinstance(layers, list) else [layers]:
            found.append(layer)
    return found


# ---- What it has to show -------------------------------------------------------------------------

def numbers(values):
    """Whatever the decoder has of a field, as tshark writes it."""
    return [str(int(value)) for value in values]


def listed(value):
    return value if isinstance(value, list) else [value]


def same_message(name, values, tree):
    """The first thing that tshark shows otherwise; None: nothing."""
    for field in protobuf.MESSAGES[name]:
        ours = [one for one in (values[field.name] if field.repeated else [values[field.name]]) if one not in (None, "", b"")]
        theirs = listed(tree.get(f"ringtail.{name}.{field.name}", []))
        if field.kind in protobuf.MESSAGES:
            trees = [one for one in theirs if isinstance(one, dict)]
            ours = [one for one in ours if any(one.values())]
            for one, below in zip(ours, trees):
                if other := same_message(field.kind, one, below):
                    return other
            if len(trees) != len(ours):
                return f"{name}.{field.name}: {len(trees)} messages of {len(ours)}"
            continue
        if field.kind == "bytes":
            ours = [":".join(f"{byte:02x}" for byte in one) for one in ours]
        elif field.kind == "string":
            ours = list(ours)
        elif field.kind == "fixed32":
            ours = [f"0x{one:08x}" for one in ours if one]
        else:
            ours = numbers(ours)
        if not field.repeated and not theirs and ours in (["0"], []):
            continue
        if ours[:len(theirs)] != theirs or len(theirs) < min(len(ours), 1024):
            return f"{name}.{field.name}: {str(theirs)[:300]}, and not {str(ours)[:300]}"
    return None


def made_up(name, depth=0):
    """A message with something in each of its fields."""
    values = {}
    for field in protobuf.MESSAGES[name]:
        if field.kind in protobuf.MESSAGES:
            if depth > 3:
                continue
            one = made_up(field.kind, depth + 1)
        elif field.kind in protobuf.ENUMS:
            one = max(protobuf.ENUMS[field.kind])
        elif field.kind == "fixed32":
            continue
        else:
            one = {"string": f"text of {field.name}", "bytes": b"\x00\xff" + field.name.encode(), "bool": True,
                   "sint64": -(1 << 40) - field.number, "uint64": (1 << 63) + field.number}.get(field.kind,
                                                                                              4000000000 + field.number)
        values[field.name] = [one, one] if field.repeated else one
    return values


def check_recording(lua, scratch):
    """A recording is what a daemon sent. Its compressed frames are shown undone, which this tshark may not be able to."""
    with open(os.path.join(TOP, "tests", "data", "capture.rt"), "rb") as file:
        frames = wire.cut(file.read())
    plain = b"".join(wire.seal(frame.name, frame.raw) for frame in frames)
    capture(f"{scratch}/recording.pcap", [(DAEMON, CLIENT, plain)])
    trees = shown(lua, f"{scratch}/recording.pcap")
    check("every frame of a recording is seen", [int(tree["ringtail.type"]) for tree in trees] ==
          [wire.TYPE_OF[frame.name] for frame in frames], len(trees), len(frames))
    other = [found for frame, tree in zip(frames, trees) if (found := same_message(frame.name, frame.values, tree))]
    check("with the values that protobuf has", not other, *other[:3])
    capture(f"{scratch}/compressed.pcap", [(DAEMON, CLIENT, b"".join(frame.bytes for frame in frames))])
    trees = shown(lua, f"{scratch}/compressed.pcap")
    compressed = [tree for frame, tree in zip(frames, trees) if frame.compressed]
    check("a compressed frame is shown as one", len(trees) == len(frames) and compressed and
          all("ringtail.compressed" in tree for tree in compressed), len(trees), len(compressed))


def check_every_type(lua, scratch):
    by_sender = {True: b"", False: b""}
    wanted = {True: [], False: []}
    for number, (_, name) in wire.TYPES.items():
        client = name.endswith("Request") or name in ("ClientHello", "Subscribe", "Ack", "Forget", "Change")
        values = made_up(name)
        by_sender[client] += wire.message(name, **values)
        wanted[client].append((number, name, protobuf.decode(name, protobuf.encode(name, values))))
    capture(f"{scratch}/types.pcap", [(CLIENT, DAEMON, by_sender[True]), (DAEMON, CLIENT, by_sender[False])])
    trees = shown(lua, f"{scratch}/types.pcap")
    wanted = wanted[True] + wanted[False]
    check("every type of frame is known", [int(tree["ringtail.type"]) for tree in trees] == [number for number, *_ in wanted],
          [tree["ringtail.type"] for tree in trees])
    for (_, name, values), tree in zip(wanted, trees):
        check(f"{name} has every field of the .proto", not (other := same_message(name, values, tree)), other)


def check_damage(lua, scratch):
    good = wire.message("Error", code="x", what="y")
    for name, data, says in (
            ("a wrong checksum is said", good[:-1] + b"z", "ringtail.crc32c.bad"),
            ("a body that is no message is said", wire.seal("Error", b"\x0a\xff\xff\xff\xff\x0fx"), "ringtail.malformed"),
            ("a type that nobody knows is said", wire.seal(200, b"abc"), "ringtail.unknown"),
            ("what is no frame is said", good + b"GET / HTTP/1.1\r\n\r\n", "ringtail.malformed")):
        capture(f"{scratch}/damage.pcap", [(DAEMON, CLIENT, data)])
        check(name, tshark(lua, f"{scratch}/damage.pcap", "-Y", says).strip() != "", says)
    capture(f"{scratch}/elsewhere.pcap", [(5555, CLIENT, good)])
    check("a connection at another port is known by its first frame",
          "ringtail" in tshark(lua, f"{scratch}/elsewhere.pcap", "-Y", "ringtail.type == 3"))
    capture(f"{scratch}/other.pcap", [(5555, CLIENT, b"GET / HTTP/1.1\r\n\r\n")])
    check("another protocol is left alone", not tshark(lua, f"{scratch}/other.pcap", "-Y", "ringtail").strip())


def main():
    lua = os.path.join(sys.argv[1], "ringtail.lua")
    with tempfile.TemporaryDirectory() as scratch:
        check_recording(lua, scratch)
        check_every_type(lua, scratch)
        check_damage(lua, scratch)
    sys.exit(1 if failed else 0)


main()
