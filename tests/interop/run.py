#!/usr/bin/env python3
"""interop: ringtaild against real servers: builds those servers that are missing, runs every case, one
at a time. A case is a program of this directory: exit 0 passed, 77 skipped (its last line says why),
anything else failed. What cannot be had is named with the reason. The last line is
`N passed, N failed, N skipped`.
"""
import argparse
import glob
import os
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # the tree stays as it was

import servers  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NO_CASES = {"run", "servers"}
CASE_SECONDS_MAX = 400
LINES_SHOWN = 60


def say(text):
    print(text, flush=True)


def versions(built):
    """What is tested against, a line each."""
    for name in built:
        say(f"  server {name} {servers.version_of(name)}")
    prometheus = shutil.which("prometheus")
    if prometheus:
        done = subprocess.run([prometheus, "--version"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        say(f"  server prometheus {done.stdout.split()[2]}, Debian's")


def run_case(path, env):
    """(word, reason, output)."""
    try:
        done = subprocess.run([sys.executable, path], env=env, cwd=ROOT, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=CASE_SECONDS_MAX)
    except subprocess.TimeoutExpired as late:
        return "FAIL", None, (late.stdout or b"").decode() + "\nno end in time"
    lines = done.stdout.splitlines() or ["said nothing"]
    if done.returncode == 77:
        return "skip", lines[-1], done.stdout
    return "FAIL" if done.returncode else "ok", None, done.stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build", help="where ringtaild is")
    parser.add_argument("--servers", default="build/interop", help="where the servers are, or go")
    parser.add_argument("case", nargs="*", help="only these")
    options = parser.parse_args()
    began = time.monotonic()
    directory = os.path.join(ROOT, options.servers)
    built, absent = servers.build_all(directory, say)
    versions(built)
    for name, reason in absent.items():
        say(f"  absent {name}: {reason}")
    env = {**os.environ, "RINGTAIL_BUILD": options.build, "RINGTAIL_INTEROP": options.servers}
    count = {"ok": 0, "FAIL": 0, "skip": 0}
    for path in sorted(glob.glob(f"{HERE}/*.py")):
        name = os.path.splitext(os.path.basename(path))[0]
        if name in NO_CASES or options.case and name not in options.case:
            continue
        start = time.monotonic()
        word, reason, output = run_case(path, env)
        count[word] += 1
        facts = sum(": ok: " in line for line in output.splitlines())
        log = os.path.join(directory, f"{name}.log")
        with open(log, "w") as file:
            file.write(output)
        say(f"  {word:4} {name} ({facts} checks) {time.monotonic() - start:.1f} s")
        if reason:
            say(f"       {reason}")
        if word == "FAIL":
            say("\n".join("       | " + line for line in output.splitlines()[-LINES_SHOWN:]))
            say(f"       whole output: {log}")
    say(f"in {time.monotonic() - began:.0f} s")
    say(f"{count['ok']} passed, {count['FAIL']} failed, {count['skip']} skipped")
    return 1 if count["FAIL"] else 0


sys.exit(main())
