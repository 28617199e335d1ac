"""A courier is killed when Kafka has stored what it has not confirmed yet, and its brokers go away and come back: each
event is in Kafka, is read from there once, and what was sent twice is counted."""
import json
import os

import ringtail
from lib.kafka import Courier, Mock
from lib.process import ENGINE_USER

CALLS = 20_000


def main(case):
    kafka = Mock(case, ringtail.BUILD)
    daemon = case.daemon("--durability=written", f"--state-dir={case.path('state')}", f"--operator=user:{ENGINE_USER}",
                         "--ring-size=16MiB")
    first, second, third = (case.load(CALLS, 1) for _ in range(3))
    pids = ", ".join(str(pid) for load in (first, second, third) for pid in load.pids)
    words = ["--probe=syscall:getppid:call", f"--filter=pid in ({pids})"]

    courier = Courier(case, ringtail.BUILD, daemon, kafka.brokers, *words).await_ready()
    ringtail.wait_until(lambda: courier.ledger()["confirmed"] >= 2, "the run's beginning is in Kafka")
    kafka.tell_all("answer-later", 60_000)
    first.run()
    ringtail.wait_until(lambda: courier.ledger()["in_flight"] > 3, "its frames are on their way")
    ledger = courier.ledger()
    case.check_equal((ledger["residual"], ledger["rejected"]), (0, 0), "forwarded = confirmed + rejected + in flight")
    case.check(ledger["unacknowledged"] > 3, "what Kafka has not confirmed is not acknowledged", ledger)
    courier.kill()
    kafka.tell_all("answer-later", 0)
    second.run()                        # nobody is there: the spool keeps it

    courier = Courier(case, ringtail.BUILD, daemon, kafka.brokers, *words).await_ready()
    ringtail.wait_until(lambda: courier.ledger()["confirmed"] > 3, "it goes on")
    kafka.tell_all("down")
    third.run()
    ringtail.wait_until(lambda: courier.ledger()["in_flight"] > 0, "no broker is there")
    kafka.tell_all("up")
    case.await_rings_empty(daemon)
    ringtail.wait_until(lambda: courier.ledger()["unacknowledged"] <= 1, "all is confirmed and acknowledged")
    done, ledger = courier.stop()
    case.check_equal((done.code, ledger["residual"], ledger["in_flight"], ledger["unacknowledged"], ledger["lost"]),
                     (0, 0, 0, 0, 0), "the courier ends with nothing on its way, and nothing lost", ledger, done.err)
    case.check_balanced(daemon)

    code, said = kafka.reader(case)
    case.check_equal(code, 0, "the topics can be read", said)
    read = json.loads(said.splitlines()[-1])
    case.check_equal((read["records"], read["holes"], read["residual"]), (read["taken"] + read["duplicate"], 0, 0),
                     "records = taken + duplicate, and there are no holes", read)
    case.check(read["duplicate"] > 0, "what the killed courier had sent came again", read)
    done = case.tracectl(None, "--summary", "json", "read", f"{kafka.source}/ringtail/{os.uname().nodename}", "-o", "json")
    events = [(event["cpu"], event["seq"]) for event in done.lines]
    case.check_stream(done, events=3 * CALLS)
    case.check_equal(len(set(events)), 3 * CALLS, "each event once")
    counted = case.tracectl(kafka.source, "count", "--until", "now", "-o", "json")
    case.check_equal((counted.code, sum(row["count"] for row in counted.lines if "count" in row)), (0, 3 * CALLS),
                     "a question gets the same answer", counted.out, counted.err)


ringtail.run(main)
