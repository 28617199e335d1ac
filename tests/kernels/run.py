#!/usr/bin/env python3
"""run: the BPF source, or the module, under the kernel of a suite of Debian, or under the newest one of /boot, in
a virtual machine (guest.sh, tests/kmod/run.sh).

	usage: tests/kernels/run.py BUILD [SUITE,...] [--arch arm64] [--module]

SUITE: the first that can be reached. Its kernel is downloaded with a package list of its own, so that the machine's
stays as it is, and checked by apt with Debian's archive key. For another processor the programs are built by a cross
compiler into BUILD/ARCH, with the libraries of this machine's suite for that processor. The module is built as DKMS
would there: by the suite's own compiler, in a tree of its packages. What was downloaded is kept (tests/tools/cache.py).
Exit 77: the mirror cannot be reached, and nothing that would do was kept.
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
# What the kernel's makefiles call.
TOOLS = ["make", "dash", "mawk", "coreutils", "sed", "grep", "findutils", "diffutils"]
PREFIXES = {"amd64": "", "arm64": "aarch64-linux-gnu-"}


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
            for name in {suite.removesuffix("-backports"), suite}:
                sources.write(f"deb [arch={arch},all signed-by={KEYS}] {MIRROR} {name} main\n")
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
        version = re.search(r"^Depends: .*\blinux-image-(\d\S+)", self.depends(f"linux-image-{self.arch}"))[1]
        path = f"{self.directory}/vmlinuz-{version}"
        if not os.path.exists(path):
            # Since 7.2 the image is in a package of its own.
            binary = re.search(r"\blinux-binary-\d\S+", self.depends(f"linux-image-{version}"))
            [archive] = self.download(binary[0] if binary else f"linux-image-{version}")
            with open(f"{path}.part", "wb") as image:
                unpack(archive, ["tar", "xO", "--wildcards", "*/vmlinuz*"], stdout=image)
            os.replace(f"{path}.part", path)
            os.remove(archive)
        return path

    def depends(self, package):
        """The line of what a package depends on."""
        shown = self.apt("apt-cache", "show", "--no-all-versions", f"{package}/{self.suite}")
        return re.search(r"^Depends: .*", shown, re.M)[0]

    def download(self, *packages):
        """Their files."""
        self.apt("apt-get", "download", *packages)
        return [glob.glob(f"{self.directory}/{package}_*.deb")[0] for package in packages]

    def kernel(self):
        try:
            return self.download_kernel()
        except Unreachable as reason:
            kept = sorted(glob.glob(f"{self.directory}/vmlinuz-*[!t]"), key=os.path.getmtime)
            if not kept:
                raise
            print(f"# {' '.join(str(reason).split())}: the kernel that was kept is taken")
            return kept[-1]

    def tree(self, name, packages, more=()):
        """A directory with these packages, all that they depend on, and the files of more."""
        tree = f"{self.directory}/{name}"
        if is_tree_of(tree, packages):
            return tree
        self.apt("apt-get", "update")
        self.apt("apt-get", "install", "--yes", "--no-install-recommends", "--download-only", *packages)
        shutil.rmtree(tree, ignore_errors=True)
        for name in ("bin", "lib", "lib64", "sbin"):
            os.makedirs(f"{tree}/usr/{name}")
            os.symlink(f"usr/{name}", f"{tree}/{name}")
        for archive in [*glob.glob(f"{self.directory}/cache/archives/*.deb"), *more]:
            unpack(archive, ["tar", "x", "--keep-directory-symlink", "--exclude=./usr/share/doc",
                             "--exclude=./usr/share/man", "-C", tree])
            os.remove(archive)
        for path in glob.glob(f"{tree}/usr/lib/**", recursive=True):
            if os.path.islink(path) and os.readlink(path).startswith("/"):
                inside = tree + os.readlink(path)
                os.remove(path)
                os.symlink(os.path.relpath(inside, os.path.dirname(path)), path)
        with open(f"{tree}/.complete", "w") as complete:
            complete.write(" ".join(packages))
        return tree


def is_tree_of(tree, packages):
    """Whether it is there whole, and was made for these packages."""
    try:
        with open(f"{tree}/.complete") as complete:
            return complete.read() == " ".join(packages)
    except OSError:
        return False


def headers(archive, version):
    """A tree in which the module is built for that kernel: its headers, and the suite's make and compiler for them."""
    archive.apt("apt-get", "update")
    host = Archive(archive.suite, this_arch())
    depends = archive.depends(f"linux-headers-{version}")
    kbuild = re.search(r"\blinux-kbuild-\d\S*?(?=[ ,]|$)", depends)[0]
    common = re.search(r"\blinux-headers-\d\S+-common", depends)[0]
    compiler = re.search(r"\bgcc-\d+", depends)[0]
    target = PREFIXES[archive.arch][:-1]
    packages = [f"{compiler}-{target}" if target else compiler, kbuild, *TOOLS]
    tree = f"{host.directory}/headers-{version}"
    if is_tree_of(tree, packages):
        return tree, compiler
    host.tree(f"headers-{version}", packages, archive.download(f"linux-headers-{version}", common))
    for link, program in (("awk", "mawk"), ("sh", "dash")):
        if not os.path.lexists(f"{tree}/usr/bin/{link}"):
            os.symlink(program, f"{tree}/usr/bin/{link}")
    return tree, compiler


