"""What `read -o sqlite` and `read -o csv` write is what `read -o json` writes: each event with each value, each
string, thread and stack, and each loss; whatever bytes names have; and no file is spoiled on the way."""
import codecs
import collections
import csv
import io
import json
import os
import sqlite3
import subprocess

import ringtail
from lib import fake_daemon, lossy, wire
from lib.fake_daemon import FakeDaemon
from lib.process import PATIENCE_S

HOSTILE = (b'a"b\'c', b"semi;,\r\n", b"=cmd|' /C'!A0", b"@sum", b"-2+3", b"\xff\x80raw", b"\xe2\x80\xae",
           b"x'); DROP TABLE runs;--", b"sqlite_schema", b"\x1b[31m", b"\xc3\xa4", b"nul\0behind", b"\\u0041",
           b"")

codecs.register_error("as_numbers", lambda error: (
    "".join(map(chr, error.object[error.start:error.start + 1])), error.start + 1))


def text_of(value):
    """A text or the bytes of none, as JSON shows it."""
    return value.decode("utf-8", "as_numbers") if isinstance(value, bytes) else value


def word(value):
    """A JSON value as SQLite's 64 bits."""
    if isinstance(value, str) and value.startswith("0x"):
        value = int(value, 16)
    if not isinstance(value, int):
        return value
    return value - (1 << 64) if value >= 1 << 63 else value


def of_json(case, path):
    events, losses = {}, []
    for line in case.tracectl(None, "read", path, "-o", "json").lines:
        if "lost" in line:
            losses.append((line["time"], line["cpu"], line["first_seq"], line["attempts"], line["lost"] or None,
                           line["stage"], line["reason"]))
        else:
            events[line["cpu"], line["seq"]] = line
    return events, losses


