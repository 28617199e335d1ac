#!/usr/bin/env python3
"""What TAB offers in the place of a format, a flag and a word of `dumps` is what tracectl takes there."""
import os
import re
import subprocess
import sys
import unittest

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3)
TRACECTL = os.path.abspath(os.path.join(TOP, os.environ.get("RINGTAIL_BUILD", "build"), "tracectl"))
OF_EVENTS = ("stream", "record", "read")


def complete(*words):
    done = subprocess.run(["sh", f"{TOP}/client/completions/complete.sh", *words], capture_output=True, text=True,
                          env={**os.environ, "TRACECTL": TRACECTL}, check=True, timeout=60)
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


def taken(command, option):
    """The words that the refusal of another one names."""
    refused = subprocess.run([TRACECTL, command, f"{option}=x-x", *["FILE"] * (command == "read")], capture_output=True,
                             text=True, timeout=60)
    names = re.search(r"may be (.*?)(?: \[|\n|$)", refused.stderr)
    return sorted(re.split(r", | or ", names[1])) if names else refused.stderr


class Completions(unittest.TestCase):
    def test_formats(self):
        for command in (*OF_EVENTS, "list", "stat", "probes", "count", "dumps"):
            self.assertEqual(sorted(complete(command, "-o", "")), taken(command, "--output"), command)
        self.assertIn("ctf", complete("read", "-o", ""))
        self.assertEqual(complete("stream", "--output", "pe"), ["perfetto"])
        self.assertEqual(complete("stream", "--output=kp"), ["--output=kptrace"])

    def test_flags(self):
        offered = complete("stream", "--flags", "")
        self.assertEqual(offered[-1], "none")
        for flags in offered:
            done = subprocess.run([TRACECTL, "stream", "--flags", flags, "--connect", "unix:/nowhere"],
                                  capture_output=True, text=True, timeout=60)
            self.assertIn("no-daemon", done.stderr, flags)
        self.assertNotIn("kstack,none", complete("stream", "--flags", "kstack,"))

    def test_dumps(self):
        self.assertEqual(complete("dumps", ""), ["get", "remove"])
        self.assertEqual(complete("dumps", "g"), ["get"])
        self.assertEqual(complete("--connect", "unix:/nowhere", "dumps", "get", ""), [])


if not os.access(TRACECTL, os.X_OK):
    sys.exit(f"there is no {TRACECTL}")
if __name__ == "__main__":
    unittest.main()
