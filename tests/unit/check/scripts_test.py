#!/usr/bin/env python3
"""shellcheck has nothing to say about any shell script that is here, also about those that others read in; nor have zsh and
fish about theirs."""
import os
import subprocess
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
SHELLS = (b"#!/bin/sh", b"#!/usr/bin/env bash", b"#!/bin/bash", b"#!/usr/bin/busybox sh", b"#!/usr/bin/busybox ash")


# Without a shebang: others read them in.
BY_NAME = {".sh": "sh", ".bash": "bash"}
OTHERS = {".zsh": "zsh", ".fish": "fish"}


def command(path):
    """What looks at it, if it is a script."""
    try:
        with open(path, "rb") as file:
            first = file.readline().rstrip()
    except (FileNotFoundError, IsADirectoryError):
        return None
    ending = os.path.splitext(path)[1]
    if ending in OTHERS:
        return [OTHERS[ending], "-n"]
    if first.startswith(b"#!/usr/bin/busybox"):
        return ["shellcheck", "-x", "-s", "sh"]
    if first.startswith(SHELLS):
        return ["shellcheck", "-x"]
    if ending in BY_NAME and not first.startswith(b"#!"):
        # What whoever reads it in defines and uses is not to be seen here.
        return ["shellcheck", "-x", "-s", BY_NAME[ending], "-e", "SC2034,SC2154"]
    return None


names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], check=True,
                       stdout=subprocess.PIPE, text=True).stdout.splitlines()
commands = {name: words for name in names if (words := command(name))}
read_in = {"tests/kernels/case.sh", "tests/kernels/console.sh", "tests/kernels/daemon_root.sh", "tests/kernels/guest_clock.sh",
           "client/completions/tracectl.bash", "client/completions/tracectl.zsh", "client/completions/tracectl.fish"}
if len(commands) < 20 or not read_in <= set(commands):
    print(f"not ok scripts are found: {read_in - set(commands)}")
    sys.exit(1)
failed = 0
for script, words in commands.items():
    done = subprocess.run([*words, script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(f"{'not ok' if done.returncode else 'ok'} {words[0]} {script}")
    if done.returncode:
        print(done.stdout)
    failed += done.returncode != 0
sys.exit(1 if failed else 0)
