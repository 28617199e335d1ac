#!/usr/bin/env python3
"""A real daemon's events go to real Kafka brokers while these fail: the leader is killed, a broker stands still for 20 s,
all are gone for 30 s, and the courier is killed. Each event is in Kafka, is read once, and nothing is missing."""
import collections
import json
import os
import signal
import socket
import subprocess
import sys
import time
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "..", "scenario"))

import ringtail  # noqa: E402
from brokers import NODES, Cluster, Unavailable  # noqa: E402
from lib.kafka import Courier  # noqa: E402
from lib.process import ENGINE_USER  # noqa: E402

CALLS, RATE = 240_000, 2_000            # two minutes of events, through all that happens
FROZEN_S, DOWN_S = 20, 30
CATCH_UP_S = 120
SECOND, FEW_CALLS = "second-host", 1000


def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def topic(cluster, *words):
    done = subprocess.run([os.path.join(ringtail.BUILD, "tools", "kafka_topic"), cluster.addresses, *words],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    if done.returncode:
        raise ringtail.Failure(f"kafka_topic {words}: {done.stderr}")
    return int(done.stdout)


def carry(case, cluster):
    """What Kafka is to have: the events of one load, with faults in between."""
    daemon = case.daemon("--durability=written", f"--state-dir={case.path('state')}", "--ring-size=16MiB",
                         f"--operator=user:{ENGINE_USER}")
    load = case.load(CALLS, 1, rate=RATE)
    words = ["--probe=syscall:getppid:call", f"--filter={load.filter}"]

    def start():
        return Courier(case, ringtail.BUILD, daemon, cluster.addresses, *words).await_ready()

    def caught_up(courier):
        ledger = courier.ledger()
        return ledger["unacknowledged"] < 50 and ledger["in_flight"] < 50

    def again(what, courier, began):
        ringtail.wait_until(lambda: caught_up(courier), f"the courier has caught up after {what}", CATCH_UP_S)
        ledger = courier.ledger()
        case.figure(f"{what}: until it had caught up", time.monotonic() - began, "s")
        case.figure(f"{what}: longest time without a confirmation", ledger["stalled_ms"] / 1000, "s")
        case.check_equal((ledger["residual"], ledger["rejected"]), (0, 0), f"the courier's ledger closes after {what}")

    courier = start()
    case.check("topic-size-unknown" not in courier.read("err"), "the brokers tell how large a record may be")
    load.go()
    time.sleep(5)

    leader = topic(cluster, "leader", "ringtail.frames")
    began = time.monotonic()
    cluster.kill(leader)
    again("SIGKILL of the leader", courier, began)
    cluster.up(leader)
    cluster.ready(leader)

    began = time.monotonic()
    frozen = topic(cluster, "leader", "ringtail.frames")
    cluster.signal(signal.SIGSTOP, frozen)
    time.sleep(FROZEN_S)
    cluster.signal(signal.SIGCONT, frozen)
    again(f"SIGSTOP of a broker for {FROZEN_S} s", courier, began)

    courier.kill()
    courier = start()

    began = time.monotonic()
    cluster.kill(*NODES)
    time.sleep(DOWN_S)
    cluster.up(*NODES)
    again(f"all brokers gone for {DOWN_S} s", courier, began)

    load.result(CALLS / RATE + 60)
    case.await_rings_empty(daemon)
    ringtail.wait_until(lambda: courier.ledger()["unacknowledged"] <= 1, "all is confirmed", CATCH_UP_S)
    with open(f"/proc/{courier.pid}/status") as file:
        case.figure("the courier's memory, at most",
                    next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024, "MiB")
    done, ledger = courier.stop()
    case.check_equal((done.code, ledger["residual"], ledger["in_flight"], ledger["unacknowledged"], ledger["lost"]),
                     (0, 0, 0, 0, 0), "the courier ends with nothing on its way, and nothing lost", ledger, done.err)
    case.say(f"the last courier: {ledger}")
    case.check_balanced(daemon)


def read_back(case, cluster):
    source = f"kafka:{cluster.addresses}/ringtail/{os.uname().nodename}"
    with open(case.path("kafka.rt"), "wb") as file:
        done = subprocess.run([os.path.join(ringtail.BUILD, "ringtail-kafka"), "--source", source, "--summary", "json"],
                              stdout=file, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    case.check_equal(done.returncode, 0, "the topics can be read", done.stderr)
    read = json.loads(done.stderr.splitlines()[-1])
    case.say(f"the reader: {read}")
    case.check_equal((read["records"], read["holes"], read["residual"]), (read["taken"] + read["duplicate"], 0, 0),
                     "records = taken + duplicate, and there are no holes", read)
    done = case.tracectl(None, "--summary", "json", "read", source, "-o", "json")
    events = {(event["cpu"], event["seq"]) for event in done.lines}
    case.check_stream(done, events=CALLS)
    case.check_equal(len(events), CALLS, "each event once")
    done = case.tracectl(source, "--summary", "json", "count", "--since", "-30m", "--until", "now", "-o", "json")
    case.check_equal(done.summary["events"], CALLS, "a question by time has all of them", done.err)


def ask_both(case, cluster):
    """A second host comes; both are asked at once, by time and by intervals, and one of them by its name."""
    daemon = case.daemon("--durability=written", f"--state-dir={case.path('second-state')}",
                         f"--operator=user:{ENGINE_USER}")
    load = case.load(FEW_CALLS, 1)
    courier = Courier(case, ringtail.BUILD, daemon, cluster.addresses, "--probe=syscall:getppid:call",
                      f"--filter={load.filter}", f"--host={SECOND}").await_ready()
    load.run()
    case.await_rings_empty(daemon)
    ringtail.wait_until(lambda: courier.ledger()["unacknowledged"] <= 1, "all of the second host is confirmed", CATCH_UP_S)
    source, first = f"kafka:{cluster.addresses}", os.uname().nodename
    wanted = {first: CALLS, SECOND: FEW_CALLS}

    def count(*words):
        done = case.tracectl(source, "--summary", "json", "count", "--by", "host", "--until", "now", "-o", "json", *words)
        return done, {row["key"]["host"]: row["count"] for row in done.lines if "key" in row}

    for words in ([], ["--since", "-30m"], ["--since", "-30m", "--interval", "1min"]):
        began = time.monotonic()
        done, rows = count(*words)
        if "--interval" in words:
            rows = collections.Counter()
            for row in done.lines:
                rows.update({row["key"]["host"]: row["count"]} if "key" in row else {})
        case.check_equal(dict(rows), wanted, f"all events of both hosts, {words}", done.err)
        case.check_equal((done.summary["ledger"], done.summary["hosts"], done.summary["lost"]), ("balanced", 2, 0),
                         "one ledger over both", done.err)
        case.figure(f"a question over both hosts {' '.join(words)}", time.monotonic() - began, "s")
    done = case.tracectl(source, "--summary", "json", "read", "--host", SECOND, "-o", "none")
    case.check_equal((done.code, done.summary["events"]), (0, FEW_CALLS), "one of them by its name", done.err)
    courier.stop()
    case.check_balanced(daemon)


def main(case):
    try:
        cluster = Cluster(case.path("."), free_ports(2 * len(NODES)))
    except Unavailable as why:
        raise ringtail.Skip(str(why)) from None
    try:
        began = time.monotonic()
        cluster.start()
        case.figure("three brokers are ready", time.monotonic() - began, "s")
        topic(cluster, "create", "ringtail.frames", "6", "max.message.bytes=2097152", "min.insync.replicas=2")
        nobody = types.SimpleNamespace(address="unix:/nowhere")      # who is not asked before Kafka is
        refused = Courier(case, ringtail.BUILD, nobody, cluster.addresses).wait()
        case.check(refused.code == 1 and "no-topic" in refused.err and "ringtail.runs" in refused.err,
                   "a topic that is missing is told before anything is lost", refused.err)
        topic(cluster, "create", "ringtail.runs", "1", "max.message.bytes=2097152", "cleanup.policy=compact")
        topic(cluster, "create", "small.frames", "1", "max.message.bytes=1000")
        refused = Courier(case, ringtail.BUILD, nobody, cluster.addresses, "--prefix=small").wait()
        case.check(refused.code == 1 and "topic-too-small" in refused.err and "kafka-configs.sh" in refused.err,
                   "so is one that takes no frame of 1 MiB", refused.err)
        carry(case, cluster)
        case.say(f"the brokers' memory: {cluster.memory_mib()} MiB")
        read_back(case, cluster)
        ask_both(case, cluster)
    finally:
        cluster.stop()


ringtail.run(main)
