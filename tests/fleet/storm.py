#!/usr/bin/env python3
"""How long a storm of agents takes to be back at a relay, all of them behind one address: each shakes hands over TLS with a
certificate, says hello, and is answered. Those that are sent away try again, as agents do.

    python3 tests/fleet/storm.py [AGENTS [SPREAD]]	after make, as root; SPREAD: seconds over which they begin
"""
import asyncio
import os
import random
import ssl
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "..", "scenario"))

import ringtail  # noqa: E402
from lib import fleet, wire  # noqa: E402

AGENTS = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
SPREAD_S = float(sys.argv[2]) if len(sys.argv) > 2 else 0.25
ANSWER_S = 10                   # RELAY_GREET_NS
DELAY_S, DELAY_S_MAX = 0.5, 30  # RELAY_DIAL_NS_MIN, _MAX
LONGEST_S = 120
CLIENT_HELLO = 1


class Storm:
    def __init__(self, parts):
        self.port = parts.port
        cert, key = parts.agent_files("web-1")
        self.context = ssl.create_default_context(cafile=parts.server.server_ca.cert)
        self.context.load_cert_chain(cert, key)
        self.hello = wire.message("AgentHello", version_min=1, version_max=1, software="storm", feature=[1],
                                  hostname="web-1")
        self.attempts, self.took = 0, []

    async def try_once(self):
        """It stays until it is greeted; the next one has the same name, and takes its place."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context)
        try:
            writer.write(self.hello)
            return (await reader.readexactly(16))[3] == CLIENT_HELLO
        finally:
            writer.transport.abort()

    async def agent(self):
        await asyncio.sleep(random.uniform(0, SPREAD_S))
        began, delay = time.monotonic(), DELAY_S
        while True:
            self.attempts += 1
            try:
                if await asyncio.wait_for(self.try_once(), ANSWER_S):
                    break
            except (OSError, ssl.SSLError, asyncio.TimeoutError, asyncio.IncompleteReadError):
                pass
            await asyncio.sleep(random.uniform(delay / 2, delay))
            delay = min(2 * delay, DELAY_S_MAX)
        self.took.append(time.monotonic() - began)

    async def run(self):
        await asyncio.wait_for(asyncio.gather(*(self.agent() for _ in range(AGENTS))), LONGEST_S)


def main(case):
    parts = fleet.Fleet(case)
    relay = parts.relay(f"--agents-max={AGENTS}")
    storm = Storm(parts)
    began = time.monotonic()
    asyncio.run(storm.run())
    took = sorted(storm.took)
    counters = relay.stat()["counters"]
    case.figure(f"{AGENTS} agents greeted", time.monotonic() - began, "s")
    case.figure("one of two after", took[AGENTS // 2], "s")
    case.figure("99 of 100 after", took[AGENTS * 99 // 100], "s")
    case.figure("attempts of each", storm.attempts / AGENTS, "")
    case.say(f"accepted {counters['agents_accepted']}, refused {counters['agents_refused']}, "
             f"TLS failed {counters['tls_failed']}")
    case.check_balanced(relay)


ringtail.run(main)
