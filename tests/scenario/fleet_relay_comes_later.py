"""An agent records before there is any relay, over a restart, and longer than it remembers; then the relay comes for
the first time. It has every event, with no gap, and every ledger closes. What is recorded after `forget relay` is kept
as well, and a relay that is not configured any more is named."""
import ringtail
from lib import fleet
from lib.service_manager import ServiceManager

CALLS = 3000
FORGOTTEN = 500


def main(case):
    parts, manager = fleet.Fleet(case), ServiceManager(case)
    comm = case.own_comm
    record = ["--probe=syscall:getppid:call", f'--filter=comm == "{comm}"']
    options = {"early": parts.agent_options("early", *record, "--history-size=4KiB", "--queue-size=64KiB"),
               "forgotten": parts.agent_options("forgotten", *record)}

    def load(calls, *agents):
        before = [agent.recorded() for agent in agents]
        case.load(calls, comm=comm).run()
        for agent, recorded in zip(agents, before):
            ringtail.wait_until(lambda a=agent, n=recorded: a.recorded() >= n + calls and
                                not any(spool["in_flight"] for spool in a.stat()["spool"]), "the events are stored")

    def consumer(agent):
        one, = agent.stat()["consumer"]
        return one

    early = manager.daemon(*options["early"])
    ringtail.wait_until(lambda: "[relay-failed]" in early.log, "the agent finds no relay")
    case.check_equal([consumer(early)[key] for key in ("name", "owner", "connected")], ["relay", "relay", False],
                     "what is always on is kept for the relay before there is one")
    load(CALLS, early)
    case.check_equal(early.stop(), 0, "the agent ends well")
    case.load(CALLS, comm=comm).run()
    early = manager.daemon(*options["early"])
    case.check("[restart-adopted]" in early.log, "the rings go on", early.log)
    load(CALLS, early)

    forgotten = case.daemon(*options["forgotten"])
    load(CALLS, early, forgotten)
    case.check_equal(case.tracectl(forgotten, "forget", "relay").code, 0, "an operator gives up what the relay missed")
    case.check_equal(consumer(forgotten)["name"], "relay", "its consumer begins anew")
    load(FORGOTTEN, early, forgotten)

    relay = parts.relay()
    wanted = {"early": 4 * CALLS + FORGOTTEN, "forgotten": FORGOTTEN}
    for name, events in wanted.items():
        ringtail.wait_until(lambda n=name, e=events: parts.events(n) >= e, f"the relay has {events} events of {name}")
    case.check_balanced(early, forgotten, relay)
    for agent in early, forgotten:
        ringtail.wait_until(lambda a=agent: not consumer(a)["behind_bytes"], "the relay has acknowledged all")
        case.check_equal(agent.stop(), 0, "it ends well")
    case.check_equal(relay.stop(), 0, "the relay ends well")
    case.check("[relay-ledger]" in relay.log and "0 held, residual 0" in relay.log,
               "the relay's ledger closes", relay.log)
    for name, events in wanted.items():
        done = parts.read(name)
        case.check_equal((done.code, done.summary["events"], done.summary["gaps"], done.summary["lost"]),
                         (0, events, 0, 0), f"{events} events of {name}, each once, with no gap", done.err)
        case.check_equal(done.summary["ledger"], "balanced", "and its ledger is balanced")

    alone = [words for words in options["forgotten"] if not words.startswith(("--relay", "--tls"))]
    forgotten = case.daemon(*alone)
    case.check("[relay-unused]" in forgotten.log and "tracectl forget relay" in forgotten.log,
               "that no relay is configured any more is said, with the remedy", forgotten.log)
    case.check_equal(case.tracectl(forgotten, "forget", "relay").code, 0, "it is given up")
    case.check_equal(forgotten.stat()["consumer"], [], "and gone")


ringtail.run(main)
