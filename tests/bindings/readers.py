#!/usr/bin/env python3
"""The readers in Python and in Go (clients/) read what tracectl reads, event by event: the recorded files, one that is made
now, with strings, stacks and contexts, and the records that a courier put into Kafka, of which some are there twice."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[1:1] = [os.path.join(ROOT, "tests", "tools"), os.path.join(ROOT, "tests", "scenario")]

import read_as_json  # noqa: E402  the first: it finds a Python that has the packages
import cache  # noqa: E402
import ringtail  # noqa: E402
import ringtail_reader  # noqa: E402
from lib.kafka import Courier, Mock  # noqa: E402
from lib.process import ENGINE_USER  # noqa: E402

PACKAGE = os.path.join(ROOT, "clients", "go")
DATA = os.path.join(ROOT, "tests", "data")
GO_S = 600              # the first time, with all of Go's library that it takes
UNREACHABLE = re.compile(r"dial tcp|no such host|i/o timeout|connection re(set|fused)|TLS handshake|unexpected EOF|"
                         r"network is unreachable|: (403|429|5\d\d) [A-Z]|server misbehaving")
CALLS = 3000
PARTITIONS = 3


def go(*words, **env):
    """As it is on this machine: it downloads two packages, and nothing of Go's own."""
    env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local",
           "GOCACHE": cache.directory("go-build"), **env}
    return subprocess.run(["go", *words], cwd=PACKAGE, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=GO_S, check=False)


def check_go(case):
    """The program's path."""
    done = go("mod", "download")
    if done.returncode and UNREACHABLE.search(done.stdout):
        print(f"skipped: the Go module proxy cannot be reached: {done.stdout.splitlines()[-1]}")
        sys.exit(77)
    messages, program = case.path("descriptors"), case.path("example")
    subprocess.run(["protoc", f"-I{ROOT}/proto", f"--descriptor_set_out={messages}", "ringtail.proto"], check=True)
    done = go("vet", "./...")
    case.check_equal((done.returncode, done.stdout), (0, ""), "go vet has nothing to say")
    done = go("test", "-count=1", ".", RINGTAIL_DESCRIPTORS=messages)
    case.check_equal(done.returncode, 0, "its own tests pass", done.stdout)
    done = go("build", "-trimpath", "-o", program, "./example")
    case.check_equal((done.returncode, done.stdout), (0, ""), "the example is compiled")
    return program


