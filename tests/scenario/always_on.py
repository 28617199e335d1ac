"""--probe and --filter: recorded with and without clients, and for those that name no probe."""
import ringtail

CALLS = 5000


def main(case):
    load, other = case.load(CALLS), case.load(CALLS)
    daemon = case.daemon("--probe=syscall:getppid:call",
                         "--probe=tracepoint:sched:sched_process_exit",
                         f"--filter=pid == {load.pids[0]}")
    with daemon.connect() as connection:
        hello = connection.greet()
        connection.send(ringtail.wire.message("Subscribe"))
        probes = connection.await_frame("Catalog").values["probe"]
        start = connection.await_frame("Subscribed").values["start"]
    case.check_equal([probe["function"] for probe in probes if probe["name"] != "call"],
                     ["sched"], "the catalog of a client that names no probe has the tracepoint")
    case.check(daemon.recording(), "it records although nobody listens")
    stream = case.stream(daemon, "-o", "json")
    other.run()
    load.run()
    stream.await_all(CALLS + 1)
    case.await_rings_empty(daemon)
    case.check_equal(daemon.recorded(), CALLS + 1, "the kernel records what passes the filter only")
    case.check_balanced(daemon)
    done = stream.interrupt()
    case.check_stream(done, events=CALLS + 1)
    case.check_equal([line["pid"] for line in done.lines], [load.pids[0]] * (CALLS + 1),
                     "the client gets that")
    case.check_equal(done.lines[-1]["probe"], "tracepoint:sched:sched_process_exit",
                     "up to its exit")

    cursor = (f"{hello['boot_id'].hex()}/{hello['epoch']}/" +
              ",".join(f"{place['cpu']}:{place['seq']}" for place in start["position"]))
    done = case.start_stream(daemon, "-o", "none", "-n", str(CALLS + 1), "--since", cursor).wait()
    case.check_stream(done, events=CALLS + 1)
    case.say("ok: one that comes later with an old cursor gets all of it from history")
    case.check_balanced(daemon)


ringtail.run(main)
