#!/usr/bin/env python3
"""The simulation's coverage: which functions of the daemon's rooms no seed ever enters.

	coverage.py BUILD [SEEDS]

BUILD is one made with --coverage, with sim/sim in it. Runs SEEDS seeds of each kind (200), prints a line
for each room, and compares what was never entered with tests/sim/never_entered.txt: FILE FUNCTION a
line, in groups, each under a comment that says why. The list must be exact: a function that is entered
now is to be taken off it, one that is entered no more is to be reached again. Behind those that one history
in hundreds enters stands `seldom`: each change of the daemon gives the seeds other histories, so they may be
entered or not. Exit status 0 if the list is exact, else 1.
"""
import glob
import json
import os
import subprocess
import sys

ROOMS = ["stream", "spool", "collect", "serve", "ring"]
SEEDS = 200
HERE = os.path.dirname(os.path.abspath(__file__))
ALLOWED = os.path.join(HERE, "never_entered.txt")
TOP = os.path.dirname(os.path.dirname(HERE))


def run_seeds(build, seeds):
    for old in glob.glob(f"{build}/**/*.gcda", recursive=True):
        os.unlink(old)
    for kind in ([], ["--durable"]):
        subprocess.run([f"{build}/sim/sim", *kind, "--seeds", f"1..{seeds}"], check=True)


def functions(build, room):
    """{(file, function): entered}, of a room; none of its files may be without figures."""
    found = {}
    for source in sorted(glob.glob(f"{TOP}/daemon/{room}/*.c")):
        name = os.path.relpath(source, TOP)
        notes = os.path.join(build, name[:-len(".c")] + ".gcno")
        done = subprocess.run(["gcov", "--json-format", "--stdout", notes], cwd=TOP, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for one in json.loads(done.stdout)["files"]:
            if os.path.relpath(os.path.join(TOP, one["file"]), TOP) != name:
                continue
            for function in one["functions"]:
                key = (name, function["name"])
                found[key] = found.get(key, False) or function["execution_count"] > 0
    return found


def read_allowed():
    """Those never entered, and those that seldom are. Each entry stands in a group that a comment says the reason
    of; a blank line ends a group."""
    allowed, seldom, reason = [], [], ""
    with open(ALLOWED) as lines:
        for line in lines:
            if line.startswith("#"):
                reason = line
            elif not line.strip():
                reason = ""
            elif reason:
                words = line.split()
                (seldom if words[2:] == ["seldom"] else allowed).append(tuple(words[:2]))
            else:
                sys.exit(f"{os.path.relpath(ALLOWED, TOP)}: no reason is given for {line.strip()}")
    both = allowed + seldom
    twice = {entry for entry in both if both.count(entry) > 1}
    if twice:
        sys.exit(f"{os.path.relpath(ALLOWED, TOP)}: more than once: {sorted(twice)}")
    return set(allowed), set(seldom)


def main():
    build = os.path.abspath(sys.argv[1])
    run_seeds(build, int(sys.argv[2]) if len(sys.argv) > 2 else SEEDS)
    never, known = set(), set()
    for room in ROOMS:
        all_of_it = functions(build, room)
        missed = {key for key, entered in all_of_it.items() if not entered}
        never |= missed
        known |= set(all_of_it)
        print(f"daemon/{room}: {len(all_of_it) - len(missed)} of {len(all_of_it)} functions entered")
        if not all_of_it:
            sys.exit(f"coverage: {build} has no figures of daemon/{room}")
    allowed, seldom = read_allowed()
    missed, stale = never - allowed - seldom, (allowed - never) | (seldom - known)
    for file, function in sorted(missed):
        print(f"never entered: {file} {function}")
    for file, function in sorted(stale):
        print(f"entered, or gone: {file} {function}: take it off {os.path.relpath(ALLOWED, TOP)}")
    print(f"sim-coverage: {len(never)} functions never entered, {len(allowed)} expected, and any of {len(seldom)}")
    return bool(missed or stale)


if __name__ == "__main__":
    sys.exit(main())
