"""Out of descriptors: who comes is told so, who is there is served, and when some leave, others may come."""
import shutil

import ringtail

CALLS = 5000
LIMIT = 192


def main(case):
    if not shutil.which("prlimit"):
        raise ringtail.Skip("this takes prlimit")
    daemon = case.daemon("--clients-max=1000", "--hello-timeout=60s",     # guests ask for nothing yet
                         before=["prlimit", f"--nofile={LIMIT}:{LIMIT}"])
    load = case.load(CALLS)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter, "-o", "none")
    guests, refused = [], 0
    for _ in range(LIMIT):
        guest = daemon.connect()
        try:
            guest.send(ringtail.wire.hello())
        except BrokenPipeError:
            pass                # refused already; the reason is there to be read
        frame = guest.frame()
        if frame.name == "ServerHello":
            guests.append(guest)
            continue
        case.check(frame.values["code"] == "descriptors-exhausted" and "LimitNOFILE" in
                   frame.values["hint"], "it is told why", frame.values)
        guest.close()
        refused += 1
        if refused == 5:
            break
    case.check(refused == 5 and len(guests) > 20, f"{len(guests)} come in, and no more")
    done = case.tracectl(daemon, "probes")
    case.check(done.code == 1 and "[descriptors-exhausted]" in done.err, "tracectl says so too",
               done.err)
    load.run()
    client = guests[0].stat()["client"]
    case.check(client, "those inside are served on")
    for guest in guests:
        guest.close()

    def served():
        try:
            return daemon.stat()
        except (EOFError, ConnectionError, BrokenPipeError):
            return None
    counters = ringtail.wait_until(served, "others are served when some have left")["counters"]
    case.check(counters["sessions_refused"] >= 5, "each refused one is counted", counters)
    stream.await_all(CALLS)
    case.check_balanced(daemon)
    case.check_stream(stream.interrupt(), events=CALLS)


ringtail.run(main)
