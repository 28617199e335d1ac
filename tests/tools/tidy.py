#!/usr/bin/env python3
"""tidy: runs clang-tidy over files, as many at a time as there are CPUs; see `make tidy`.

	usage: tidy.py FILE...

Prints what it says of each, its errors among that: a file that clang cannot compile fails. What it counts to itself
("3 warnings generated") is left out, and so is what was said of a header before.

A file about which it said nothing is not looked at again until something changes that it reads: the file, a header,
a flag, .clang-tidy, clang-tidy itself. Such files are noted in the cache (cache.py), each by the digest of all that.
"""
import concurrent.futures
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time

import cache

NOISE = re.compile(r"^(\d+ warnings?( and \d+ errors?)? generated\.|Suppressed \d+ warnings .*|Use -header-filter=.*)$")
CONFIG = ".clang-tidy"
KEPT_S = 30 * 24 * 3600     # notes that no run has asked for in that time go


@functools.lru_cache(maxsize=None)
def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def commands():
    """{file: the flags it is compiled with}. The words before the first flag name the compiler."""
    with open("compile_commands.json") as file:
        entries = json.load(file)
    flags = {}
    for entry in entries:
        words = entry["arguments"]
        flags[entry["file"]] = words[next(at for at, word in enumerate(words) if word.startswith("-")):]
    return flags


def headers(path, flags):
    """The file, and each header that clang reads for it; None: clang cannot say. clang 14 lacks the value zero of the
    one flag, as it does for clang-tidy."""
    kept = [word for at, word in enumerate(flags)
            if word not in ("-c", "-o", "-MMD", "-MP", path) and flags[at - 1] != "-o"]
    done = subprocess.run(["clang", *kept, "-w", "-ftrivial-auto-var-init=uninitialized", "-M", path],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if done.returncode:
        return None
    return done.stdout.replace("\\\n", " ").partition(": ")[2].split()


def configs(path):
    """Each .clang-tidy that can concern the file, from its folder up to this one."""
    parts = os.path.dirname(os.path.normpath(path)).split("/")
    folders = ["/".join(parts[:count]) for count in range(len(parts), -1, -1)]
    return [name for name in dict.fromkeys(os.path.join(folder, CONFIG) for folder in folders) if os.path.exists(name)]


def note_of(path, flags, version):
    """Where it is noted that nothing is wrong with the file as it is now; None: that is not to be noted."""
    if path not in flags:
        return None
    read = headers(path, flags[path])
    if not read:
        return None
    everything = [version, path, flags[path], [(name, digest(name)) for name in [*configs(path), *sorted(set(read))]]]
    return os.path.join(cache.directory("tidy"), hashlib.sha256(json.dumps(everything).encode()).hexdigest())


def look(path, flags, version):
    """(whether nothing is wrong, what was said)."""
    note = note_of(path, flags, version)
    if note and os.path.exists(note):
        os.utime(note)
        return True, ""
    done = subprocess.run(["clang-tidy", "--quiet", "-p", ".", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace")
    said = [line for line in done.stdout.splitlines() if line.strip() and not NOISE.match(line)]
    if note and done.returncode == 0 and not said:
        open(note, "w").close()
    return done.returncode == 0, "\n".join(said)


def forget_old():
    directory = cache.directory("tidy")
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        if os.path.getmtime(path) < time.time() - KEPT_S:
            os.remove(path)


def main():
    files, failed, told = sys.argv[1:], [], set()
    # Two builds of one version can differ: the program counts, too.
    program = shutil.which("clang-tidy")
    version = [subprocess.run(["clang-tidy", "--version"], stdout=subprocess.PIPE, text=True).stdout,
               program and digest(program)]
    flags = commands()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for path, (well, said) in zip(files, pool.map(lambda path: look(path, flags, version), files)):
            if not well:
                failed.append(path)
            if said and said not in told:
                told.add(said)
                print(said, flush=True)
    forget_old()
    print(f"{len(files)} files, {len(failed)} with something wrong" + "".join(f"\n  {path}" for path in failed))
    sys.exit(1 if failed or not files else 0)


if __name__ == "__main__":
    main()
