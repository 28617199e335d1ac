#!/usr/bin/env python3
"""The tests that docs name as the proof of a promise exist."""
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
sys.path.insert(0, os.path.join(ROOT, "tests"))
import one  # noqa: E402

# A page, and the heading whose tables name tests.
PLACES = [("SECURITY.md", "### Which test shows it"),
          ("docs/reliability.md", "## What went wrong elsewhere")]
# Words in those tables that are no tests.
WORDS = {"check"}


def names_under(page, heading):
    with open(os.path.join(ROOT, page)) as file:
        text = file.read()
    part = text[text.index(heading) + len(heading):]
    part = re.split(r"^#", part, maxsplit=1, flags=re.M)[0]
    return [name for line in part.splitlines() if line.startswith("|")
            for name in re.findall(r"`([a-z0-9]+(?:_[a-z0-9]+)*)`", line) if name not in WORDS]


os.chdir(ROOT)
wrong = 0
for page, heading in PLACES:
    names = names_under(page, heading)
    absent = sorted({name for name in names if not one.find(name)
                     and not os.path.exists(f"tests/kmod/{name}.c")})
    good = len(names) > 10 and not absent
    print(f"{'ok' if good else 'not ok'} {page}: {len(names)} tests are named, and are there")
    if absent:
        print(f"    no such test: {', '.join(absent)}")
    wrong += not good
sys.exit(1 if wrong else 0)
