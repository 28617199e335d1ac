#!/usr/bin/env python3
"""contents: what the Debian packages hold: lintian has nothing to say, apt can install them, no file is in
two, a program builds with the library's packages and the kernel module with the one for DKMS.

	usage: contents.py PACKAGES_DIR SCRATCH_DIR
"""
import glob
import os
import re
import shutil
import subprocess
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
packages, scratch = (os.path.abspath(path) for path in sys.argv[1:])
WANTED = {"ringtail", "ringtail-client", "libringtail1", "libringtail-dev", "ringtail-dkms",
          "ringtail-grafana", "ringtail-kafka"}
DEBUG = {"ringtail-dbgsym", "ringtail-client-dbgsym", "libringtail1-dbgsym", "ringtail-kafka-dbgsym"}
failed = 0


def check(name, good, *facts):
    global failed
    print(f"{'ok' if good else 'not ok'} {name}", flush=True)
    for fact in facts if not good else ():
        print(f"    {str(fact)[-3000:]}", flush=True)
    failed += not good


def run(*words, **options):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


debs = {os.path.basename(path).split("_")[0]: path for path in glob.glob(f"{packages}/*.deb")}
check("all packages are there, and those of debug symbols", set(debs) == WANTED | DEBUG, sorted(debs))

done = run("lintian", "--allow-root", "--fail-on", "error,warning", *glob.glob(f"{packages}/*.changes"))
check("lintian has nothing to say", done.returncode == 0 and not done.stdout.strip(), done.stdout)

done = run("apt-get", "-s", "install", *(debs[name] for name in sorted(WANTED)))
check("apt can install them", done.returncode == 0 and
      all(f"Inst {name} " in done.stdout for name in WANTED), done.stdout)

shutil.rmtree(scratch, ignore_errors=True)
owner, twice = {}, []
for name in sorted(WANTED):
    os.makedirs(f"{scratch}/{name}")
    run("dpkg-deb", "-x", debs[name], f"{scratch}/{name}", check=True)
    for directory, _, files in os.walk(f"{scratch}/{name}"):
        for path in (os.path.relpath(os.path.join(directory, file), f"{scratch}/{name}") for file in files):
            twice += [(path, name, owner[path])] if path in owner else []
            owner[path] = name
check("no file is in two packages", len(owner) > 100 and not twice, twice)
conffiles = run("dpkg-deb", "--info", debs["ringtail"], "conffiles").stdout.split()
check("the configuration is a conffile", conffiles == ["/etc/ringtail/ringtaild.conf"], conffiles)
for path, name in (("usr/sbin/ringtaild", "ringtail"), ("usr/bin/tracectl", "ringtail-client"),
                   ("usr/share/man/man8/ringtaild.8.gz", "ringtail"),
                   ("usr/share/man/man1/tracectl.1.gz", "ringtail-client"),
                   ("usr/bin/ringtail-courier", "ringtail-kafka"), ("usr/bin/ringtail-kafka", "ringtail-kafka"),
                   ("usr/share/man/man8/ringtail-courier.8.gz", "ringtail-kafka"),
                   ("lib/systemd/system/ringtail-courier.service", "ringtail-kafka"),
                   ("usr/share/man/man4/ringtail.4.gz", "ringtail-dkms"),
                   ("usr/share/ringtail/ringtail.proto", "libringtail-dev")):
    check(f"{path} is in {name}", owner.get(path) == name, owner.get(path))

linked = {}
for page in sorted(glob.glob("docs/*.md")):
    with open(page) as file:
        linked |= {link: page for link in re.findall(r"\]\(([\w.-]+)\)", file.read())}
# Manual pages are where man looks; dh_compress has its way with long pages.
absent = [(link, page) for link, page in linked.items() if not re.search(r"\.\d$", link) and
          not {f"usr/share/doc/ringtail/{link}", f"usr/share/doc/ringtail/{link}.gz"} & set(owner)]
check("what the pages link is beside them", len(linked) > 10 and not absent, absent)

with open("docs/libringtail.md") as file:
    example = re.search(r"```c\n(.*?)```", file.read(), re.S)[1]
with open(f"{scratch}/example.c", "w") as file:
    file.write(example)
for name in "libringtail1", "libringtail-dev":
    run("dpkg-deb", "-x", debs[name], f"{scratch}/root", check=True)
multiarch = run("gcc", "-print-multiarch").stdout.strip()
library = f"{scratch}/root/usr/lib/{multiarch}"
environment = {**os.environ, "PKG_CONFIG_PATH": f"{library}/pkgconfig", "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1"}
for kind, words in (("shared", ""), ("static", "--static")):
    flags = run("pkg-config", "--define-variable=includedir=" + f"{scratch}/root/usr/include",
                "--define-variable=libdir=" + library, "--cflags", "--libs", *words.split(), "ringtail",
                env=environment).stdout
    if kind == "static":
        flags = flags.replace("-lringtail", f"{library}/libringtail.a")
    done = run("sh", "-c", f"gcc -Wall -Werror -o {scratch}/example-{kind} {scratch}/example.c {flags}")
    check(f"the example of docs/libringtail.md is linked, {kind}", done.returncode == 0, flags, done.stdout)
    used = run("ldd", f"{scratch}/example-{kind}").stdout
    check(f"and takes the library as it should, {kind}", ("libringtail.so.1" in used) == (kind == "shared"),
          used)
    codecs = "-lzstd" in flags
    check(f"codecs are named only where they must be, {kind}", codecs == (kind == "static"), flags)

headers = sorted(glob.glob("/lib/modules/*/build"))
(source,) = glob.glob(f"{scratch}/ringtail-dkms/usr/src/ringtail-*")
with open(f"{source}/dkms.conf") as file:
    conf = file.read()
check("dkms.conf says the version of its directory",
      f'PACKAGE_VERSION="{source.rsplit("-", 1)[1]}"' in conf, conf)
if headers:
    done = run("sh", "-c", f"kernel_source_dir={headers[-1]}; "
               "eval \"$(sed -n 's/^MAKE\\[0\\]=\"\\(.*\\)\"$/\\1/p' dkms.conf)\"", cwd=source)
    check("the module is built as DKMS builds it", done.returncode == 0 and
          os.path.exists(f"{source}/kmod/module/ringtail.ko"), done.stdout)
else:
    check("linux-headers are here", False)
if not failed:
    shutil.rmtree(scratch)
sys.exit(1 if failed else 0)
