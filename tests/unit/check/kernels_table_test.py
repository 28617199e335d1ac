#!/usr/bin/env python3
"""docs/kernels.md is made of logs: what passed is counted, what failed is named, what was not tried says so, and rows of
kernels that were not run again stay as they were."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../kernels/table.py")
TOP = os.path.join(os.path.dirname(TABLE), "../..")
# A commit that is there, where there is git.
HEAD = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=TOP, capture_output=True, text=True).stdout.strip() or "1a2b3c4"
BPF = f"""# made 2026-11-01, {HEAD}, qemu 7.2
# kernel 6.12.107+deb13-amd64
[  PASSED  ] 1 test(s).
# ok kernel test_verifier
# ok kernel test_sched
not ok kernel test_timer: it failed
# | ok kernel test_context
ok kernel exact_one_process
ok kernel_log
ok kernel kernel_log
"""
MODULE = f"""# made 2026-11-02, {HEAD}-dirty, qemu 7.2
ok build of ringtail.ko for 6.1.0-56-amd64
ok module-single load
ok module-single hostile_ring
late module-multi overflow_stop: it was killed
ok module-single kernel_log
"""


class KernelsTable(unittest.TestCase):
    def make(self, page, **logs):
        with tempfile.TemporaryDirectory() as scratch:
            for at, (name, text) in enumerate(logs.items()):
                with open(f"{scratch}/{name}.log", "w") as file:
                    file.write(text)
                os.utime(f"{scratch}/{name}.log", (at, at))     # one after the other
            subprocess.run([sys.executable, TABLE, scratch, page], check=True)
        with open(page) as file:
            return [[word.strip() for word in line.split("|")[1:-1]] for line in file if line.startswith("| 6")]

    def test_rows_of_two_logs(self):
        with tempfile.TemporaryDirectory() as scratch:
            module, bpf = self.make(f"{scratch}/page", kernel_of_x=BPF, kernel_module_in_qemu=MODULE)
            self.assertEqual(bpf[:3], ["6.12.107+deb13-amd64", "x86-64", "BPF"])
            self.assertEqual(bpf[3:9], ["1", "NOT: test_timer", "1", "-", "-", "1"])
            self.assertEqual(bpf[9], f"2026-11-01, {HEAD}, qemu 7.2")
            self.assertEqual(module[:3], ["6.1.0-56-amd64", "x86-64", "module"])
            self.assertEqual(module[3:9], ["1", "-", "-", "NOT: overflow_stop", "-", "1"])
            self.assertEqual(module[9], f"2026-11-02, {HEAD}-dirty, qemu 7.2")

    def test_a_row_stays_until_its_series_is_run_again(self):
        with tempfile.TemporaryDirectory() as scratch:
            first = self.make(f"{scratch}/page", kernel_of_x=BPF, kernel_module_in_qemu=MODULE)
            again = self.make(f"{scratch}/page", kernel_of_x=BPF.replace("6.12.107", "6.12.108"))
            self.assertEqual(again[0], first[0])
            self.assertEqual(again[1][0], "6.12.108+deb13-amd64")
            self.assertEqual(len(again), 2)

    def test_what_ran_again_alone_counts_as_it_went_then(self):
        log = BPF.replace("not ok kernel test_timer: it failed", "late kernel test_timer: it was killed")
        again = "# made 2026-11-01, 1111111, qemu 7.2\n# kernel 6.12.107+deb13-amd64\nok kernel test_timer\nok kernel kernel_log\n"
        with tempfile.TemporaryDirectory() as scratch:
            [row] = self.make(f"{scratch}/page", kernel_of_x=log, kernel_of_x_alone_=again)
            self.assertEqual(row[3:9], ["1", "2", "1", "-", "-", "1"])
            [row] = self.make(f"{scratch}/page", kernel_of_x=log,
                              kernel_of_x_alone_=again.replace("ok kernel test_timer", "not ok kernel test_timer"))
            self.assertEqual(row[4], "NOT: test_timer")
            # Of a run before this one.
            [row] = self.make(f"{scratch}/page", kernel_of_x_alone_=again, kernel_of_x=log)
            self.assertEqual(row[4], "NOT: test_timer")

    def test_a_failure_that_no_cell_names_is_named(self):
        with tempfile.TemporaryDirectory() as scratch:
            [row] = self.make(f"{scratch}/page", kernel_of_x=BPF + "not ok kernel guest: it did not come to its end\n"
                              "ok kernel reload\n")
            self.assertEqual(row[7], "NOT: guest")
            [row] = self.make(f"{scratch}/page", kernel_of_x=BPF + "ok kernel reload\nok locked kernel_log\n")
            self.assertEqual(row[7], "1")

    def test_a_second_boot_hides_nothing_of_the_first(self):
        with tempfile.TemporaryDirectory() as scratch:
            [row] = self.make(f"{scratch}/page", kernel_of_x=BPF.replace("ok kernel kernel_log", "not ok kernel kernel_log: BUG") +
                              "ok locked kernel_log\n")
            self.assertEqual(row[8], "NOT: kernel_log")

    def test_a_log_that_does_not_say_of_what_it_is_changes_nothing(self):
        with tempfile.TemporaryDirectory() as scratch:
            self.assertEqual(self.make(f"{scratch}/page", kernel_of_x=BPF.partition("\n")[2]), [])

    def test_a_row_from_before_the_others_were_counted(self):
        with tempfile.TemporaryDirectory() as scratch:
            with open(f"{scratch}/page", "w") as page:
                print(f"| 6.1.0-56-amd64 | x86-64 | BPF | 1 | 6 | 5 | 1 | 1 | 2026-11-23, {HEAD}, qemu 7.2 |", file=page)
            [row] = self.make(f"{scratch}/page")
            self.assertEqual(row[6:], ["1", "?", "1", f"2026-11-23, {HEAD}, qemu 7.2"])

    def test_a_commit_that_nobody_can_look_up_is_told(self):
        if not os.path.exists(f"{TOP}/.git"):
            return
        with tempfile.TemporaryDirectory() as scratch:
            [row] = self.make(f"{scratch}/page", kernel_of_x=BPF.replace(HEAD, "0123456"))
            self.assertEqual(row[9], "2026-11-01, 0123456, qemu 7.2 (a commit that this history does not have)")
            self.assertEqual(self.make(f"{scratch}/page"), [row])

    def test_each_kind_of_probe_is_counted_as_one(self):
        """What the machines run of the probes of code, functions and marks is in the cell of what attaches."""
        with open(f"{TOP}/tests/kernels/guest.sh") as file:
            names = re.findall(r"\b(uprobes_\w+|usdt_\w+|functions_\w+|library_\w+)\b", file.read())
        self.assertGreaterEqual(len(set(names)), 4)
        log = BPF.replace("not ok kernel test_timer: it failed\n", "") + "".join(f"ok kernel {name}\n" for name in set(names))
        with tempfile.TemporaryDirectory() as scratch:
            [row] = self.make(f"{scratch}/page", kernel_of_x=log)
            self.assertEqual(row[4], str(1 + len(set(names))))
            self.assertEqual(row[7], "-")


if __name__ == "__main__":
    unittest.main()
