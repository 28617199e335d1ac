#!/usr/bin/env python3
"""shellcheck has nothing to say about any shell script that is here."""
import os
import subprocess
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
SHELLS = (b"#!/bin/sh", b"#!/usr/bin/env bash", b"#!/bin/bash", b"#!/usr/bin/busybox sh", b"#!/usr/bin/busybox ash")


def is_script(path):
    try:
        with open(path, "rb") as file:
            return file.readline().rstrip().startswith(SHELLS)
    except (FileNotFoundError, IsADirectoryError):
        return False


names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], check=True,
                       stdout=subprocess.PIPE, text=True).stdout.splitlines()
scripts = [name for name in names if is_script(name)]
if len(scripts) < 10:
    print(f"not ok scripts are found: {scripts}")
    sys.exit(1)
failed = 0
for script in scripts:
    shell = ["-s", "sh"] if open(script).readline().startswith("#!/usr/bin/busybox") else []
    done = subprocess.run(["shellcheck", "-x", *shell, script], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    print(f"{'not ok' if done.returncode else 'ok'} shellcheck {script}")
    if done.returncode:
        print(done.stdout)
    failed += done.returncode != 0
sys.exit(1 if failed else 0)
