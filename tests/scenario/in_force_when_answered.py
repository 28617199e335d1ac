"""What is asked for is in force when the answer comes: the first event after it is recorded, every time, and
after a `disable` none is. What the kernel refuses (here: the loader may open no more descriptors, so no
program can be attached) is refused, with the reason, and leaves nothing behind."""
import itertools
import json
import os
import subprocess

import ringtail
from lib import batch, wire

ROUNDS = 50
CALLS, AFTER = 5, 7
CLIENTS = 12
PROBE = "syscall:getppid:call"
SWITCHES = "tracepoint:sched:sched_switch"


def call(times):
    for _ in range(times):
        os.getppid()


def change(connection, **words):
    connection.send(wire.message("Change", **words))
    return connection.frame()


def enable_and_disable(case, daemon):
    before = daemon.recorded()
    with daemon.connect() as operator:
        operator.greet()
        for _ in range(ROUNDS):
            names = [change(operator, enable=[PROBE]).name]
            call(CALLS)
            names.append(change(operator, disable=[PROBE]).name)
            call(AFTER)
            if names != ["Probes", "Probes"]:
                raise ringtail.Failure(f"answered with {names}")
    case.await_rings_empty(daemon)
    case.check_equal(daemon.recorded() - before, ROUNDS * CALLS,
                     f"{ROUNDS} times, the first of {CALLS} calls after enable is recorded, and none of"
                     f" {AFTER} after disable")


def subscribe(daemon, clients, **words):
    """So many at once; the calls begin at the first one's answer. How many each got."""
    connections, got = [daemon.connect() for _ in range(clients)], []
    for connection in connections:
        connection.greet()
    for connection in connections:
        connection.send(wire.message("Subscribe", probe=[PROBE], filter=f"pid == {os.getpid()}", **words))
    for connection in connections:
        probes = {probe["id"]: probe for probe in connection.await_frame("Catalog").values["probe"]}
        connection.await_frame("Subscribed")
        call(CALLS if connection is connections[0] else 0)
    with daemon.connect() as end:       # its watermark is later than the calls
        end.greet()
        after = end.stat()["monotonic_ns"]
    for connection in connections:
        events = 0
        for frame in connection.frames():
            if frame.name == "Batch":
                events += sum(event["probe"]["function"] == "getppid"
                              for event in batch.events(frame.values, probes))
            if frame.name == "Watermark" and frame.values["time_ns"] > after:
                break
        connection.send(wire.message("Bye"))
        connection.close()
        got.append(events)
    return got


def subscriptions(case, daemon):
    for name, clients, words in (("a subscriber", 1, lambda i: {}),
                                 ("one with flags", 1, lambda i: {"flag": ["FLAG_STRINGS"]}),
                                 ("two that ask at once", 2, lambda i: {})):
        got = [subscribe(daemon, clients, **words(i)) for i in range(CLIENTS)]
        case.check_equal(got, [[CALLS] * clients] * CLIENTS,
                         f"{name}: {CLIENTS} times, all {CALLS} calls from the answer on")


def consumers(case):
    """A durable consumer is on disk too by then: a crash right after the answer does not take it back."""
    state = case.path("durable")
    daemon = case.daemon(f"--state-dir={state}", "--user=root", "--durability=fsync",
                         "--batch-interval=5ms")
    missing = []
    for i in range(CLIENTS):
        with daemon.connect() as connection:
            connection.greet()
            connection.send(wire.message("Subscribe", probe=[PROBE], consumer=f"c{i}",
                                         filter=f"pid == {os.getpid()} && ret > {-2 - i}"))
            connection.await_frame("Subscribed")
            with open(f"{state}/consumers") as file:
                block = file.read().partition(f"consumer c{i}\n")[2].partition("end\n")[0]
            if "\nat " not in block:
                missing.append(block)
    case.check_equal(missing, [], f"{CLIENTS} times, a consumer is on disk with its place when it is"
                     " answered")
    got = [subscribe(daemon, 1, consumer=f"d{i}", flag=["FLAG_KSTACK"] * (i % 2))
           for i in range(CLIENTS)]
    case.check_equal(got, [[CALLS]] * CLIENTS, f"and all {CALLS} calls are recorded from then on")
    daemon.crash()


