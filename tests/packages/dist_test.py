#!/usr/bin/env python3
"""The release of a clone of this tree: the archive is the commit, byte for byte the same the second time, and
the SPDX document says of each file in it what is so.

	usage: dist_test.py SCRATCH_DIR
"""
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile

scratch = os.path.abspath(sys.argv[1])
os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
failed = 0


def check(name, good, *facts):
    global failed
    print(f"{'ok' if good else 'not ok'} {name}")
    for fact in facts if not good else ():
        print(f"    {fact}")
    failed += not good


def run(*words, **options):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def dist(to):
    run("sh", f"{scratch}/clone/.ci/dist.sh", to)
    with open(f"{to}/SHA256SUMS") as file:
        return dict(reversed(line.split()) for line in file)


shutil.rmtree(scratch, ignore_errors=True)
run("git", "clone", "--quiet", "--depth", "1", f"file://{os.getcwd()}", f"{scratch}/clone")
first, second = dist(f"{scratch}/first"), dist(f"{scratch}/second")
check("the same commit makes the same files", first == second and len(first) == 2, first, second)
[archive] = [f"{scratch}/first/{name}" for name in first if name.endswith(".tar.xz")]
for name, sum_ in first.items():
    with open(f"{scratch}/first/{name}", "rb") as file:
        check(f"the checksum of {name}", hashlib.sha256(file.read()).hexdigest() == sum_)

with open(archive.removesuffix(".tar.xz") + ".spdx.json") as file:
    document = json.load(file)
said = {file["fileName"]: {sum_["algorithm"]: sum_["checksumValue"] for sum_ in file["checksums"]}
        for file in document["files"]}
found, version = {}, None
with tarfile.open(archive) as tar:
    for member in tar:
        if member.isfile():
            data = tar.extractfile(member).read()
            found["./" + member.name.split("/", 1)[1]] = {
                "SHA1": hashlib.sha1(data).hexdigest(), "SHA256": hashlib.sha256(data).hexdigest()}
            if member.name.endswith("/.revision"):
                version = data.decode().strip()
check("each file of the archive is in the document, with its checksums", said == found,
      sorted(set(said) ^ set(found)))
tracked = {f"./{path}" for path in run("git", "-C", f"{scratch}/clone", "ls-files").split("\n") if path and
           not os.path.islink(f"{scratch}/clone/{path}")}
check("the archive has the files of the commit", set(found) == tracked, set(found) ^ tracked)
check("the archive knows its commit", version == run("git", "-C", f"{scratch}/clone", "rev-parse", "HEAD").strip(),
      version)
known = [document["SPDXID"]] + [part["SPDXID"] for part in document["packages"] + document["files"]]
check("each name in the document is one thing's", len(known) == len(set(known)))
ends = {end for relation in document["relationships"]
        for end in (relation["spdxElementId"], relation["relatedSpdxElement"])}
check("each thing that it relates is in it", ends <= set(known), ends - set(known))
licences = {name: file["licenseConcluded"] for name, file in zip(said, document["files"])}
check("the kernel's parts have the kernel's licence",
      licences["./kmod/module/main.c"] == "GPL-2.0-only" and licences["./daemon/main.c"] == "BSD-2-Clause",
      licences["./kmod/module/main.c"], licences["./daemon/main.c"])
with open(f"{scratch}/clone/Makefile", "a") as file:
    file.write("\n")
refused = subprocess.run(["sh", f"{scratch}/clone/.ci/dist.sh", f"{scratch}/third"], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
check("an edited tree is refused, and says what differs", refused.returncode == 1 and "Makefile" in refused.stdout,
      refused.stdout)
shutil.rmtree(scratch, ignore_errors=True)
sys.exit(1 if failed else 0)
