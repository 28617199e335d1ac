"""Two durable consumers of the same subscription, at different places: segments go when both have
acknowledged them, and not before."""
import glob
import os

import ringtail

CALLS = 150_000


def main(case):
    daemon = case.daemon("--ring-size=64MiB", "--durability=written",
                         f"--state-dir={case.path('state')}", "--user=root",
                         "--spool-segment-size=64KiB", "--history-size=64KiB", "--queue-size=64KiB")
    load = case.load(CALLS, 2)
    words = ["-p", "syscall:getppid:call", "-f", load.filter, "-o", "json", "--consumer"]
    for name in ("first", "second"):
        case.check_stream(case.stream(daemon, *words, name).interrupt(), events=0)
    load.run()
    ringtail.wait_until(lambda: daemon.recorded() == CALLS, "all are recorded")

    def spool():
        one, = daemon.stat()["spool"]
        return one

    ringtail.wait_until(lambda: spool()["produced"] >= CALLS and not spool()["in_flight"],
                        "all is stored")
    before = spool()
    case.check(before["segments"] > 2 and not before["deleted"], "there are segments", before)
    for name, events, bound in (("first", CALLS, False), ("second", CALLS // 10, True),
                                ("second", CALLS * 9 // 10, False)):
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
