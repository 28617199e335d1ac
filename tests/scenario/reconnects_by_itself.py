"""The daemon crashes and another takes its place: the client says so, and goes on by itself."""
import ringtail

CALLS = 1000


def main(case):
    first = case.daemon()
    loads = [case.load(CALLS) for _ in range(2)]
    pids = ", ".join(str(pid) for load in loads for pid in load.pids)
    stream = case.stream(first, "-p", "syscall:getppid:call", "-f", f"pid in ({pids})", "-o",
                         "json")
    loads[0].run()
    stream.await_all(CALLS)
    ringtail.wait_until(lambda: stream.read("out").count("\n") == CALLS, "they are printed")
    loader = first.loader
    first.crash()
    stream.wait_for("reconnecting")
    case.say(f"ok: the client says: {stream.read('err').splitlines()[0]}")
    case.check(stream.running, "and goes on running")

    def loader_ended():
        try:
            with open(f"/proc/{loader}/stat") as stat:
                return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
        except FileNotFoundError:
            return True
    ringtail.wait_until(loader_ended, "the loader ends with its engine")

    second = case.daemon(listen=[first.address])
    stream.daemon = second
    stream.wait_for("reconnected to")
    stream.await_subscribed()
    loads[1].run()
    stream.await_all(CALLS)
    case.check_balanced(second)
    done = stream.interrupt()
    case.check_equal(done.code, 3, "it exits with 3: what was between the two nobody knows")
    events = [line for line in done.lines if "lost" not in line]
    case.check_equal([event["pid"] for event in events],
                     [load.pids[0] for load in loads for _ in range(CALLS)],
                     "the events of both daemons are there, each once")
    gaps = [i for i, line in enumerate(done.lines) if "lost" in line]
    case.check(gaps and gaps[0] == CALLS and
               {done.lines[i]["reason"] for i in gaps} == {"other-epoch"},
               "and between them a gap", gaps)
    case.check_equal(done.summary["ledger"], "balanced", "the client's ledger is balanced")


ringtail.run(main)
