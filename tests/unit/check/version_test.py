#!/usr/bin/env python3
"""The Makefile's VERSION is everybody's: the changelogs, the kernel module, the manual; and what a package is
built with is what building takes."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

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

# The source in three places: git's, git's with an edit, and what `git archive` makes of it.
with tempfile.TemporaryDirectory() as place:
    def run(*words, **options):
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, **options).stdout.strip()

    tree, archive = os.path.join(place, "tree"), os.path.join(place, "archive")
    git = ("git", "-C", tree, "-c", "user.name=n", "-c", "user.email=e")
    for directory in (os.path.join(tree, "proto"), archive):
        os.makedirs(directory)
    for path in (".revision", ".gitattributes", "proto/revision.sh"):
        shutil.copy(path, os.path.join(tree, path))
    run(*git, "init", "--quiet")
    run(*git, "add", "--all")
    run(*git, "commit", "--quiet", "--message=one")
    commit = run(*git, "rev-parse", "HEAD")[:12]
    run("sh", "-c", 'git -C "$1" archive HEAD | tar -x -C "$2"', "sh", tree, archive)
    for name, directory, expected in (("git", tree, commit), ("an archive", archive, commit),
                                      ("an edited tree", tree, commit + "+changes")):
        if "edited" in name:
            with open(os.path.join(tree, "proto/revision.sh"), "a") as file:
                file.write("\n")
        revision = run("sh", os.path.join(directory, "proto/revision.sh"))
        check(f"the revision of {name}", revision == expected, revision, expected)
sys.exit(1 if failed else 0)
