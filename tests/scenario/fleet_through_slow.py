"""A client that reads slowly, of a host behind a relay: the relay drops nothing, the host does, by its queue-size, and
tells the client so in place. What the host sends the relay for good is not held up by it. Between the two, TCP's buffers
are small, in a network of this test's own."""
import ctypes
import os
import subprocess

import ringtail
from lib import fleet, protobuf, wire

CALLS = 20_000                  # of each load
LOADS_MAX = 100                 # until one that does not read has lost some: how many fit is how well they compress
AFTER = 1000
HOSTS = ("list", "hosts", "-o", "json")
CLONE_NEWNET = 0x40000000
BUFFER = "4096 16384 16384"     # least, at first, most


def enter_own_network():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        raise ringtail.Skip("this takes root, to have a network of its own")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for name in ("tcp_rmem", "tcp_wmem"):
        with open(f"/proc/sys/net/ipv4/{name}", "w") as file:
            file.write(BUFFER)


def reach(relay, name):
    """A connection to that host."""
    connection = relay.connect(receive_bytes=4096)
    connection.greet()
    connection.send(wire.message("Reach", host=name))
    connection.await_frame("Reached")
    connection.greet()
    return connection


class Reader:
    """Takes what comes, and sees that each frame follows on the one before."""

    def __init__(self, case, connection, start):
        self.case, self.connection = case, connection
        self.position = {place["cpu"]: place["seq"] for place in start["position"]}
        self.events = self.gone = 0
        self.gaps = []

    def read(self, upto):
        while self.events + self.gone < upto:
            frame = self.connection.frame()
            if frame.name == "Watermark":
                for place in frame.values["position"]:
                    self.position[place["cpu"]] = max(self.position[place["cpu"]], place["seq"])
            elif frame.name in ("Batch", "Gap"):
                self.take(frame.name, frame.values)

    def take(self, name, values):
        if values["first_seq"] != self.position[values["cpu"]]:
            self.case.check(False, "a frame follows on the one before", self.position, values)
        self.position[values["cpu"]] = values["end_seq"]
        if name == "Gap":
            self.gaps.append(values)
            self.gone += values["events"]
        else:
            self.events += values["events"]


def main(case):
    if os.geteuid():
        raise ringtail.Skip("this takes root, to have a network of its own")
    enter_own_network()
    parts = fleet.Fleet(case)
    probe, text = "syscall:getppid:call", f'comm == "{case.own_comm}"'
    durable = (f"--probe={probe}", f"--filter={text}")
    relay = parts.relay("--silence-timeout=1h", "--operator=user:root")
    agent = case.daemon(*parts.agent_options("web-1", *durable, "--ring-size=8MiB", "--queue-size=64KiB",
                                             "--silence-timeout=1h"), config="relay-clients = viewer\n")
    ringtail.wait_until(lambda: any(host["connected"] for host in case.tracectl(relay, *HOSTS).lines), "it is connected")

    slow = reach(relay, "web-1")
    reader = Reader(case, slow, slow.subscribe([probe], text)["start"])
    for calls in range(CALLS, CALLS * LOADS_MAX + 1, CALLS):
        case.load(CALLS, comm=case.own_comm).run()
        case.await_rings_empty(agent)
        stat = agent.stat()
        behind = next(client for client in stat["client"] if client["identity"].startswith("relay:"))
        lost = sum(one["count"] for one in behind["lost"])
        if lost > CALLS:
            break
    case.check(lost and behind["queue_bytes"] <= 64 << 10, f"it has lost {lost} of {calls} events at its host, where"
               f" {behind['queue_bytes']} bytes wait for it", behind)
    case.check_balanced(relay, agent)

    def stored():
        return relay.stat()["counters"]["relay_events"]

    ringtail.wait_until(lambda: stored() == calls, "what the host sends for good is stored meanwhile, all of it")
    case.load(AFTER, comm=case.own_comm).run()
    reader.read(calls + AFTER)
    ringtail.wait_until(lambda: stored() == calls + AFTER, "and nothing of the client is among it")
    case.say(f"ok: it reads {reader.events} events and {len(reader.gaps)} gaps, without a hole")
    case.check_equal(reader.events + reader.gone, calls + AFTER, "events + gaps = calls")
    case.check_equal({(gap["stage"], gap["reason"]) for gap in reader.gaps},
                     {(protobuf.enum_value("LossStage", "LOSS_QUEUE"),
                       protobuf.enum_value("LossReason", "REASON_QUEUE_FULL"))}, "each gap says where and why")
    case.check_balanced(relay, agent)
    slow.close()
    ringtail.wait_until(lambda: not any(client["identity"].startswith("relay:") for client in agent.stat()["client"]),
                        "the host notices that it leaves")
    case.check_balanced(relay, agent)


ringtail.run(main)
