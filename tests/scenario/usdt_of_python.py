"""USDT marks of a program that exists: the interpreter of Debian's Python tells its collections and the functions that it
enters and leaves. Each is there, and no more than the program counts itself."""
import os
import subprocess

import ringtail

PYTHON = os.path.realpath("/usr/bin/python3")
TURNS = 300
# Collections come by hand, and f() is the one function on line 3. Python 3.11 passes function__entry only while a program
# is profiled.
SOURCE = """import gc, sys
gc.disable()
def f(n): return gc.collect(n)
print("there", flush=True)
for line in sys.stdin:
    before = sum(age["collections"] for age in gc.get_stats())
    sys.setprofile(lambda *_: None)
    list(map(f, [1] * int(line)))
    sys.setprofile(None)
    print(sum(age["collections"] for age in gc.get_stats()) - before, flush=True)
"""
F_LINE = 3
GENERATION = 1


def turn(program, turns):
    """How many collections there were, as the interpreter counts them."""
    program.stdin.write(f"{turns}\n")
    program.stdin.flush()
    return int(program.stdout.readline())


def args_of(events, spec):
    return [event["args"] for event in events if event["probe"] == spec]


def main(case):
    if not os.access(PYTHON, os.X_OK):
        raise ringtail.Skip("there is no /usr/bin/python3")
    daemon = case.daemon("--ring-size=16MiB")
    listed = case.tracectl(daemon, "list", f"usdt:{PYTHON}:*").out
    case.check(all(f":python:{name}(" in listed for name in ("gc__start", "gc__done", "function__entry", "audit")),
               "its marks are listed", listed)
    begin, end, entry, leave = (f"usdt:{PYTHON}:python:{name}"
                                for name in ("gc__start", "gc__done", "function__entry", "function__return"))
    program = subprocess.Popen([PYTHON, "-I", "-S", "-c", SOURCE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        program.stdout.readline()
        turn(program, TURNS)
        stream = case.stream(daemon, *(word for spec in (begin, end, entry, leave) for word in ("-p", spec)),
                             "-f", f"pid == {program.pid}", "-o", "json")
        counted = turn(program, TURNS)
        case.check_equal(counted, TURNS, "the interpreter has collected as often as it was asked to")
        case.await_rings_empty(daemon)
        stream.await_all()
        case.check_balanced(daemon)
        done = stream.interrupt()
        case.check_stream(done)
        turn(program, TURNS)
        events = done.lines
        case.check_equal([args["arg0"] for args in args_of(events, begin)], [GENERATION] * TURNS,
                         "each collection begins, with its generation")
        case.check_equal(len(args_of(events, end)), TURNS, "and ends")
        calls = [[args["arg2"] for args in args_of(events, spec)].count(F_LINE) for spec in (entry, leave)]
        case.check_equal(calls, [TURNS, TURNS], "each call of the function is entered and left")
        order = [event["probe"] for event in events if event["probe"] in (begin, end) or event["args"]["arg2"] == F_LINE]
        case.check_equal(order, [entry, begin, end, leave] * TURNS, "all in their order")
    finally:
        program.stdin.close()
        code = program.wait()
    case.check_equal(code, 0, "the program went on unharmed")
    case.check_balanced(daemon)


ringtail.run(main)