def of_go(case, program, *words):
    done = subprocess.run([program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    said = done.stderr.decode()
    case.check_equal((done.returncode, "residual 0" in said, re.findall(r"residual -?[1-9]", said)), (0, True, []),
                     "the reader in Go closes its ledgers", said)
    lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
    for line in lines:
        error = read_as_json.error_of(-line.pop("errno", 0))
        if error:
            line["error"] = error
    return read_as_json.comparable(lines)


def be_equal(case, program, path, least):
    name, theirs = os.path.basename(path), read_as_json.of_tracectl(ringtail.BUILD, path)
    wrong, events = read_as_json.differ(ringtail.BUILD, path)
    case.check(events >= least and not wrong, f"{events} lines of {name}: Python reads what tracectl reads", wrong)
    wrong = read_as_json.first_difference(of_go(case, program, path), theirs)
    case.check(not wrong, "and so does Go", wrong)
    return theirs


def record(case, daemon):
    """A file of now: what `find` does, with all that may be attached."""
    path, comm = case.path("now.rt"), case.own_comm
    shutil.copy("/usr/bin/find", case.path(comm))
    words = ("-p", "syscall:*", "-p", "sched:*", "--flags", "kstack,ustack,strings,context,fds", "-f", f'comm == "{comm}"')
    stream = case.stream(daemon, *words, "-w", path, command="record")
    subprocess.run([case.path(comm), os.path.join(ROOT, "docs"), "/nowhere", "-type", "f"], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=False)
    case.await_rings_empty(daemon)
    stream.await_all(50)
    case.check_equal(stream.interrupt().code, 0, "a file is recorded")
    return path


# ---- Kafka ----------------------------------------------------------------------------------------

def carry(case, kafka):
    """A courier is killed when Kafka has stored what it has not confirmed: that comes twice."""
    daemon = case.daemon("--durability=written", f"--state-dir={case.path('state')}", f"--operator=user:{ENGINE_USER}")
    first, second = (case.load(CALLS, 1) for _ in range(2))
    pids = ", ".join(str(pid) for load in (first, second) for pid in load.pids)
    words = ["--probe=syscall:getppid:call", f"--filter=pid in ({pids})"]
    courier = Courier(case, ringtail.BUILD, daemon, kafka.brokers, *words).await_ready()
    ringtail.wait_until(lambda: courier.ledger()["confirmed"] >= 2, "the run's beginning is in Kafka")
    kafka.tell_all("answer-later", 60_000)
    first.run()
    ringtail.wait_until(lambda: courier.ledger()["in_flight"] > 3, "its frames are on their way")
    courier.kill()
    kafka.tell_all("answer-later", 0)
    courier = Courier(case, ringtail.BUILD, daemon, kafka.brokers, *words).await_ready()
    second.run()
    case.await_rings_empty(daemon)
    ringtail.wait_until(lambda: courier.ledger()["unacknowledged"] <= 1, "all is confirmed and acknowledged")
    done, ledger = courier.stop()
    case.check_equal((done.code, ledger["residual"]), (0, 0), "the courier ends well", ledger, done.err)
    case.check_balanced(daemon)


def dump(case, kafka):
    """All records, in a file."""
    path = case.path("records.json")
    with open(path, "wb") as file:
        for topic, partitions in (("ringtail.runs", 1), ("ringtail.frames", PARTITIONS)):
            subprocess.run([os.path.join(ringtail.BUILD, "tools", "kafka_dump"), kafka.brokers, topic, str(partitions)],
                           stdout=file, check=True)
    return path


def of_python(case, path):
    fleet, lines, several = ringtail_reader.Fleet(), [], 0
    with open(path) as file:
        for record in map(json.loads, file):
            key, value = (bytes.fromhex(record[name]) for name in ("key", "value"))
            if record["topic"] == "runs":
                fleet.learn(key, value)
                continue
            headers = [(name, text.encode()) for name, text in record["headers"].items()]
            items = fleet.take(key, value, headers)
            lines += [{**line, "host": key.decode()} for line in read_as_json.listed(items)]
    for host in fleet.hosts.values():
        several += host.duplicate
        case.check_equal((host.residual, host.ledger.residual, host.ledger.frames_residual, host.damaged,
                          host.ledger.holes), (0, 0, 0, 0, 0), "the reader in Python closes its ledgers", host.ledger)
    case.check(several > 0, f"{several} records came twice")
    return read_as_json.comparable(lines)


def read_kafka(case, program):
    kafka = Mock(case, ringtail.BUILD, (f"ringtail.frames:{PARTITIONS}", "ringtail.runs:1"))
    carry(case, kafka)
    path = dump(case, kafka)
    theirs = read_as_json.of_tracectl(ringtail.BUILD, kafka.source)
    case.check_equal(len(theirs), 2 * CALLS, "tracectl reads each event once")
    for name, mine in (("Python", of_python(case, path)), ("Go", of_go(case, program, "-records", path))):
        wrong = read_as_json.first_difference(mine, theirs)
        case.check(not wrong, f"and so does {name}, of Kafka's records", wrong)


def main(case):
    program = check_go(case)
    for name in ("capture.rt", "0.1.0/recording.rt", "0.1.0/programs.rt", "0.1.0/spool/0000000000000001.seg"):
        be_equal(case, program, os.path.join(DATA, name), 100)
    daemon = case.daemon()
    theirs = be_equal(case, program, record(case, daemon), 50)
    keys = {key for line in theirs for key in line}
    case.check({"kstack", "ustack", "strings", "exe", "error"} <= keys, "with stacks, strings, executables and errors", keys)
    case.check_balanced(daemon)
    read_kafka(case, program)


signal.alarm(GO_S)
ringtail.run(main)
