#!/usr/bin/env python3
"""run: the BPF source under the kernel of a suite of Debian, or under the newest one of /boot, in a virtual
machine (guest.sh).

	usage: tests/kernels/run.py BUILD [SUITE] [--arch arm64]

A suite's kernel is downloaded with a package list of its own, so that the machine's stays as it is, and
checked by apt with Debian's archive key. For another processor the programs are built by a cross compiler
into BUILD/ARCH, with the libraries of this machine's suite for that processor. What was downloaded is kept
(tests/tools/cache.py). Exit 77: the mirror cannot be reached, and nothing that would do was kept.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.join(HERE, "..", "..")
sys.path.insert(1, os.path.join(HERE, "..", "tools"))

import cache  # noqa: E402

MIRROR = "http://deb.debian.org/debian"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
SECONDS_MAX = 300       # of one download
COMPILERS = {"arm64": "aarch64-linux-gnu-gcc"}
RUNTIME = ["libcmocka-dev", "python3", "zstd", "busybox-static"]


class Unreachable(Exception):
    pass


class Archive:
    """Debian's, for one suite and one processor, as if nothing of it was installed."""

    def __init__(self, suite, arch):
        self.suite, self.arch = suite, arch
        self.directory = directory = cache.directory(f"kernels/{suite}" + ("" if arch == "amd64" else f"-{arch}"))
        for path in ("lists/partial", "cache/archives/partial"):
            os.makedirs(f"{directory}/{path}", exist_ok=True)
        open(f"{directory}/status", "a").close()
        with open(f"{directory}/sources.list", "w") as sources:
            sources.write(f"deb [arch={arch},all signed-by={KEYS}] {MIRROR} {suite} main\n")
        self.options = {"Dir::Etc::sourcelist": f"{directory}/sources.list", "Dir::Etc::sourceparts": "-",
                        "Dir::State::lists": f"{directory}/lists", "Dir::State::status": f"{directory}/status",
                        "Dir::Cache": f"{directory}/cache", "APT::Sandbox::User": "root",
                        "APT::Architecture": arch, "APT::Architectures::": arch,
                        "Acquire::Retries": "3", "Acquire::http::Timeout": "30"}

    def apt(self, program, *words):
        try:
            done = subprocess.run([program, "-q", *(f"-o{key}={value}" for key, value in self.options.items()),
                                   *words], cwd=self.directory, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise Unreachable(f"{program} {words[0]}: no end after {SECONDS_MAX} s") from None
        # apt-get update only warns of what it could not fetch.
        if done.returncode or re.search(r"^(Err:|E: |W: (Failed|Some index))", done.stdout, re.M):
            raise Unreachable(f"{program} {words[0]}: {done.stdout.strip()[-300:]}")
        return done.stdout

    def download_kernel(self):
        """The suite's newest kernel as vmlinuz-VERSION in the directory."""
        self.apt("apt-get", "update")
        shown = self.apt("apt-cache", "show", f"linux-image-{self.arch}/{self.suite}")
        package = re.search(r"^Depends: (linux-image-(\S+))", shown, re.M)
        path = f"{self.directory}/vmlinuz-{package[2]}"
        if not os.path.exists(path):
            self.apt("apt-get", "download", package[1])
            [archive] = glob.glob(f"{self.directory}/{package[1]}_*.deb")
            with open(f"{path}.part", "wb") as image:
                unpack(archive, ["tar", "xO", f"./boot/vmlinuz-{package[2]}"], stdout=image)
            os.replace(f"{path}.part", path)
            os.remove(archive)
        return path

    def kernel(self):
        try:
            return self.download_kernel()
        except Unreachable as reason:
            kept = sorted(glob.glob(f"{self.directory}/vmlinuz-*[!t]"), key=os.path.getmtime)
            if not kept:
                skip(f"no kernel of Debian {self.suite} for {self.arch} can be had", reason)
            print(f"# {' '.join(str(reason).split())}: the kernel that was kept is taken")
            return kept[-1]

    def tree(self):
        """A directory with all that building for that processor, and running there, takes."""
        tree = f"{self.directory}/tree"
        if os.path.exists(f"{tree}/.complete"):
            return tree
        try:
            self.apt("apt-get", "update")
            self.apt("apt-get", "install", "--yes", "--no-install-recommends", "--download-only",
                     *libraries(), *RUNTIME)
        except Unreachable as reason:
            skip(f"no libraries of Debian {self.suite} for {self.arch} can be had", reason)
        shutil.rmtree(tree, ignore_errors=True)
        for name in ("bin", "lib", "sbin"):
            os.makedirs(f"{tree}/usr/{name}")
            os.symlink(f"usr/{name}", f"{tree}/{name}")
        for archive in glob.glob(f"{self.directory}/cache/archives/*.deb"):
            unpack(archive, ["tar", "x", "--keep-directory-symlink", "--exclude=./usr/share/doc",
                             "--exclude=./usr/share/man", "-C", tree])
            os.remove(archive)
        for path in glob.glob(f"{tree}/usr/lib/**", recursive=True):
            if os.path.islink(path) and os.readlink(path).startswith("/"):
                inside = tree + os.readlink(path)
                os.remove(path)
                os.symlink(os.path.relpath(inside, os.path.dirname(path)), path)
        open(f"{tree}/.complete", "w").close()
        return tree


def skip(what, reason):
    print(f"SKIP: {what}: {' '.join(str(reason).split())}")
    sys.exit(77)


def unpack(archive, command, stdout=None):
    contents = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE)
    subprocess.run(command, stdin=contents.stdout, stdout=stdout, check=True)
    contents.stdout.close()
    contents.wait()


def libraries():
    """What .ci/deps.sh installs to build with."""
    with open(f"{TOP}/.ci/deps.sh") as file:
        build = re.search(r"^build='([^']*)'", file.read(), re.M)[1]
    return [package for package in build.split() if re.fullmatch(r"(lib|zlib).*-dev", package)]


def this_suite():
    with open("/etc/os-release") as file:
        return re.search(r"^VERSION_CODENAME=(\S+)", file.read(), re.M)[1]


def cross_build(build, arch):
    """The programs and the BPF tests for that processor: where they are, and the tree to run them in."""
    tree = Archive(this_suite(), arch).tree()
    tests = [f"{build}/bpf/{os.path.basename(path)[:-2]}" for path in glob.glob(f"{TOP}/tests/bpf/test_*.c")]
    tests.append(f"{build}/stress/ring_stress")
    done = subprocess.run(["make", f"-j{os.cpu_count()}", "-C", TOP, f"BUILD={build}",
                           f"CC={COMPILERS[arch]} --sysroot={tree}", "all", *tests],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout[-3000:]}\nnot ok build for {arch}")
    print(f"ok build for {arch}")
    return tree


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("suite", nargs="?")
    parser.add_argument("--arch", default="amd64", choices=["amd64", *COMPILERS])
    options = parser.parse_args()
    build, foreign = options.build, options.arch != "amd64"
    tree = []
    if foreign:
        build = f"{build}/{options.arch}"
        tree = [cross_build(build, options.arch)]
    image = [Archive(options.suite or this_suite(), options.arch).kernel()] if options.suite or foreign else []
    sys.stdout.flush()
    os.execv("/bin/sh", ["sh", f"{HERE}/guest.sh", build, *image, *tree])


main()
