"""What a relay says of its hosts: two agents; one ends, the relay is killed and comes back; a host whose name is too long
for its column; then a relay that no courier serves, whose agent is killed, and sends again what it had sent. Of each
host, each equation closes."""
import glob
import json
import os
import re

import ringtail
from lib import fleet, http
from lib.process import ENGINE_USER

CALLS = 500
LONG = "a-host-whose-name-is-too-long-for-any-column-of-a-table.example"
LEFT = "web-2"
KILLED = "db-1"


def main(case):
    parts = fleet.Fleet(case)
    comm = case.own_comm
    words = ["--probe=syscall:getppid:call", f'--filter=comm == "{comm}"']
    names = (LONG, LEFT)
    options = {name: parts.agent_options(name, *words) for name in names}

    def listed(daemon):
        done = case.tracectl(daemon, "list", "hosts", "-o", "json")
        case.check_equal((done.code, done.err), (0, ""), "the relay lists its hosts")
        return {host["host"]: host for host in done.lines}

    def ledger(daemon):
        done = case.tracectl(daemon, "stat", "--fleet", "-o", "json")
        case.check_equal((done.code, done.err), (0, ""), "every equation of the fleet closes", done.out)
        told = json.loads(done.out)
        for host in (told["all"], *told["hosts"]):
            case.check_equal((host["residual"], host["received"]),
                             (0, host["forwarded"] + host["duplicate"] + host["refused"] + host["held"]),
                             "received = forwarded + duplicate + refused + held", host)
            case.check_equal((host["consigned_residual"], host["consigned"]),
                             (0, host["confirmed"] + host["rejected"] + host["returned"] + host["in_flight"]),
                             "consigned = confirmed + rejected + returned + in flight", host)
            case.check_equal((host["spool_residual"], host["spool_produced"]),
                             (0, host["spool_stored"] + host["spool_lost"] + host["spool_in_flight"]),
                             "produced = stored + lost + in flight, as the hosts say", host)
        case.check_equal(told["balanced"], True, "and so it is said")
        return told

    def check_text(daemon, *expected):
        for command in (["list", "hosts"], ["stat", "--fleet"]):
            lines = case.tracectl(daemon, *command).out.splitlines()
            case.check(max(map(len, lines)) <= 80, "80 columns are enough", lines)
            for pattern in expected:
                case.check(any(re.search(pattern, line) for line in lines), f"{command[0]} has {pattern}", lines)

    def kept(name):
        return sum(os.path.getsize(path) for path in glob.glob(parts.directory(name) + "/*"))

    # ---- A relay that stores.
    relay = parts.relay("--http=127.0.0.1:0")
    case.check_equal(listed(relay), {}, "no host has come")
    check = case.tracectl(relay, "list", "hosts")
    case.check("no hosts" in check.out, "and people are told", check.out)
    agents = {name: case.daemon(*options[name]) for name in names}
    case.load(CALLS, comm=comm).run()
    for name in names:
        ringtail.wait_until(lambda n=name: listed(relay).get(n, {}).get("events") == CALLS,
                            f"the relay has {CALLS} events of {name}")
    hosts = listed(relay)
    boot_id = open("/proc/sys/kernel/random/boot_id").read().strip().replace("-", "")
    for host in hosts.values():
        case.check_equal((host["connected"], host["run"].split("/")[0]), (True, boot_id), "it is of this boot", host)
        case.check(host["software"].startswith("ringtaild ") and host["peer"], "what and where it is", host)
        case.check(0 < host["since_realtime_ns"] <= host["heard_realtime_ns"], "since when, and until when", host)
        case.check_equal((host["lost"], host["gaps"]), ([], 0), "nothing is lost")
    case.check(hosts[LONG]["run"] != hosts[LEFT]["run"], "each daemon has a run of its own", hosts)
    ringtail.wait_until(lambda: ledger(relay)["told"] == 2, "both have told how their spools stand")
    told = ledger(relay)
    case.check_equal((told["ack"], told["known"], told["connected"], told["forgotten"]), ("fsync", 2, 2, 0), "the sums")
    case.check(all(host["told_realtime_ns"] for host in told["hosts"]), "and when", told)
    case.check(told["all"]["events"] == 2 * CALLS, "events of both", told["all"])
    check_text(relay, f"^{LONG}$", rf"^{LEFT} ")
    for command in (["list", "hosts"], ["stat", "--fleet"]):
        done = case.tracectl(agents[LONG], *command)
        case.check_equal(done.code, 1, "an agent is no relay")
        case.check("is no relay" in done.err and "listen-agents" in done.err, "and says where to ask", done.err)

    # ---- One ends. It comes last that was heard last.
    case.check_equal(agents[LEFT].stop(), 0, "an agent ends well")
    ringtail.wait_until(lambda: not listed(relay)[LEFT]["connected"], "the relay knows that it is away")
    heard = listed(relay)[LONG]["heard_realtime_ns"]
    ringtail.wait_until(lambda: listed(relay)[LONG]["heard_realtime_ns"] > heard, "the other one goes on")
    case.check_equal(list(listed(relay)), [LEFT, LONG], "the silent one is listed first")
    check_text(relay, rf"^{LEFT} +(away \d+s|\d)")
    hosts, metrics = listed(relay), http.metrics(relay)
    for name in names:
        case.check_equal([metrics.get(f"ringtail_collector_relay_host_{word}", host=name)
                          for word in ("connected", "residual", "duplicate_total")], [name != LEFT, 0, 0],
                         f"/metrics has {name}")
    case.check_equal([metrics.get(f"ringtail_collector_relay_host_{word}", host=LEFT)
                      for word in ("received_total", "forwarded_total", "kept_bytes")],
                     [hosts[LEFT][word] for word in ("received", "forwarded", "kept_bytes")], "and the same of it")
    case.check_equal([metrics.get(f"ringtail_collector_relay_{word}")
                      for word in ("hosts", "hosts_connected", "hosts_metered", "residual")], [2, 1, 2, 0], "the sums")

    # ---- The relay is killed: what is on its disk is known, and of whom.
    relay.crash()
    relay = parts.relay()
    ringtail.wait_until(lambda: listed(relay).get(LONG, {}).get("connected"), "the agent is back")
    ringtail.wait_until(lambda: LEFT in listed(relay), "the relay has found what it kept")
    left = listed(relay)[LEFT]
    case.check_equal((left["connected"], left["since_realtime_ns"], left["heard_realtime_ns"], left["received"],
                      left["kept_bytes"]), (False, 0, 0, 0, kept(LEFT)), "it was not seen since", left)
    check_text(relay, rf"^{LEFT} +(unseen +never|0)")
    agents[LEFT] = case.daemon(*options[LEFT])
    case.load(CALLS, comm=comm).run()
    for name in names:
        ringtail.wait_until(lambda n=name: parts.events(n) == 2 * CALLS, f"all events of {name} are kept")
    ledger(relay)
    case.check_equal(relay.stop(), 0, "the relay ends well")
    for agent in agents.values():
        case.check_balanced(agent)
        agent.stop()

    # ---- A relay that waits for a courier: what it holds is acknowledged to nobody.
    relay = parts.relay("--relay-ack=kafka", f"--relay-courier={case.path('courier.sock')}",
                        f"--operator=user:{ENGINE_USER}")
    fresh = (KILLED, "db-2")
    options = {name: parts.agent_options(name, *words) for name in fresh}
    agents = {name: case.daemon(*options[name]) for name in fresh}
    case.load(CALLS, comm=comm).run()

    def sent(name):
        """How many frames the agent has sent, once all events are on its disk and among them."""
        stat = agents[name].stat()
        client = next((client for client in stat["client"] if client["identity"] == "relay"), {})
        stored = not any(spool["in_flight"] for spool in stat["spool"])
        return client["frames"] if stored and client.get("delivered", 0) >= CALLS else 0

    def await_held(name):
        """Not each frame that is sent is held, so later ones have to come for that."""
        frames = ringtail.wait_until(lambda: sent(name), f"{name} has sent its events")

        def holds():
            case.load(1, comm=comm).run()
            return listed(relay)[name]["held"] >= frames
        ringtail.wait_until(holds, f"the relay holds the events of {name}")

    for name in fresh:
        await_held(name)
    agents[KILLED].crash()
    ringtail.wait_until(lambda: not listed(relay)[KILLED]["connected"], "the relay knows that it is away")
    case.check_equal(listed(relay)[KILLED]["duplicate"], 0, "each frame came once")
    agents[KILLED] = case.daemon(*options[KILLED])
    ringtail.wait_until(lambda: listed(relay)[KILLED]["duplicate"] > 2, "what was not acknowledged came again")
    told = ledger(relay)
    case.check_equal((told["ack"], told["courier"], told["all"]["forwarded"], told["all"]["consigned"]),
                     ("kafka", False, 0, 0), "nobody carries")
    case.check(told["all"]["held_bytes"] > 0, "and it waits", told["all"])
    check_text(relay, rf"^{KILLED} ")
    case.check("no courier is connected" in case.tracectl(relay, "stat", "--fleet").out, "people are told why")
    for agent in agents.values():
        case.check_balanced(agent)
        agent.stop()
    case.check_equal(relay.stop(), 0, "the relay ends well")
    case.check("residual 0" in relay.log, "its ledger closes", relay.log)


ringtail.run(main)
