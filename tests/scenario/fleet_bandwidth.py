"""No more leaves for the relay in a second than relay-bandwidth says, over its connections. What is beyond waits in the
spool, and `stat` says why. A new configuration takes the bound away. Each event once, none lost."""
import ctypes
import os
import random
import time

import ringtail
from lib import fleet

HOST = "web-1"
RATE = 64 << 10                 # the least there is
SAVED = RATE // 4               # ALLOWANCE_SAVED_NS
CALLS = 30000                   # of 44 bytes each that do not compress: they would take 20 s
SAMPLES = 10


def main(case):
    parts = fleet.Fleet(case)
    relay = parts.relay()
    agent = case.daemon(*parts.agent_options(HOST, "--probe=syscall:process_vm_readv:call", "--ring-size=4MiB",
                                             f"--filter=tid == {os.getpid()}", interval="100ms"),
                        config="relay-bandwidth = 64KiB/s\n")

    def consumer():
        one, = agent.stat()["consumer"]
        return one

    def connections():
        return [client for client in agent.stat()["client"] if client["identity"] == "relay"]

    def sent():
        """By the connection that there is."""
        return sum(client["wire_bytes"] for client in connections())

    def check_rate(before):
        """before: connections that there were have sent so much, or more."""
        for _ in range(SAMPLES):
            came, seconds = before + sent(), time.monotonic() - begun
            case.check(came <= RATE * seconds + SAVED, f"{came} bytes in {seconds:.2f} s")
            time.sleep(0.02)
        return came

    ringtail.wait_until(lambda: consumer()["connected"], "the relay is connected")
    begun, at_first = time.monotonic(), sent()
    call = ctypes.CDLL(None).process_vm_readv
    call.argtypes = [ctypes.c_uint64] * 6
    numbers = random.Random(case.seed)
    for _ in range(CALLS):
        call(*(numbers.getrandbits(64) | 1 for _ in range(6)))        # a flag that nobody knows
    ringtail.wait_until(lambda: sum(ring["events"] for ring in agent.stat()["ring"]) >= CALLS, "all is recorded")

    # ---- With the bound.
    ringtail.wait_until(lambda: consumer()["held_back"], "the bound holds it back")
    told = case.tracectl(agent, "stat").out
    case.check(any(line.startswith("relay ") and " held back " in line for line in told.splitlines()), "stat says so",
               told)
    case.check(agent.stat()["counters"]["relay_holds"] > 0, "and counts it")
    came = check_rate(-at_first)
    case.check(consumer()["behind_bytes"] > SAVED, "the rest waits in the spool", consumer())
    relay.crash()
    ringtail.wait_until(lambda: not connections(), "the agent has noticed")
    relay = parts.relay()
    ringtail.wait_until(lambda: consumer()["held_back"], "the next connection is held back as well")
    check_rate(came)
    case.check(parts.counters(relay)["relay_events"] < CALLS, "something is still to come", parts.counters(relay))
    case.check_balanced(agent, relay)

    # ---- Without it.
    case.write(f"{agent.name}.conf", "relay-bandwidth = 0\n")
    agent.reload(r"\[reloaded\]")
    ringtail.wait_until(lambda: not consumer()["behind_bytes"], "the relay has acknowledged all")
    case.check(not consumer()["held_back"], "nothing is held back any more")
    case.check_balanced(agent, relay)
    case.check_equal((agent.stop(), relay.stop()), (0, 0), "both end well")
    read = parts.read(HOST)
    case.check_equal((read.code, read.summary["events"], read.summary["lost"], read.summary["gaps"],
                      read.summary["ledger"]), (0, CALLS, 0, 0, "balanced"), "each event once, none lost")


ringtail.run(main)
