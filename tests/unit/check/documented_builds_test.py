#!/usr/bin/env python3
"""Each way to build that the Makefile's head, README or docs name is one that `make check` builds, and
the other way round: what nobody builds, breaks."""
import glob
import os
import re
import shlex
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
VARIABLES = "SANITIZE", "CC", "CFLAGS"


def read(path):
    with open(os.path.join(ROOT, path)) as text:
        return text.read()


def settings(words):
    """What a command sets of the variables that change how a file is compiled."""
    pairs = [word.split("=", 1) for word in words if "=" in word]
    return frozenset((name, value) for name, value in pairs if name in VARIABLES
                     and (name, value) != ("CC", "gcc"))


def documented():
    found = {}
    for path in ["Makefile", "README.md", "SECURITY.md", *glob.glob("docs/*.md", root_dir=ROOT)]:
        for line in re.findall(r"^(?:#\t|\t|    |.*`|)make (.*?)(?:`.*)?$", read(path), re.M):
            if re.search(r"\b(?:SANITIZE|CC|CFLAGS)=", line):
                found[settings(shlex.split(line.split("#")[0]))] = f"{path}: make {line}"
    return found


def built():
    """The variants of check.py."""
    sys.path.insert(0, os.path.join(ROOT, "tests"))
    import check
    found = {settings(words): name for name, (_, *words) in check.VARIANTS.items()}
    found.pop(frozenset(), None)
    return found


told, made = documented(), built()
failed = 0
for way in sorted(set(told) | set(made), key=sorted):
    good = way in told and way in made
    print(f"{'ok' if good else 'not ok'} {' '.join('='.join(pair) for pair in sorted(way))}")
    if not good:
        print(f"    {told.get(way) or 'no page names it'}; check.py: {made.get(way) or 'no'}")
    failed += not good
if len(told) < 3:
    print("not ok the ways are found")
    failed += 1
sys.exit(1 if failed else 0)
