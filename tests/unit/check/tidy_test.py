#!/usr/bin/env python3
"""What `make tidy` makes of clang-tidy's words: an error fails and is shown, whatever it is of; and the headers that it
looks at are those of every folder whose files it is given."""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
os.chdir(ROOT)
FAKE = """#!/bin/sh
for path; do :; done
echo "3 warnings generated." >&2
case $path in
broken.c) echo "Error while processing $path." >&2; exit 1 ;;
wrong.c) echo "$path:1:1: error: it is so"; exit 1 ;;
esac
"""


def tidy(*files):
    with tempfile.TemporaryDirectory() as directory:
        with open(f"{directory}/clang-tidy", "w") as file:
            file.write(FAKE)
        os.chmod(f"{directory}/clang-tidy", 0o755)
        done = subprocess.run([sys.executable, "tests/tools/tidy.py", *files], text=True, stdout=subprocess.PIPE,
                              env={**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"})
    return done.returncode, done.stdout


with open("Makefile") as file:
    folders = re.findall(r"'(\w+)/\*\.c'", re.search(r"^TIDY\s.*", file.read(), re.M)[0])
with open(".clang-tidy") as file:
    shown = re.search(r"^HeaderFilterRegex: '(.*)'", file.read(), re.M)[1]
CASES = [
    ("nothing wrong", tidy("good.c") == (0, "1 files, 0 with something wrong\n")),
    ("what is wrong is shown", tidy("good.c", "wrong.c") ==
     (1, "wrong.c:1:1: error: it is so\n2 files, 1 with something wrong\n  wrong.c\n")),
    ("a file that cannot be compiled, too", tidy("broken.c") ==
     (1, "Error while processing broken.c.\n1 files, 1 with something wrong\n  broken.c\n")),
    ("no files at all are a mistake", tidy()[0] == 1),
    ("headers of all these folders are looked at", len(folders) >= 5 and
     all(re.search(shown, f"./{folder}/room/name.h") for folder in folders)),
    ("and none of what is generated", not re.search(shown, "./build/proto/ringtail.pb-c.h")),
]
for name, good in CASES:
    print(f"{'ok' if good else 'not ok'} {name}")
sys.exit(0 if all(good for _, good in CASES) else 1)
