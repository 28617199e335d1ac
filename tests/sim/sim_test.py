#!/usr/bin/env python3
"""The simulation: as many seeds as asked for pass, a seed gives the same log every time, and a
daemon that is wrong is found out, whatever is wrong with it.

	sim_test.py SIM FIRST LAST [--no-faults]

--no-faults: not the last. What finds a wrong daemon out is the oracle, whatever the build.
"""
import os
import subprocess
import sys
import tempfile

REPEATED = 5		# seeds whose log is made twice
FAULT_SEEDS = "1..200"	# in which each fault must show
# A power cut has to come between two writes: that begins near where it was found.
SEEDS_OF = {"free-early": "1500..3000"}
DURABLE_FAULTS = {"hide-restart", "durable-early", "release-too-far", "ack-back", "free-early", "skip-lost",
                  "forget-wanted", "forget-thread", "number-anew"}
failed = 0


def check(name, passed, output):
    global failed
    print(f"{'ok' if passed else 'not ok'} {name}", flush=True)
    if not passed:
        print(output, flush=True)
        failed += 1


def run(*arguments):
    done = subprocess.run([sim, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace")
    return done.returncode == 0, done.stdout


def log_of(seed, path):
    passed, output = run("--seed", str(seed), "--durable", "--steps", "--log", path)
    with open(path, "rb") as log:
        return passed, output, log.read()


sim, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
check(f"seeds {first}..{last}", *run("--seeds", f"{first}..{last}"))
check(f"durable seeds {first}..{last}", *run("--durable", "--seeds", f"{first}..{last}"))
with tempfile.TemporaryDirectory() as directory:
    path = os.path.join(directory, "log")
    for number in range(first, first + REPEATED):
        one, other = log_of(number, path), log_of(number, path)
        check(f"seed {number} gives one log", one[2] == other[2] and one[0] and other[0] and len(one[2]) > 1000,
              one[1])
if first == 1 and sys.argv[4:] != ["--no-faults"]:
    for fault in run("--list-faults")[1].split():
        check(f"a daemon with {fault} is found out",
              *run("--fault", fault, "--seeds", SEEDS_OF.get(fault, FAULT_SEEDS),
                   *["--durable"] * (fault in DURABLE_FAULTS)))
sys.exit(bool(failed))
