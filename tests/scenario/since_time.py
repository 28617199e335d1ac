"""--since with a time, from memory and from the spool: what was before does not come."""
import time

import ringtail


def one(case, calls, *options):
    early, late = case.load(calls, 2), case.load(calls, 2)
    pids = ", ".join(map(str, early.pids + late.pids))
    daemon = case.daemon("--ring-size=64MiB", "--probe=syscall:getppid:call",
                         f"--filter=pid in ({pids})", *options)
    case.stream(daemon, "-o", "none").interrupt()       # what is always on is recorded by now
    begun = time.time()
    early.run()
    time.sleep(0.1)
    between = time.time()
    time.sleep(0.1)
    late.run()
    ringtail.wait_until(lambda: daemon.recorded() == 2 * calls, "all are recorded")
    for since, events in ((f"@{between:.6f}", calls), (f"@{begun:.6f}", 2 * calls)):
        done = case.start_stream(daemon, "-o", "json", "--since", since, "-n", str(events)).wait()
        case.check_stream(done, events=events)
        filtered = done.summary["filtered"]
        case.check(filtered <= 2 * calls - events, f"{filtered} that came and are from before were left out")
        wanted = set(late.pids) | (set() if events == calls else set(early.pids))
        case.check_equal({event["pid"] for event in done.lines}, wanted, f"from {since} on")
    wrong = case.tracectl(daemon, "stream", "--since", "yesterday")
    case.check(wrong.code == 2 and "bad-since" in wrong.err, "what is no time is refused", wrong.err)
    case.check_balanced(daemon)
    daemon.stop()


def main(case):
    one(case, 20_000)
    one(case, 100_000, "--durability=written", f"--state-dir={case.path('state')}", "--user=root",
        "--history-size=64KiB", "--queue-size=64KiB")


ringtail.run(main)
