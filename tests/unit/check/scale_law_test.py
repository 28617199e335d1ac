#!/usr/bin/env python3
"""What `make bench-scale` calls flat, linear, or neither."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench"))
from scale import Curve, hash_of, position  # noqa: E402

wrong = 0


def so(name, points, *begin):
    global wrong
    law = Curve("name", "x", "KiB", points).law()
    holds = all(law.startswith(word) for word in begin[:1]) and all(word in law for word in begin)
    print(f"{'ok' if holds else 'not ok'} {name}", *([] if holds else (law,)))
    wrong += not holds


def around(value, by=1):
    return [value - by, value, value + by]


so("what does not grow", {1: around(100), 10: around(103), 100: around(99), 1000: around(101)}, "flat")
so("a small growth that the rounds agree on", {1: around(30040), 10: around(30270), 100: around(30596), 300: around(31284),
                                              1000: around(33970)}, "linear", "3.8")
so("one wide point does not hide it", {1: around(30040), 10: around(30270), 100: [30000, 30596, 35000], 300: around(31284),
                                      1000: around(33970)}, "linear")
so("what all points are as wide as", {1: around(30040, 3000), 10: around(30270, 3000), 100: around(30596, 3000),
                                     1000: around(32970, 3000)}, "flat")
so("what grows with x", {1: around(50), 10: around(140), 100: around(1040)}, "linear", "10")
so("what grows faster at first", {1: around(58), 4: around(211), 16: around(531), 60: around(661)}, "bends", "worst point")
so("two points are no line", {1: around(5.5, 0.1), 2: around(10.4, 0.1)}, "1.89 times", "at 2", "at 1")
so("two points that are alike", {1: around(5.5, 0.5), 2: around(5.6, 0.5)}, "flat")
so("one point", {1: around(5)}, "not measured")
so("points without a figure", {1: [], 2: []}, "not measured")
if position(10, 1, 100, 200) != 100 or hash_of("a") == hash_of("b"):
    sys.exit(1)
sys.exit(wrong > 0)
