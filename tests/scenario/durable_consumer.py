"""A durable consumer is away while hundreds of thousands of events happen: they come, each once, also
when it breaks off in the middle and returns."""
import json

import ringtail

CALLS = 120_000


def printed(stream):
    """The events of whole lines on its output."""
    text = stream.read("out")
    return {(event["cpu"], event["seq"])
            for event in map(json.loads, text[:text.rfind("\n") + 1].splitlines())}


def main(case):
    daemon = case.daemon("--ring-size=64MiB", "--history-size=64KiB", "--queue-size=64KiB",
                         "--durability=written", f"--state-dir={case.path('state')}",
                         "--user=root")
    load = case.load(CALLS, 2)
    words = ["-p", "syscall:getppid:call", "-f", load.filter, "-o", "json", "--consumer", "nightly"]
    case.check_stream(case.stream(daemon, *words).interrupt(), events=0)
    load.run()
    ringtail.wait_until(lambda: daemon.recorded() == CALLS, "all are recorded while it is away")
    seen = set()
    events = 0
    for part in (1000, 30_000, 50_000):
        done = case.start_stream(daemon, *words, "-n", str(part)).wait()
        case.check_stream(done, events=part)
        seen |= {(event["cpu"], event["seq"]) for event in done.lines}
        events += part
        case.check_equal(len(seen), events, f"{events} events so far, each once")
        case.check_balanced(daemon)
    killed = case.stream(daemon, *words)
    ringtail.wait_until(lambda: len(killed.read("out")) > 1 << 20, "it prints more")
    refused = case.tracectl(daemon, "stream", *words)
    case.check(refused.code == 1 and "consumer-in-use" in refused.err,
               "meanwhile another of that name is refused", refused.err)
    killed.kill()
    ringtail.wait_until(lambda: not daemon.client(killed.pid), "the daemon sees that it is gone")
    last, had = case.stream(daemon, *words), printed(killed)
    ringtail.wait_until(lambda: last.read("out").count("\n") >= CALLS - events - len(had) and
                        len(had | printed(last)) >= CALLS - events,
                        "the rest comes, and perhaps some of what was not acknowledged")
    done = last.interrupt()
    case.check_equal((done.code, done.summary["lost"]), (0, 0), "it ends well, and nothing is lost")
    lines = had | printed(last)
    case.check(not lines & seen, "nothing that was acknowledged comes again")
    case.check_equal(len(lines | seen), CALLS, f"all {CALLS} events came")
    differs = case.tracectl(daemon, "stream", "-p", "syscall:getpid:call", "--consumer", "nightly")
    case.check(differs.code == 1 and "consumer-differs" in differs.err,
               "another subscription under that name is refused", differs.err)
    wrong = case.tracectl(daemon, "stream", "-p", "syscall:getpid:call", "--consumer", "../x")
    case.check(wrong.code == 1 and "consumer-name" in wrong.err, "so is what is no name", wrong.err)
    case.check_equal(case.tracectl(daemon, "forget", "nightly").code, 0, "it is given up")
    gone = case.tracectl(daemon, "forget", "nightly")
    case.check(gone.code == 1 and "no-such-consumer" in gone.err, "and not there any more", gone.err)
    case.check_balanced(daemon)


ringtail.run(main)
