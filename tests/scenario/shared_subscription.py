"""Clients that want the same share one subscription: its events are encoded once, for all."""
import ringtail

CALLS = 100_000
CLIENTS = 4


def main(case):
    daemon = case.daemon("--ring-size=16MiB")
    load = case.load(CALLS)
    streams = [case.stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter, "-o", "none")
               for _ in range(CLIENTS)]
    load.run()
    for stream in streams:
        stream.await_all(CALLS)
    counters = daemon.stat()["counters"]
    case.check_equal(counters["events_encoded"], CALLS,
                     f"{CALLS} events were encoded once for {CLIENTS} clients")
    case.check_equal(counters["configures"], 1, "the kernel was told once")
    case.check_balanced(daemon)
    for stream in streams:
        case.check_stream(stream.interrupt(), events=CALLS)


ringtail.run(main)
