#!/usr/bin/env python3
"""How `make repeat` runs a test: each failure is shown, a skip ends it, what computes beside it ends with it, and a
pause makes a test late that waits for a time."""
import contextlib
import io
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
import one  # noqa: E402

wrong = 0


def so(name, holds, *facts):
    global wrong
    print(f"{'ok' if holds else 'not ok'} {name}", *([] if holds else ["\n#", *facts]))
    wrong += not holds


def repeated(script, runs, load=0, pauses=False):
    """What came of it, and what was printed."""
    test = one.Test("unit", "made_up", "made_up.py", [], [sys.executable, "-c", script])
    with contextlib.redirect_stdout(io.StringIO()) as said:
        came = one.repeat(test, [], runs, load, pauses)
    return came, said.getvalue()


def children():
    listed = subprocess.run(["ps", "-o", "args=", "--ppid", str(os.getpid())], capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if "while True" in line]


# It notes that it ran, and fails the third and the fifth time.
COUNTS = """
import os, sys
with open({path!r}, "a") as file:
    file.write("x")
runs = os.path.getsize({path!r})
print("said in run", runs)
sys.exit(runs in (3, 5))
"""

with tempfile.TemporaryDirectory() as place:
    path = os.path.join(place, "runs")
    (failed, runs), said = repeated(COUNTS.format(path=path), 6)
    so("it runs so often, and what failed is counted", (failed, runs, os.path.getsize(path)) == (2, 6, 6), failed, runs)
    so("what failed is shown, and nothing else", "said in run 3" in said and "said in run 5" in said and
       said.count("said in run") == 2 and "run 3 of 6: exit status 1" in said, said)
so("late is failed", repeated("raise SystemExit(75)", 2)[0] == (2, 2))
came, said = repeated("print('no such kernel'); raise SystemExit(77)", 9)
so("a skip ends it, and says why", came == (0, 0) and "no such kernel" in said, came, said)
came, said = repeated("import os; raise SystemExit(not os.popen('ps -o args= --ppid %d' % os.getppid()).read()"
                      ".count('while' + ' True') == 2)", 1, load=2)
so("so many compute beside it", came == (0, 1), said)
so("and end with it", not children(), children())

# A millisecond of computing, over and over; between two looks at the clock nothing but a pause takes so long.
LOOKS = """
import time
end, last, longest = time.monotonic() + 0.5, time.monotonic(), 0
while last < end:
    now = time.monotonic()
    longest, last = max(longest, now - last), now
raise SystemExit(longest > 0.15)
"""
so("a pause shows in what a test takes for time", any(repeated(LOOKS, 1, pauses=True)[0][0] for _ in range(8)))
sys.exit(1 if wrong else 0)
