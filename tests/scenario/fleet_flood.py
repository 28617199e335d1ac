"""A host that floods, beside a quiet one, at one relay; the flood's partition of Kafka stands still. The relay reads no
more of the flood than its bound, the rest waits on that host's own disk, and each event of the quiet host is in Kafka
meanwhile. When the partition is back, all of the flood comes as well, and every ledger closes."""
import ctypes
import json
import os
import random

import ringtail
from lib import fleet
from lib.kafka import BROKERS, Courier, Mock, partition_of
from lib.process import ENGINE_USER

PARTITIONS = 6
FLOOD, QUIET = "web-1", "web-2"
BOUND = 2 << 20                 # RELAY_HELD_HOST_BYTES
FRAME = (1 << 20) + 4096        # and a frame more than that may come
CALLS = 500
FLOOD_CALLS = 85000             # of 44 bytes each that do not compress: more than the bound
RING = "16MiB"                  # has room for all of them


def main(case):
    kafka = Mock(case, ringtail.BUILD, (f"ringtail.frames:{PARTITIONS}", "ringtail.runs:1"))
    still = partition_of(FLOOD, PARTITIONS)
    case.check(still != partition_of(QUIET, PARTITIONS), "the hosts have partitions of their own", still)
    for partition in range(PARTITIONS):
        kafka.tell("leader", "ringtail.frames", partition, BROKERS[0] if partition == still else BROKERS[1])
    kafka.tell("leader", "ringtail.runs", 0, BROKERS[1])

    parts = fleet.Fleet(case)
    socket = case.path("courier.sock")
    relay = parts.relay("--relay-ack=kafka", f"--relay-courier={socket}", f"--operator=user:{ENGINE_USER}")
    courier = Courier(case, ringtail.BUILD, None, kafka.brokers, relay=socket).await_ready()
    comm = case.own_comm
    agents = {
        name: case.daemon(*parts.agent_options(name, f"--probe=syscall:{call}:call", f"--filter={whose}",
                                               f"--ring-size={RING}", interval="100ms"))
        for name, call, whose in ((FLOOD, "process_vm_readv", f"tid == {os.getpid()}"),
                                  (QUIET, "getppid", f'comm == "{comm}"'))
    }

    def hosts():
        told = case.tracectl(relay, "stat", "--fleet", "-o", "json")
        case.check_equal(told.code, 0, "every equation of the fleet closes", told.out)
        return {host["host"]: host for host in json.loads(told.out)["hosts"]}

    def held():
        """As the relay says of the flood, with what it knows of each frame."""
        told = case.tracectl(relay, "list", "hosts", "-o", "json")
        return next(host["held_bytes"] for host in told.lines if host["host"] == FLOOD)

    def consumer(name):
        one, = agents[name].stat()["consumer"]
        return one

    def stored(name, events):
        stat = agents[name].stat()
        return (sum(ring["events"] for ring in stat["ring"]) >= events and
                not any(spool["in_flight"] for spool in stat["spool"]))

    def read(name):
        return case.tracectl(None, "--summary", "json", "read", f"{kafka.source}/ringtail/{name}", "-o", "none")

    for name in agents:
        ringtail.wait_until(lambda n=name: consumer(n)["connected"], f"{name} is connected")
    kafka.tell("down", BROKERS[0])

    # ---- The flood.
    refused_call = ctypes.CDLL(None).process_vm_readv
    refused_call.argtypes = [ctypes.c_uint64] * 6
    numbers = random.Random(case.seed)
    for _ in range(FLOOD_CALLS):
        refused_call(*(numbers.getrandbits(64) | 1 for _ in range(6)))        # a flag that nobody knows
    ringtail.wait_until(lambda: stored(FLOOD, FLOOD_CALLS), "the flood is on the disk of its host")
    ringtail.wait_until(lambda: held() >= BOUND, "the relay holds as much of the flood as it may")
    case.check(held() < BOUND + FRAME, "and no more", held())
    case.check(consumer(FLOOD)["behind_bytes"] > held(), "the rest waits on its host", consumer(FLOOD))

    # ---- Meanwhile.
    case.load(CALLS, comm=comm).run()
    ringtail.wait_until(lambda: stored(QUIET, CALLS) and not consumer(QUIET)["behind_bytes"],
                        "all of the quiet host is acknowledged")
    done = read(QUIET)
    case.check_equal((done.code, done.summary["events"], done.summary["lost"], done.summary["ledger"]),
                     (0, CALLS, 0, "balanced"), "Kafka has each event of the quiet host", done.err)
    now = hosts()
    case.check_equal((now[QUIET]["held"], now[FLOOD]["forwarded"] < now[FLOOD]["received"]), (0, True),
                     "the bound is the flood's alone", now)
    case.check(BOUND <= now[FLOOD]["held_bytes"] < BOUND + FRAME, "and holds", now[FLOOD])

    # ---- The partition is back.
    kafka.tell("up", BROKERS[0])
    ringtail.wait_until(lambda: not consumer(FLOOD)["behind_bytes"], "all of the flood is acknowledged")
    done = read(FLOOD)
    case.check_equal((done.code, done.summary["lost"], done.summary["gaps"], done.summary["ledger"]),
                     (0, 0, 0, "balanced"), "nothing of the flood is missing", done.err)
    case.check(done.summary["events"] >= FLOOD_CALLS, "Kafka has all of it", done.summary)
    case.check_balanced(relay, *agents.values())
    for agent in agents.values():
        case.check_equal(agent.stop(), 0, "an agent ends well")
    stopped, ledger = courier.stop()
    case.check_equal((stopped.code, ledger["residual"], ledger["rejected"]), (0, 0, 0), "the courier ends well", ledger,
                     stopped.err)
    case.check_equal(relay.stop(), 0, "the relay ends well")
    case.check("residual 0" in relay.log, "its ledger closes", relay.log)


ringtail.run(main)
