#!/usr/bin/env python3
"""Built for Arm, the BPF programs have the instructions that the litmus tests of tests/model/arm speak of.

An atomic that returns what was there orders all around it (CASAL, SWPAL, LDADDAL). One that returns nothing is STADD,
which orders nothing: clang makes it of each add whose result nobody uses."""
import os
import re
import subprocess
import tempfile
import unittest

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3)
ADD = re.compile(r"lock \*\(u64 \*\)\((r\d+) \+ (\d+)\) \+= ")
ORDERS = re.compile(r"= (atomic_fetch_\w+|xchg_64|cmpxchg_64)\(")
STACK_ADD = re.compile(r"= atomic_fetch_add\(\(u64 \*\)")


def place_of(field):
    """Of the ring's producer page."""
    source = (f'#include <stddef.h>\n#include "kmod/uapi/ringtail.h"\n'
              f"char place[offsetof(struct rt_ring_producer, {field})];\n")
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["gcc", "-I.", "-x", "c", "-c", "-o", f"{scratch}/o", "-"], input=source, text=True, cwd=TOP,
                       check=True)
        shown = subprocess.run(["nm", "-S", f"{scratch}/o"], capture_output=True, text=True, check=True).stdout
    return int(shown.split()[1], 16)


def instructions():
    """[(function, text)] in the order of the code."""
    include = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["clang", "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror",
                        "-D__TARGET_ARCH_arm64", "-I.", f"-I/usr/include/{include}", "-c", "kmod/bpf/ringtail.bpf.c",
                        "-o", f"{scratch}/o"], cwd=TOP, check=True)
        text = subprocess.run(["llvm-objdump", "-d", "--no-show-raw-insn", f"{scratch}/o"], capture_output=True,
                              text=True, check=True).stdout
    found, function = [], None
    for line in text.splitlines():
        if name := re.match(r"[0-9a-f]+ <((?!LBB)[^>]+)>:", line):
            function = name[1]
        elif code := re.match(r"\s+\d+:\s+(.*)", line):
            found.append((function, code[1]))
    return found


class ArmOrder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.code, cls.lost_total = instructions(), place_of("lost_total")

    def test_between_a_reason_and_the_sum_of_losses_is_a_barrier(self):
        adds = 0
        for i, (function, text) in enumerate(self.code):
            add = ADD.match(text)
            if not add or int(add[2]) != self.lost_total:
                continue
            adds += 1
            before = next(other for place, other in reversed(self.code[:i])
                          if place == function and (ORDERS.search(other) or ADD.match(other)))
            self.assertRegex(before, STACK_ADD, f"{function}: {before} before {text}")
        self.assertGreater(adds, 1)

    def test_what_reserves_commits_by_an_exchange(self):
        reserve = re.compile(rf"= cmpxchg_64\(r\d+ \+ {place_of('producer_pos')},")
        reserves = {function for function, text in self.code if reserve.search(text)}
        exchanges = {function for function, text in self.code if re.search(r"= xchg_64\(", text)}
        self.assertGreater(len(reserves), 3)
        self.assertLessEqual(reserves, exchanges)


if __name__ == "__main__":
    unittest.main()
