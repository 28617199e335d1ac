#!/usr/bin/env python3
"""What check.py excuses: a test that was only late, once it has passed alone; and nothing else. How often each was
unstable is known over many runs. And what it counts as skipped."""
import contextlib
import io
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
import check  # noqa: E402
import history  # noqa: E402

wrong = 0


def so(name, holds):
    global wrong
    print(f"{'ok' if holds else 'not ok'} {name}")
    wrong += not holds


def outcome(script, again=True):
    """The results of one job that is this shell script, and what the history says then."""
    with tempfile.TemporaryDirectory() as directory:
        os.environ["RINGTAIL_STATE"] = os.path.join(directory, "state")
        results = check.Results(os.path.join(directory, "check"))
        os.mkdir(results.directory)
        marker = os.path.join(directory, "marker")
        with contextlib.redirect_stdout(io.StringIO()):
            job = check.Job("job", ["sh", "-c", script], {"MARKER": marker}, again=again)
            job.part = "scenario"
            check.run_jobs([job], results)
        return results, results.unstable_lines(results.parts)


late_once = f"test -e $MARKER && exit 0; touch $MARKER; exit {check.LATE}"
results, noted = outcome(late_once)
so("late beside others, good alone: unstable", [job.name for job in results.unstable] == ["job (alone)"] and
   results.passed == 1 and not results.failed)
so("an unstable test is written down", len(noted) == 1 and noted[0].startswith("job: in 1 of the last 1 runs, last 2"))
results, noted = outcome("exit 0")
so("a run without any says so of none", noted == [])
results, _ = outcome(f"exit {check.LATE}")
so("late alone too: failed", results.failed == ["job (alone)"])
results, _ = outcome(late_once, again=False)
so("late without company: failed", results.failed == ["job"])
fails_once = "test -e $MARKER && exit 0; touch $MARKER; "
results, _ = outcome(fails_once + "echo 'FAILED: not so: stat exits with 0'; exit 1")
so("an exit code that was wrong once: failed", results.failed == ["job"])
results, _ = outcome(fails_once + "echo 'ringtaild-1 exits with -11'; exit 1")
so("a daemon that a signal ended once: failed", results.failed == ["job"])
results, _ = outcome(fails_once + f"echo 'ERROR: ThreadSanitizer'; exit {check.LATE}")
so("late with a sanitizer's report: failed", results.failed == ["job"])
results, _ = outcome("printf '[  SKIPPED ] one\\n[  SKIPPED ] 1 test(s), listed below:\\n"
                     "[  SKIPPED ] one\\n'")
so("a case that cmocka skipped is a skip, once", [name for name, _ in results.skipped] == ["job: one"])

UNITTEST = """import unittest
class Cases(unittest.TestCase):
    def test_runs(self):
        pass
    @unittest.skip("it's not here")
    def test_skipped(self):
        pass
    @unittest.skip("no")
    def test_described(self):
        "A line about it."
    @unittest.skip("nowhere")
    def test_interrupted(self):
        pass
unittest.main()
"""
with tempfile.NamedTemporaryFile("w", suffix="_test.py") as file:
    file.write(UNITTEST)
    file.flush()
    command = " ".join([sys.executable, file.name])
    results, _ = outcome(" ".join([command, *check.words_for(file.name)]))
    so("each case that unittest skipped is a skip, with its reason", results.skipped == [
        ("job: test_described", "no"), ("job: test_interrupted", "nowhere"), ("job: test_skipped", "it's not here")])
    results, _ = outcome(command)
    so("and is one where unittest names none", len(results.skipped) == 3 and results.passed == 1)
    results, _ = outcome(f"{command} -v 2>&1 | sed 's/^test_interrupted.*skipped/noise skipped/'")
    so("or does not name one", len(results.skipped) == 3)

# ---- The history --------------------------------------------------------------------------------

with tempfile.TemporaryDirectory() as directory:
    os.environ["RINGTAIL_STATE"] = os.path.join(directory, "state")
    history.add(["unit"], {})
    with open(os.path.join(directory, "state", history.NAME), "a") as file:
        file.write('{"when": "torn\n')
    history.add(["scenario"], {"reload": "scenario"})
    history.add(["scenario", "unit"], {"reload": "scenario", "silence": "scenario"})
    lines = history.unstable_lines(history.add(["scenario"], {}))
    so("a test is counted over the runs of its part alone",
       [line.partition(", last 2")[0] for line in lines] ==
       ["reload: in 2 of the last 3 runs", "silence: in 1 of the last 3 runs"])
    for _ in range(history.RUNS_KEPT - 2):
        runs = history.add(["scenario"], {})
    so("so many runs are kept", len(runs) == history.RUNS_KEPT and
       [line.partition(", last 2")[0] for line in history.unstable_lines(runs)] ==
       [f"{test}: in 1 of the last {history.RUNS_KEPT} runs" for test in ("reload", "silence")])
    os.environ["RINGTAIL_STATE"] = os.path.join(directory, "state", history.NAME, "below a file")
    so("a history that cannot be written fails nothing", len(history.add(["unit"], {})) == 1)
sys.exit(1 if wrong else 0)
