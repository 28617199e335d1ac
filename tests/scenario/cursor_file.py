"""A client that is killed again and again and keeps its place in a file: its output has every event
once."""
import json
import os

import ringtail

CALLS = 200_000


def count(path):
    """Its lines: they are cut where the last one ended that was kept, and counted cheaply."""
    with open(path, "rb") as file:
        return file.read().count(b"\n")


def main(case):
    load = case.load(CALLS, 2)
    daemon = case.daemon("--ring-size=64MiB", "--durability=written",
                         f"--state-dir={case.path('state')}", "--user=root")
    place, output = case.path("place"), case.write("output", "")
    command = (f"exec {ringtail.BUILD}/tracectl --connect {daemon.address} stream"
               f" -p syscall:getppid:call -f '{load.filter}' -o json --consumer nightly"
               f" --cursor {place} >>{output}")
    first = case.start("sh", "-c", command)
    ringtail.wait_until(lambda: daemon.client(first.pid), "it is subscribed")
    load.go()
    process = first
    for _ in range(3):
        size = os.path.getsize(output)
        ringtail.wait_until(lambda: os.path.getsize(output) > size or
                            count(output) == CALLS, "it prints")
        process.kill()
        ringtail.wait_until(lambda: not daemon.client(process.pid), "the daemon sees that it is gone")
        process = case.start("sh", "-c", command)
    load.result()
    ringtail.wait_until(lambda: count(output) >= CALLS, "all is printed")
    case.check_balanced(daemon)
    case.check_equal(process.interrupt().code, 0, "the last one ends well")
    with open(output, encoding="utf-8") as file:
        events = [(event["cpu"], event["seq"]) for event in map(json.loads, file)]
    case.check_equal((len(events), len(set(events))), (CALLS, CALLS), f"all {CALLS} events, each once")


ringtail.run(main)
