#!/usr/bin/env python3
"""invent: breaks the code in ways that nobody has chosen, and shows what no unit test notices.

	usage: invent.py [--build DIR] [--each N] [--seed N] [--jobs N] [--seconds N] [--rows FILE] PATH...

PATH: a file or a folder of C code. Of each function below it N mutants are made (1), at places that the
seed decides: a comparison shifted or turned around, a condition that always or never holds, a statement
left out, a one added or dropped, another result. Each is tried with the unit tests that its file's rows in
tests/mutate/*.py name, and with those that include a header of its room, the quickest first. A survivor is shown;
many a one is equivalent, or a matter of speed, so a person has to judge it. --rows: what was killed is
written there, as rows for a list. Exit status 0.
"""
import argparse
import concurrent.futures
import functools
import os
import random
import re
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import builder  # noqa: E402
import one      # noqa: E402
import place    # noqa: E402
import run      # noqa: E402

TESTS_SECONDS_MAX = 25      # what one mutant's tests may take together
# (what stands, what is put there); tried wherever they match in a line.
SWAPS = [
    (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "),
    (r" != ", " == "), (r" && ", " || "), (r" \|\| ", " && "), (r" \+ 1\b", ""), (r" - 1\b", ""),
    (r" \+ ", " - "), (r" - ", " + "), (r" \+= ", " = "), (r" -= ", " = "), (r"([(!&| ])!(?=[a-z])", r"\1"),
    (r"\breturn true;", "return false;"), (r"\breturn false;", "return true;"), (r"\breturn 0;", "return -EIO;"),
    (r"\breturn -E\w+;", "return 0;"), (r"\breturn err;", "return 0;"), (r" \? (.+?) : (.+?);", r" ? \2 : \1;"),
    (r"= true;", "= false;"), (r"= false;", "= true;"), (r"\bif \((.*)\)( \{)?$", r"if (false)\2"),
    (r"\bif \((.*)\)( \{)?$", r"if (true)\2"), (r"\* 2\b", "* 1"), (r"/ 2\b", "/ 1"), (r"= 0;", "= 1;"),
]
STATEMENT = re.compile(r"^\t+[a-z_*(][^=]*(?:\)|\+\+|--)( [-+|&]?= .*)?;$|^\t+[a-z_*][\w\[\]>.*-]* [-+|&]?= .*;$")
LOOPS = re.compile(r"^\t*(?:for|while) ")
DULL = re.compile(r"\blog_|\bassert\(|error_set|error_hint|_Static_assert|(?:free|destroy|put|fini|close)\(|_print\(|fprintf")
STAYS = re.compile(r"^\t+(?:return|goto|break|continue)\b")


def mutants_of_line(line):
    """Every other line that this one may become."""
    for pattern, put in SWAPS:
        if LOOPS.match(line) and put == "":
            continue
        for match in re.finditer(pattern, line):
            new = line[:match.start()] + match.expand(put) + line[match.end():]
            if new != line:
                yield new
    if STATEMENT.match(line) and not STAYS.match(line):
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


class Tests:
    """Which unit tests may notice what is wrong in a file."""

    def __init__(self, known):
        self.seconds, self.listed = {}, {}
        for name, kept in known.tests.items():
            self.seconds[name] = kept["seconds"]
        for mutant in run.load_mutants():
            where = place.place_of(mutant.place)[0]
            self.listed.setdefault(where, set()).update(
                run.find_test(name).source for name in mutant.tests if name.startswith("unit/"))
        self.units = {test.source: test for test in one.unit_tests(run.BUILD) if test.source.endswith(".c")}
        self.texts = {source: self.text_of(source) for source in self.units}

    @staticmethod
    def text_of(source):
        """With what it shares with its neighbours."""
        text = place.text_of(source)
        return text + "".join(place.text_of(path) for path in re.findall(r'"(tests/unit/\S+\.h)"', text))

    def seconds_of(self, source):
        return self.seconds.get(source, self.seconds.get(self.units[source].title, 1.0))

    @functools.lru_cache(maxsize=None)
    def of(self, path):
        header = re.sub(r"\.c$", ".h", path)
        wanted = self.listed.get(path, set()) | {
            source for source, text in self.texts.items()
            if f'"{header}"' in text or f'"{os.path.dirname(path)}/' in text or os.path.basename(source) == "test_" + os.path.basename(path)}
        chosen, spent = [], 0
        for source in sorted(wanted & set(self.units), key=self.seconds_of):
            spent += self.seconds_of(source)
            if spent < TESTS_SECONDS_MAX or not chosen:
                chosen.append(source)
        return chosen


def how(old, new):
    """In a word, what was done to the line."""
    if new.strip() == ";":
        return "left-out"
    for pattern, name in ((r"if \(false\)", "never"), (r"if \(true\)", "always")):
        if re.search(pattern, new):
            return name
    return "differs"


def row_of(where, function, old, new, killer, taken):
    """A row for a list; the line, with the one before it where it stands twice in its function."""
    name = stem = f"{os.path.basename(where)[:-2]}-{function}-{how(old, new)}".replace("_", "-")
    for number in range(2, 99):
        if name not in taken:
            break
        name = f"{stem}-{number}"
    taken.add(name)
    try:
        place.place_of(f"{os.path.dirname(where)}:{function}")
        where = os.path.dirname(where)
    except place.Misfit:
        pass
    return f'    ("{name}", "{where}:{function}",\n     {old!r},\n     {new!r}, ["{killer}"]),\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--each", type=int, default=1, help="mutants of each function")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--jobs", type=int, default=run.CPUS)
    parser.add_argument("--rows", help="where rows of what was killed go")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("path", nargs="+")
    options = parser.parse_args()
    os.chdir(place.ROOT)
    folder = os.path.join(os.path.abspath(options.build), "mutate")
    tree = os.path.join(folder, "tree-of-inventions")
    run.copy_tree(tree)
    run.make(tree, list(one.unit_tests("build")))
    tests = Tests(run.Known(os.path.join(folder, "results.json"), ""))
    runner = run.Runner(tree, None)
    runner.sound = lambda name: True
    runner.timeout = lambda name: 10 * tests.seconds_of(name) + 10
    taken = {mutant.name for mutant in run.load_mutants()}
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
        lines = place.text_of(path).split("\n")
        lines[line - 1] = new
        mutant = run.Mutant(f"invented-{number}", path, old, new, tests.of(path))
        mutant.file, mutant.text = path, "\n".join(lines)
        outcome, detail = "without a test", ""
        if mutant.tests:
            outcome, detail = runner.try_mutant(mutant, os.path.join(folder, f"invented-{threading.get_ident()}"))
        counts[outcome] = counts.get(outcome, 0) + 1
        if outcome == "survived":
            print(f"{outcome} {path}:{line} {function}()\n-{old.strip()}\n+{new.strip()}\n  "
                  + " ".join(os.path.basename(name)[5:-2] for name in mutant.tests), flush=True)
        begin, end = place.spans(path)[function][0]
        if outcome == "killed" and options.rows and place.text_of(path)[begin:end].count(old) == 1:
            title = run.find_test(detail).title
            with open(options.rows, "a") as rows:
                rows.write(row_of(path, function, old, new,
                                  title if len(one.find(title)) == 1 else detail, taken))

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(try_one, enumerate(chosen)))
    print(f"{sum(counts.values())} mutants: "
          + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
