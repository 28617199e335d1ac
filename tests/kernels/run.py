#!/usr/bin/env python3
"""run: the BPF source under the kernel of another suite of Debian, or under the newest one of /boot, in a
virtual machine (guest.sh).

	usage: tests/kernels/run.py BUILD [SUITE]

A suite's kernel is downloaded with a package list of its own, so that the machine's stays as it is, and
checked by apt with Debian's archive key. It is kept (tests/tools/cache.py). Exit 77: the mirror cannot be
reached, and no kernel of that suite was kept.
"""
import glob
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "..", "tools"))

import cache  # noqa: E402

MIRROR = "http://deb.debian.org/debian"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
SECONDS_MAX = 300       # of one download


class Unreachable(Exception):
    pass


def apt(directory, program, *words):
    """apt with a source, lists and a cache of its own."""
    options = {"Dir::Etc::sourcelist": f"{directory}/sources.list", "Dir::Etc::sourceparts": "-",
               "Dir::State::lists": f"{directory}/lists", "Dir::Cache": f"{directory}/cache",
               "APT::Sandbox::User": "root", "Acquire::Retries": "3",
               "Acquire::http::Timeout": "30"}
    try:
        done = subprocess.run([program, "-q", *(f"-o{key}={value}" for key, value in options.items()),
                               *words], cwd=directory, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        raise Unreachable(f"{program} {words[0]}: no end after {SECONDS_MAX} s") from None
    # apt-get update only warns of what it could not fetch.
    if done.returncode or re.search(r"^(Err:|E: |W: (Failed|Some index))", done.stdout, re.M):
        raise Unreachable(f"{program} {words[0]}: {done.stdout.strip()[-300:]}")
    return done.stdout


def download(suite, directory):
    """The suite's newest kernel as vmlinuz-VERSION in the directory."""
    os.makedirs(f"{directory}/lists/partial", exist_ok=True)
    os.makedirs(f"{directory}/cache/archives/partial", exist_ok=True)
    with open(f"{directory}/sources.list", "w") as sources:
        sources.write(f"deb [arch=amd64 signed-by={KEYS}] {MIRROR} {suite} main\n")
    apt(directory, "apt-get", "update")
    shown = apt(directory, "apt-cache", "show", f"linux-image-amd64/{suite}")
    package = re.search(r"^Depends: (linux-image-(\S+))", shown, re.M)
    path = f"{directory}/vmlinuz-{package[2]}"
    if not os.path.exists(path):
        apt(directory, "apt-get", "download", package[1])
        [archive] = glob.glob(f"{directory}/{package[1]}_*.deb")
        with open(f"{path}.part", "wb") as image:
            contents = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive],
                                        stdout=subprocess.PIPE)
            subprocess.run(["tar", "xO", f"./boot/vmlinuz-{package[2]}"], stdin=contents.stdout,
                           stdout=image, check=True)
            contents.stdout.close()
            contents.wait()
        os.replace(f"{path}.part", path)
        os.remove(archive)
    return path


def kernel_of(suite):
    directory = cache.directory(f"kernels/{suite}")
    try:
        return download(suite, directory)
    except Unreachable as reason:
        kept = sorted(glob.glob(f"{directory}/vmlinuz-*[!t]"), key=os.path.getmtime)
        if not kept:
            print(f"SKIP: no kernel of Debian {suite} can be had: {' '.join(str(reason).split())}")
            sys.exit(77)
        print(f"# {' '.join(str(reason).split())}: the kernel that was kept is taken")
        return kept[-1]


def main():
    build, *suite = sys.argv[1:]
    image = [kernel_of(suite[0])] if suite else []
    sys.stdout.flush()
    os.execv("/bin/sh", ["sh", f"{HERE}/guest.sh", build, *image])


main()
