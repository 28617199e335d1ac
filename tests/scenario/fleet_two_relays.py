"""Two relays before one Kafka, and agents that know both. One relay is killed: its agents go on at the other. Then each
relay is replaced, one after the other, as in an upgrade. Kafka has each event, a reader gets it once, nothing is
missing, and every ledger closes."""
import collections
import copy
import json

import ringtail
from lib import fleet
from lib.kafka import Courier, Mock
from lib.process import ENGINE_USER

CALLS = 500
HOSTS = ("web-1", "web-2")
RELAYS = ("east", "west")


def main(case):
    kafka = Mock(case, ringtail.BUILD, ("ringtail.frames:2", "ringtail.runs:1"))
    parts = fleet.Fleet(case)
    comm = case.own_comm
    places, relays, couriers, done = {}, {}, {}, 0
    for name in RELAYS:
        places[name] = copy.copy(parts)
        places[name].port, places[name].state = fleet.free_port(), case.path(f"{name}-state")

    def start(name):
        relays[name] = places[name].relay("--relay-ack=kafka", f"--relay-courier={case.path(name + '.sock')}",
                                          f"--operator=user:{ENGINE_USER}")

    def check_sums(name):
        """What a relay says of its hosts: each equation closes."""
        answer = case.tracectl(relays[name], "stat", "--fleet", "-o", "json")
        case.check_equal((answer.code, json.loads(answer.out)["balanced"]), (0, True), f"the ledgers of {name} close",
                         answer.out)

    def has_come(host, name):
        return f"[agent-came] the host {host} " in relays[name].log

    def await_all_at(name):
        ringtail.wait_until(lambda: all(has_come(host, name) for host in HOSTS), f"all agents are at {name}")

    def is_acknowledged(agent):
        """All that was called is on the agent's disk, and a relay has it."""
        stat = agent.stat()
        return (sum(ring["events"] for ring in stat["ring"]) >= done and
                not any(spool["in_flight"] for spool in stat["spool"]) and
                not any(consumer["behind_bytes"] for consumer in stat["consumer"]))

    def await_acknowledged():
        for name, agent in agents.items():
            ringtail.wait_until(lambda a=agent: is_acknowledged(a), f"a relay has acknowledged all of {name}")

    def call():
        nonlocal done
        case.load(CALLS, comm=comm).run()
        done += CALLS

    def end(name):
        """In order: what has come is in Kafka by then, or its agent sends it again."""
        case.check_equal(relays[name].stop(), 0, f"{name} ends well")
        case.check("[relay-ledger]" in relays[name].log and "residual 0" in relays[name].log, "its ledger closes",
                   relays[name].log)

    for name in RELAYS:
        start(name)
        couriers[name] = Courier(case, ringtail.BUILD, None, kafka.brokers, relay=case.path(name + ".sock"))
        couriers[name].await_ready()
    where = [f"--relay=tls:127.0.0.1:{places[name].port}" for name in RELAYS]
    record = ["--probe=syscall:getppid:call", f'--filter=comm == "{comm}"']
    options = {name: [word for word in parts.agent_options(name) if not word.startswith("--relay=")] for name in HOSTS}
    agents = {name: case.daemon(*options[name], *where, *record) for name in HOSTS}
    call()
    await_acknowledged()

    # ---- One is killed, with something on its way.
    first = next(name for name in RELAYS if has_come(HOSTS[0], name))
    second = next(name for name in RELAYS if name != first)
    call()
    relays[first].crash()
    call()
    await_all_at(second)
    await_acknowledged()

    # ---- The upgrade: one after the other.
    start(first)
    for old, other in ((second, first), (first, second)):
        call()
        end(old)
        call()
        await_all_at(other)
        start(old)
        call()
        await_acknowledged()

    # ---- What Kafka has of both relays.
    told = case.tracectl(None, "--summary", "json", "--connect", kafka.source, "read", "-o", "json")
    events = collections.Counter((event["host"], event["cpu"], event["seq"]) for event in told.lines)
    case.check_equal((len(events), max(events.values())), (len(HOSTS) * done, 1), "each event of each host once")
    case.check_equal((told.code, told.summary["ledger"], told.summary["lost"], told.summary["gaps"],
                      told.summary["lossy"]), (0, "balanced", 0, 0, []), "and nothing is missing", told.err)
    case.check_balanced(*agents.values(), *relays.values())
    for name in RELAYS:
        check_sums(name)
    for name, agent in agents.items():
        case.check_equal(agent.stop(), 0, f"{name} ends well")
    for name in RELAYS:
        end(name)
        stopped, ledger = couriers[name].stop()
        case.check_equal((stopped.code, ledger["residual"], ledger["rejected"]), (0, 0, 0), "its courier ends well",
                         ledger, stopped.err)


ringtail.run(main)
