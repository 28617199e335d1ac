"""What agents always record changes: one has a relay then, which has acknowledged all; one has none. The relay is sent
what is always on now by both. A gap names what the second one had not acknowledged of what was before, which stays on
that host's disk."""
import glob

import ringtail
from lib import fleet

CALLS = 1000
OTHER = "syscall:getuid:call"


def main(case):
    parts = fleet.Fleet(case)
    comm = case.own_comm
    options = {name: parts.agent_options(name, "--probe=syscall:getppid:call", f'--filter=comm == "{comm}"')
               for name in ("connected", "alone")}
    relay = parts.relay()
    agents = {name: case.daemon(*words) for name, words in options.items()}

    def consumer(name):
        one, = agents[name].stat()["consumer"]
        return one

    def await_connected(name):
        ringtail.wait_until(lambda: consumer(name)["connected"], f"{name} is connected")

    def enable(name):
        case.check_equal(case.tracectl(agents[name], "enable", OTHER).code, 0, f"{name} records something else, too")

    def run():
        before = {name: sum(spool["produced"] for spool in agents[name].stat()["spool"]) for name in agents}
        case.load(CALLS, comm=comm).run()
        for name, agent in agents.items():
            ringtail.wait_until(lambda a=agent, n=before[name]: sum(spool["produced"] for spool in a.stat()["spool"]) >=
                                n + CALLS and not any(spool["in_flight"] for spool in a.stat()["spool"]),
                                f"{name} has stored {CALLS} more calls")

    def calls(directory):
        done = case.start(f"{ringtail.BUILD}/tracectl", "--summary", "json", "read", directory, "-o", "json").wait()
        return sum(line.get("probe") == "syscall:getppid:call" for line in done.lines), done

    def await_acknowledged(name, events):
        ringtail.wait_until(lambda: parts.events(name) >= events and not consumer(name)["behind_bytes"],
                            f"the relay has acknowledged {events} events of {name}")

    for name in agents:
        await_connected(name)
    run()
    for name in agents:
        await_acknowledged(name, CALLS)
    enable("connected")
    run()
    for name in agents:
        await_acknowledged(name, 2 * CALLS)
    relay.crash()
    for name in agents:
        ringtail.wait_until(lambda n=name: not consumer(n)["connected"], "the relay is gone")
    run()
    enable("alone")
    ringtail.wait_until(lambda: "[relay-changed]" in agents["alone"].log, "what the relay missed is said")
    run()
    relay = parts.relay()
    for name, missed in ("connected", 0), ("alone", CALLS):
        wanted = 4 * CALLS - missed
        ringtail.wait_until(lambda n=name, w=wanted: calls(parts.directory(n))[0] >= w,
                            f"the relay has {wanted} calls of {name}")
        got, done = calls(parts.directory(name))
        case.check_equal((got, done.summary["ledger"]), (wanted, "balanced"), f"{wanted} calls of {name}, each once")
        gaps = [line for line in done.lines if "lost" in line]
        case.check(done.summary["lost"] >= missed, "a gap names what is missing", gaps)
        case.check({gap["reason"] for gap in gaps} <= {"not-recorded"}, "and why", gaps)
    case.check_balanced(relay, *agents.values())
    kept = [calls(directory)[0] for directory in glob.glob(case.path("alone-state") + "/spool/*")]
    case.check(max(kept) >= 3 * CALLS, "what the relay missed is on the host's disk", kept)


ringtail.run(main)
