#!/usr/bin/env python3
"""table: docs/kernels.md, of what the machines of `make check-kernels` have said.

	usage: tests/kernels/table.py DIRECTORY PAGE	DIRECTORY: of check.py's logs, BUILD/check

A log names its kernel (`# kernel 6.12.107+deb13-amd64`) and its cases (`ok kernel NAME`). Each is a row of the page, and
takes the place of the row of the same series, processor and source; rows of others stay as they are, with their date.
A case that is not in a log was not tried, and a cell says so.
"""
import datetime
import glob
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMNS = ["kernel", "processor", "source", "loads", "attaches", "exact counts", "hostile", "kernel's log", "made"]
# Which cases a cell is made of, as globs without their *: the beginning of a name.
CELLS = {"loads": ("test_verifier", "load", "self_test", "load_and_unload"),
         "attaches": ("test_syscalls", "test_sched", "test_timer", "software_events", "strings_and_stacks", "provider_",
                      "tracepoints_", "scenario_sched_events"),
         "exact counts": ("test_filter", "exact_", "syscall_exact", "entry_and_return", "scenario_exact",
                          "scenario_entry", "overload", "scenario_overload", "cpu_added", "scenario_cpu_added",
                          "hotplug_"),
         "hostile": ("test_overload", "hostile_", "overflow_", "fuzz", "ring_stress"),
         "kernel's log": ("kernel_log",)}
CASE = re.compile(r"^(?:# )?(ok|not ok|late|skip) (kernel|multi|module-\w+|daemon-\w+) (\w+)", re.M)
HEAD = """# Kernels and processors

What was tried where. `make check-kernels` boots each kernel in a virtual machine, runs the tests of `tests/bpf`, scenarios
with the real daemon, or those of the module, and writes this table. The kernels are Debian's. A cell counts the cases
that passed; "-" was not tried there.

"""
TAIL = """
- **loads**: the programs pass the verifier, or the module loads and unloads.
- **attaches**: each kind of probe that the source has is attached, and its events come.
- **exact counts**: as many events as there were calls, and ledgers that close; also of CPUs that go, come, and are added
  (x86-64 only: the emulator adds none to arm64).
- **hostile**: rings that are full, consumers and memory that lie, threads that interrupt each other; on arm64 the stress
  test of the ring on two CPUs that run at once.
- **kernel's log**: no warning, stall or complaint in it.

arm64 runs emulated, and does each thing a tenth as often.
"""


def cases(text):
    """{name: word}"""
    return {name: word for word, _, name in CASE.findall(text)}


def cell(found, starts):
    chosen = {name: word for name, word in found.items() if name.startswith(starts)}
    bad = [name for name, word in chosen.items() if word in ("not ok", "late")]
    if bad:
        return "NOT: " + ", ".join(sorted(bad))
    passed = sum(word == "ok" for word in chosen.values())
    return str(passed) if passed else "-"


def row(text, made):
    """Of a log; None: it names no kernel."""
    kernel = re.search(r"^# kernel (\S+)", text, re.M) or re.search(r"^ok build of ringtail.ko for (\S+)", text, re.M)
    if not kernel:
        return None
    source = "module" if "ringtail.ko" in text else "BPF"
    arch = "arm64" if kernel[1].endswith("arm64") else "x86-64"
    found = cases(text)
    return [kernel[1], arch, source, *(cell(found, starts) for starts in CELLS.values()), made]


def key(words):
    """What a row is of: a series of kernels, a processor and a source."""
    return re.match(r"\d+\.\d+", words[0])[0], words[1], words[2]


def read_rows(page):
    if not os.path.exists(page):
        return []
    with open(page) as file:
        lines = [line.strip().strip("|").split("|") for line in file if re.match(r"\| \d", line)]
    return [[word.strip() for word in line] for line in lines]


def order(words):
    return [int(number) for number in key(words)[0].split(".")], words[1], words[2]


def main():
    directory, page = sys.argv[1:]
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True).stdout
    qemu = subprocess.run(["qemu-system-x86_64", "--version"], capture_output=True, text=True).stdout
    version = re.search(r"version (\d+\.\d+)", qemu)
    made = f"{datetime.date.today()}, {commit.strip() or 'no git'}, qemu {version[1] if version else '?'}"
    rows = {key(words): words for words in read_rows(page)}
    for path in sorted(glob.glob(f"{directory}/kernel*.log")):
        with open(path, errors="replace") as file:
            if words := row(file.read(), made):
                rows[key(words)] = words
    with open(page, "w") as file:
        print(HEAD + "| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS), file=file)
        for words in sorted(rows.values(), key=order):
            print("| " + " | ".join(words) + " |", file=file)
        print(TAIL, end="", file=file)


if __name__ == "__main__":
    main()
