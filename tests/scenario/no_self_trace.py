"""What the daemon's own processes do never appears in a stream, unless it is told to trace itself; that one of its threads
makes way for another's does (switches_from_daemon)."""
import ringtail


def pids_seen(case, all_seen, *options):
    """Who called what while a load ran and a client was served, as far as a stream shows. all_seen: waits for that,
    of the daemon and the stream."""
    daemon = case.daemon("--ring-size=16MiB", *options)
    load = case.load(2000)
    own = f"pid in ({daemon.pid}, {daemon.loader}, {load.pids[0]})"
    stream = case.stream(daemon, "-p", "syscall:*:call", "-p", "tracepoint:sched:sched_switch",
                         "-f", own, "-o", "json")
    load.run()
    ringtail.wait_until(lambda: stream.read("out").count("getppid:call") == 2000,
                        "the load's calls")
    for _ in range(5):
        case.tracectl(daemon, "list", "syscall:open*")
    all_seen(daemon, stream)
    case.check_balanced(daemon)
    done = stream.interrupt()
    case.check_stream(done, events=done.summary["events"])
    return daemon, {line["pid"] for line in done.lines if not line["probe"].endswith("sched_switch")}


def main(case):
    daemon, pids = pids_seen(case, lambda daemon, stream: stream.await_all(2000))
    case.check(not {daemon.pid, daemon.loader} & pids,
               f"neither engine {daemon.pid} nor loader {daemon.loader} appear", pids)

    def both_seen(daemon, stream):
        """One that traces itself always has something on its way. The loader works when somebody asks for something."""
        case.stream(daemon, "-p", "syscall:getppid:call").interrupt()
        for pid in (daemon.pid, daemon.loader):
            stream.wait_for(rf'"syscall:[^"]*","pid":{pid},', "out")

    daemon, pids = pids_seen(case, both_seen, "--trace-self")
    case.check({daemon.pid, daemon.loader} <= pids, "with --trace-self engine and loader do", pids)


ringtail.run(main)
