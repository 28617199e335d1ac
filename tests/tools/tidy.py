#!/usr/bin/env python3
"""tidy: runs clang-tidy over files, as many at a time as there are CPUs; see `make tidy`.

	usage: tidy.py FILE...

Prints what it says of each, its errors among that: a file that clang cannot compile fails. What it counts to itself
("3 warnings generated") is left out, and so is what was said of a header before.
"""
import concurrent.futures
import os
import re
import subprocess
import sys

NOISE = re.compile(r"^(\d+ warnings?( and \d+ errors?)? generated\.|Suppressed \d+ warnings .*|Use -header-filter=.*)$")


def look(path):
    """(whether nothing is wrong, what was said)."""
    done = subprocess.run(["clang-tidy", "--quiet", "-p", ".", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace")
    said = [line for line in done.stdout.splitlines() if line.strip() and not NOISE.match(line)]
    return done.returncode == 0, "\n".join(said)


def main():
    files, failed, told = sys.argv[1:], [], set()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for path, (well, said) in zip(files, pool.map(look, files)):
            if not well:
                failed.append(path)
            if said and said not in told:
                told.add(said)
                print(said, flush=True)
    print(f"{len(files)} files, {len(failed)} with something wrong" + "".join(f"\n  {path}" for path in failed))
    sys.exit(1 if failed or not files else 0)


if __name__ == "__main__":
    main()
