#!/usr/bin/env python3
"""mutate: breaks the code in known ways and sees whether a test notices; see `make mutate`.

	usage: run.py [--build DIR] [--room ROOM] [--only NAME] [--changed] [--seconds N] [--jobs N]
		      [--fresh] [--nightly] [--list] [--check-patterns] [--table]

A mutant is a row of MUTANTS in tests/mutate/*.py: its name, its place (place.py: FILE, or WHERE:FUNCTION),
text that stands there exactly once, what to put in its stead, and the names of the tests (as `make t` takes
them) that are to fail then, cheapest first. Text that does not stand there once is an error: the mutant has
to follow the code.

The tree is copied to BUILD/mutate/tree and built there. Of each mutant only the objects that its file goes
into are compiled again, beside that tree (builder.py), and the tests run until one fails: that mutant is
killed. So is one with which a test takes ten times its time and ten seconds more. One that no test notices
survives; a last field in its row may say why it may.

A test that fails without any mutant, or is skipped, can kill none. The other tests of its mutants are tried all
the same; a mutant that none of those kills is `not tried`, never a survivor, and named at the end with the test.
Exit status: 0 if all were killed or excused, 1 if any survived, 2 if a mutant does not fit the code or does not
build, or a test fails without any, 3 if a test was skipped.

What came out is kept in BUILD/mutate/results.json. A killed mutant is not tried again
while its file and the test that killed it are the same, nor one that survived while no source at all has changed
(--fresh: all are). Those of which nothing is known go first, then those that were tried longest ago, so that runs
of limited time come to the end of the list. --room: mutants of files below that path. --changed: of files that
differ from HEAD. --seconds: start no mutant after that time; what was not tried is counted. --check-patterns:
whether every mutant fits the code, and no more. --table: what is known of each room, as in docs/reliability.md.
--nightly: NIGHT_SECONDS of it, unless --seconds says otherwise; what came out is kept beside the history of the
checks (tools/history.py), where no `make clean` and no new clone loses it, and the table with it, in mutants.md.
"""
import argparse
import concurrent.futures
import filecmp
import functools
import glob
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "../.."))
sys.path[:0] = [HERE, os.path.join(HERE, ".."), os.path.join(HERE, "../tools")]
import builder  # noqa: E402
import history  # noqa: E402
import one      # noqa: E402
import place    # noqa: E402

BUILD = "build"         # inside the tree
CPUS = os.cpu_count() or 2
TEST_TIMEOUT_S = 600    # of a test without a mutant
SKIPPED = 77
NIGHT_SECONDS = 4 * 3600
QUICK = ("unit", "stress", "sim", "bpf")
SIM_SEEDS = "40"
KERNEL_SOURCES = "kmod/bpf/"
NOT_OF_IT = "not made of it"


class Mutant:
    """`old` stands once at `place`; `tests` are to fail when `new` does. `why`: it may survive."""

    def __init__(self, name, where, old, new, tests, why=None):
        self.name, self.place, self.old, self.new = name, where, old, new
        self.tests, self.why = tests, why
        self.file = self.text = None


