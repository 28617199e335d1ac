"""Two agents and a relay, which is killed while events come and is away for a while; then an agent is killed.
The relay has every event that an agent stored, each once, and every ledger closes."""
import ringtail
from lib import fleet

CALLS = 3000
PARTS = 3
KILLED = "web-1"


def main(case):
    parts = fleet.Fleet(case)
    relay = parts.relay()
    comm = case.own_comm
    words = ["--probe=syscall:getppid:call", f'--filter=comm == "{comm}"']
    options = {name: parts.agent_options(name, *words, interval="100ms") for name in ("web-1", "web-2")}
    agents = {name: case.daemon(*options[name]) for name in options}

    def has_stored(name, events):
        """All events, and of one that was killed the gap, which comes with the next run's first frame."""
        return parts.events(name) >= events and (name != KILLED or parts.read(name).summary["gaps"] > 0)

    def await_stored(events):
        for name in options:
            ringtail.wait_until(lambda n=name: has_stored(n, events), f"the relay has stored {events} events of {name}")
            done = parts.read(name)
            case.check_equal((done.summary["events"], done.summary["lost"]), (events, 0),
                             f"{events} events of {name}, each once, and nothing lost")
            # One that was killed may have read what it did not store: a gap of unknown size says so.
            case.check_equal((done.code, done.summary["gaps"] > 0), (3, True) if name == KILLED else (0, False),
                             "gaps are where an agent was killed alone")

    load = case.load(CALLS, rate=4000, comm=comm)
    load.go()
    ringtail.wait_until(lambda: parts.counters(relay)["relay_forwarded"], "the relay stores frames")
    relay.crash()
    load.result()
    case.load(CALLS, comm=comm).run()
    for agent in agents.values():
        ringtail.wait_until(lambda a=agent: a.recorded() >= 2 * CALLS and
                            not any(spool["in_flight"] for spool in a.stat()["spool"]),
                            "the agent stores what the relay does not get")
    agents[KILLED].crash()
    agents[KILLED] = case.daemon(*options[KILLED])
    relay = parts.relay()
    await_stored(2 * CALLS)
    case.load(CALLS, comm=comm).run()
    await_stored(PARTS * CALLS)
    counters = parts.counters(relay)
    case.check(counters["relay_received"] >= counters["relay_forwarded"] + counters["relay_duplicate"] +
               counters["relay_refused"] > 0, "what the relay received it has stored, or had already", counters)
    case.check_balanced(relay, *agents.values())
    for daemon in (*agents.values(), relay):
        case.check_equal(daemon.stop(), 0, "it ends well")
    case.check("[relay-ledger]" in relay.log and "0 held, residual 0" in relay.log,
               "the relay's ledger closes", relay.log)
    for name in options:
        case.check_equal(parts.read(name).summary["events"], PARTS * CALLS, "all is readable then")


ringtail.run(main)
