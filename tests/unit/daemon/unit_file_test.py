#!/usr/bin/env python3
"""The units as they are installed: systemd understands them, and what it says of how exposed the
service is stays within bounds. (tests/systemd starts them.)"""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
EXPOSURE_MAX = 1.0
failed = 0


def check(name, wrong):
    global failed
    print(f"{'not ok' if wrong else 'ok'} {name}")
    for line in wrong:
        print(f"    {line}")
    failed += bool(wrong)


def say(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0"})
    return done.returncode, done.stdout


with tempfile.TemporaryDirectory() as directory:
    # verify asks whether the program is there, and here it is not installed.
    units = []
    for name in "ringtaild.service", "ringtaild.socket", "ringtail-courier.service":
        units.append(os.path.join(directory, name))
        with open(f"{ROOT}/systemd/{name}") as unit, open(units[-1], "w") as copy:
            copy.write(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read(), flags=re.M))
    code, text = say("systemd-analyze", "verify", "--man=no", *units)
    check("systemd understands the units", text.splitlines() if code or text.strip() else [])

for unit in "ringtaild.service", "ringtail-courier.service":
    code, text = say("systemd-analyze", "security", "--offline=true", "--no-pager",
                     f"--threshold={EXPOSURE_MAX * 10:.0f}", f"{ROOT}/systemd/{unit}")
    found = re.search(rf"Overall exposure level for {unit}: ([\d.]+)", text)
    check(f"{unit}: exposure is {found[1] if found else 'unknown'}, and {EXPOSURE_MAX} at most",
          [] if found and code == 0 and float(found[1]) <= EXPOSURE_MAX else text.splitlines())

sys.exit(1 if failed else 0)