def load_mutants():
    """Of all lists, in the order of their files."""
    mutants = []
    for path in sorted(glob.glob(os.path.join(HERE, "*.py"))):
        if os.path.samefile(path, __file__):
            continue
        spec = importlib.util.spec_from_file_location("mutants", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        mutants += [Mutant(*row) for row in getattr(module, "MUTANTS", [])]
    names = [mutant.name for mutant in mutants]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        sys.exit(f"mutants of one name: {' '.join(twice)}")
    return mutants


def find_test(name):
    found = one.find(name, BUILD)
    return found[0] if len(found) == 1 else None


def misfits(mutants):
    """Finds each mutant's file and text; what is wrong with those that have none, or name no test."""
    titles = [test.title for test in one.all_tests(BUILD)]
    names = titles + [test.source for test in one.all_tests(BUILD)]
    for mutant in mutants:
        try:
            mutant.file, mutant.text = place.mutated(mutant)
        except place.Misfit as misfit:
            yield f"{mutant.name}: {misfit}"
        for name in mutant.tests:
            if names.count(name) != 1:
                yield f"{mutant.name}: {names.count(name)} tests are called {name}; its source file is a name, too"


# ---- The tree -----------------------------------------------------------------------------------

def copy_tree(tree):
    """What git knows or would, as it is now. What differs gets today's time, so that make sees it."""
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
        if inside == BUILD or inside.startswith(BUILD + "/"):
            continue
        for name in names:
            if os.path.normpath(os.path.join(inside, name)) not in wanted:
                os.remove(os.path.join(directory, name))
    os.makedirs(os.path.join(tree, BUILD), exist_ok=True)
    for stamp in glob.glob(os.path.join(ROOT, "build/.deps-*")):
        shutil.copy2(stamp, os.path.join(tree, BUILD))


def make(tree, tests):
    targets = {target for test in tests for target in test.targets if "=" not in target}
    done = subprocess.run(["make", "--no-print-directory", f"-j{CPUS}", f"BUILD={BUILD}", "all",
                           *sorted(targets - {"all", "fuzzers"})], cwd=tree, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise builder.DoesNotBuild(done.stdout[-2000:])


# ---- What is known already ----------------------------------------------------------------------

def digest_of(*texts):
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:24]


class Known:
    """What came of each mutant and test before, kept from run to run in one file."""

    def __init__(self, path, sources):
        self.path, self.sources, self.lock = path, sources, threading.Lock()
        self.mutants, self.tests = {}, {}
        if os.path.exists(path):
            with open(path) as file:
                kept = json.load(file)
            self.mutants, self.tests = kept["mutants"], kept["tests"]

    def write(self):
        with open(self.path + ".new", "w") as file:
            json.dump({"mutants": self.mutants, "tests": self.tests}, file, indent=0)
        os.replace(self.path + ".new", self.path)

    @functools.lru_cache(maxsize=None)
    def test_digest(self, name):
        """Of the test's own source, and of what it shares with its neighbours."""
        source = find_test(name).source
        shared = sorted(glob.glob(os.path.join(ROOT, os.path.dirname(source), "*.h")))
        texts = [place.text_of(source)] + [place.text_of(os.path.relpath(path, ROOT)) for path in shared]
        if name.startswith("sim/"):
            texts = [place.text_of(path) for path in place.files_below("tests/sim")]
        return digest_of(*texts)

    def key(self, mutant, outcome, test):
        texts = [mutant.file, mutant.text]
        if outcome == "killed":
            return digest_of(*texts, test, self.test_digest(test))
        return digest_of(*texts, *mutant.tests, self.sources)

    def outcome(self, mutant):
        """(outcome, detail), or None."""
        kept = self.mutants.get(mutant.name)
        if not kept or kept["outcome"] == "killed" and kept["detail"] not in mutant.tests:
            return None
        if kept["key"] != self.key(mutant, kept["outcome"], kept["detail"]):
            return None
        return kept["outcome"], kept["detail"]

    def tried(self, mutant):
        """When it was, in whatever code; 0: never."""
        return self.mutants.get(mutant.name, {}).get("when", 0)

    def keep(self, mutant, outcome, detail):
        with self.lock:
            self.mutants[mutant.name] = {"outcome": outcome, "detail": detail, "when": time.time(),
                                         "key": self.key(mutant, outcome, detail)}
            self.write()


# ---- Running ------------------------------------------------------------------------------------

class Runner:
    """Runs tests of the tree, and of what a mutant makes of it."""

    def __init__(self, tree, known):
        self.tree, self.known = tree, known
        self.commands = builder.Commands(tree, BUILD)
        self.scenario = threading.Lock()        # one at a time, and nothing that loads the kernel beside it
        self.unsound = {}                       # {test: why it can kill no mutant}
        self.lock, self.looking = threading.Lock(), {}      # {test: the lock of who finds that out}

    def run(self, test, program, env, timeout):
        """Whether it passed (None: it was skipped), and what it said."""
        command = [program if word == test.targets[0] else word for word in test.command]
        if test.kind == "sim":
            command[-1] = SIM_SEEDS
        with self.scenario if test.kind in ("scenario", "bpf") else threading.RLock():
            process = subprocess.Popen(command, cwd=self.tree, env={**os.environ, **test.env, **env}, text=True,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, errors="replace", start_new_session=True)
            try:
                output, _ = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.communicate()
                return False, f"no end after {timeout:.0f} s"
        return None if process.returncode == SKIPPED else process.returncode == 0, output

    def sound(self, name):
        """Whether the test passes without a mutant: asked once, when a mutant first wants it."""
        with self.lock:
            lock = self.looking.setdefault(name, threading.Lock())
        with lock:
            return name not in self.unsound and self.passes(name)

    def passes(self, name):
        """Notes how long it takes, or why it is no use."""
        test = find_test(name)
        digest = self.known.test_digest(name) + self.known.sources
        kept = self.known.tests.get(name)
        if kept and kept["digest"] == digest:
            return True
        began = time.monotonic()
        passed, output = self.run(test, test.targets[0], {}, TEST_TIMEOUT_S)
        if not passed:
            self.unsound[name] = "is skipped" if passed is None else "fails without a mutant"
            print(f"  {name} {self.unsound[name]}:\n{output[-2000:]}", flush=True)
            return False
        with self.known.lock:
            self.known.tests[name] = {"digest": digest, "seconds": time.monotonic() - began}
            self.known.write()
        return True

    def timeout(self, name):
        return 10 * self.known.tests[name]["seconds"] + 10

    def run_overlay(self, overlay, name):
        """Whether the test passes with what the overlay makes of it; NOT_OF_IT: it is not made of that; None: it
        was skipped."""
        test = find_test(name)
        env, program = {}, test.targets[0]
        if test.kind in QUICK and program in self.commands.link:
            programs = [program] + ([test.env["TRACECTL"]] if "TRACECTL" in test.env else [])
            if not any(self.commands.made_of(path, overlay.path) for path in programs):
                return NOT_OF_IT
            program = overlay.program(program)
            if len(programs) > 1:
                env["TRACECTL"] = overlay.program(programs[1])
        else:
            env["RINGTAIL_BUILD"] = overlay.build_folder(BUILD)
        return self.run(test, program, env, self.timeout(name))[0]

    def outcome_of(self, mutant, result_of):
        """Of its tests' results: one that fails kills it; it survives if all the others passed."""
        results = {}
        for name in mutant.tests:
            results[name] = result_of(name) if self.sound(name) else None
            if results[name] is False:
                return "killed", name
        if all(result == NOT_OF_IT for result in results.values()):
            return "does not build", f"no test of {', '.join(mutant.tests)} is made of {mutant.file}"
        if None in results.values():
            return "not tried", ", ".join(f"{name} {self.unsound.get(name, 'is skipped with it')}"
                                          for name, result in results.items() if result is None)
        return "survived", ", ".join(mutant.tests)

    def try_beside(self, mutant, folder):
        overlay = builder.Overlay(self.commands, folder, mutant.file, mutant.text)
        try:
            return self.outcome_of(mutant, lambda name: self.run_overlay(overlay, name))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def try_in_tree(self, mutant):
        """With make, in the tree itself; nothing else may run meanwhile. Of each of its tests it is known already
        whether it is sound."""
        tree = builder.Tree(self.tree, mutant.file, mutant.text)

        def result_of(name):
            test = find_test(name)
            make(self.tree, [test])
            return self.run(test, test.targets[0], {}, self.timeout(name))[0]

        try:
            return self.outcome_of(mutant, result_of)
        finally:
            tree.restore()

    def needs_make(self, mutant):
        """What the kernel is given is not an object of any program."""
        return mutant.file.startswith(KERNEL_SOURCES) and any(not name.startswith("unit/")
                                                              for name in mutant.tests)

    def try_mutant(self, mutant, folder):
        try:
            if self.needs_make(mutant):
                return self.try_in_tree(mutant)
            return self.try_beside(mutant, folder)
        except builder.DoesNotBuild as error:
            return "does not build", str(error) if "error:" not in str(error) else \
                str(error)[str(error).index("error:"):][:200]


def try_all(options, mutants, known):
    """Tries those of which nothing is known; {outcome: number}, those that it had no time for, those that no test
    could be asked about, and {test: why it could not}."""
    folder = os.path.join(ROOT, options.build, "mutate")
    tree = os.path.join(folder, "tree")
    todo = [mutant for mutant in mutants if options.fresh or not known.outcome(mutant)]
    todo.sort(key=known.tried)
    counts, left, untried, began = {}, [], [], time.monotonic()
    # Where nothing is to be tried, what was built for it may be gone.
    os.makedirs(tree, exist_ok=True)
    if todo:
        copy_tree(tree)
        make(tree, [find_test(name) for name in dict.fromkeys(name for mutant in todo for name in mutant.tests)])
    runner = Runner(tree, known)

    def is_late():
        return time.monotonic() - began > options.seconds

    def one_mutant(mutant):
        if is_late():
            left.append(mutant)
            return
        at = time.monotonic()
        outcome, detail = runner.try_mutant(mutant, os.path.join(folder, f"mutant-{threading.get_ident()}"))
        if outcome == "not tried":
            untried.append((mutant, detail))
        elif outcome != "does not build":
            known.keep(mutant, outcome, detail)
        report(mutant, outcome, detail, f"{time.monotonic() - at:.1f} s")
        counts[outcome] = counts.get(outcome, 0) + 1

    in_tree = [mutant for mutant in todo if runner.needs_make(mutant)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one_mutant, [mutant for mutant in todo if mutant not in in_tree]))
    for name in dict.fromkeys(name for mutant in in_tree for name in mutant.tests):     # while the tree is whole
        if not is_late():
            runner.sound(name)
    for mutant in in_tree:
        one_mutant(mutant)
    for mutant in mutants:
        if mutant not in todo:
            outcome, detail = known.outcome(mutant)
            counts[outcome] = counts.get(outcome, 0) + 1
            if outcome == "survived":
                report(mutant, outcome, detail, "as before")
    return counts, left, untried, runner.unsound


