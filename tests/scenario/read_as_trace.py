"""What `read -o ctf` and `-o perfetto` write holds every event of `-o json`, and every loss by the format's own
means: babeltrace2 opens the one and reports as many events discarded; protoc, with Perfetto's own schema where
it is in the cache, the other. Whatever bytes names have."""
import os
import re
import subprocess

import ringtail
from lib import fake_daemon, lossy, protobuf, wire
from lib.fake_daemon import FakeDaemon
from lib.process import PATIENCE_S

SCHEMA = os.path.join(os.environ.get("RINGTAIL_CACHE", "/nowhere"), "perfetto_trace.proto")
HOSTILE = (b'a"b\\c', b"new\nline", b"\xff\x80", b"\x1b[31m", b"nul\0behind", b"\xc3\xa4", b"};", b"")
BEGIN, END, INSTANT = 1, 2, 3


def of_json(case, path):
    lines = case.tracectl(None, "read", path, "-o", "json").lines
    return ({(line["cpu"], line["seq"]): line for line in lines if "probe" in line},
            [line for line in lines if "lost" in line])


def babeltrace(case, directory):
    done = subprocess.run(["babeltrace2", "--clock-cycles", directory], capture_output=True, timeout=PATIENCE_S,
                          check=False)
    case.check_equal(done.returncode, 0, "babeltrace2 opens it")
    return done.stdout.decode(), done.stderr.decode()


def check_ctf(case, path, directory):
    events, losses = of_json(case, path)
    done = case.tracectl(None, "read", path, "-o", "ctf", "-w", directory)
    case.check_equal(done.code, 3 if losses else 0, "the recording becomes a CTF trace")
    out, err = babeltrace(case, directory)
    seen = told = 0
    for line in out.splitlines():
        place = re.search(r"cpu_id = (\d+) .*?seq = (\d+), late_ns = (\d+), pid = (\d+), tid = (\d+)", line)
        if not place:
            case.check(False, "a line is an event", line)
        if " ringtail:loss: " in line:
            told += 1
            continue
        cpu, seq, late, pid, tid = map(int, place.groups())
        event = events[cpu, seq]
        at = int(re.match(r"\[(\d+)\]", line)[1])
        ret = re.search(r"[{ ]ret = (-?\d+)", line)
        same = (f" {event['probe']}: " in line and at - late == event["time"] and
                [pid, tid] == [event.get("pid", 0), event["tid"]] and
                (not ret or "ret" not in event or int(ret[1]) == event["ret"]))
        for name, value in event["args"].items():
            shown = re.search(rf"[{{ ]{name} = (-?\w+|\"[^\"]*\")", line)
            same = same and shown and (isinstance(value, (bool, list)) or shown[1].startswith('"') or
                                       int(shown[1], 0) == int(str(value), 0))
        if not same:
            case.check(False, "an event is what JSON has", line, event)
        seen += 1
    case.check_equal((seen, told), (len(events), len(losses)), "each event and each loss is an event")
    discarded = sum(map(int, re.findall(r"discarded (\d+) event", err)))
    case.check_equal(discarded, sum(line["lost"] for line in losses), "and CTF's own count is what was lost")
    return out


def text(values):
    return values[0].decode() if values else None


def annotations(event):
    found = {}
    for each in map(protobuf.fields, event[4]):
        found[text(each[10])] = (each[3] or each[4] or each[7] or [text(each[6])])[0]
    return found


def check_slices(case, packets, events):
    """Each call has a beginning and an end on its thread's track; everything else is an instant."""
    tracks, seen, open_slices = {}, 0, {}
    for packet in packets:
        for track in map(protobuf.fields, packet[60]):
            for thread in map(protobuf.fields, track[4]):
                tracks[track[1][0]] = (thread[1][0], thread[2][0], text(thread[5]))
        for event in map(protobuf.fields, packet[11]):
            if event[9] == [END]:
                start, duration = open_slices.pop(event[11][0])
                if packet[8][0] - start != duration:
                    case.check(False, "a slice lasts as long as its call", packet)
                continue
            if text(event[22]) == "loss":
                continue
            shown = annotations(event)
            json = events[shown["cpu"], shown["seq"]]
            seen += 1
            if event[9] == [BEGIN]:
                open_slices[event[11][0]] = (packet[8][0], json["duration"])
            same = (text(event[23]) in (json["probe"], json["probe"].split(":")[1]) and
                    tracks[event[11][0]][:2] == (json.get("pid", 0), json["tid"]) and
                    all(value == shown[f"{name}_text"] or not value.isprintable()
                        for name, value in json.get("strings", {}).items()) and
                    shown.get("ret", 0) == json.get("ret", 0) & (1 << 64) - 1)
            if not same:
                case.check(False, "an event is what JSON has", shown, json)
    case.check_equal((seen, open_slices), (len(events), {}), "each event is in the trace, and each slice ends")


