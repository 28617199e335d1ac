#!/usr/bin/env python3
"""What check.py excuses: a test that was only late, once it has passed alone; and nothing else."""
import contextlib
import io
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
import check  # noqa: E402

wrong = 0


def so(name, holds):
    global wrong
    print(f"{'ok' if holds else 'not ok'} {name}")
    wrong += not holds


def outcome(script, again=True):
    """The results of one job that is this shell script."""
    with tempfile.TemporaryDirectory() as directory:
        results = check.Results(os.path.join(directory, "check"))
        os.mkdir(results.directory)
        marker = os.path.join(directory, "marker")
        with contextlib.redirect_stdout(io.StringIO()):
            check.run_jobs([check.Job("job", ["sh", "-c", script], {"MARKER": marker}, again=again)],
                           results)
        notes = os.path.join(directory, check.UNSTABLE)
        noted = os.path.exists(notes) and open(notes).read().split()[-2:]
        return results, noted


late_once = f"test -e $MARKER && exit 0; touch $MARKER; exit {check.LATE}"
results, noted = outcome(late_once)
so("late beside others, good alone: unstable", results.unstable == ["job (alone)"] and
   results.passed == 1 and not results.failed)
so("an unstable test is written down", noted == ["job", "(alone)"])
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
sys.exit(1 if wrong else 0)
