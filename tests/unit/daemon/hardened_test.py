#!/usr/bin/env python3
"""What is built is hardened: the programs' ELF files say so, by readelf."""
import os
import platform
import re
import subprocess
import sys

BUILD = os.environ.get("RINGTAIL_BUILD", "build")
PROGRAMS = "ringtaild", "tracectl", "ringtail-courier", "ringtail-kafka"
failed = 0


def check(name, good, *facts):
    global failed
    print(f"{'ok' if good else 'not ok'} {name}")
    for fact in facts if not good else ():
        print(f"    {str(fact)[:1500]}")
    failed += not good


def readelf(path, *options):
    return subprocess.run(["readelf", "-W", *options, path], check=True, stdout=subprocess.PIPE,
                          text=True, env={**os.environ, "LC_ALL": "C"}).stdout


def segments(path):
    """(type, flags) of each: flags as `R E`."""
    return re.findall(r"^  (\w+) +0x\w+ 0x\w+ 0x\w+ 0x\w+ 0x\w+ ([RWE ]{3}) ", readelf(path, "-l"),
                      re.M)


for program in PROGRAMS:
    path = os.path.join(BUILD, program)
    found, dynamic, notes = segments(path), readelf(path, "-d"), readelf(path, "-n")
    symbols = readelf(path, "--dyn-syms")
    check(f"{program}: its segments are read", len(found) > 6, readelf(path, "-l"))
    check(f"{program} is a PIE", "Type:                              DYN" in readelf(path, "-h") and
          re.search(r"FLAGS_1.*\bPIE\b", dynamic), dynamic)
    check(f"{program}: no segment can be written and executed",
          all(flags.strip() not in ("RWE", "WE") and not ("W" in flags and "E" in flags)
              for _, flags in found), found)
    check(f"{program}: its stack cannot be executed", ("GNU_STACK", "RW ") in found, found)
    check(f"{program}: its relocations are read-only",
          any(kind == "GNU_RELRO" for kind, _ in found) and "BIND_NOW" in dynamic and
          re.search(r"FLAGS_1.*\bNOW\b", dynamic), found, dynamic)
    check(f"{program} searches no path of its own", "RPATH" not in dynamic and "RUNPATH" not in dynamic,
          dynamic)
    check(f"{program}: stacks are guarded", "__stack_chk_fail" in symbols)
    check(f"{program}: calls are fortified",
          len(set(re.findall(r"\b__(\w+)_chk\b", symbols))) >= 5, symbols)
    if platform.machine() in ("x86_64", "i686"):
        check(f"{program}: indirect branches and returns are tracked",
              re.search(r"x86 feature: IBT, SHSTK", notes), notes)
        # The note alone would be a word: functions that are called by pointer begin with endbr64.
        code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        begun = re.findall(r"^[0-9a-f]+ <main>:\n\s*[0-9a-f]+:\s+(\w+)", code, re.M)
        check(f"{program}: main begins with endbr64", begun == ["endbr64"], begun)
        # -fstack-clash-protection: a frame beyond a page touches each page as it grows.
        check(f"{program}: large frames are probed",
              re.search(r"sub +\$0x1000,%rsp\n[^\n]*or[ql] +\$0x0,(?:0x\w+)?\(%rsp\)", code))

sys.exit(1 if failed else 0)
