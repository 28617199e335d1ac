#!/usr/bin/env python3
"""What `make tidy` makes of clang-tidy's words: an error fails and is shown, whatever it is of; a file with which nothing
is wrong is looked at again when something changes that it reads; and the headers that it looks at are those of every
folder whose files it is given."""
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
os.chdir(ROOT)
FAKE = """#!/bin/sh
for path; do :; done
[ "$path" != --version ] || { echo "version $VERSION"; exit; }
echo "$path" >>looked
echo "3 warnings generated." >&2
case $path in
*broken.c) echo "Error while processing $path." >&2; exit 1 ;;
*wrong.c) echo "$path:1:1: error: it is so"; exit 1 ;;
*mute.c) exit 139 ;;
*doubtful.c) echo "$path:1:1: warning: it may be so" ;;
esac
"""
NAMES = ["good", "wrong", "broken", "mute", "doubtful", "room/other"]


class Tree:
    """A directory with C files, the commands that compile them, a clang-tidy that is none, and a cache."""

    def __init__(self, directory):
        self.directory = directory
        os.makedirs(f"{directory}/room")
        self.write("clang-tidy", FAKE)
        os.chmod(f"{directory}/clang-tidy", 0o755)
        self.write(".clang-tidy", "Checks: one")
        self.write("header.h", "int value;\n")
        for name in NAMES:
            self.write(f"{name}.c", '#include "header.h"\n')
        self.compile_with("-O1")

    def write(self, name, text):
        with open(f"{self.directory}/{name}", "w") as file:
            file.write(text)

    def compile_with(self, flag):
        self.write("compile_commands.json", json.dumps([
            {"directory": self.directory, "file": f"{name}.c",
             "arguments": ["ccache", "gcc", "-I.", flag, "-c", f"{name}.c", "-o", f"{name}.o"]} for name in NAMES]))

    def tidy(self, *files, version="1"):
        """Exit status, what was said, and which files clang-tidy was asked about."""
        self.write("looked", "")
        done = subprocess.run([sys.executable, f"{ROOT}/tests/tools/tidy.py", *files], text=True, cwd=self.directory,
                              stdout=subprocess.PIPE,
                              env={**os.environ, "PATH": f"{self.directory}:{os.environ['PATH']}", "VERSION": version,
                                   "RINGTAIL_CACHE": f"{self.directory}/cache"})
        with open(f"{self.directory}/looked") as file:
            return done.returncode, done.stdout, file.read().split()

    def looks_again(self, name="good.c", **more):
        """Whether it asks about the file once, and then no more."""
        return [self.tidy(name, **more)[2] for _ in range(2)] == [[name], []]


def tidy(*files):
    with tempfile.TemporaryDirectory() as directory:
        return Tree(directory).tidy(*files)[:2]


def cases_of_cache(tree):
    """Each begins with what the one before has left."""
    yield "what nothing is wrong with is looked at once", tree.looks_again() and tree.looks_again("room/other.c")
    said = tree.tidy("wrong.c")
    yield "what something is wrong with, each time", said[2] == ["wrong.c"] and tree.tidy("wrong.c") == said
    said = tree.tidy("mute.c")
    yield "what clang-tidy crashes on without a word", said[0] == 1 and said[2] == ["mute.c"] and tree.tidy("mute.c") == said
    said = tree.tidy("doubtful.c")
    yield "and what something is said of", said[2] == ["doubtful.c"] and tree.tidy("doubtful.c") == said
    tree.write("good.c", '#include "header.h"\n/* NOLINT */\n')
    yield "again when the file changes, be it a comment", tree.looks_again()
    tree.write("header.h", "#define UNUSED 1\nint value;\n")
    yield "when a header does, be it a macro that nothing uses", tree.looks_again()
    tree.compile_with("-O2")
    yield "when a flag does", tree.looks_again()
    tree.write(".clang-tidy", "Checks: two")
    yield "when .clang-tidy does", tree.looks_again() and tree.looks_again("room/other.c")
    tree.write("room/.clang-tidy", "Checks: three")
    yield "that of its folder, too", tree.looks_again("room/other.c") and tree.tidy("good.c")[2] == []
    yield "when clang-tidy is another version", tree.looks_again(version="2")
    tree.write("clang-tidy", FAKE + "# another build\n")
    yield "or another build of it", tree.looks_again(version="2")
    tree.write("good.c", '#include "absent.h"\n')
    yield "and each time when clang cannot say what it reads", [tree.tidy("good.c")[2] for _ in range(2)] == [["good.c"]] * 2


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
with tempfile.TemporaryDirectory() as directory:
    CASES += cases_of_cache(Tree(directory))
for name, good in CASES:
    print(f"{'ok' if good else 'not ok'} {name}")
sys.exit(0 if all(good for _, good in CASES) else 1)
