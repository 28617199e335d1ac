#!/usr/bin/env python3
"""What tests/mutate/run.py makes of its tests' results: a test that fails without a mutant, or is skipped, costs its
own mutants alone, which are then no survivors; and what was tried longest ago goes first."""
import contextlib
import io
import os
import sys
import tempfile
import types

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
sys.path.insert(0, os.path.join(ROOT, "tests/mutate"))
import run  # noqa: E402

os.chdir(ROOT)
# Tests that are there, each in the part of one: what each comes to, without a mutant and with it.
WHOLE, BLIND, BROKEN, SKIPPED, SKIPS_THEN = "unit/glob", "unit/pace", "unit/log", "unit/gzip", "unit/mailbox"
RESULTS = {WHOLE: (True, False), BLIND: (True, True), BROKEN: (False, False), SKIPPED: (None, None),
           SKIPS_THEN: (True, None)}
tried = []


class Runner(run.Runner):
    def run(self, test, program, env, timeout):
        return RESULTS[test.title][0], "what it said"

    def run_overlay(self, overlay, name):
        return RESULTS[name][1]

    def try_mutant(self, mutant, folder):
        tried.append(mutant.name)
        return super().try_mutant(mutant, folder)


def mutant(name, *tests):
    made = run.Mutant(name, "query/glob.c", "a", "b", list(tests))
    made.file, made.text = "query/glob.c", name
    return made


MUTANTS = {
    "killed": mutant("killed", WHOLE),
    "survivor": mutant("survivor", BLIND),
    "of-a-broken-test": mutant("of-a-broken-test", BLIND, BROKEN),
    "killed-by-another": mutant("killed-by-another", BROKEN, SKIPPED, WHOLE),
    "of-a-skipped-test": mutant("of-a-skipped-test", SKIPPED),
    "skipped-with-it": mutant("skipped-with-it", SKIPS_THEN),
}


def try_all(directory, mutants, seconds=60):
    options = types.SimpleNamespace(build="build", fresh=False, jobs=1, seconds=seconds)
    known = run.Known(os.path.join(directory, "results.json"), "sources")
    tried.clear()
    with contextlib.redirect_stdout(io.StringIO()):
        return run.try_all(options, mutants, known)


run.Runner = Runner
run.copy_tree = run.make = lambda *arguments: None
run.builder.Commands = lambda *arguments: None
run.builder.Overlay = lambda *arguments: types.SimpleNamespace(path="query/glob.c")
CASES = []
with tempfile.TemporaryDirectory() as directory:
    counts, left, untried, unsound = try_all(directory, list(MUTANTS.values()))
    CASES += [
        ("the others are tried, whatever one test does",
         counts == {"killed": 2, "survived": 1, "not tried": 3} and not left),
        ("a mutant of a test that is broken or skipped is no survivor", sorted(each.name for each, _ in untried) ==
         ["of-a-broken-test", "of-a-skipped-test", "skipped-with-it"]),
        ("each such test is named with the reason", unsound == {BROKEN: "fails without a mutant", SKIPPED: "is skipped"}),
        ("a broken test is an error, before a survivor", run.exit_status(counts, ["one"], unsound) == 2),
        ("a survivor is one, before a skip", run.exit_status(counts, ["one"], {SKIPPED: "is skipped"}) == 1),
        ("a skip is no success", run.exit_status(counts, [], {SKIPPED: "is skipped"}) == 3 and
         run.exit_status({"not tried": 1}, [], {}) == 3),
        ("all killed is", run.exit_status({"killed": 2}, [], {}) == 0),
    ]
    with open(os.path.join(directory, "results.json")) as file:
        kept = file.read()
    CASES.append(("nothing is known of what was not tried", all(f'"{each.name}"' not in kept for each, _ in untried)))
    row = run.table_of([*MUTANTS.values()], run.Known(os.path.join(directory, "results.json"), "sources"))
    CASES.append(("the table has a column for what was not tried", row.endswith("| all | 6 | 2 | 0 | 0 | 1 | 3 |\n")))
    new, old = mutant("new", WHOLE), mutant("survivor", BLIND)
    old.text = "other code"
    try_all(directory, [old, MUTANTS["killed"], new])
    CASES.append(("what was never tried goes before what was; what is known stays", tried == ["new", "survivor"]))
    _, left, _, _ = try_all(directory, [mutant("late", WHOLE)], seconds=-1)
    CASES.append(("without time none is tried", [each.name for each in left] == ["late"] and not tried))
for name, good in CASES:
    print(f"{'ok' if good else 'not ok'} {name}")
sys.exit(0 if all(good for _, good in CASES) else 1)
