#!/usr/bin/env python3
"""table: docs/kernels.md, of what the machines of `make check-kernels` have said.

	usage: tests/kernels/table.py DIRECTORY PAGE	DIRECTORY: of check.py's logs, BUILD/check

A log says when, of which commit and by which qemu it was made (`# made 2026-11-23, 1a2b3c4, qemu 7.2`), names its kernel
(`# kernel 6.12.107+deb13-amd64`) and its cases (`ok kernel NAME`). Each is a row of the page, and takes the place of the
row of the same series, processor and source; rows of others stay as they are, with their date. A case that is not in a
log was not tried, and a cell says so. What was late and ran again alone (`..._alone_.log`) counts as it went then.
"""
import glob
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
UNKNOWN = " (a commit that this history does not have)"
COLUMNS = ["kernel", "processor", "source", "loads", "attaches", "exact counts", "hostile", "others", "kernel's log", "made"]
# Which cases a cell is made of: the beginnings of their names. `others` are those that none has.
OTHERS = "others"
CELLS = {"loads": ("test_verifier", "test_image", "load", "self_test", "load_and_unload"),
         "attaches": ("test_syscalls", "test_sched", "test_timer", "test_functions", "software_events",
                      "strings_and_stacks", "provider_", "tracepoints_", "uprobes_", "usdt_", "functions_", "library_",
                      "probed_", "device_kprobes", "probes_of", "scenario_sched_events", "scenario_probes_of_modules"),
         "exact counts": ("test_filter", "test_refused", "exact_", "syscall_exact", "entry_and_return", "filters_in_kernel",
                          "scenario_exact", "scenario_entry", "overload", "scenario_overload", "cpu_added",
                          "scenario_cpu_added", "hotplug_"),
         "hostile": ("test_overload", "hostile_", "overflow_", "fuzz", "ring_stress", "preempted_", "locked_down"),
         OTHERS: (),
         "kernel's log": ("kernel_log",)}
CASE = re.compile(r"^(?:# )?(ok|not ok|late|skip) (kernel|multi|locked|module-\w+|daemon-\w+) (\w+)", re.M)
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
- **hostile**: rings that are full, consumers and memory that lie, threads that interrupt each other, and, on x86-64, a
  kernel that is locked down for confidentiality, which the start and `tracectl doctor` name; on arm64 the stress test of
  the ring on two CPUs that run at once.
- **others**: the other cases that run there. "?": the row is older than this column.
- **kernel's log**: no warning, stall or complaint in it.

On arm64 no scenario with probes of functions or marks runs in these machines. On neither processor are the texts of
tracepoints compared with ftrace's there (`tracepoints_read_as_ftrace` does that on the host): the ftrace of 6.1 prints
nothing in the place of a text (`name=`, where ringtail has `name=filp`), and an emulated kernel verifies the programs of
fifty tracepoints for longer than a client waits. arm64 runs emulated, and does each thing a tenth as often. **made** is
the day, the commit and the emulator of the row; a row stays until its kernel is tried again.
"""


def cases(text):
    """{name: word}; a machine that booted twice has one log of its kernel each time: the worse one counts."""
    found = {}
    for word, _, name in CASE.findall(text):
        if found.get(name) not in ("not ok", "late"):
            found[name] = word
    return found


def alone_of(path):
    """What of that log ran again: "" if nothing did, or in a run before this one."""
    alone = path.removesuffix(".log") + "_alone_.log"
    try:
        if os.stat(alone).st_mtime_ns < os.stat(path).st_mtime_ns:
            return ""
        with open(alone, errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def cell(found, column):
    named = tuple(start for starts in CELLS.values() for start in starts)
    chosen = {name: word for name, word in found.items()
              if (not name.startswith(named) if column == OTHERS else name.startswith(CELLS[column]))}
    bad = [name for name, word in chosen.items() if word in ("not ok", "late")]
    if bad:
        return "NOT: " + ", ".join(sorted(bad))
    passed = sum(word == "ok" for word in chosen.values())
    return str(passed) if passed else "-"


def row(text, again=""):
    """Of a log, and of what ran again; None: it names no kernel, or not what it was made of."""
    kernel = re.search(r"^# kernel (\S+)", text, re.M) or re.search(r"^ok build of ringtail.ko for (\S+)", text, re.M)
    made = re.search(r"^# made (.+)", text, re.M)
    if not kernel or not made:
        return None
    source = "module" if "ringtail.ko" in text else "BPF"
    arch = "arm64" if kernel[1].endswith("arm64") else "x86-64"
    found = cases(text)
    if again:
        found = {name: word for name, word in found.items() if word != "late"} | cases(again)
    return [kernel[1], arch, source, *(cell(found, column) for column in CELLS), made[1]]


def checked(words):
    """A row whose commit nobody can look up says so; without git nothing is known of any."""
    commit = re.search(r", ([0-9a-f]{7,40})(-dirty)?, ", words[-1])
    if not commit or words[-1].endswith(UNKNOWN):
        return words
    has_git = subprocess.run(["git", "rev-parse", "--verify", "-q", "HEAD"], cwd=HERE, capture_output=True).returncode == 0
    found = subprocess.run(["git", "cat-file", "-e", f"{commit[1]}^{{commit}}"], cwd=HERE, capture_output=True).returncode == 0
    return words if found or not has_git else [*words[:-1], words[-1] + UNKNOWN]


def key(words):
    """What a row is of: a series of kernels, a processor and a source."""
    return re.match(r"\d+\.\d+", words[0])[0], words[1], words[2]


def read_rows(page):
    if not os.path.exists(page):
        return []
    with open(page) as file:
        lines = [line.strip().strip("|").split("|") for line in file if re.match(r"\| \d", line)]
    rows = [[word.strip() for word in line] for line in lines]
    at = COLUMNS.index(OTHERS)
    return [words if len(words) == len(COLUMNS) else [*words[:at], "?", *words[at:]] for words in rows]


def order(words):
    return [int(number) for number in key(words)[0].split(".")], words[1], words[2]


def main():
    directory, page = sys.argv[1:]
    rows = {key(words): words for words in read_rows(page)}
    for path in sorted(glob.glob(f"{directory}/kernel*.log")):
        if path.endswith("_alone_.log"):
            continue
        with open(path, errors="replace") as file:
            if words := row(file.read(), alone_of(path)):
                rows[key(words)] = words
    with open(page, "w") as file:
        print(HEAD + "| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS), file=file)
        for words in sorted(rows.values(), key=order):
            print("| " + " | ".join(checked(words)) + " |", file=file)
        print(TAIL, end="", file=file)


if __name__ == "__main__":
    main()
