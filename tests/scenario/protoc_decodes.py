"""`protoc --decode` on the frames of a recording gives what `tracectl read -o json` shows.

The frames are cut here, un-zstd'ed by the zstd program and decoded by protoc, the columns undone in
Python: nothing of ringtail's own C takes part.
"""
import os
import re
import shutil
import subprocess

import ringtail
from lib import batch, protobuf

CALLS = 3000


def protoc(message, raw):
    """The fields of a message as protoc's text says them: a list of (name, value)."""
    text = subprocess.run(["protoc", f"-I{ringtail.ROOT}", f"--decode=ringtail.v1.{message}",
                           "proto/ringtail.proto"], input=raw, stdout=subprocess.PIPE, check=True,
                          cwd=ringtail.ROOT).stdout.decode()
    stack = [[]]
    for line in text.splitlines():
        line = line.strip()
        if line.endswith("{"):
            stack.append([line[:-1].strip()])
        elif line == "}":
            name, *fields = stack.pop()
            stack[-1].append((name, fields))
        else:
            stack[-1].append(tuple(line.split(": ", 1)))
    return stack[0]


def unquote(text):
    def one(match):
        word = match[1]
        plain = {"n": 10, "t": 9, "r": 13, '"': 34, "'": 39, "\\": 92}
        return chr(plain[word] if word in plain else int(word, 8))
    return re.sub(r"\\([0-7]{3}|.)", one, text[1:-1]).encode("latin-1")


def value(field, text):
    if field.kind in protobuf.MESSAGES:
        return fields_of(field.kind, text)
    if field.kind in protobuf.ENUMS:
        return protobuf.enum_value(field.kind, text)
    if field.kind in ("bytes", "string"):
        return unquote(text) if field.kind == "bytes" else unquote(text).decode()
    return text == "true" if field.kind == "bool" else int(text)


def fields_of(message, rows):
    """A message as lib.protobuf decodes it, from what protoc says."""
    fields = {field.name: field for field in protobuf.MESSAGES[message]}
    values = protobuf.decode(message, b"")
    for name, text in rows:
        one = value(fields[name], text)
        if fields[name].repeated:
            values[name].append(one)
        else:
            values[name] = one
    return values


TYPES = {word: number for number, word in protobuf.ENUMS["FieldType"].items()}
STRING_BYTES_MAX = 128          # proto/limits.def


def shown(field, word):
    """A field's word as the JSON shows it."""
    bits = field["bits"] or 64
    if field["type"] in (TYPES["FIELD_HEX"], TYPES["FIELD_STRING"]):
        return hex(word & (1 << bits) - 1)
    if field["type"] == TYPES["FIELD_FD"]:
        bits = 32
    word &= (1 << bits) - 1
    if field["c_type"] == "dev_t":
        return f"{word >> 20}:{word & 0xfffff}"
    signed = field["type"] in (TYPES["FIELD_SIGNED"], TYPES["FIELD_FD"], TYPES["FIELD_RESULT"])
    return word - (1 << bits) if signed and word >> (bits - 1) else word


def same(event, line):
    """Whether an event undone from the columns is what a line of JSON says."""
    probe, fields = event["probe"], list(zip(event["probe"]["field"], event["fields"]))
    want = {"time": event["time"], "cpu": event["cpu"], "seq": event["seq"],
            "probe": f"{probe['provider']}:{probe['function']}:{probe['name']}",
            "pid": event["thread"]["pid"], "tid": event["thread"]["tid"],
            "comm": event["thread"]["comm"].decode()}
    never = False
    if fields and fields[0][0]["type"] == TYPES["FIELD_DURATION"]:
        never = fields[0][1] == (1 << 64) - 1
        if not never:
            want["duration"] = fields[0][1]
        fields = fields[1:]
    if fields and fields[0][0]["type"] == TYPES["FIELD_RESULT"]:
        if not never:
            want["ret"] = shown(*fields[0])
        fields = fields[1:]
    want["args"] = {field["name"]: shown(field, word) for field, word in fields}
    for attached in event["attachment"]:
        kind = protobuf.ENUMS["AttachmentKind"][attached["kind"]]
        if kind == "ATTACH_STRING":
            name = probe["field"][attached["arg"]]["name"]
            want.setdefault("strings", {})[name] = attached["text"].decode("utf-8", "replace")
            if len(attached["text"]) == STRING_BYTES_MAX:
                want.setdefault("strings_cut", []).append(name)
        else:
            want[kind[len("ATTACH_"):].lower()] = [hex(address) for address in attached["frame"]]
    # What the tracer itself had on the kernel's stack came first, and is left out of the line.
    whole, rest = want.get("kstack", []), line.get("kstack", [])
    if 0 < len(rest) <= len(whole) and whole[-len(rest):] == rest:
        want["kstack"] = rest
    extra = set(line) - set(want) - {"wall", "error", "devices", "kstack_names", "ustack_names"}
    return not extra and all(line.get(name) == one for name, one in want.items()), want


