#!/usr/bin/env python3
"""What the check's CPU time is divided by is measured while the check runs, not only when it has ended."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
import yardstick  # noqa: E402

now, costs = 0.0, iter([3.0, 9.0, 4.0, 5.0, 6.0, 7.0])
yardstick.time.monotonic = lambda: now
yardstick.compile_seconds = lambda: next(costs)


def so(what, true, *more):
    print(f"{'ok' if true else 'not so'}: {what}", *([] if true else more))
    if not true:
        sys.exit(1)


measured = yardstick.Yardstick()
for now in (1.0, 59.0, 60.0, 61.0, 119.0, 120.0):
    measured.measure_if_due()
so("each 60 s once, by whichever job starts then", measured.taken == [3.0, 9.0], measured.taken)
so("the median of five, those that lack are made at the end", measured.seconds() == 5.0, measured.taken)
so("no more than five for it", next(costs) == 7.0)