def check_sqlite(case, path, file):
    events, losses = of_json(case, path)
    done = case.tracectl(None, "--summary", "json", "read", path, "-o", "sqlite", "-w", file)
    case.check_equal(os.stat(file).st_mode & 0o777, 0o600, "the database is its owner's alone")
    shown = subprocess.run(["sqlite3", file, "PRAGMA integrity_check", "SELECT ledger FROM recording"],
                           capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    case.check_equal(shown.stdout.split(), ["ok", "balanced"], "sqlite3 finds it whole, and its ledger closed")
    database = sqlite3.connect(file)
    database.text_factory = lambda data: data.decode()
    seen = 0
    for spec, table in database.execute("SELECT spec, name FROM probes").fetchall():
        rows = database.execute(
            f'SELECT t.*, h.pid AS _pid, h.tid AS _tid, h.comm AS _comm FROM "{table}" t JOIN threads h '
            'ON h.id = t.thread')
        names = [column[0] for column in rows.description]
        fields = database.execute("SELECT field, column FROM fields WHERE probe = ?", (table,)).fetchall()
        for values in rows:
            row = dict(zip(names, values))
            check_row(case, events[row["cpu"], row["seq"]], row, spec, fields)
            seen += 1
    case.check_equal(seen, len(events), "each event is a row, with its values")
    stored = database.execute("SELECT time, cpu, first_seq, attempts, lost, stage, reason FROM losses").fetchall()
    case.check_equal(sorted(stored), sorted(losses), f"and each of the {len(losses)} losses")
    case.check_equal(database.execute("SELECT events, lost FROM recording").fetchall(),
                     [(done.summary["events"], done.summary["lost"])], "the totals stand in it")
    database.close()
    return done, events, losses


def check_row(case, event, row, spec, fields):
    wanted = {**event["args"], **{key: event[key] for key in ("duration", "ret") if key in event}}
    ours = {}
    for field, column in fields:
        if row[column] is None:
            continue
        ours[column if column in ("duration", "ret") else field] = text_of(row[column])
        if f"{column}_text" in row and row[f"{column}_text"] is not None:
            case_text = text_of(row[f"{column}_text"])
            if case_text != event["strings"][field]:
                case.check(False, "a string is what JSON has", case_text, event)
    same = (event["probe"] == spec and event["time"] == row["time"] and
            {key: word(value) for key, value in wanted.items()} == ours and
            [event.get("pid"), event["tid"], event.get("comm")] ==
            [row["_pid"], row["_tid"], text_of(row["_comm"])])
    if not same:
        case.check(False, "a row has the values of JSON", event, row)


def check_csv(case, path, events, losses):
    text = case.tracectl(None, "read", path, "-o", "csv").out
    case.check(not any(cell[:1] in "=+-@" for line in csv.reader(io.StringIO(text, newline="")) for cell in line
                       if cell and not cell.lstrip("-").isdigit()), "no cell is a formula")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    case.check_equal(len(text.splitlines()), 1 + len(events) + len(losses), "each row is one line")
    lost = collections.Counter((row["cpu"], row["seq"], row["attempts"], row["lost"], row["reason"])
                               for row in rows if row["reason"])
    case.check_equal(lost, collections.Counter((str(cpu), str(seq), str(attempts), str(known or ""), reason)
                                               for _, cpu, seq, attempts, known, _, reason in losses),
                     "the losses are rows")
    for row in rows:
        if row["reason"]:
            continue
        event = events[int(row["cpu"]), int(row["seq"])]
        plain = {key: json.loads(f'"{row[key]}"') for key in ("comm", "probe")}
        same = (plain == {"comm": event.get("comm", ""), "probe": event["probe"]} and
                json.loads(row["args"]) == event["args"] and row["wall"] == event["wall"] and
                json.loads(row["strings"] or "{}") == event.get("strings", {}) and
                row["ret"] == str(event.get("ret", "")) and
                row["duration"] == str(event.get("duration", "")) and
                row["error"] == event.get("error", "") and bool(row["stack"]) == bool(event.get("kstack")))
        if not same:
            case.check(False, "a row is what JSON has", row, event)


def hostile(case):
    """Names from elsewhere, and a probe called as one of our own tables."""
    probes = [{"id": fake_daemon.PROBE, "provider": "tracepoint", "function": 'x" (y); DROP TABLE runs; --',
               "name": "=a,b", "field": [{"name": 'Time', "type": 6, "c_type": "int", "bits": 32},
                                         {"name": 'time', "type": 7, "c_type": "char *", "bits": 64}]}]
    batch = fake_daemon.batch(0, 0, 1000, [(name[:16], name) for name in HOSTILE])
    frames = (wire.message("Catalog", probe=probes) + fake_daemon.subscribed() +
              fake_daemon.compressed("Batch", batch) + wire.message("Bye", reason="the end", final=True))
    daemon = FakeDaemon(case, {"Subscribe": frames})
    path = case.path("hostile.rt")
    case.check_equal(case.tracectl(daemon, "record", "-w", path).code, 0, "hostile names are recorded")
    daemon.stop()
    _, events, losses = check_sqlite(case, path, case.path("hostile.db"))
    case.check_equal(len(events), len(HOSTILE), "all of them are there")
    check_csv(case, path, events, losses)


def outputs(case, path):
    """What is there is kept until there is something whole to take its place."""
    file = case.write("kept.db", "not a database")
    damaged = case.write("damaged.rt", "no recording")
    done = case.tracectl(None, "read", damaged, "-o", "sqlite", "-w", file)
    case.check(done.code and open(file).read() == "not a database", "a refused recording leaves the file", done.err)
    link = case.path("link.db")
    os.symlink(file, link)
    case.check_equal(case.tracectl(None, "read", path, "-o", "sqlite", "-w", link).code, 3, "a link is replaced")
    case.check(not os.path.islink(link) and open(file).read() == "not a database", "not followed")
    case.write("busy.db-journal", "")
    done = case.tracectl(None, "read", path, "-o", "sqlite", "-w", case.path("busy.db"))
    case.check(done.code == 1 and "database-in-use" in done.err and not os.path.exists(case.path("busy.db")),
               "the journal of another database is not taken for this one's", done.err)
    done = case.tracectl(None, "read", path, "-o", "sqlite")
    case.check(done.code == 2 and "-w" in done.err, "without a name it is refused", done.err)
    full = case.tracectl(None, "read", path, "-o", "csv", "-w", "/dev/full")
    case.check(full.code == 1 and "No space" in full.err, "a full disk is told", full.err)
    left = [name for name in os.listdir(case.path("")) if ".db." in name]
    case.check_equal(left, [], "nothing is left behind")


def main(case):
    daemon = case.daemon("--ring-size=16KiB")
    path = case.path("lossy.rt")
    done = lossy.record(case, daemon, path, "--flags", "strings,kstack")
    case.check_equal(done.code, 3, "events are lost")
    done, events, losses = check_sqlite(case, path, case.path("lossy.db"))
    case.check(done.code == 3 and losses and any("strings" in event for event in events.values()),
               "which reading it says too", done.err)
    case.check(any(event["args"].get("newcomm") == 'o"ther,' for event in events.values()),
               "a tracepoint's text is among them")
    check_csv(case, path, events, losses)
    outputs(case, path)
    case.check_balanced(daemon)
    hostile(case)


ringtail.run(main)