def main(case):
    daemon = case.daemon(ringtail.ROOM)     # a pattern of names is not the kernel's: it records of everybody
    file = case.path("trace.rt")
    load = case.load(CALLS)
    # Copies with names of their own: what others run under these names is none of this test's work.
    ls, cat = (shutil.copy(shutil.which(name), case.path(f"{name}-{os.getpid()}"))
               for name in ("ls", "cat"))
    probes = ["-p", "syscall:*:call", "-p", "tracepoint:sched:sched_switch", "-p", "tracepoint:sched:sched_wakeup",
              "-p", "tracepoint:sched:sched_process_fork", "-p", "tracepoint:sched:sched_process_exec", "-p",
              "tracepoint:sched:sched_process_exit", "-p", "syscall:getppid:entry"]
    stream = case.stream(daemon, "-w", file, *probes, "--flags", "strings,kstack,ustack", "-f",
                         f'pid == {load.pids[0]} || comm =~ "[lc][sa]*-{os.getpid()}"',
                         command="record")
    load.run()
    case.start("/bin/sh", "-c", f"{ls} /nonexistent; {cat} /etc/hostname; {cat} /proc/self/comm").wait()
    stream.await_all(2 * CALLS)
    case.await_rings_empty(daemon)
    stream.await_all()
    case.check_balanced(daemon)
    done = stream.interrupt()
    case.check_stream(done, events=done.summary["events"])
    case.check_equal(daemon.stop(), 0, "the daemon ends")

    read = case.tracectl(None, "--summary", "json", "read", file, "-p", "*:*:*", "-p",
                         "process:map:executable", "-o", "json")
    lines = read.lines
    case.check_equal((read.code, len(lines)), (0, done.summary["events"]),
                     "tracectl reads as many events as were recorded")
    with open(file, "rb") as recorded:
        frames = ringtail.wire.cut(recorded.read())
    case.check([frame.name for frame in frames[:3]] == ["ServerHello", "Catalog", "Subscribed"] and
               all(frame.check() for frame in frames),
               f"{len(frames)} frames with good checksums; hello, catalog, subscription come first")

    events, catalog = [], {}
    for frame in frames:
        values = fields_of(frame.name, protoc(frame.name, frame.raw))
        if values != frame.values:
            case.check(False, "protoc and lib/protobuf agree", frame.name, values, frame.values)
        if frame.name == "Catalog":
            catalog = {probe["id"]: probe for probe in values["probe"]}
        elif frame.name == "Batch":
            events += batch.events(values, catalog)
    by_place = {(line["cpu"], line["seq"]): line for line in lines}
    case.check_equal(len(events), len(lines), f"{len(events)} events in the columns")
    for event in events:
        line = by_place[event["cpu"], event["seq"]]
        agree, want = same(event, line)
        if not agree:
            case.check(False, "an event is what the line says", want, line)
    case.say(f"ok: all {len(events)} are value by value what the JSON says")
    kinds = {line["probe"].split(":")[-1] for line in lines}
    case.check({"call", "entry", "sched_process_exec", "sched_process_exit"} <= kinds and
               any("strings" in line for line in lines) and any("kstack" in line for line in lines),
               "among them calls, entries, tracepoints, strings and stacks")


ringtail.run(main)
