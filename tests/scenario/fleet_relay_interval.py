"""A relay gets few large frames: what is recorded waits for relay-interval, while a client of the host has it at once.
A new configuration applies to the relay that is connected, and a stop sends what waits. Each event once."""
import ringtail
from lib import fleet

CALLS = 400
ROUNDS = 20


def main(case):
    parts = fleet.Fleet(case)
    relay = parts.relay()
    comm = case.own_comm
    words = parts.agent_options("web-1", "--probe=syscall:getppid:call", f'--filter=comm == "{comm}"', interval=None)
    agent = case.daemon(*words, config="relay-interval = 600s\n")
    ringtail.wait_until(lambda: parts.counters(relay)["relay_received"], "the relay has the stream's beginning")
    live = case.stream(agent)
    done = 0

    def call(rate=0):
        nonlocal done
        case.load(CALLS, rate=rate, comm=comm).run()
        done += CALLS
        live.await_all(done)

    def is_kept():
        before = parts.counters(relay)["relay_events"]
        call(rate=4000)
        return parts.counters(relay)["relay_events"] == before

    # The beginning comes off the disk, as fast as it can; behind that the stream waits.
    case.check(any(is_kept() for _ in range(ROUNDS)), "a client has what the relay is still to get")
    call(rate=1000)
    call()
    frames = parts.counters(relay)["relay_received"]
    case.write(f"{agent.name}.conf", "relay-interval = 50ms\n")
    agent.reload(r"\[reloaded\]")
    ringtail.wait_until(lambda: parts.counters(relay)["relay_events"] == done, "the relay gets what waited")
    came, made = parts.counters(relay)["relay_received"] - frames, agent.stat()["counters"]["batches"]
    case.check(came < made / 2, f"{came} frames of {made} batches")
    case.write(f"{agent.name}.conf", "relay-interval = 600s\n")
    agent.reload(r"\[reloaded\]")
    call(rate=4000)
    case.check_balanced(agent, relay)
    case.check_stream(live.interrupt(), events=done)
    case.check_equal(agent.stop(), 0, "the agent ends well")
    ringtail.wait_until(lambda: parts.counters(relay)["relay_events"] == done, "a stop sends what waits")
    case.check_equal(relay.stop(), 0, "the relay ends well")
    read = parts.read("web-1")
    case.check_equal((read.code, read.summary["events"], read.summary["lost"], read.summary["gaps"]), (0, done, 0, 0),
                     "each event once, none lost")


ringtail.run(main)
