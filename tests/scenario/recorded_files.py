"""Files of every released version (tests/data/VERSION) are read as they were when they were recorded.

RINGTAIL_RECORD=VERSION records those of a new version instead; of one that has files already, those that are missing.
"""
import glob
import json
import os
import shutil

import ringtail
from lib import fleet
from lib.probing import Program, build

DATA = "tests/data"
FACTS = ("seq", "cpu", "time", "pid", "comm", "probe")
# Of events of programs: their types and texts are the program's own, and come with the recording.
FACTS_OF_PROGRAMS = (*FACTS, "args", "duration")
TURNS = 100
FEATURE_COUNTS = 11
COUNTED = ("hist", "--by", "comm,function", "-o", "json")


def counted(case, path):
    """The answer: how many events each row is of, and their durations."""
    done = case.tracectl(None, *COUNTED, path)
    return {"code": done.code, "events": sum(line.get("events", 0) for line in done.lines), "rows": done.lines}


def facts(case, path):
    """What a reader gets of it, in what no later version may change."""
    names = FACTS_OF_PROGRAMS if path.endswith("/programs.rt") else FACTS
    if path.endswith("/counts.rt"):
        return counted(case, path)
    read = case.tracectl(None, "--summary", "json", "read", path, "-o", "json")
    events = [event for event in read.lines if "probe" in event]
    summary = json.loads(read.err.splitlines()[-1])
    kept = [{name: event[name] for name in names if name in event}
            for event in events]
    return {"code": read.code, "ledger": summary["ledger"], "events": len(events), "lost": summary["lost"],
            "strings": sum("strings" in event for event in events), "first": kept[:3], "last": kept[-3:]}


def record_replay(case, place):
    """A recording and a spool, of the calls that the shipped capture replays."""
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


def record_programs(case, place):
    """Spans of a program, with the calls of the kernel inside them, and stacks of both."""
    socket = os.path.join(case.path("run"), "programs.sock")
    daemon = case.daemon(f"--programs={socket}")
    # Its probes' places are as in the tree, wherever that lies.
    binary = build(case, "spanned", "spanned", f"-fmacro-prefix-map={os.path.abspath('.')}/=")
    program = Program(case, binary, socket, "many", TURNS)
    stream = case.stream(daemon, "-w", f"{place}/programs.rt", "-p", "app", "-p", "syscall:write:call", "--flags",
                         "strings,ustack", "-f", f"pid == {program.pid}", command="record")
    program.go().process.wait()
    stream.await_all(4 * TURNS)
    case.check_balanced(daemon)
    case.check_equal(stream.interrupt().code, 0, "spans are recorded")


def record_counts(case, place):
    """Events that stand for others: what a daemon sends to a client that asks for counts. No command writes such a file."""
    daemon = case.daemon()
    with daemon.connect() as connection:
        connection.send(ringtail.wire.hello(feature=[FEATURE_COUNTS]))
        frames = [connection.await_frame("ServerHello")]
        connection.send(ringtail.wire.message(
            "Subscribe", probe=["syscall:getppid:call"], filter=f'comm == "{case.own_comm}"',
            question={"by": ["comm", "function"], "of": "duration"}))
        while frames[-1].name != "Subscribed":
            frames.append(connection.frame())
        case.load(20 * TURNS, comm=case.own_comm).run()
        case.await_rings_empty(daemon)
        case.check_balanced(daemon)
        daemon.stop()
        frames += connection.frames()
    case.check(any(frame.name == "Batch" and frame.values.get("counts") for frame in frames), "some events stand for others")
    with open(f"{place}/counts.rt", "wb") as file:
        file.write(b"".join(frame.bytes for frame in frames))


def record_relay(case, place):
    """What a relay stores: batches that the agent has joined, because the relay takes them only now and then."""
    parts = fleet.Fleet(case)
    relay = parts.relay()
    agent = case.daemon(*parts.agent_options("web-1", "--probe=syscall:getppid:call", f'--filter=comm == "{case.own_comm}"',
                                             interval="600s"))
    ringtail.wait_until(lambda: parts.counters(relay)["relay_received"], "the relay has the stream's beginning")
    for _ in range(10):
        case.load(2 * TURNS, rate=2000, comm=case.own_comm).run()
    case.await_rings_empty(agent)
    made = agent.stat()["counters"]["batches"]
    agent.stop()
    ringtail.wait_until(lambda: parts.counters(relay)["relay_events"] == 20 * TURNS, "the relay has all of it")
    came = parts.counters(relay)["relay_received"]
    case.check_balanced(relay)
    relay.stop()
    case.check(came < made / 2, f"{came} frames of {made} batches")
    shutil.copytree(parts.directory("web-1"), f"{place}/relay")


def record(case, version):
    place = f"{DATA}/{version}"
    os.makedirs(place, exist_ok=True)
    for name, record_it in (("recording.rt", record_replay), ("programs.rt", record_programs), ("counts.rt", record_counts),
                            ("relay", record_relay)):
        if not os.path.exists(f"{place}/{name}"):
            record_it(case, place)
    found = {name: facts(case, f"{place}/{name}") for name in ("recording.rt", "spool", "programs.rt", "counts.rt", "relay")}
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
