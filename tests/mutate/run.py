#!/usr/bin/env python3
"""mutate: breaks the code in known ways and sees whether a test notices; see `make mutate`.

	usage: run.py [--build DIR] [--room ROOM] [--changed] [--seconds N] [--list]

A mutant is an entry of tests/mutate/*.py's MUTANTS: a file, text that stands in it exactly once, what to
put in its place, and the names of the tests (as `make t` takes them) that are to fail then, cheapest
first. Text that no longer stands there once is an error: the mutant is to follow the code.

The tree is copied to BUILD/mutate/tree, so that nothing here is touched; one mutant at a time is put in,
what its tests need is built, and they run until one fails: that mutant is killed. One that no test notices
survives; WHY may say why it may. Exit status: 0 if all were killed or excused, 1 if any survived, 2 if a
mutant does not fit the code or does not build.

--room: mutants of files under that path. --changed: of files that differ from HEAD. --seconds: start no
mutant after that time; what was not tried is counted.
"""
import argparse
import filecmp
import glob
import importlib.util
import os
import shutil
import subprocess
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
TEST_TIMEOUT_S = 300
MAKE_TIMEOUT_S = 600
CPUS = os.cpu_count() or 2


class Mutant:
    """`old` stands once in `file`; `tests` are to fail when `new` does. `why`: it may survive."""

    def __init__(self, name, file, old, new, tests, why=None):
        self.name, self.file, self.old, self.new = name, file, old, new
        self.tests, self.why = tests, why


def load_mutants():
    """Of all lists, in the order of their files."""
    mutants = []
    for path in sorted(glob.glob(os.path.join(ROOT, "tests/mutate/*.py"))):
        if os.path.basename(path) == "run.py":
            continue
        spec = importlib.util.spec_from_file_location("mutants", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        mutants += [Mutant(*row) for row in module.MUTANTS]
    names = [mutant.name for mutant in mutants]
    assert len(names) == len(set(names)), "two mutants of one name"
    return mutants


def misfits(mutants):
    """Those whose text does not stand in their file exactly once."""
    for mutant in mutants:
        with open(os.path.join(ROOT, mutant.file)) as file:
            found = file.read().count(mutant.old)
        if found != 1 or mutant.old == mutant.new:
            yield f"{mutant.name}: its text stands {found} times in {mutant.file}"


def copy_tree(tree):
    """What git knows or would, as it is now. What differs gets today's time, so that make sees it: a
    mutant that was built may be newer than the source that it was made from."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True,
                            stdout=subprocess.PIPE, check=True).stdout.split("\n")
    wanted = {path for path in listed if path and os.path.isfile(os.path.join(ROOT, path))}
    for path in wanted:
        source, target = os.path.join(ROOT, path), os.path.join(tree, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.exists(target) or not filecmp.cmp(source, target, shallow=False):
            shutil.copy(source, target)
    for directory, _, names in os.walk(tree):
        inside = os.path.relpath(directory, tree)
        if inside == "build" or inside.startswith("build/"):
            continue
        for name in names:
            if os.path.normpath(os.path.join(inside, name)) not in wanted:
                os.remove(os.path.join(directory, name))
    os.makedirs(os.path.join(tree, "build"), exist_ok=True)
    for stamp in glob.glob(os.path.join(ROOT, "build/.deps-*")):
        shutil.copy2(stamp, os.path.join(tree, "build"))


def put(tree, file, text):
    with open(os.path.join(tree, file), "w") as target:
        target.write(text)


def run_test(tree, name):
    """`built`, and whether it passed."""
    probe = subprocess.run([sys.executable, "-c",
                            "import sys; sys.path.insert(0, 'tests'); import one\n"
                            "tests = one.find(sys.argv[1])\n"
                            "assert len(tests) == 1, f'{sys.argv[1]}: {len(tests)} tests'\n"
                            "sys.exit(one.make(tests[0], 'build')[0])", name], cwd=tree, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=MAKE_TIMEOUT_S)
    if probe.returncode:
        return False, False, probe.stdout
    try:
        done = subprocess.run([sys.executable, "tests/one.py", name], cwd=tree, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, errors="replace", timeout=TEST_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return True, False, "it hangs"
    return True, done.returncode in (0, 77), done.stdout


def try_mutant(tree, mutant):
    """`killed` with the test that did it, `survived`, or `does not build`."""
    with open(os.path.join(ROOT, mutant.file)) as file:
        sound = file.read()
    put(tree, mutant.file, sound.replace(mutant.old, mutant.new))
    try:
        for name in mutant.tests:
            built, passed, output = run_test(tree, name)
            if not built:
                return "does not build", output[-1000:]
            if not passed:
                return "killed", name
        return "survived", ", ".join(mutant.tests)
    finally:
        put(tree, mutant.file, sound)


def sound_tests_pass(tree, mutants):
    """A test that fails anyway kills nothing."""
    good = True
    for name in dict.fromkeys(name for mutant in mutants for name in mutant.tests):
        built, passed, output = run_test(tree, name)
        if not built or not passed:
            print(f"  {name} fails on the unchanged tree:\n{output[-2000:]}", flush=True)
            good = False
    return good


def chosen(options, mutants):
    if options.room:
        mutants = [mutant for mutant in mutants if mutant.file.startswith(options.room)]
    if options.changed:
        changed = subprocess.run(["git", "diff", "--name-only", "HEAD"], cwd=ROOT, text=True,
                                 stdout=subprocess.PIPE, check=True).stdout.split()
        mutants = [mutant for mutant in mutants if mutant.file in changed]
    return mutants


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--room", help="only of files under this path")
    parser.add_argument("--only", help="only the mutant of this name")
    parser.add_argument("--changed", action="store_true", help="only of files that differ from HEAD")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    mutants = load_mutants()
    wrong = list(misfits(mutants))
    if wrong:
        print("\n".join(wrong))
        sys.exit(2)
    mutants = [mutant for mutant in chosen(options, mutants)
               if not options.only or mutant.name == options.only]
    if options.list:
        print("\n".join(f"{mutant.name}: {mutant.file}" for mutant in mutants))
        sys.exit(0)
    tree = os.path.join(ROOT, options.build, "mutate/tree")
    copy_tree(tree)
    if not sound_tests_pass(tree, mutants):
        sys.exit(2)
    began, counts, left = time.monotonic(), {}, 0
    for mutant in mutants:
        if time.monotonic() - began > options.seconds:
            left += 1
            continue
        at = time.monotonic()
        outcome, detail = try_mutant(tree, mutant)
        if outcome == "survived" and mutant.why:
            outcome, detail = "excused", mutant.why
        counts[outcome] = counts.get(outcome, 0) + 1
        print(f"  {outcome:9} {mutant.name} ({detail}) {time.monotonic() - at:.1f} s", flush=True)
    print(f"{len(mutants)} mutants in {time.monotonic() - began:.0f} s: "
          + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
          + (f", {left} not tried" if left else ""))
    sys.exit(2 if counts.get("does not build") else 1 if counts.get("survived") else 0)


if __name__ == "__main__":
    main()