def check_perfetto(case, path, file):
    events, losses = of_json(case, path)
    done = case.tracectl(None, "read", path, "-o", "perfetto", "-w", file)
    case.check_equal(done.code, 3 if losses else 0, "the recording becomes a trace for Perfetto")
    data = open(file, "rb").read()
    packets = [protobuf.fields(packet) for packet in protobuf.fields(data)[1]]
    check_slices(case, packets, events)
    dropped = [packet for packet in packets if packet[42] == [1]]
    told = [annotations(protobuf.fields(packet[11][0])) for packet in dropped]
    case.check_equal([(each["reason"], each["lost"], each["first_seq"]) for each in told],
                     [(each["reason"], each["lost"], each["first_seq"]) for each in losses],
                     "each loss marks its sequence as having dropped packets")
    if not os.path.exists(SCHEMA):
        case.say(f"Perfetto's own schema is not in the cache ({SCHEMA})")
        return
    decoded = subprocess.run(["protoc", f"-I{os.path.dirname(SCHEMA)}", "--decode=perfetto.protos.Trace",
                              os.path.basename(SCHEMA)], input=data, capture_output=True, check=False,
                             timeout=PATIENCE_S)
    case.check_equal((decoded.returncode, decoded.stderr), (0, b""), "protoc opens it with Perfetto's schema")
    case.check_equal(re.findall(rb"^ *\d+:.*", decoded.stdout, re.M), [], "which knows each of its fields")
    case.check_equal(decoded.stdout.count(b"TYPE_SLICE_BEGIN"), decoded.stdout.count(b"TYPE_SLICE_END"),
                     "by its own names")


def hostile(case):
    fields = [{"name": 'struct', "type": 6, "c_type": "int", "bits": 32},
              {"name": 'a" b; };', "type": 7, "c_type": "char *", "bits": 64}]
    probes = [{"id": fake_daemon.PROBE, "provider": "tracepoint", "function": 'x"; };\\', "name": "event",
               "field": fields}]
    batch = fake_daemon.batch(0, 0, 1000, [(name[:16], name) for name in HOSTILE])
    daemon = FakeDaemon(case, {"Subscribe": (
        wire.message("Catalog", probe=probes) + fake_daemon.subscribed() +
        fake_daemon.compressed("Batch", batch) + wire.message("Bye", reason="the end", final=True)),
        "ClientHello": fake_daemon.hello(hostname=b'h"\\\n};', software=b"\xc2\x9b")})
    path = case.path("hostile.rt")
    case.tracectl(daemon, "record", "-w", path)
    daemon.stop()
    directory = case.path("hostile.ctf")
    case.check_equal(case.tracectl(None, "read", path, "-o", "ctf", "-w", directory).code, 0, "of hostile names")
    out, _ = babeltrace(case, directory)
    case.check_equal(len(out.splitlines()), len(HOSTILE), "each event is one line")
    case.check('procname = "new?line"' in out.replace("\\", ""), "its name is text", out)
    case.tracectl(None, "read", path, "-o", "perfetto", "-w", case.path("hostile.pftrace"))
    check_perfetto(case, path, case.path("hostile.pftrace"))


def main(case):
    daemon = case.daemon("--ring-size=16KiB")
    path = case.path("lossy.rt")
    lossy.record(case, daemon, path, "--flags", "strings,kstack")
    directory = case.path("lossy.ctf")
    check_ctf(case, path, directory)
    check_perfetto(case, path, case.path("lossy.pftrace"))
    done = case.tracectl(None, "read", path, "-o", "ctf", "-w", directory)
    case.check(done.code == 1 and "not-empty" in done.err, "a directory that holds something is left alone", done.err)
    os.mkdir(case.path("empty"))
    os.symlink(case.path("empty"), case.path("link"))
    done = case.tracectl(None, "read", path, "-o", "ctf", "-w", case.path("link"))
    case.check(done.code == 1 and not os.listdir(case.path("empty")), "a link is not followed", done.err)
    case.check_balanced(daemon)
    hostile(case)


ringtail.run(main)
