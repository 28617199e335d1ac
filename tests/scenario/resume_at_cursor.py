"""A client that was cut off returns with its cursor: no event twice, and none missing."""
import json
import re

import ringtail
from lib import batch

CALLS = 60_000


class Reader:
    """A client by hand that remembers what it saw, and how far it came on each CPU."""

    def __init__(self, daemon, load):
        self.daemon, self.load = daemon, load
        self.seen, self.position, self.losses = [], {}, []

    def read(self, events, since=None):
        """Reads until it has seen so many events in all; breaks off without a word."""
        with self.daemon.connect() as connection:
            hello = connection.greet()
            more = {"since": since} if since else {}
            connection.send(ringtail.wire.message("Subscribe", probe=["syscall:getppid:call"],
                                                  filter=self.load.filter, **more))
            probes = {p["id"]: p for p in connection.await_frame("Catalog").values["probe"]}
            subscribed = connection.await_frame("Subscribed").values
            self.run = {"boot_id": hello["boot_id"], "epoch": hello["epoch"]}
            if not since:
                self.position = {p["cpu"]: p["seq"] for p in subscribed["start"]["position"]}
                self.load.go()
            while len(self.seen) < events:
                self._take(connection.frame(), probes)
        return subscribed

    def _take(self, frame, probes):
        if frame.name == "Batch":
            values = frame.values
            cpu = values["cpu"]
            for event in batch.events(values, probes):
                if event["seq"] >= self.position[cpu]:
                    self.seen.append((cpu, event["seq"]))
            self.position[cpu] = max(self.position[cpu], values["end_seq"])
            self.losses += values["loss"]
        elif frame.name == "Gap":
            self.losses.append(frame.values)

    @property
    def cursor(self):
        return {**self.run, "position": [{"cpu": cpu, "seq": seq}
                                         for cpu, seq in self.position.items()]}


def by_hand(case, daemon):
    load = case.load(CALLS)
    reader = Reader(daemon, load)
    reader.read(CALLS // 4)
    case.say(f"broke off after {len(reader.seen)} events")
    load.result()
    subscribed = reader.read(CALLS, since=reader.cursor)
    case.check(subscribed["resumed"], "the daemon says that nothing is missing")
    case.check_equal(reader.losses, [], "there is no gap")
    case.check_equal((len(reader.seen), len(set(reader.seen))), (CALLS, CALLS),
                     f"all {CALLS} events came, each once")


def with_tracectl(case, daemon):
    """One that ends by itself says goodbye; the daemon records on, as another wants the same."""
    load = case.load(CALLS)
    words = ["-p", "syscall:getppid:call", "-f", load.filter, "-o"]
    case.stream(daemon, *words, "none")
    words.append("json")
    first = case.stream(daemon, *words, "-n", "12345", "--summary", "text")
    load.run()
    done = first.wait()
    case.check_equal(done.code, 0, "the first stream ends after 12345 events")
    cursor = re.search(r"--since (\S+)", done.err)[1]
    events = [json.loads(line) for line in done.out.splitlines()]
    done = case.start_stream(daemon, *words, "-n", str(CALLS - 12345), "--since", cursor).wait()
    case.check_stream(done, events=CALLS - 12345)
    events += done.lines
    case.check_equal(len({(event["cpu"], event["seq"]) for event in events}), CALLS,
                     f"both together have all {CALLS} events, each once")


def killed(case, daemon):
    """tracectl dies by SIGKILL; what it had printed tells where another one is to go on."""
    load, after = case.load(CALLS, cpus=[0]), case.load(1, cpus=[0])
    words = ["-p", "syscall:getppid:call", "-f", f"pid in ({load.pids[0]}, {after.pids[0]})"]
    start = daemon.stat()
    stream = case.stream(daemon, *words, "-o", "json")
    load.go()
    ringtail.wait_until(lambda: len(stream.read("out")) > 1 << 20, "some of it came")
    stream.kill()
    load.result()
    after.run()                 # there is something to come, however much was printed
    printed = stream.read("out")
    events = [json.loads(line) for line in printed[:printed.rindex("\n")].splitlines()]
    case.say(f"killed when it had printed {len(events)} events")
    with daemon.connect() as connection:
        hello = connection.greet()
    boot = hello["boot_id"].hex()
    cursor = f"{boot}/{hello['epoch']}/0:{events[-1]['seq'] + 1}"
    rest = CALLS + 1 - len(events)
    done = case.start_stream(daemon, *words, "-o", "json", "-n", str(rest), "--since",
                             cursor).wait()
    case.check_stream(done, events=rest)
    events += done.lines
    case.check_equal(len({event["seq"] for event in events}), CALLS + 1,
                     f"both together have all {CALLS + 1} events, each once")
    case.check(start["ring"], "the daemon never stopped")


def main(case):
    daemon = case.daemon("--ring-size=64MiB", "--history-size=64MiB", "--history-age=1h")
    by_hand(case, daemon)
    with_tracectl(case, daemon)
    killed(case, daemon)
    counters = daemon.stat()["counters"]
    case.check_equal((counters["resumes"], counters["resumes_with_gap"]), (3, 0),
                     "the daemon counts three resumes, none with a gap")
    case.check_balanced(daemon)


ringtail.run(main)
