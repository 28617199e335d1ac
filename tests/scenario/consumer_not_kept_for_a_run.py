"""The rings go on over two restarts, and the run in the middle keeps nothing on disk: it records nothing for a
durable consumer, and the rings' numbers stand still. The consumer is told so, until it has acknowledged it."""
import ringtail
from lib.service_manager import ServiceManager

CALLS = 300


def main(case):
    manager = ServiceManager(case)
    words = ["-p", "syscall:getppid:call", "-f", f'comm == "{case.own_comm}"', "-o", "json",
             "--consumer", "keeper"]

    def start(durability):
        daemon = manager.daemon(f"--durability={durability}", "--user=root", "--history-age=1ms",
                                f"--state-dir={case.path('state')}")
        return daemon

    def follow(daemon, events):
        """A stream of the consumer that has had so many, acknowledged."""
        load = case.load(CALLS, comm=case.own_comm)
        stream = case.stream(daemon, *words)
        if events:
            load.run()
            stream.await_all(events)
        return stream.interrupt()

    daemon = start("written")
    case.check_stream(follow(daemon, CALLS), events=CALLS)
    case.check_equal(daemon.stop(), 0, "the first run ends well")

    daemon = start("memory")
    case.check("[restart-adopted]" in daemon.log, "the rings go on", daemon.log)
    ringtail.wait_until(lambda: not daemon.recording(), "nothing is recorded any more")
    case.load(CALLS, comm=case.own_comm).run()
    case.check_equal(daemon.stop(), 0, "the second run ends well")

    daemon = start("written")
    case.check("[restart-adopted]" in daemon.log, "the rings go on", daemon.log)
    done = follow(daemon, CALLS)
    gaps = [line for line in done.lines if "lost" in line]
    case.check_equal((done.code, done.summary["events"], {gap["reason"] for gap in gaps}),
                     (3, CALLS, {"not-recorded"}), "the consumer is told that nothing was recorded", gaps)
    case.check_equal(done.lines[:len(gaps)], gaps, "before what is recorded now")
    case.check_stream(follow(daemon, CALLS), events=CALLS)
    case.check_balanced(daemon)


ringtail.run(main)
