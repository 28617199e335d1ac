#!/usr/bin/env python3
"""Every mutant of tests/mutate fits the code and names tests that are there, and what does not is told."""
import os
import subprocess
import sys
import types

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
sys.path.insert(0, os.path.join(ROOT, "tests/mutate"))
import place  # noqa: E402


def misfit(where, old, new="x"):
    """Why a mutant does not fit; empty if it does."""
    try:
        place.mutated(types.SimpleNamespace(place=where, old=old, new=new))
        return ""
    except place.Misfit as error:
        return str(error)


def fits_in_function():
    """A function is found below a folder, and nothing but it is changed."""
    path, text = place.mutated(types.SimpleNamespace(place="query:glob_match", old="\n{\n", new="\n{ /* */\n"))
    sound = place.text_of(path)
    return path == "query/glob.c" and len(text) == len(sound) + 6 and text.count("{ /* */\n") == 1


CASES = [
    ("text that stands twice does not fit", "stands" in misfit("query/glob.c", "return")),
    ("text that is gone does not fit", "stands 0 times" in misfit("query/glob.c", "no such text")),
    ("a file that is gone does not fit", "there is no" in misfit("query/gone.c", "return")),
    ("a function that is gone does not fit", "0 times" in misfit("query:gone", "return")),
    ("a mutant that changes nothing does not fit", misfit("query:glob_match", "\n{\n", "\n{\n") != ""),
    ("a function is found wherever it lies", fits_in_function()),
]

os.chdir(ROOT)
done = subprocess.run([sys.executable, "tests/mutate/run.py", "--check-patterns"], text=True,
                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
CASES.append(("all mutants of tests/mutate fit the code", done.returncode == 0))
for name, good in CASES:
    print(f"{'ok' if good else 'not ok'} {name}")
if done.returncode:
    print(done.stdout)
sys.exit(0 if all(good for _, good in CASES) else 1)
