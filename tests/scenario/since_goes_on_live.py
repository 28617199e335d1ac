"""--since with a filter, while what it asks for goes on: past and present meet without hole or double."""
import time

from lib.past import memory
import ringtail

CALLS = 60_000
RATE = 15_000               # of each of two processes
READERS = 2


def one(case, where, *options):
    load = case.load(CALLS, 2, rate=RATE)
    daemon = case.daemon("--ring-size=64MiB", "--probe=syscall:getppid:call",
                         "--probe=syscall:openat:call", *options)
    case.stream(daemon, "-o", "none").interrupt()
    begun = time.time()
    load.go()
    readers = []
    for i in range(READERS):
        ringtail.wait_until(lambda: daemon.recorded() >= (i + 1) * CALLS // (READERS + 2),
                            "a part is recorded")
        readers.append(case.stream(daemon, "-o", "json", "--since", f"@{begun:.6f}", "-f",
                                   f"{load.filter} && cpu < {100 + i}", "-p",
                                   "syscall:getppid:call"))
    load.result()
    for i, reader in enumerate(readers):
        reader.await_all(CALLS)
    case.check_balanced(daemon)
    for i, reader in enumerate(readers):
        done = reader.interrupt()
        case.check_stream(done, events=CALLS)
        case.check_equal(len({(event["cpu"], event["seq"]) for event in done.lines}), CALLS,
                         f"{where}: each of the calls once, reader {i}")
    daemon.stop()


def main(case):
    one(case, "memory", *memory())
    one(case, "spool", "--durability=written", f"--state-dir={case.path('state')}", "--user=root",
        "--history-size=256KiB")


ringtail.run(main)
