#!/usr/bin/env python3
"""What an agent and its relay cost: frames, bytes and CPU, at rest and at some events a second, with and without
relay-interval. Prints the table of docs/fleet.md.

    python3 tests/fleet/frames.py		after make, as root, on a machine that does nothing else; four minutes
"""
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "..", "scenario"))

import ringtail  # noqa: E402
from lib import fleet  # noqa: E402

SPAN_S = {0: 60, 1000: 30}              # at rest there is a frame a minute
SETTLE_S = 8
INTERVALS = ("0s", "5s")
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(daemon):
    """Of all its processes."""
    own = {daemon.pid}
    used = 0.0
    for _ in range(3):
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/stat") as file:
                    if int(file.read().rpartition(")")[2].split()[1]) in own:
                        own.add(int(entry))
            except OSError:
                pass            # it has ended
    for pid in own:
        with open(f"/proc/{pid}/stat") as file:
            words = file.read().rpartition(")")[2].split()
        used += (int(words[11]) + int(words[12])) / TICKS
    return used


def look(parts, relay, agent):
    counters = parts.counters(relay)
    stat = agent.stat()
    wire = [client for client in stat["client"] if client["identity"] == "relay"][0]
    return (time.monotonic(), counters["relay_received"], wire["wire_bytes"], cpu_s(agent), cpu_s(relay))


def measure(case, interval, rate):
    parts = fleet.Fleet(case, f"{interval}-{rate}")
    relay = parts.relay()
    comm = case.own_comm
    agent = case.daemon(*parts.agent_options("web-1", "--probe=syscall:getppid:call", f'--filter=comm == "{comm}"',
                                             interval=interval))
    load = case.load(rate * (SPAN_S[rate] + 2 * SETTLE_S), 2, rate=rate, comm=comm) if rate else None
    ringtail.wait_until(lambda: parts.counters(relay)["relay_received"], "the relay has something")
    if load:
        load.go()
    time.sleep(SETTLE_S)
    before = look(parts, relay, agent)
    time.sleep(SPAN_S[rate])
    after = look(parts, relay, agent)
    span, *used = [end - start for start, end in zip(before, after)]
    if load:
        load.result()
    case.check_balanced(agent, relay)
    agent.stop()
    relay.stop()
    frames, sent, agent_s, relay_s = (each / span for each in used)
    case.say(f"| `{interval}` | {rate:,} | {frames:.3g} | {sent:,.1f} | {100 * agent_s:.2f} % | {100 * relay_s:.2f} % |")


def main(case):
    case.say("| relay-interval | events/s | frames/s | bytes/s | agent, of a core | relay, of a core |")
    case.say("|---|---|---|---|---|---|")
    for rate in SPAN_S:
        for interval in INTERVALS:
            measure(case, interval, rate)


ringtail.run(main)
