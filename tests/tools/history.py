"""history: what is kept from run to run of the tests, outside build/, so that neither `make clean` nor another
checkout loses it: which tests were unstable, in RINGTAIL_STATE, or in ringtail/ of XDG_STATE_HOME (~/.local/state).

Each run of `make check` is a line of JSON in `checks`: when it was, which parts ran, and of those tests that were
unstable, each its part. The last RUNS_KEPT are kept. A directory that cannot be written costs the history, and
no test.
"""
import fcntl
import json
import os
import time

RUNS_KEPT = 100
NAME = "checks"


def directory():
    return os.environ.get("RINGTAIL_STATE") or os.path.join(
        os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"), "ringtail")


def _lines(file):
    """Of the last runs; a line that a power cut tore is none."""
    runs = []
    for line in file:
        try:
            run = json.loads(line)
            runs.append({"when": run["when"], "parts": list(run["parts"]), "unstable": dict(run["unstable"])})
        except (ValueError, KeyError, TypeError):
            continue
    return runs[-RUNS_KEPT:]


def add(parts, unstable):
    """Notes a run: `parts`, their names; `unstable`: {test: its part}. The last runs, this one among them."""
    run = {"when": time.strftime("%Y-%m-%dT%H:%M:%S"), "parts": sorted(parts), "unstable": unstable}
    try:
        os.makedirs(directory(), exist_ok=True)
        with open(os.path.join(directory(), NAME), "a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            runs = (_lines(file) + [run])[-RUNS_KEPT:]
            file.truncate(0)
            file.write("".join(json.dumps(each) + "\n" for each in runs))
        return runs
    except OSError:
        return [run]


def unstable_lines(runs):
    """A line for each test that was unstable in any of these runs, the most unstable first: in how many of the
    runs of its part."""
    counted = {}
    for run in runs:
        for test, part in run["unstable"].items():
            times, last, _ = counted.get(test, (0, "", ""))
            counted[test] = times + 1, max(last, run["when"]), part
    return [f"{test}: in {times} of the last {sum(part in run['parts'] for run in runs)} runs, last {last}"
            for test, (times, last, part) in sorted(counted.items(), key=lambda row: (-row[1][0], row[0]))]
