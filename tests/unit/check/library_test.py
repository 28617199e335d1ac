#!/usr/bin/env python3
"""The shared library shows what its header declares, neither more nor less; and C++ takes the header."""
import os
import re
import subprocess
import sys
import tempfile

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
BUILD = os.environ.get("RINGTAIL_BUILD", "build")
failed = 0


def check(name, good, *facts):
    global failed
    print(f"{'ok' if good else 'not ok'} {name}")
    for fact in facts if not good else ():
        print(f"    {fact}")
    failed += not good


def output(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


with open("client/lib/ringtail.h") as file:
    text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
declared = set(re.findall(r"^[a-z].*?\b(ringtail_\w+)\([^;{]*\);", text, re.M | re.S))
shown = set(re.findall(r" T (\w+)@@RINGTAIL_1$", output(
    "nm", "-D", "--defined-only", f"{BUILD}/libringtail.so.1"), re.M))
with open("client/lib/ringtail.map") as file:
    mapped = set(re.findall(r"^\t(ringtail_\w+);$", file.read(), re.M))
with open("debian/libringtail1.symbols") as file:
    packaged = set(re.findall(r"^ (ringtail_\w+)@", file.read(), re.M))
check("the header declares functions", len(declared) > 20, declared)
for name, names in (("the library shows", shown), ("ringtail.map names", mapped),
                    ("libringtail1.symbols names", packaged)):
    check(f"{name} just what the header declares", names == declared, names ^ declared)
check("its soname is its name", "[libringtail.so.1]" in output(
    "readelf", "-d", f"{BUILD}/libringtail.so.1"))

PROGRAM = """#include "client/lib/ringtail.h"
#include <fcntl.h>
int main(void)
{
	struct ringtail_error error;
	struct ringtail_item item;
	struct ringtail *ringtail;
	unsigned events = 0;

	if (ringtail_open(open("tests/data/capture.rt", O_RDONLY), "capture.rt", false, &ringtail, &error))
		return 1;
	while (ringtail_next(ringtail, &item, -1) != RINGTAIL_END && item.kind != RINGTAIL_ERROR)
		events += item.kind == RINGTAIL_EVENT;
	ringtail_close(ringtail);
	return events > 1000 ? 0 : 2;
}
"""
with tempfile.TemporaryDirectory() as scratch:
    for compiler, suffix in ("gcc", "c"), ("g++", "cc"):
        source, program = f"{scratch}/reader.{suffix}", f"{scratch}/reader-{suffix}"
        with open(source, "w") as file:
            file.write(PROGRAM)
        done = subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", "-I.", "-o", program, source,
                               f"{BUILD}/libringtail.so.1"], stderr=subprocess.PIPE, text=True)
        check(f"{compiler} takes the header and links", done.returncode == 0, done.stderr)
        if done.returncode == 0:
            read = subprocess.run([program], env={**os.environ, "LD_LIBRARY_PATH": BUILD})
            check(f"{compiler}'s program reads a recording", read.returncode == 0, read.returncode)
sys.exit(1 if failed else 0)
