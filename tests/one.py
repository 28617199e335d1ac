#!/usr/bin/env python3
"""one: builds and runs the test of that name, of whatever kind; see `make t T=NAME`.

	usage: one.py [--build DIR] [--list] [--repeat N [--load L] [--pauses]] NAME [ARGUMENT...]

NAME is a test's file without what is the same in all of its kind: `stream` is tests/unit/daemon/test_stream.c,
`reload` tests/scenario/reload.py, `limits` tests/unit/daemon/limits_test.py. KIND/NAME tells two of one
name apart (unit/filter, bpf/filter, fuzz/filter). Only what the test needs is built. Its output comes as it
is, and its exit status is this one's.

With --repeat it runs so many times (`make repeat T=NAME N=100`), one after the other, and only what failed is shown.
--load: so many programs compute beside it. --pauses: it is stopped now and then, all its processes at once, as by a
machine that has no time for it: a test that waits for times and not for conditions fails soon. The exit status is 0 if
no run failed. One that was late (75) has failed; a skip (77) ends it.
"""
import argparse
import fnmatch
import glob
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))

import outcome  # noqa: E402

CPUS = os.cpu_count() or 2
FUZZ = ["CC=clang", "SANITIZE=-fsanitize=address,undefined,fuzzer-no-link"]
FUZZ_SECONDS = 20
SIM_SEEDS = 100
SKIPPED = 77
REPEATED_TIMEOUT_S = 600        # for each run
LINES_SHOWN = 60                # of each run that failed
PAUSE_S, BETWEEN_PAUSES_S = (0.005, 0.02, 0.05, 0.2, 0.4), (0.002, 0.05)
# The kernel's verifier begins anew after a stop, and libbpf lets it do so four times: a program takes it up to 0.2 s here.
BETWEEN_BPF_PAUSES_S = (0.05, 2)


class Test:
    """`targets`: what `make` has to build first; `command`: how it runs."""

    def __init__(self, kind, name, source, targets, command, env=None):
        self.kind, self.name, self.source = kind, name, source
        self.targets, self.command, self.env = targets, command, env or {}

    @property
    def title(self):
        return f"{self.kind}/{self.name}"


def name_of(path, pattern):
    return re.sub(pattern, r"\1", os.path.basename(path))


def unit_tests(build):
    for source in glob.glob("tests/unit/*/test_*.c"):
        room, program = source.split("/")[2], os.path.basename(source)[:-2]
        path = f"{build}/unit/{room}/{program}"
        yield Test("unit", program[len("test_"):], source, [path, f"{build}/tracectl"], [path],
                   {"TRACECTL": f"{build}/tracectl"})
    for source in glob.glob("tests/unit/*/*_test.py"):
        yield Test("unit", name_of(source, r"(.*)_test\.py$"), source, ["all"],
                   [sys.executable, source], {"RINGTAIL_BUILD": build})


def other_tests(build):
    for source in glob.glob("tests/scenario/*.py"):
        if os.path.basename(source) != "ringtail.py":
            yield Test("scenario", name_of(source, r"(.*)\.py$"), source, ["all"],
                       [sys.executable, source], {"RINGTAIL_BUILD": build})
    for kind, pattern in (("bpf", "test_*.c"), ("stress", "*.c")):
        for source in glob.glob(f"tests/{kind}/{pattern}"):
            path = f"{build}/{kind}/{os.path.basename(source)[:-2]}"
            if kind == "stress" or os.path.basename(source).startswith("test_"):
                yield Test(kind, name_of(source, r"(?:test_)?(.*)\.c$"), source, [path], [path])
    for source in glob.glob("tests/fuzz/fuzz_*.c"):
        name = name_of(source, r"fuzz_(.*)\.c$")
        path, corpus = f"{build}/fuzz/bin/fuzz_{name}", f"tests/fuzz/corpus/{name}"
        yield Test("fuzz", name, source, ["fuzzers", f"BUILD={build}/fuzz", *FUZZ],
                   [path, f"-max_total_time={FUZZ_SECONDS}", f"-artifact_prefix={build}/fuzz/{name}-"]
                   + ([corpus] if os.path.isdir(corpus) else []))
    yield Test("sim", "sim", "tests/sim/sim_test.py", [f"{build}/sim/sim"],
               [sys.executable, "tests/sim/sim_test.py", f"{build}/sim/sim", "1", str(SIM_SEEDS)])


