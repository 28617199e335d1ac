"""What a relay has acknowledged, counted by the agent: stored = acknowledged + lost + in flight. It closes while the relay
is away and the spool gives up its oldest segments, and over restarts and the death of the agent and of the relay."""
import ctypes
import json
import os
import random

import ringtail
from lib import fleet

HOST = "web-1"
CALLS = 40000                   # of 44 bytes each that do not compress: more than the spool may have
MORE = 500


def main(case):
    parts = fleet.Fleet(case)
    words = parts.agent_options(HOST, "--probe=syscall:process_vm_readv:call", "--ring-size=4MiB",
                                "--spool-size=1MiB", "--spool-segment-size=64KiB",
                                f"--filter=tid == {os.getpid()}", interval="100ms")
    call = ctypes.CDLL(None).process_vm_readv
    call.argtypes = [ctypes.c_uint64] * 6
    numbers = random.Random(case.seed)

    def account():
        one, = agent.stat()["consumer"]
        return one

    def check_closes(what):
        now = account()
        case.check_equal((now["residual"], now["stored"]), (0, now["acked"] + now["lost"] + now["in_flight"]), what, now)
        return now

    def is_stored():
        return not any(spool["in_flight"] for spool in agent.stat()["spool"])

    def flood(calls):
        before = sum(ring["events"] for ring in agent.stat()["ring"])
        for _ in range(calls):
            call(*(numbers.getrandbits(64) | 1 for _ in range(6)))        # a flag that nobody knows
        ringtail.wait_until(lambda: sum(ring["events"] for ring in agent.stat()["ring"]) >= before + calls and is_stored(),
                            "all is on disk, or given up")

    def await_acknowledged():
        ringtail.wait_until(lambda: not account()["in_flight"], "all is acknowledged")

    # ---- No relay: the oldest goes.
    agent = case.daemon(*words)
    flood(CALLS)
    now = check_closes("while the relay is away")
    case.check(not now["acked"] and now["lost"] and now["in_flight"] and now["stored"] >= CALLS,
               "the oldest is lost, the rest waits", now)
    case.check_equal(agent.stop(), 0, "the agent ends well")
    agent = case.daemon(*words)
    again = check_closes("after a restart of the agent")
    case.check_equal((again["acked"], again["lost"] >= now["lost"], again["stored"] >= now["stored"]), (0, True, True),
                     "which forgets nothing", now, again)

    # ---- The relay comes, and dies.
    relay = parts.relay()
    flood(MORE)
    await_acknowledged()
    now = check_closes("when all is acknowledged")
    case.check(now["acked"] and now["lost"] >= again["lost"], "with what was lost before", now)
    told = case.tracectl(relay, "stat", "--fleet")
    case.check("relayed: " in told.out, "the relay tells of it", told.out)
    relay.crash()
    flood(MORE)
    case.check(check_closes("without the relay")["in_flight"] >= MORE, "what came waits")
    relay = parts.relay()
    await_acknowledged()
    case.check(check_closes("after its death")["acked"] >= now["acked"] + MORE, "it is acknowledged")

    # ---- The agent dies.
    flood(MORE)
    await_acknowledged()
    before = account()
    agent.crash()
    agent = case.daemon(*words)
    flood(MORE)
    await_acknowledged()
    now = check_closes("after the death of the agent")
    case.check(now["acked"] > MORE and now["lost"] >= again["lost"], "which forgets little", before, now)

    def told_host():
        one, = json.loads(case.tracectl(relay, "stat", "--fleet", "-o", "json").out)["hosts"]
        return one

    ringtail.wait_until(lambda: told_host()["relay_stored"], "the relay knows it by the host")
    one = told_host()
    case.check_equal((one["relay_residual"], one["relay_stored"]),
                     (0, one["relay_acked"] + one["relay_lost"] + one["relay_in_flight"]), "it closes there as well", one)
    case.check_balanced(agent, relay)
    case.check_equal((agent.stop(), relay.stop()), (0, 0), "both end well")


ringtail.run(main)