def report(mutant, outcome, detail, when):
    if outcome == "survived" and mutant.why:
        outcome, detail = "excused", mutant.why
    print(f"  {outcome:9} {mutant.name} ({detail}) {when}", flush=True)


# ---- What is asked for --------------------------------------------------------------------------

def chosen(options, mutants):
    if options.room:
        mutants = [mutant for mutant in mutants if mutant.file.startswith(options.room)]
    if options.changed:
        changed = subprocess.run(["git", "diff", "--name-only", "HEAD"], cwd=ROOT, text=True,
                                 stdout=subprocess.PIPE, check=True).stdout.split()
        mutants = [mutant for mutant in mutants if mutant.file in changed]
    return [mutant for mutant in mutants if not options.only or mutant.name == options.only]


def sources_digest():
    """Of all that programs and tests are made of, but of the lists of mutants."""
    texts = []
    for top in ("proto", "query", "daemon", "client", "courier", "kmod", "tests"):
        for directory, folders, names in os.walk(os.path.join(ROOT, top)):
            folders[:] = [name for name in sorted(folders) if name not in ("__pycache__", "mutate")]
            texts += [place.text_of(os.path.relpath(os.path.join(directory, name), ROOT))
                      for name in sorted(names) if re.search(r"\.(c|h|def|py|sh|proto|inc)$", name)]
    return digest_of(*texts)