def all_tests(build):
    return sorted([*unit_tests(build), *other_tests(build)], key=lambda test: test.title)


def find(name, build="build"):
    """The tests that go by that name: NAME, KIND/NAME or a source file."""
    name = re.sub(r"^test_|\.(c|py)$", "", name) if "/" not in name else name
    return [test for test in all_tests(build)
            if name in (test.name, test.title, test.source)
            or test.source.startswith("tests/unit/") and
            name == f"{test.source.split('/')[2]}/{test.name}"]


def make(test, build, quiet=False):
    """Builds what it needs; make's exit status and, when quiet, what it said."""
    targets = test.targets if any(word.startswith("BUILD=") for word in test.targets) else \
        [*test.targets, f"BUILD={build}"]
    done = subprocess.run(["make", "--no-print-directory", f"-j{CPUS}", *targets], text=True,
                          stdout=subprocess.PIPE if quiet else None,
                          stderr=subprocess.STDOUT if quiet else None)
    return done.returncode, done.stdout


def run_once(test, words, pauses):
    """Its exit status (124: it had to be killed), and what it said."""
    between_s = BETWEEN_BPF_PAUSES_S if test.kind == "bpf" else BETWEEN_PAUSES_S
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([*test.command, *words], env={**os.environ, **test.env}, stdin=subprocess.DEVNULL,
                                   stdout=said, stderr=subprocess.STDOUT, start_new_session=True)
        end, status = time.monotonic() + REPEATED_TIMEOUT_S, None
        try:
            while status is None and time.monotonic() < end:
                try:
                    status = process.wait(random.uniform(*between_s) if pauses else REPEATED_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    # It has not been waited for, so its number is still its own.
                    os.killpg(process.pid, signal.SIGSTOP)
                    time.sleep(random.choice(PAUSE_S) if pauses else 0)
                    os.killpg(process.pid, signal.SIGCONT)
        finally:
            if status is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        said.seek(0)
        return 124 if status is None else status, said.read().decode(errors="replace")


def repeat(test, words, runs, load, pauses):
    """Runs it so often; how many runs failed, and how many there were."""
    beside = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(load)]
    failed = 0
    try:
        for run in range(1, runs + 1):
            status, output = run_once(test, words, pauses)
            if status == SKIPPED:
                print((output.strip().splitlines() or ["no reason given"])[-1])
                return failed, run - 1
            if status:
                failed += 1
                print(f"run {run} of {runs}: exit status {status}",
                      *("   | " + line for line in outcome.excerpt(output, LINES_SHOWN)), sep="\n", flush=True)
    finally:
        for process in beside:
            process.kill()
            process.wait()
    return failed, runs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--list", action="store_true", help="the names of all tests")
    parser.add_argument("--repeat", type=int, metavar="N", help="run it so many times")
    parser.add_argument("--load", type=int, default=0, metavar="L", help="beside so many programs that compute")
    parser.add_argument("--pauses", action="store_true", help="stop it now and then")
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("argument", nargs="*", help="given to the test")
    options = parser.parse_args()
    if options.list or not options.name:
        print("\n".join(test.title for test in all_tests(options.build)))
        sys.exit(0 if options.list else "which test? make t T=NAME")
    tests = find(options.name, options.build)
    if not tests:
        near = [test.title for test in all_tests(options.build)
                if fnmatch.fnmatch(test.name, f"*{options.name}*")]
        sys.exit(f"no test is called {options.name}" + (f"; near: {' '.join(near)}" if near else ""))
    if len(tests) > 1:
        sys.exit(f"{options.name} is {len(tests)} tests; say which: "
                 + " ".join(f"T={test.source}" for test in tests))
    status, _ = make(tests[0], options.build)
    if status:
        sys.exit(status)
    if options.repeat is not None:
        failed, runs = repeat(tests[0], options.argument, options.repeat, options.load, options.pauses)
        print(f"{tests[0].title}: {runs} runs, {failed} failed")
        sys.exit(1 if failed else 0 if runs else SKIPPED)
    sys.exit(subprocess.run([*tests[0].command, *options.argument],
                            env={**os.environ, **tests[0].env}).returncode)


if __name__ == "__main__":
    main()
