"""Live questions to hosts of a relay: one command asks two agents through it. Each host's events are told apart, and
come once; tables add them up; both audit logs say who asked. A host that dies is named, and comes back by itself. A host
that serves no clients of its relay, one that is away and one that is unknown are named, and the others answer. Only
operators of the relay may ask."""
import collections
import json
import os

import ringtail
from lib import fleet

CALLS = 1000
HOSTS = ("web-1", "web-2")
VIEWER = 41001


def audited(path, action):
    with open(os.path.join(path, "audit.log")) as file:
        return [line for line in map(json.loads, file) if line["action"] == action]


class Asking:
    """A command that asks hosts of the relay."""

    def __init__(self, case, relay, agents, *words, glob="web-*", command="stream"):
        self.case, self.agents = case, agents
        self.process = case.start_stream(relay, "--host", glob, *words, command=command)

    def asked(self, name):
        """What the agent says of it."""
        mine = [client for client in self.agents[name].stat()["client"]
                if client["identity"].startswith("relay:") and client["probe"]]
        return mine[0] if mine else None

    def await_subscribed(self, *names):
        def look():
            if not self.process.running:
                raise ringtail.Failure(f"it ended:\n{self.process.read('err')}")
            return all(self.asked(name) for name in names or self.agents)
        ringtail.wait_until(look, "all hosts have its subscription")
        return self

    def run(self, *names):
        """Calls that all of them see."""
        self.case.load(CALLS, comm=self.case.own_comm).run()
        for name in names or self.agents:
            self.case.await_rings_empty(self.agents[name])
            ringtail.wait_until(lambda n=name: not self.asked(n)["in_flight"], f"{name} has sent it all")

    def interrupt(self):
        done = self.process.interrupt()
        ringtail.wait_until(lambda: not any(self.asked(name) for name in self.agents if self.agents[name].running),
                            "its subscriptions end with it")
        return done


def connected(case, relay):
    return sum(host["connected"] for host in case.tracectl(relay, "list", "hosts", "-o", "json").lines)


def by_host(done):
    return collections.Counter(line["host"] for line in done.lines if "probe" in line)


def questions(case, relay, agents, states):
    mine = ("-p", "syscall:getppid:call", "-f", f'comm == "{case.own_comm}"', "-o", "json")
    stream = Asking(case, relay, agents, *mine).await_subscribed()
    case.check(all(stream.asked(name)["identity"] == "relay:user:root" for name in HOSTS), "the hosts know who asks")
    stream.run()
    done = stream.interrupt()
    case.check_stream(done, events=2 * CALLS)
    case.check_equal(by_host(done), {name: CALLS for name in HOSTS}, "each event names its host")
    case.check_equal((done.summary["hosts"], done.summary["lossy"], done.summary["unasked"]), (2, [], 0), "all is told")

    count = Asking(case, relay, agents, *mine, "--by", "host,comm", command="count").await_subscribed()
    count.run()
    done = count.interrupt()
    case.check_equal({line["key"]["host"]: line["count"] for line in done.lines if "key" in line},
                     {name: CALLS for name in HOSTS}, "a table counts each host's calls", done.out, done.err)
    case.check_equal(done.code, 0, "it ends well", done.err)

    one = Asking(case, relay, agents, *mine[:-2], "-n", "5", glob="web-1").await_subscribed("web-1")
    case.load(CALLS, comm=case.own_comm).run()
    done = one.process.wait()
    case.check_equal((done.code, [line.split()[0] for line in done.out.splitlines()]), (0, ["web-1"] * 5),
                     "text begins with the host, also of one", done.err)

    case.check_equal(sorted(line["host"] for line in audited(states["relay"], "reach")),
                     ["web-1", "web-1", "web-1", "web-2", "web-2"], "the relay's audit log has each")
    case.check_equal([(line["who"], line["role"]) for line in audited(states["web-2"], "dial")],
                     [("relay:user:root", "viewer")] * 2, "and the host's")


def killed(case, relay, agents, start):
    mine = ("-p", "syscall:getppid:call", "-f", f'comm == "{case.own_comm}"', "-o", "json")
    stream = Asking(case, relay, agents, *mine).await_subscribed()
    stream.run()
    agents["web-2"].crash()
    ringtail.wait_until(lambda: "tracectl: web-2: " in stream.process.read("err"), "the lost host is named")
    stream.run("web-1")
    agents["web-2"] = start("web-2")
    ringtail.wait_until(lambda: stream.asked("web-2"), "it comes back by itself")
    stream.run()
    done = stream.interrupt()
    case.check_equal(by_host(done), {"web-1": 3 * CALLS, "web-2": 2 * CALLS}, "the other one went on", done.err)
    case.check_equal((done.code, done.summary["ledger"]), (3, "balanced"), "what is missing is said", done.err)


