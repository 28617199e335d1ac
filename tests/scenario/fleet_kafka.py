"""Two agents, a relay that stores nothing, one courier, a made-up Kafka. The relay and the courier are killed while
Kafka has stored what it has not confirmed, and a broker is away that leads one host's partition: the other host goes
on meanwhile. Each event is in Kafka, is read from there once, and every ledger closes."""
import json
import os

import ringtail
from lib import fleet
from lib.kafka import BROKERS, Courier, Mock, partition_of
from lib.process import ENGINE_USER

CALLS = 2000
PARTITIONS = 6
HOSTS = ("web-1", "web-2")


def main(case):
    kafka = Mock(case, ringtail.BUILD, (f"ringtail.frames:{PARTITIONS}", "ringtail.runs:1"))
    paused = partition_of(HOSTS[0], PARTITIONS)
    case.check(paused != partition_of(HOSTS[1], PARTITIONS), "the hosts have partitions of their own", paused)
    for partition in range(PARTITIONS):
        kafka.tell("leader", "ringtail.frames", partition, BROKERS[0] if partition == paused else BROKERS[1])
    kafka.tell("leader", "ringtail.runs", 0, BROKERS[1])

    parts = fleet.Fleet(case)
    socket = case.path("courier.sock")
    words = ["--relay-ack=kafka", f"--relay-courier={socket}", f"--operator=user:{ENGINE_USER}"]
    relay = parts.relay(*words)
    comm = case.own_comm
    agents = {name: case.daemon(*parts.agent_options(name, "--probe=syscall:getppid:call", f'--filter=comm == "{comm}"'))
              for name in HOSTS}
    done = 0

    def call():
        nonlocal done
        case.load(CALLS, comm=comm).run()
        done += CALLS

    def start_courier():
        return Courier(case, ringtail.BUILD, None, kafka.brokers, relay=socket).await_ready()

    def read(name, *more):
        return case.tracectl(None, "--summary", "json", "read", f"{kafka.source}/ringtail/{name}", "-o", "json", *more)

    def fleet_sums():
        """As the relay tells them: every equation closes, of each host too."""
        done = case.tracectl(relay, "stat", "--fleet", "-o", "json")
        told = json.loads(done.out)
        case.check_equal((done.code, told["ack"], told["balanced"]), (0, "kafka", True), "the fleet's ledger", done.out)
        for host in (told["all"], *told["hosts"]):
            case.check_equal(host["consigned"],
                             host["confirmed"] + host["rejected"] + host["returned"] + host["in_flight"],
                             "consigned = confirmed + rejected + returned + in flight", host)
            case.check_equal(host["confirmed"], host["forwarded"], "what Kafka has is acknowledged", host)
        return told

    def await_read(*names):
        for name in names:
            ringtail.wait_until(lambda n=name: read(n).summary["events"] == done, f"Kafka has {done} events of {name}")

    # Nobody carries: the relay holds what comes, and acknowledges nothing.
    call()
    ringtail.wait_until(lambda: parts.counters(relay)["relay_received"] > 0, "the relay holds frames")
    case.check_equal(parts.counters(relay)["relay_forwarded"], 0, "and has acknowledged none")
    courier = start_courier()
    await_read(*HOSTS)
    case.check_equal(courier.ledger()["hosts"], 2, "one courier carries both hosts")

    # A partition stands still: the other host goes on.
    kafka.tell("down", BROKERS[0])
    call()
    ringtail.wait_until(lambda: parts.counters(relay)["relay_events"] == 2 * done - CALLS,
                        "all of the other host is confirmed")
    case.check(courier.ledger()["in_flight"] > 0, "the host of that partition waits", courier.ledger())
    told = fleet_sums()
    waiting = {host["host"]: host["in_flight"] for host in told["hosts"]}
    case.check(told["courier"] and waiting[HOSTS[0]] > 0, "the relay says so", told)
    kafka.tell("up", BROKERS[0])
    await_read(*HOSTS)

    # What Kafka has stored and not confirmed, when the relay is killed, and then the courier.
    kafka.tell_all("answer-later", 60_000)
    call()
    ringtail.wait_until(lambda: courier.ledger()["in_flight"] > 3, "frames are on their way")
    relay.crash()
    courier.wait_for(r"\[relay-gone\]")
    case.check(courier.ledger()["returned"] > 3, "the courier gives up what was on its way", courier.ledger())
    relay = parts.relay(*words)
    courier.wait_for(r"\[relay-back\]")
    ringtail.wait_until(lambda: courier.ledger()["in_flight"] > 3, "the agents have sent it again")
    ledger = courier.ledger()
    case.check_equal(ledger["residual"], 0, "forwarded = confirmed + rejected + returned + in flight")
    courier.kill()
    ringtail.wait_until(lambda: not fleet_sums()["courier"], "the relay knows that the courier is gone")
    case.check(fleet_sums()["all"]["returned"] > 0, "what the courier had will be sent again")
    kafka.tell_all("answer-later", 0)
    call()
    courier = start_courier()
    call()
    await_read(*HOSTS)

    for agent in agents.values():
        case.await_rings_empty(agent)
    ringtail.wait_until(lambda: courier.ledger()["unacknowledged"] == 0, "the relay knows of all that is confirmed")
    for name in HOSTS:
        events = [(event["cpu"], event["seq"]) for event in read(name).lines]
        case.check_equal((len(events), len(set(events))), (done, done), f"each event of {name} once")
        code, said = kafka.reader(case, f"--source={kafka.source}/ringtail/{name}")
        told = json.loads(said.splitlines()[-1])
        case.check_equal((code, told["holes"], told["residual"]), (0, 0, 0), f"no hole in {name}", told)
        case.check(told["duplicate"] > 0, "what was sent again came twice, and is counted", told)
    for agent in agents.values():
        case.check_balanced(agent)
        case.check_equal(agent.stop(), 0, "an agent ends well")
    stopped, ledger = courier.stop()
    case.check_equal((stopped.code, ledger["residual"]), (0, 0), "the courier ends well", ledger, stopped.err)
    case.check_equal(relay.stop(), 0, "the relay ends well")
    case.check("residual 0" in relay.log and "[relay-ledger]" in relay.log, "its ledger closes", relay.log)
    case.check(not os.path.exists(os.path.join(parts.state, "hosts")), "and it has stored nothing")


ringtail.run(main)
