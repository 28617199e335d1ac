#!/usr/bin/env python3
"""invent: breaks the code in ways that nobody has chosen, and shows what no unit test notices.

	usage: invent.py [--build DIR] [--coverage DIR] [--each N] [--seed N] [--jobs N] [--seconds N] PATH...

PATH: a file or a folder of C code. Of each function below it N mutants are made (1), at places that the
seed decides: a comparison shifted or turned around, a condition that always or never holds, a statement
left out, a one added or dropped, another result. Each is tried with the unit tests that run through its
line, as measured in DIR (build/gcov: `make unit BUILD=build/gcov SANITIZE=--coverage CFLAGS='-O1 -g'`),
the quickest first. What is printed of a survivor is nearly a row for tests/mutate/*.py: many a survivor is
equivalent, or a matter of speed, so a person has to judge each. Exit status 0.
"""
import argparse
import concurrent.futures
import functools
import glob
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import builder  # noqa: E402
import one      # noqa: E402
import place    # noqa: E402
import run      # noqa: E402

TESTS_SECONDS_MAX = 12      # what one mutant's tests may take together
# (what stands, what is put there); tried wherever they match in a line.
SWAPS = [
    (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "),
    (r" != ", " == "), (r" && ", " || "), (r" \|\| ", " && "), (r" \+ 1\b", ""), (r" - 1\b", ""),
    (r" \+ ", " - "), (r" - ", " + "), (r" \+= ", " = "), (r" -= ", " = "), (r"\+\+", ""), (r"([(!&| ])!(?=[a-z])", r"\1"),
    (r"\breturn true;", "return false;"), (r"\breturn false;", "return true;"), (r"\breturn 0;", "return -EIO;"),
    (r"\breturn -E\w+;", "return 0;"), (r"\breturn err;", "return 0;"), (r" \? (.+?) : (.+?);", r" ? \2 : \1;"),
    (r"= true;", "= false;"), (r"= false;", "= true;"), (r"\bif \((.*)\)( \{)?$", r"if (false)\2"),
    (r"\bif \((.*)\)( \{)?$", r"if (true)\2"), (r"\* 2\b", "* 1"), (r"/ 2\b", "/ 1"), (r"= 0;", "= 1;"),
]
STATEMENT = re.compile(r"^\t+[a-z_*(][^=]*(?:\)|\+\+|--)( [-+|&]?= .*)?;$|^\t+[a-z_*][\w\[\]>.*-]* [-+|&]?= .*;$")
LOOPS = re.compile(r"^\t*(?:for|while) ")
DULL = re.compile(r"\blog_|\bassert\(|error_set|_Static_assert|free\(|^\t+(?:return|goto|break|continue)\b|_print\(|fprintf")


def mutants_of_line(line):
    """Every other line that this one may become."""
    for pattern, put in SWAPS:
        if LOOPS.match(line) and put == "":
            continue
        for match in re.finditer(pattern, line):
            new = line[:match.start()] + match.expand(put) + line[match.end():]
            if new != line:
                yield new
    if STATEMENT.match(line) and not DULL.search(line):
        indent = re.match(r"\t+", line).group(0)
        yield f"{indent};"


def candidates(path):
    """{function: [(number of the line, its text, another text)]} of the file."""
    text, found = place.text_of(path), {}
    for function, spans in place.spans(path).items():
        if len(spans) != 1:
            continue
        begin, end = spans[0]
        first = text.count("\n", 0, begin) + 1
        for i, line in enumerate(text[begin:end].split("\n")):
            if i and not re.match(r"^\s*(/?\*|//|#)", line) and not DULL.search(line):
                found.setdefault(function, []).extend((first + i, line, new) for new in mutants_of_line(line))
    return found


class Coverage:
    """Which unit tests run through a line."""

    def __init__(self, build, folder):
        self.build, self.folder, self.lock = os.path.abspath(build), folder, threading.Lock()
        self.tests = {}
        for test in run.one.unit_tests(build):
            if test.targets[0].startswith(build) and os.path.exists(test.targets[0]):
                self.tests[test.source] = test

    def measure(self, title):
        """Runs the test, with its figures in a folder of its own; how long it takes."""
        place_of_it, test = os.path.join(self.folder, title), self.tests[title]
        if os.path.exists(place_of_it + ".seconds"):
            return
        began = time.monotonic()
        subprocess.run(test.command, env={**os.environ, **test.env, "GCOV_PREFIX": place_of_it},
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       timeout=300, check=False)
        with open(place_of_it + ".seconds", "w") as file:
            file.write(str(time.monotonic() - began))

    def seconds(self, title):
        with open(os.path.join(self.folder, title) + ".seconds") as file:
            return float(file.read())

    @functools.lru_cache(maxsize=None)
    def lines(self, path):
        """{line: [title, ...]} of the file."""
        found = {}
        for title in self.tests:
            base = os.path.join(self.build, path[:-2])
            data = os.path.join(self.folder, title) + base + ".gcda"
            if not os.path.exists(data):
                continue
            if not os.path.exists(data[:-2] + "no"):
                shutil.copy(base + ".gcno", data[:-4] + "gcno")
            done = subprocess.run(["gcov", "--json-format", "--stdout", data], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, check=False)
            for file in json.loads(done.stdout or '{"files": []}')["files"]:
                if os.path.normpath(file["file"]) == path:
                    for line in file["lines"]:
                        if line["count"]:
                            found.setdefault(line["line_number"], []).append(title)
        return {line: sorted(titles, key=self.seconds) for line, titles in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--coverage", default="build/gcov")
    parser.add_argument("--each", type=int, default=1, help="mutants of each function")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--jobs", type=int, default=run.CPUS)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("path", nargs="+")
    options = parser.parse_args()
    os.chdir(place.ROOT)
    folder = os.path.join(os.path.abspath(options.build), "mutate")
    tree = os.path.join(folder, "tree-of-inventions")
    run.copy_tree(tree)
    run.make(tree, list(one.unit_tests("build")))
    coverage = Coverage(options.coverage, os.path.join(folder, "coverage"))
    os.makedirs(coverage.folder, exist_ok=True)
    for source in coverage.tests:
        os.makedirs(os.path.join(coverage.folder, source), exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(coverage.measure, coverage.tests))
    runner = run.Runner(tree, None)
    runner.timeout = lambda name: 10 * coverage.seconds(name) + 10
    chance, chosen = random.Random(options.seed), []
    for path in [path for where in options.path for path in place.files_below(where) if path.endswith(".c")]:
        for function, found in sorted(candidates(path).items()):
            chosen += [(path, function, *each) for each in chance.sample(found, min(options.each, len(found)))]
    chance.shuffle(chosen)
    print(f"seed {options.seed}: {len(chosen)} mutants", flush=True)
    counts, began = {}, time.monotonic()

    def try_one(numbered):
        number, (path, function, line, old, new) = numbered
        if time.monotonic() - began > options.seconds:
            return
        tests, spent = [], 0
        for title in coverage.lines(path).get(line, []):
            spent += coverage.seconds(title)
            if spent < TESTS_SECONDS_MAX or not tests:
                tests.append(title)
        lines = place.text_of(path).split("\n")
        lines[line - 1] = new
        mutant = run.Mutant(f"invented-{number}", path, old, new, tests)
        mutant.file, mutant.text = path, "\n".join(lines)
        outcome = "uncovered"
        if tests:
            outcome, detail = runner.try_mutant(mutant, os.path.join(folder, f"invented-{threading.get_ident()}"))
            if outcome == "does not build" and detail.startswith("no test"):
                outcome = "uncovered"
        counts[outcome] = counts.get(outcome, 0) + 1
        if outcome in ("survived", "uncovered"):
            print(f"{outcome} {path}:{line} {function}()\n-{old.strip()}\n+{new.strip()}"
                  + (f"\n  {' '.join(tests[:6])}" if tests else ""), flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(try_one, enumerate(chosen)))
    print(f"{sum(counts.values())} mutants: "
          + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
