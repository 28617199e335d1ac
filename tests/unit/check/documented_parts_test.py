#!/usr/bin/env python3
"""Each `make check-NAME` that pages and `make help` name is a target of the Makefile or a part of check.py."""
import glob
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
sys.path.insert(0, os.path.join(ROOT, "tests"))
import check  # noqa: E402

PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile", ".ci/run", *glob.glob("docs/*.md", root_dir=ROOT)]

named = {}
for page in PAGES:
    with open(os.path.join(ROOT, page)) as file:
        text = file.read()
    for name in re.findall(r"make check-([a-z_]+)", text):
        named.setdefault(name, page)
    if page == "Makefile":
        targets = set(re.findall(r"^check-(\w+):", text, re.M))
        for name in re.search(r"^check-%:.*## runs one part: (.*)", text, re.M)[1].split(", "):
            named.setdefault(name, "make help")

parts = {*check.PARTS, *check.PARTS_MORE, *check.PARTS_OF_PARTS}
absent = {name: page for name, page in named.items() if name not in parts | targets}
print(f"{'not ok' if absent or len(named) < 10 else 'ok'} {len(named)} parts of the check are named, and are there")
for name, page in absent.items():
    print(f"    {page} names check-{name}, which is none")
sys.exit(bool(absent) or len(named) < 10)