def room_of(mutant):
    parts = mutant.file.split("/")
    return "/".join(parts[:2]) if parts[0] in ("daemon", "client", "kmod") and len(parts) > 2 else parts[0]


def table_of(mutants, known):
    """A row for each room, and one for all."""
    rows, total = {}, [0] * 6
    for mutant in mutants:
        outcome, detail = known.outcome(mutant) or ("not tried", "")
        row = rows.setdefault(room_of(mutant), [0] * 6)
        column = (5 if outcome == "not tried" else
                  1 if outcome == "killed" and not detail.startswith("scenario/") else
                  2 if outcome == "killed" else 3 if mutant.why else 4)
        for counts in (row, total):
            counts[0] += 1
            counts[column] += 1
    return ("| room | mutants | unit | by a scenario alone | excused | survive | not tried |\n"
            "|---|---:|---:|---:|---:|---:|---:|\n" +
            "".join(f"| {room} | " + " | ".join(str(count) for count in counts) + " |\n"
                    for room, counts in [*sorted(rows.items()), ("all", total)]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--room", help="only of files below this path")
    parser.add_argument("--only", help="only the mutant of this name")
    parser.add_argument("--changed", action="store_true", help="only of files that differ from HEAD")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--nightly", action="store_true", help="a part of them, and the table")
    parser.add_argument("--jobs", type=int, default=CPUS, help="how many at a time")
    parser.add_argument("--fresh", action="store_true", help="also what is known already")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check-patterns", action="store_true", help="only whether all fit the code")
    parser.add_argument("--table", action="store_true", help="only what is known of each room")
    options = parser.parse_args()
    if options.seconds is None:
        options.seconds = NIGHT_SECONDS if options.nightly else float("inf")
    os.chdir(ROOT)
    mutants = load_mutants()
    wrong = list(misfits(mutants))
    if wrong:
        print("\n".join(wrong) + "\nWho moves or changes code carries its mutants along: correct the rows in "
              "tests/mutate/.")
        sys.exit(2)
    if options.check_patterns:
        print(f"{len(mutants)} mutants fit the code")
        sys.exit(0)
    mutants = chosen(options, mutants)
    if options.list:
        print("\n".join(f"{mutant.name}: {mutant.file}" for mutant in mutants))
        sys.exit(0)
    kept = history.directory() if options.nightly else os.path.join(options.build, "mutate")
    os.makedirs(kept, exist_ok=True)
    known = Known(os.path.join(kept, "mutants.json" if options.nightly else "results.json"), sources_digest())
    if options.table:
        print(table_of(mutants, known), end="")
        sys.exit(0)
    began = time.monotonic()
    counts, left, untried, unsound = try_all(options, mutants, known)
    survivors = [mutant for mutant in mutants if not mutant.why and known.outcome(mutant) and
                 known.outcome(mutant)[0] == "survived"]
    for name, why in sorted(unsound.items()):
        print(f"{name} {why}; so these were not tried: " +
              " ".join(mutant.name for mutant, detail in untried if name in re.findall(r"[\w./-]+", detail)))
    print(f"{len(mutants)} mutants in {time.monotonic() - began:.0f} s: "
          + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
          + f" ({len(survivors)} without a reason)" + (f", no time for {len(left)}" if left else ""))
    if options.nightly:
        write_table(os.path.join(kept, "mutants.md"), table_of(mutants, known))
    sys.exit(exit_status(counts, survivors, unsound))


def write_table(path, table):
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, text=True,
                            stdout=subprocess.PIPE).stdout.strip()
    with open(path, "w") as file:
        file.write(f"{time.strftime('%Y-%m-%d')}, {commit}\n\n{table}")
    print(f"{table}The table is in {path}.")


def exit_status(counts, survivors, unsound):
    if counts.get("does not build") or "fails without a mutant" in unsound.values():
        return 2
    return 1 if survivors else 3 if unsound or counts.get("not tried") else 0


if __name__ == "__main__":
    main()
