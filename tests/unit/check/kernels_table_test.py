#!/usr/bin/env python3
"""docs/kernels.md is made of logs: what passed is counted, what failed is named, what was not tried says so, and rows of
kernels that were not run again stay as they were."""
import os
import subprocess
import sys
import tempfile
import unittest

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../kernels/table.py")
BPF = """# kernel 6.12.107+deb13-amd64
[  PASSED  ] 1 test(s).
# ok kernel test_verifier
# ok kernel test_sched
not ok kernel test_timer: it failed
# | ok kernel test_context
ok kernel exact_one_process
ok kernel_log
ok kernel kernel_log
"""
MODULE = """ok build of ringtail.ko for 6.1.0-56-amd64
ok module-single load
ok module-single hostile_ring
late module-multi overflow_stop: it was killed
ok module-single kernel_log
"""


class KernelsTable(unittest.TestCase):
    def make(self, page, **logs):
        with tempfile.TemporaryDirectory() as scratch:
            for name, text in logs.items():
                with open(f"{scratch}/{name}.log", "w") as file:
                    file.write(text)
            subprocess.run([sys.executable, TABLE, scratch, page], check=True)
        with open(page) as file:
            return [[word.strip() for word in line.split("|")[1:-1]] for line in file if line.startswith("| 6")]

    def test_rows_of_two_logs(self):
        with tempfile.TemporaryDirectory() as scratch:
            module, bpf = self.make(f"{scratch}/page", kernel_of_x=BPF, kernel_module_in_qemu=MODULE)
            self.assertEqual(bpf[:3], ["6.12.107+deb13-amd64", "x86-64", "BPF"])
            self.assertEqual(bpf[3:8], ["1", "NOT: test_timer", "1", "-", "1"])
            self.assertEqual(module[:3], ["6.1.0-56-amd64", "x86-64", "module"])
            self.assertEqual(module[3:8], ["1", "-", "-", "NOT: overflow_stop", "1"])

    def test_a_row_stays_until_its_series_is_run_again(self):
        with tempfile.TemporaryDirectory() as scratch:
            first = self.make(f"{scratch}/page", kernel_of_x=BPF, kernel_module_in_qemu=MODULE)
            again = self.make(f"{scratch}/page", kernel_of_x=BPF.replace("6.12.107", "6.12.108"))
            self.assertEqual(again[0], first[0])
            self.assertEqual(again[1][0], "6.12.108+deb13-amd64")
            self.assertEqual(len(again), 2)


if __name__ == "__main__":
    unittest.main()
