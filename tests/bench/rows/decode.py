"""Reading a recording back: calls a second as JSON and as nothing at all, beside trace-cmd report
and perf script over recordings of the same number of calls, entry and return; and as a database, beside
sqlite3's own import of the same rows from CSV."""
import subprocess
import time

from peers import host, perf, ringtail, trace_cmd
from report import Budget, Row

NAME = "decode"
CALLS = 300_000


def measure(bench):
    files = {}
    rows = {"json": Row("decode.json", "calls/s", peer="trace-cmd report"),
            "none": Row("decode.none", "calls/s", peer="perf script")}
    rows["json_vs_perf"] = Row("decode.json_vs_perf", "calls/s", peer="perf script")
    rows["sqlite"] = Row("decode.sqlite", "calls/s", budget=Budget(500_000, at_least=True),
                         peer="sqlite3 .import of as many rows of CSV")
    for name, row, prepare in (("ringtail", rows["json"], record_ringtail),
                               ("trace-cmd", rows["json"], record_trace_cmd),
                               ("perf", rows["none"], record_perf)):
        made = bench.attempt(row, lambda: prepare(bench), trace_cmd.TRIES)
        if made:
            files[name] = made
    for _ in range(bench.rounds(3)):
        for name, command, samples in readers(bench, files, rows):
            file, calls = files[name]
            rate = bench.attempt(rows["json"], lambda: timed(bench, command, calls))
            for each in samples if rate else ():
                each.append(rate)
        if "ringtail" in files:
            sqlite(bench, rows["sqlite"], *files["ringtail"])
    for file, _ in files.values():
        file.unlink()
    return rows.values()


def readers(bench, files, rows):
    """(recorder, command, lists that take the rate)."""
    json, none, versus = rows["json"], rows["none"], rows["json_vs_perf"]
    if "ringtail" in files:
        read = [bench.program("tracectl"), "read", files["ringtail"][0]]
        yield "ringtail", [*read, "-o", "json"], [json.samples, versus.samples]
        yield "ringtail", [*read, "-o", "none"], [none.samples]
    if "trace-cmd" in files:
        yield "trace-cmd", ["trace-cmd", "report", "-i", files["trace-cmd"][0]], [json.peer_samples]
    if "perf" in files:
        yield ("perf", ["perf", "script", "-i", files["perf"][0]],
               [none.peer_samples, versus.peer_samples])


def sqlite(bench, row, file, calls):
    """Our database; and sqlite3's, of the columns of ours that are not constant."""
    ours, theirs, table = bench.work / "decode.db", bench.work / "decode2.db", bench.work / "decode.csv"
    read = [bench.program("tracectl"), "read", file, "-o", "sqlite", "-w", ours]
    rate = bench.attempt(row, lambda: timed(bench, read, calls))
    if rate:
        row.samples.append(rate)
    with open(table, "w") as out:
        subprocess.run(["sqlite3", "-csv", ours, "SELECT * FROM syscall_getppid_call"], stdout=out, check=True)
    theirs.unlink(missing_ok=True)
    columns = "time INT, wall INT, run INT, cpu INT, seq INT, thread INT, duration INT, ret INT, stack INT"
    rate = bench.attempt(row, lambda: timed(
        bench, ["sqlite3", theirs, "PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF",
                f"CREATE TABLE t({columns})", ".mode csv", f".import {table} t"], calls))
    if rate:
        row.peer_samples.append(rate)
    for each in (ours, theirs, table):
        each.unlink(missing_ok=True)


def timed(_bench, command, calls):
    start = time.monotonic()
    host.run(command, timeout=120, stdout=subprocess.DEVNULL)
    return calls / (time.monotonic() - start)


def record_ringtail(bench):
    file = bench.work / "decode.rt"
    with ringtail.Daemon(bench) as daemon, ringtail.Load(bench, CALLS, bench.cpus[:1]) as load:
        command = ("record", "-w", file, "-p", "syscall:getppid:call", "-f", load.filter)
        with ringtail.Client(daemon, *command) as client:
            load.go()
            return file, client.finish()["events"]


def record_trace_cmd(bench):
    file = bench.work / "decode.dat"
    with trace_cmd.record(bench.work, "-o", file, buffer_kb=65536):
        run_load(bench)
    return file, trace_cmd.read_events(file) / 2


def record_perf(bench):
    file = bench.work / "decode.perf"
    with perf.record(bench.work, "-a", "-m", "32M", file=file.name):
        run_load(bench)
    return file, CALLS


def run_load(bench):
    with ringtail.Load(bench, CALLS, bench.cpus[:1]) as load:
        load.go()
