#!/usr/bin/env python3
"""Each option of ringtail-courier and ringtail-kafka is in its manual and in --help, and no other is."""
import os
import re
import subprocess
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
BUILD = os.environ.get("RINGTAIL_BUILD", "build")
failed = 0


def check(name, good, *facts):
    global failed
    print(f"{'ok' if good else 'not ok'} {name}")
    for fact in facts if not good else ():
        print(f"    {fact}")
    failed += not good


def read(path):
    with open(path) as file:
        return file.read()


for program, table, page in (("ringtail-courier", "courier/courier_options.def", "docs/ringtail-courier.8"),
                             ("ringtail-kafka", "courier/reader_options.def", "docs/ringtail-kafka.1")):
    wanted = set(re.findall(r'^OPTION\(\w+, "([\w-]+)"', read(table), re.M))
    told = set(re.findall(r"^\.It Fl -([\w-]+)", read(page), re.M))
    said = subprocess.run([f"{BUILD}/{program}", "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    helped = set(re.findall(r"^  --([\w-]+)", said, re.M))
    check(f"{program} has options", len(wanted) > 10, wanted)
    check(f"{page} has them all, and no other", told == wanted, told ^ wanted)
    check(f"{program} --help has them all, and no other", helped == wanted, helped ^ wanted)
    done = subprocess.run([f"{BUILD}/{program}"], stderr=subprocess.PIPE, text=True, check=False)
    check(f"{program} without brokers is usage", done.returncode == 2 and "--brokers" in done.stderr, done.stderr)
sys.exit(bool(failed))