def version_of(image):
    return os.path.basename(image).partition("-")[2]


def run_module(build, arch, image, tree, built_in, compiler):
    """tests/kmod/run.sh, for that kernel; the module is built in built_in."""
    prefix, version = PREFIXES[arch], version_of(image)
    work = os.path.abspath(f"{build}/kmod-test-{version}")
    make = (f"unshare -m {HERE}/inside.sh {built_in} {work}/src make -C /src/kmod/module "
            f"KDIR=/usr/src/linux-headers-{version} "
            f"ARCH={arch.replace('amd64', 'x86_64')} CROSS_COMPILE={prefix} CC={prefix}{compiler}")
    os.environ.update(RT_WORK=work, RT_KERNEL=version, RT_IMAGE=image, RT_MAKE=make, RT_CROSS=prefix, RT_TREE=tree)
    os.execv("/bin/sh", ["sh", f"{TOP}/tests/kmod/run.sh", build])


def unreachable(what, reason):
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
    tree = Archive(this_suite(), arch).tree("tree", [*libraries(), *RUNTIME])
    tests = [f"{build}/bpf/{os.path.basename(path)[:-2]}" for path in glob.glob(f"{TOP}/tests/bpf/test_*.c")]
    tests.append(f"{build}/stress/ring_stress")
    done = subprocess.run(["make", f"-j{os.cpu_count()}", "-C", TOP, f"BUILD={build}",
                           f"CC={COMPILERS[arch]} --sysroot={tree}", "all", *tests],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout[-3000:]}\nnot ok build for {arch}")
    print(f"ok build for {arch}")
    return tree


def this_arch():
    return subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()


def first_kernel(suites, arch, module):
    """Of the first suite that has one: the image, and where the module is built for it, and by which compiler."""
    for suite in suites:
        archive = Archive(suite, arch)
        try:
            image = archive.kernel()
            return (image, *headers(archive, version_of(image))) if module else (image,)
        except Unreachable as why:
            reason = why
    raise reason


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("suite", nargs="?")
    parser.add_argument("--arch", default="amd64", choices=["amd64", *COMPILERS])
    parser.add_argument("--module", action="store_true")
    options = parser.parse_args()
    build, foreign = options.build, options.arch != "amd64"
    suites = options.suite.split(",") if options.suite else [this_suite()]
    tree, kernel = [], []
    try:
        if foreign:
            build = f"{build}/{options.arch}"
            tree = [cross_build(build, options.arch)]
        if options.suite or foreign:
            kernel = first_kernel(suites, options.arch, options.module)
    except Unreachable as reason:
        unreachable(f"what Debian {options.suite or this_suite()} has for {options.arch} cannot be had", reason)
    sys.stdout.flush()
    if options.module:
        image, built_in, compiler = kernel
        run_module(build, options.arch, image, "".join(tree), built_in, compiler)
    os.execv("/bin/sh", ["sh", f"{HERE}/guest.sh", build, *kernel, *tree])


if __name__ == "__main__":
    main()
