"""The host was booted again while a durable consumer was away: what was stored comes, then what is recorded
now, and between them a gap, once, for nothing was recorded meanwhile."""
import ringtail
from lib import boots

CALLS = 300


def main(case):
    options = ["--durability=written", "--user=root", f"--state-dir={case.path('state')}"]
    words = ["-p", "syscall:getppid:call", "-f", f'comm == "{case.own_comm}"', "-o", "json",
             "--consumer", "keeper"]
    daemon = case.daemon(*options)
    case.check_stream(case.stream(daemon, *words).interrupt(), events=0)
    case.load(CALLS, comm=case.own_comm).run()

    def is_stored():
        spool = daemon.stat()["spool"][0]
        return spool["stored"] >= CALLS and not spool["in_flight"]
    ringtail.wait_until(is_stored, "all of it is stored")
    daemon.crash()
    boots.rewrite(case.path("state"))

    daemon = case.daemon(*options)
    load = case.load(CALLS, comm=case.own_comm)
    stream = case.stream(daemon, *words)
    load.run()
    stream.await_all(2 * CALLS)
    done = stream.interrupt()
    gaps = [(i, line["stage"], line["reason"], line["attempts"]) for i, line in enumerate(done.lines)
            if "lost" in line]
    case.check_equal(gaps, [(CALLS, "spool", "restart", 0)],
                     "one gap, behind what was stored and before what is recorded now")
    case.check_equal((done.code, done.summary["events"], done.summary["ledger"]),
                     (3, 2 * CALLS, "balanced"), "all that was recorded comes")
    again = case.stream(daemon, *words)
    again.await_all()
    case.check_stream(again.interrupt(), events=0)
    case.check_balanced(daemon)


ringtail.run(main)