def refused(case, relay, agents, states):
    words = ("-p", "syscall:getppid:call", "-f", f'comm == "{case.own_comm}"')
    case.write(f"{agents['web-1'].name}.conf", "relay-clients = none\n")
    stream = Asking(case, relay, agents, *words, "-o", "json").await_subscribed()
    agents["web-1"].reload(r"\[reloaded\]")
    ringtail.wait_until(lambda: not stream.asked("web-1"), "a host that serves no clients of its relay ends them")
    ringtail.wait_until(lambda: "tracectl: web-1: this host serves no clients" in stream.process.read("err"), "it is said")
    stream.run("web-2")
    done = stream.interrupt()
    case.check_equal((done.code, by_host(done)["web-2"]), (1, CALLS), "the other one goes on", done.err)
    case.check("[relay-clients]" in done.err and "relay-clients = viewer" in done.err, "and what to do", done.err)

    stream = Asking(case, relay, agents, *words, "-o", "json").await_subscribed("web-2")
    stream.run("web-2")
    done = stream.interrupt()
    case.check_equal((done.code, dict(by_host(done)), done.summary["unasked"]), (1, {"web-2": CALLS}, 1),
                     "one that cannot be asked is named, and the other answers", done.err)
    case.check("web-1 is not asked:" in done.err and "[relay-clients]" in done.err, "with its reason", done.err)
    with open(os.path.join(states["web-1"], "audit-denied.log")) as file:
        case.check("relay-clients" in file.read(), "that is in the host's audit log of what is denied")

    agents["web-1"].stop()
    ringtail.wait_until(lambda: connected(case, relay) == 1, "web-1 is away")
    stream = Asking(case, relay, agents, *words).await_subscribed("web-2")
    done = stream.interrupt()
    case.check_equal(done.code, 0, "that a host is away is no failure", done.err)
    case.check("1 of 2 hosts are not connected to the relay, and not asked: web-1" in done.err, "and is said", done.err)

    for daemon, glob, code in ((relay, "web-1", "host-away"), (relay, "db-*", "host-unknown"),
                               (agents["web-2"], "web-*", "not-a-relay")):
        done = case.tracectl(daemon, "stream", "--host", glob, *words)
        case.check(done.code == 1 and f"[{code}]" in done.err, f"{code} is said", done.err)
    for more, code in ((("--connect", "unix:/x"), "one-relay"), (("--tree", "1"), "several-hosts"),
                       (("--explain",), "one-host")):
        done = case.tracectl(relay, "stream", "--host", "web-*", *more, *words)
        case.check(done.code == 2 and f"[{code}]" in done.err, f"{code} is said", done.err)

    with open(os.path.join(ringtail.BUILD, "tracectl"), "rb") as file:
        program = case.write("tracectl", file.read())       # where other users may run it
    os.chmod(program, 0o755)
    done = case.start(program, "--connect", relay.address, "stream", "--host", "web-*", *words, user=VIEWER,
                      group=VIEWER, extra_groups=[]).wait()
    case.check(done.code == 1 and "[not-allowed]" in done.err and "operator" in done.err, "a viewer may not", done.err)


def main(case):
    if os.geteuid():
        raise ringtail.Skip("this takes root, to be others")
    parts = fleet.Fleet(case)
    states = {"relay": parts.state, **{name: case.path(f"{name}-state") for name in HOSTS}}
    options = {name: parts.agent_options(name, "--probe=syscall:getpgid:call", f'--filter=comm == "{case.own_comm}"',
                                         "--ring-size=8MiB") for name in HOSTS}

    def start(name):
        return case.daemon(*options[name], config="relay-clients = viewer\n")

    relay = parts.relay(f"--viewer=user:{VIEWER}", "--operator=user:root")
    os.chmod(relay.address.removeprefix("unix:"), 0o666)
    agents = {name: start(name) for name in HOSTS}
    ringtail.wait_until(lambda: connected(case, relay) == 2, "both are connected")
    questions(case, relay, agents, states)
    killed(case, relay, agents, start)
    case.check_balanced(relay, *agents.values())
    refused(case, relay, agents, states)
    counters = relay.stat()["counters"]
    case.check(counters["reaches"] > counters["reaches_failed"] > 0 and counters["reach_bytes"], "all is counted",
               counters)
    case.check_balanced(relay, agents["web-2"])


ringtail.run(main)
