#!/usr/bin/env python3
"""The Makefile's VERSION is everybody's: the changelogs, the kernel module, the manual; and what a package is
built with is what building takes."""
import os
import re
import subprocess
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
failed = 0


def check(name, good, *facts):
    global failed
    print(f"{'ok' if good else 'not ok'} {name}")
    for fact in facts if not good else ():
        print(f"    {fact}")
    failed += not good


def found(path, pattern):
    with open(path) as file:
        match = re.search(pattern, file.read(), re.M)
    return match and match[1]


version = found("Makefile", r"^VERSION\s*:= (\S+)$")
check("the version is semantic", re.fullmatch(r"\d+\.\d+\.\d+", version or ""), version)
for path, pattern in (("debian/changelog", r"\Aringtail \(([^)]+)\)"),
                      ("CHANGELOG.md", r"^## (\S+)"),
                      ("kmod/module/main.c", r'^MODULE_VERSION\("([^"]+)"\)'),
                      ("docs/ringtail.4", r'^\.TH .*"ringtail ([^"]+)"'),
                      ("docs/kmod.md", r"dkms install ringtail/(\S+)")):
    check(f"{path} says {version}", found(path, pattern) == version, found(path, pattern))

with open("debian/control") as file:
    text = file.read()
depends = set(re.findall(r"^ ([a-z0-9.+-]+)(?: \(.*\))?,$", text.split("\n\n")[0], re.M))
deps = set(subprocess.run(["sh", "-c", "sed -n \"/^build='/,/'$/p\" .ci/deps.sh"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
           .removeprefix("build='").rstrip("'\n").split())
# Every Debian machine that builds has these (build-essential).
absent = deps - depends - {"gcc", "make"}
check("Build-Depends has what .ci/deps.sh build installs", len(deps) > 20 and not absent, absent)
sys.exit(1 if failed else 0)