def audit(state):
    with open(f"{state}/audit.log") as file:
        return [json.loads(line)["outcome"] for line in file]


def kept(state):
    with open(f"{state}/probes") as file:
        return file.read()


class NoMoreDescriptors:
    """The loader opens no more: bpf(2) then fails where it would make a link. Its limit is its own user's
    to set: root without CAP_SYS_RESOURCE may not."""

    def __init__(self, daemon):
        self.pid = daemon.loader
        with open(f"/proc/{self.pid}/status") as file:
            status = dict(line.split(":", 1) for line in file)
        self.user = [f"--reuid={status['Uid'].split()[0]}", f"--regid={status['Gid'].split()[0]}",
                     "--clear-groups"]

    def limit(self, *words):
        return subprocess.run(["setpriv", *self.user, "prlimit", f"--pid={self.pid}", *words],
                              stdout=subprocess.PIPE, text=True, check=True).stdout

    def __enter__(self):
        used = set(map(int, os.listdir(f"/proc/{self.pid}/fd")))
        free = next(number for number in itertools.count() if number not in used)
        self.old = self.limit("--nofile", "--noheadings", "--output=SOFT").strip()
        self.limit(f"--nofile={free}:")

    def __exit__(self, *_):
        self.limit(f"--nofile={self.old}:")


def refused(case, daemon, state):
    case.check_equal(case.tracectl(daemon, "enable", PROBE).code, 0, "one is always on")
    with NoMoreDescriptors(daemon):
        done = case.tracectl(daemon, "enable", SWITCHES)
        case.check(done.code == 1 and "cannot load the BPF program sched_switch: Too many open files"
                   " [bpf-no-descriptors]\n" in done.err and "LimitNOFILE" in done.err,
                   "where its program cannot be loaded, enable says so", done.err)
    for command in "enable", "disable":         # which leaves the program loaded
        case.check_equal(case.tracectl(daemon, command, SWITCHES).code, 0, f"{command} as a rule")
    ringtail.wait_until(lambda: PROBE in kept(state) and SWITCHES not in kept(state), "that is kept")
    before = kept(state), audit(state)
    with NoMoreDescriptors(daemon):
        done = case.tracectl(daemon, "enable", SWITCHES)
        case.check(done.code == 1 and "cannot attach the BPF programs: Too many open files"
                   " [bpf-no-descriptors]\n" in done.err and "LimitNOFILE" in done.err,
                   "enable says what was refused, why, and what to do", done.err)
        streamed = case.tracectl(daemon, "stream", "-p", SWITCHES, "-n", "1")
        case.check(streamed.code == 1 and "cannot attach" in streamed.err, "so does stream",
                   streamed.err)
        case.write(f"{daemon.name}.conf", f"probe = {SWITCHES}\n")
        daemon.reload(r"\[always-on-refused\]")
        case.write(f"{daemon.name}.conf", "")
    case.check_equal(kept(state), before[0], "the state directory has what it had")
    case.check_equal([outcome for outcome in audit(state)[len(before[1]):]][0], "allowed",
                     "the audit log has the attempt")
    case.check_equal(len(audit(state)) - len(before[1]), 2, "and what became of it", audit(state))
    probes = case.tracectl(daemon, "probes", "-o", "json").lines[0]["probes"]
    case.check_equal([probe["probe"] for probe in probes], [PROBE], "the others are as they were")
    recorded = daemon.recorded()
    call(CALLS)
    ringtail.wait_until(lambda: daemon.recorded() == recorded + CALLS, "and are recorded")
    done = case.tracectl(daemon, "enable", SWITCHES)
    case.check(done.code == 0 and SWITCHES in kept(state), "asked again, it is done", done.err)
    case.check_equal(case.tracectl(daemon, "disable", SWITCHES, PROBE).code, 0, "and undone")


def main(case):
    state = case.path("state")
    daemon = case.daemon(f"--state-dir={state}", f"--filter=pid == {os.getpid()}", "--user=root",
                         "--history-age=0s", "--batch-interval=5ms")
    enable_and_disable(case, daemon)
    subscriptions(case, daemon)
    refused(case, daemon, state)
    case.check_balanced(daemon)
    consumers(case)


ringtail.run(main)
