#!/usr/bin/env python3
"""instructions: how many instructions an event costs us, counted by valgrind over the recording that is shipped,
beside the table tests/instructions.txt. Counts do not depend on what else the machine does, so that a change
which makes the hot path dearer by one part in a hundred is seen the day it is made.

	usage: tests/instructions.py BUILD [--write]

A row that is dearer or cheaper than the table by more than MARGIN fails: the table says what is true. --write
writes it anew. Libraries are counted, too, so the table is for the libzstd that it names: with another one there
is nothing to compare (exit 77).
"""
import ctypes
import json
import os
import re
import subprocess
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
TABLE, RECORDING = "tests/instructions.txt", "tests/data/capture.rt"
MARGIN = 0.01
# name: the function whose instructions count, with all that it calls; the command. Of what tracectl reads, that
# of the first event is taken off: a recording's head costs as much however many events follow.
ROWS = {
    "collect": (["drain_read"], ["bench/drain", RECORDING, "1"]),
    "collect and meter": (["drain_read", "meter_end_run"], ["bench/drain", RECORDING, "1", "meter"]),
    "read, nothing printed": (["pump_run"], ["tracectl", "read", RECORDING, "-o", "none"]),
    "read, filtered": (["pump_run"], ["tracectl", "read", RECORDING, "-o", "none", "-f",
                                      "duration > 1ms && pid != 1 || error == ENOENT"]),
    "read as text": (["pump_run"], ["tracectl", "read", RECORDING, "-o", "text"]),
    "read as JSON": (["pump_run"], ["tracectl", "read", RECORDING, "-o", "json"]),
    "read as CSV": (["pump_run"], ["tracectl", "read", RECORDING, "-o", "csv"]),
    "count by thread's name": (["pump_run"], ["tracectl", "count", RECORDING, "--by", "comm,function"]),
    "summary": (["pump_run"], ["tracectl", "summary", RECORDING]),
}
# Which of its functions libc takes depends on the processor: those that every x86-64 has.
SAME_EVERYWHERE = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-AVX_Fast_Unaligned_Load,-ERMS,-FSRM,-BMI2",
                   "LC_ALL": "C", "TZ": "UTC"}


def zstd_version():
    zstd = ctypes.CDLL("libzstd.so.1")
    zstd.ZSTD_versionString.restype = ctypes.c_char_p
    return zstd.ZSTD_versionString().decode()


def count(build, functions, command):
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                           "--collect-atstart=no", *(f"--toggle-collect={name}" for name in functions),
                           f"{build}/{command[0]}", *command[1:]],
                          env={**os.environ, **SAME_EVERYWHERE}, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, timeout=300)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not found or not int(found[1]):
        sys.exit(f"not ok {' '.join(command)}: nothing was counted: {done.stderr[-2000:]}")
    return int(found[1])


def events_of(build):
    done = subprocess.run([f"{build}/tracectl", "--summary", "json", "read", RECORDING, "-o", "none"],
                          stderr=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stderr)["events"]


def read_table():
    with open(TABLE) as file:
        lines = [line.rstrip("\n") for line in file if line.strip() and not line.startswith("#")]
    rows = dict(line.rsplit("\t", 1) for line in lines)
    return rows.pop("libzstd"), {name: float(value) for name, value in rows.items()}


def main():
    build, write = sys.argv[1], "--write" in sys.argv[2:]
    version, table = read_table()
    if not write and version != zstd_version():
        print(f"SKIP: {TABLE} was counted with libzstd {version}, and this is {zstd_version()}")
        sys.exit(77)
    events, failed, found = events_of(build), False, {}
    for name, (functions, command) in ROWS.items():
        spent = count(build, functions, command)
        if command[0] == "tracectl":
            spent -= count(build, functions, [*command, "-n", "1"])
        found[name] = round(spent / events, 1)
        allowed = table.get(name, 0)
        good = write or abs(found[name] - allowed) <= allowed * MARGIN
        failed |= not good
        print(f"{'ok' if good else 'not ok'} {name}: {found[name]} instructions an event, {allowed} in {TABLE}")
    if write:
        with open(TABLE, "w") as file:
            print("# Instructions for each event of tests/data/capture.rt; tests/instructions.py counts and\n"
                  "# compares them, and writes this (--write).", file=file)
            print(f"libzstd\t{zstd_version()}", file=file)
            for name, value in found.items():
                print(f"{name}\t{value}", file=file)
    elif failed:
        print(f"# If the change is worth it: python3 tests/instructions.py {build} --write, and say why.")
    sys.exit(failed)


main()
