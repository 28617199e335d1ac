"""Marks of sys/sdt.h: their arguments have the size and sign that the notes say, a mark in two places of the code is
one probe, and a semaphore is up in the program's memory while its mark is recorded, and neither before nor after."""
import json

import ringtail
from lib import probed

TURNS = 300


def main(case):
    daemon = case.daemon("--ring-size=16MiB")
    path = probed.build(case)
    program = probed.Probed(path)
    guarded, plain, twice = (f"usdt:{path}:test:{name}" for name in ("guarded", "plain", "twice"))
    case.check_equal(program.semaphore(), 0, "the semaphore is down before")
    program.turn(TURNS)
    stream = case.stream(daemon, "-p", guarded, "-p", plain, "-p", twice, "-f", f"pid == {program.pid}",
                         "-o", "json")
    case.check_equal(program.semaphore(), 1, "it is up while the mark is recorded")
    program.turn(TURNS)
    case.await_rings_empty(daemon)
    stream.await_all(4 * TURNS)
    case.check_balanced(daemon)
    done = stream.interrupt()
    items = [json.loads(line) for line in done.out.splitlines()]
    got = {spec: [{name: value for name, value in item["args"].items() if name != "ip"}
                  for item in items if item.get("probe") == spec] for spec in (guarded, plain, twice)}
    turns = range(TURNS, 2 * TURNS)
    case.check_equal(got[guarded], [{"arg0": i, "arg1": 7} for i in turns], "each time, while it was recorded")

    def cut(value, bits):
        """As C has it with so many bits and a sign."""
        return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)

    case.check_equal(got[plain], [{"arg0": cut(-i, 8), "arg1": i * 7 % (1 << 16), "arg2": -i,
                                   "arg3": i << 32 if i % 2 else 3, "arg4": -5} for i in turns],
                     "arguments have their sizes and signs")
    case.check_equal(got[twice], [{"arg0": value} for i in turns for value in (i, -i)],
                     "a mark in two places is recorded in both, in their order")
    case.check_stream(done, events=4 * TURNS)
    ringtail.wait_until(lambda: program.semaphore() == 0, "the semaphore is down afterwards")
    case.check_equal(program.end(), 0, "the program went on unharmed")
    case.check_balanced(daemon)


ringtail.run(main)
