"""Files of every released version (tests/data/VERSION) are read as they were when they were recorded.

RINGTAIL_RECORD=VERSION records those of a new version instead.
"""
import glob
import json
import os
import shutil

import ringtail

DATA = "tests/data"


def facts(case, path):
    """What a reader gets of it, in what no later version may change."""
    read = case.tracectl(None, "--summary", "json", "read", path, "-o", "json")
    events = [event for event in read.lines if "probe" in event]
    summary = json.loads(read.err.splitlines()[-1])
    kept = [{name: event[name] for name in ("seq", "cpu", "time", "pid", "comm", "probe") if name in event}
            for event in events]
    return {"code": read.code, "ledger": summary["ledger"], "events": len(events), "lost": summary["lost"],
            "strings": sum("strings" in event for event in events), "first": kept[:3], "last": kept[-3:]}


def record(case, version):
    """A recording and a spool, of the calls that the shipped capture replays."""
    place = f"{DATA}/{version}"
    os.makedirs(place)
    state = case.path("recorded.state")
    daemon = case.daemon("--replay-pace=fast", f"--state-dir={state}", "--probe=syscall:openat:call",
                         "--durability=written", source=f"replay:{DATA}/capture.rt")
    done = case.tracectl(daemon, "record", "-w", f"{place}/recording.rt", "-p", "syscall:openat:call",
                         "--flags", "strings", "--duration", "3s")
    case.check_equal(done.code, 0, "it is recorded")
    daemon.stop()
    (spool,) = [path for path in glob.glob(f"{state}/**/", recursive=True)
                if glob.glob(f"{path}/*.seg") + glob.glob(f"{path}/*.open")]
    shutil.copytree(spool, f"{place}/spool")
    found = {name: facts(case, f"{place}/{name}") for name in ("recording.rt", "spool")}
    with open(f"{place}/expected.json", "w") as file:
        json.dump(found, file, indent=1)
        file.write("\n")


def main(case):
    if os.environ.get("RINGTAIL_RECORD"):
        record(case, os.environ["RINGTAIL_RECORD"])
    versions = sorted(os.path.basename(os.path.dirname(path)) for path in glob.glob(f"{DATA}/*/expected.json"))
    with open("CHANGELOG.md") as file:
        named = sorted(line.split()[1] for line in file if line.startswith("## ") and line[3].isdigit())
    case.check_equal(versions, named, "there are files of every version that CHANGELOG.md names")
    for version in versions:
        with open(f"{DATA}/{version}/expected.json") as file:
            expected = json.load(file)
        for name, facts_then in expected.items():
            case.check(facts_then["events"] > 100, f"{version}/{name} holds events", facts_then)
            case.check_equal(facts(case, f"{DATA}/{version}/{name}"), facts_then,
                             f"{version}/{name} is read as it was")


ringtail.run(main)
