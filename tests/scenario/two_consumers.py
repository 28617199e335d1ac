"""Two durable consumers of the same subscription, at different places: segments go when both have
acknowledged them, and not before."""
import glob
import os

import ringtail

CALLS, LOADS_MAX = 50_000, 50   # how many fill some segments is how well their times compress


def main(case):
    daemon = case.daemon("--ring-size=64MiB", "--durability=written",
                         f"--state-dir={case.path('state')}", "--user=root",
                         "--spool-segment-size=64KiB", "--history-size=64KiB", "--queue-size=64KiB")
    words = ["-p", "syscall:getppid:call", "-f", f'comm == "{case.own_comm}"', "-o", "json", "--consumer"]
    for name in ("first", "second"):
        case.check_stream(case.stream(daemon, *words, name).interrupt(), events=0)

    def spool():
        one, = daemon.stat()["spool"]
        return one

    for calls in range(CALLS, CALLS * LOADS_MAX + 1, CALLS):
        case.load(CALLS, 2, comm=case.own_comm).run()
        ringtail.wait_until(lambda: daemon.recorded() == calls, "all are recorded")
        ringtail.wait_until(lambda: spool()["produced"] >= calls and not spool()["in_flight"], "all is stored")
        before = spool()
        if before["segments"] > 2:
            break
    case.check(before["segments"] > 2 and not before["deleted"], "there are segments", before)
    for name, events, bound in (("first", calls, False), ("second", calls // 10, True),
                                ("second", calls * 9 // 10, False)):
        if bound:
            done = case.start_stream(daemon, *words, name, "-n", str(events)).wait()
        else:
            # To the very end: what follows the last event, asked for by nobody, is acknowledged too.
            stream = case.stream(daemon, *words, name)
            stream.await_all(events)
            ringtail.wait_until(lambda: stream.read("out").count("\n") == events, "all are out")
            done = stream.interrupt()
        case.check_stream(done, events=events)
        case.check_equal(len({(line["cpu"], line["seq"]) for line in done.lines}), events,
                         f"{events} events for {name}, each once")
        if name == "first":
            case.check_equal(spool()["deleted"], 0, "what the other has not acknowledged stays")
    ringtail.wait_until(lambda: spool()["deleted"] >= before["segments"] - 1,
                        "what both have acknowledged goes")
    case.check_equal(spool()["residual"], 0, "the spool's ledger closes")
    case.check_balanced(daemon)
    directory, = glob.glob(f"{case.path('state')}/spool/*")
    case.check_equal(case.tracectl(daemon, "forget", "first").code, 0, "one is forgotten")
    case.check_equal([one["name"] for one in daemon.stat()["consumer"]], ["second"], "the other stays")
    case.check(os.listdir(directory), "and so does what is kept for it")
    case.check_equal(case.tracectl(daemon, "forget", "second").code, 0, "the other is, too")
    ringtail.wait_until(lambda: not os.path.exists(directory), "what was kept for them is deleted")
    case.check_balanced(daemon)


ringtail.run(main)
