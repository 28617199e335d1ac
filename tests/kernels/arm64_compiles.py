#!/usr/bin/env python3
"""arm64_compiles: whether each C file of the daemon, the clients, the courier and what they share compiles for arm64, as strictly as
for this processor. Nothing is linked, so no library of arm64 is needed but libc's headers.

	usage: tests/kernels/arm64_compiles.py		after make compile_commands.json; exit 77: no compiler for arm64
"""
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile

COMPILER = "aarch64-linux-gnu-gcc"
ROOMS = ("client/", "courier/", "daemon/", "proto/", "query/")
# Behind libc's own: what other libraries have there is the same for all processors, or nearly.
HEADERS = ("-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu")


def is_of_this_processor(word):
    return word.startswith(("-fcf-protection", "-flto", "-MMD", "-MP"))


def write_numbers(directory):
    """What is made for the compiler's processor: the numbers of its system calls."""
    path = f"{directory}/daemon/source/syscall_numbers.inc"
    os.makedirs(os.path.dirname(path))
    with open(path, "w") as file:
        subprocess.run(["sh", "daemon/source/syscall_numbers.sh", COMPILER], stdout=file, check=True)


def compile_file(entry, made):
    options = next(i for i, word in enumerate(entry["arguments"]) if word.startswith("-"))     # behind "gcc", or "ccache gcc"
    words = [word for word in entry["arguments"][options:] if not is_of_this_processor(word)]
    at = words.index("-o")
    del words[at:at + 2]
    words.remove("-c")
    done = subprocess.run([COMPILER, f"-I{made}", *words, *HEADERS, "-O1", "-S", "-o", "/dev/null"], cwd=entry["directory"], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return entry["file"], done.returncode, done.stdout


def main():
    if not shutil.which(COMPILER):
        print(f"SKIP: no {COMPILER}: .ci/deps.sh more installs it")
        return 77
    with open("compile_commands.json") as file:
        entries = [entry for entry in json.load(file) if entry["file"].startswith(ROOMS)]
    with tempfile.TemporaryDirectory() as made, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        write_numbers(made)
        results = list(pool.map(lambda entry: compile_file(entry, made), entries))
    bad = [(name, said) for name, code, said in results if code]
    for name, said in bad:
        print(f"not so: {name} compiles for arm64\n{said}")
    print(f"{len(results) - len(bad)} of {len(results)} files compile for arm64")
    return 1 if bad or not results else 0


sys.exit(main())
