#!/usr/bin/env python3
"""How a scenario ends: late if something was not so in time, whoever waited for it; failed if anything was wrong."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
import check  # noqa: E402

ENDS = {
    "nothing is wrong": ("pass", 0),
    "what was waited for did not come": ("ringtail.wait_until(lambda: False, 'it comes', 0)", check.LATE),
    "a peer did not answer": ("a, b = socket.socketpair(); a.settimeout(0.01); a.recv(1)", check.LATE),
    "a program did not end": ("subprocess.run(['sleep', '9'], timeout=0.01)", check.LATE),
    "something is not so": ("case.check(False, 'it is so')", 1),
    "a peer hung up": ("a, b = socket.socketpair(); b.close(); a.send(b'x')", 1),
    "the test itself is wrong": ("nobody_has_this_name", 1),
}

wrong = 0
for text, (body, wanted) in ENDS.items():
    script = ("import socket, subprocess, sys\nsys.path.insert(0, 'tests/scenario')\nimport ringtail\n"
              f"def main(case):\n    {body}\nringtail.run(main)\n")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    good = done.returncode == wanted
    print(f"{'ok' if good else 'not ok'} {text}: {done.returncode}, wanted {wanted}")
    if not good:
        print(done.stdout, done.stderr)
    wrong += not good
sys.exit(1 if wrong else 0)
