"""Questions over all hosts that Kafka has: three agents, a relay that stores nothing, one courier, a made-up Kafka. Counts
by host and by time, events, those of some hosts alone, and as they come; then a partition stands still: the other hosts'
answers are whole, one host is read without waiting for it, and whose part is missing is said."""
import collections
import json
import os
import re
import time

import ringtail
from lib import fleet
from lib.kafka import BROKERS, Courier, Mock, partition_of
from lib.process import ENGINE_USER

CALLS = 500
PARTITIONS = 6
HOSTS = ("web-1", "web-2", "db-1")
STILL = HOSTS[0]
PATIENCE_MS = 5000


def main(case):
    kafka = Mock(case, ringtail.BUILD, (f"ringtail.frames:{PARTITIONS}", "ringtail.runs:1"))
    still = partition_of(STILL, PARTITIONS)
    others = [name for name in HOSTS if partition_of(name, PARTITIONS) != still]
    case.check_equal(others, [name for name in HOSTS if name != STILL], "the hosts have partitions of their own")
    for partition in range(PARTITIONS):
        kafka.tell("leader", "ringtail.frames", partition, BROKERS[0] if partition == still else BROKERS[1])
    kafka.tell("leader", "ringtail.runs", 0, BROKERS[1])

    parts = fleet.Fleet(case)
    socket = case.path("courier.sock")
    relay = parts.relay("--relay-ack=kafka", f"--relay-courier={socket}", f"--operator=user:{ENGINE_USER}")
    comm = case.own_comm
    agents = {name: case.daemon(*parts.agent_options(name, "--probe=syscall:getppid:call", f'--filter=comm == "{comm}"'))
              for name in HOSTS}
    courier = Courier(case, ringtail.BUILD, None, kafka.brokers, relay=socket).await_ready()
    done = 0

    def call():
        nonlocal done
        case.load(CALLS, comm=comm).run()
        done += CALLS

    def ask(*words, **options):
        return case.tracectl(None, "--summary", "json", "--connect", kafka.source, *words, **options)

    def rows(told):
        return {row["key"]["host"]: row["count"] for row in told.lines if "key" in row}

    def count(*words, **options):
        return ask("count", "--by", "host", "--until", "now", "-o", "json", *words, **options)

    def check_closed(told, hosts, what):
        case.check_equal((told.code, told.summary["ledger"], told.summary["lost"], told.summary["hosts"],
                          told.summary["lossy"]), (0, "balanced", 0, hosts, []), what, told.err)

    # ---- What Kafka has.
    began = time.time()
    call()
    everything = dict.fromkeys(HOSTS, done)
    ringtail.wait_until(lambda: rows(count()) == everything, "Kafka has all events of each host")
    told = count()
    check_closed(told, len(HOSTS), "one ledger over all hosts")
    check_closed(count("--host", "web-*"), 2, "a glob chooses hosts")
    case.check_equal(rows(count("--host", "web-*")), dict.fromkeys(("web-1", "web-2"), done), "and only these are counted")
    case.check_equal(rows(count("--host", "db-1", "--host", "web-2")), dict.fromkeys(("db-1", "web-2"), done),
                     "several may be named")
    for words in (["read"], ["read", "--host", "*"]):
        told = ask(*words, "-o", "json")
        check_closed(told, len(HOSTS), "read closes the ledger")
        events = collections.Counter((event["host"], event["cpu"], event["seq"]) for event in told.lines)
        case.check_equal((len(events), max(events.values())), (3 * done, 1), "each event of each host once")
    told = case.tracectl(None, "read", kafka.source, "--host", "db-?")
    case.check_equal((told.code, sum(line.startswith("db-1 ") or " db-1 " in line for line in told.out.splitlines())),
                     (0, done), "text names the host", told.out[:500], told.err)
    told = ask("hist", "--by", "host", "--until", "now", "-o", "json")
    case.check_equal({row["key"]["host"]: row["values"] for row in told.lines if "key" in row}, everything, "hist")
    told = ask("summary", "--by", "host,function", "--until", "now", "-o", "json")
    case.check_equal({row["key"]["host"]: row["count"] for row in told.lines if "key" in row}, everything, "summary")

    # ---- By time.
    told = count("--interval", "10ms")
    tables, table = [], {}
    for row in told.lines:
        if "key" in row:
            table[row["key"]["host"]] = row["count"]
        else:
            tables.append((row["begin_realtime_ns"], table))
            table = {}
    begins = [begin for begin, _ in tables]
    case.check_equal(begins, sorted(set(begins)), "each interval once, in order")
    case.check(all(begin % 10_000_000 == 0 and begin > began * 1e9 - 1e9 for begin in begins), "they are of the wall clock")
    sums = collections.Counter()
    for _, table in tables:
        sums.update(table)
    case.check_equal(dict(sums), everything, "the intervals hold all events")
    # ---- What makes no sense.
    told = ask("count", "--host", "wbe-*", "--until", "now")
    case.check(told.code == 1 and "[no-such-host]" in told.err and "--list" in told.err, "a host that is not there", told.err)
    told = case.tracectl(None, "read", kafka.source, "-o", "csv")
    case.check(told.code == 1 and "[several-hosts]" in told.err, "a format for one host", told.err)
    told = case.tracectl(None, "read", kafka.source, "--host", "db-*", "-o", "csv")
    case.check_equal((told.code, len(told.out.splitlines())), (0, done + 1), "the one that matches", told.err)
    told = case.tracectl(None, "read", f"{kafka.source}/ringtail/db-1", "--host", "db-1")
    case.check(told.code == 2 and "[one-host]" in told.err, "a host twice", told.err)
    told = case.tracectl(relay, "stream", "--host", "wbe-*")
    case.check(told.code == 1 and "[host-unknown]" in told.err, "nor at the relay", told.err)
    told = ask("count", "-p", "syscall:nothing:call", "--until", "now")
    case.check(told.code == 1 and "nothing" in told.err, "what no host records", told.err)

    # ---- As they come.
    def hosts_in(stream):
        return {json.loads(line)["host"] for line in stream.read("out").splitlines() if line.endswith("}")}

    stream = case.start_stream(kafka.source, "-o", "json", "--host", "web-*")

    def both_come():
        call()
        return hosts_in(stream) == {"web-1", "web-2"}
    ringtail.wait_until(both_come, "events of both hosts come")
    told = stream.interrupt()
    case.check_equal((told.code, told.summary["ledger"], told.summary["lossy"]), (0, "balanced", []), "it ends well", told.err)
    stream = case.start_stream(kafka.source, "-o", "json", "-n", "10")

    def has_enough():
        call()
        return not stream.running
    ringtail.wait_until(has_enough, "ten events have come")
    told = stream.wait()
    case.check_equal((told.code, len(told.lines)), (0, 10), "of all hosts together", told.err)
    ended = ask("count", "--by", "host", "--duration", "1s", "-o", "json")
    case.check_equal(ended.code, 0, "it ends when its time is over", ended.err)

    # ---- A partition stands still.
    everything = dict.fromkeys(HOSTS, done)
    ringtail.wait_until(lambda: rows(count()) == everything, "Kafka has all of it")
    kafka.tell("down", BROKERS[0])
    for name in others:
        told = case.tracectl(None, "--summary", "json", "read", f"{kafka.source}/ringtail/{name}", "-o", "none")
        case.check_equal((told.code, told.summary["events"]), (0, done), f"{name} is read without it", told.err)
    impatient = {"env": {**os.environ, "RINGTAIL_KAFKA_PATIENCE": str(PATIENCE_MS)}}
    told = count(**impatient)
    case.check_equal(({name: rows(told).get(name) for name in others}, told.code), (dict.fromkeys(others, done), 3),
                     "the others' answer is whole, and what is missing is told", told.err)
    said = re.search(r"\[partition-still\].* partition (\d+) of ringtail.frames.* what it has of (.*) is missing", told.err)
    case.check(said and (int(said.group(1)), said.group(2)) == (still, STILL), "which partition, and whose", told.err)
    told = case.tracectl(None, "read", f"{kafka.source}/ringtail/{STILL}", "-o", "none", **impatient)
    case.check(told.code != 0 and "[partition-still]" in told.err, "nor does a reader of that host wait for ever", told.err)
    kafka.tell("up", BROKERS[0])
    ringtail.wait_until(lambda: rows(count()) == everything, "it is back, and all is there")
    check_closed(count(), len(HOSTS), "the ledger closes again")

    for agent in agents.values():
        case.check_balanced(agent)
        case.check_equal(agent.stop(), 0, "an agent ends well")
    stopped, ledger = courier.stop()
    case.check_equal((stopped.code, ledger["residual"]), (0, 0), "the courier ends well", ledger, stopped.err)
    case.check_equal(relay.stop(), 0, "the relay ends well")


ringtail.run(main)
