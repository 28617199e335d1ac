"""With nothing to do, the daemon is woken about once a second, subscribed or not."""
import time

import ringtail

SECONDS = 3
WAKEUPS_MAX = 10                # of the drain worker, in that time; a busy one has 75 and more
SWITCHES_MAX = 60               # of all threads of both processes


def switches(daemon):
    """How often the daemon's threads gave up a CPU by themselves: each is one wakeup."""
    count = 0
    for pid in (daemon.pid, daemon.loader):
        for tid in ringtail.threads(pid):
            with open(f"/proc/{pid}/task/{tid}/status") as status:
                count += next(int(line.split()[1]) for line in status
                              if line.startswith("voluntary_ctxt_switches"))
    return count


def measure(case, daemon, text):
    before = daemon.stat()["counters"]
    count, began = switches(daemon), time.monotonic()
    time.sleep(SECONDS)
    count = switches(daemon) - count
    share = (time.monotonic() - began) / SECONDS        # a busy machine lets it sleep longer
    after = daemon.stat()["counters"]
    woken = sum(after[name] - before[name] for name in ("ticks", "bells"))
    case.check(woken <= WAKEUPS_MAX * share, f"{text}: {woken} ticks and bells in {SECONDS} s")
    case.check(count <= SWITCHES_MAX * share, f"{count} wakeups of all its threads")


def main(case):
    daemon = case.daemon()
    measure(case, daemon, "no client")
    load = case.load(1000)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter, "-o", "none")
    load.run()
    stream.await_all(1000)
    time.sleep(0.1)
    measure(case, daemon, "a subscription whose process is gone")
    case.check_balanced(daemon)
    case.check_stream(stream.interrupt(), events=1000)


ringtail.run(main)
