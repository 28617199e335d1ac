#!/usr/bin/env python3
"""Colours on a terminal, unless NO_COLOR has a value or the terminal is dumb; --color decides over both."""
import os
import pty
import subprocess
import sys
import unittest

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3)
TRACECTL = os.path.abspath(os.path.join(TOP, os.environ.get("RINGTAIL_BUILD", "build"), "tracectl"))


def on_terminal(*words, **environment):
    """What it writes there: doctor has colours, and needs no daemon."""
    inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    ours, its = pty.openpty()
    process = subprocess.Popen([TRACECTL, "--connect", "unix:/nowhere", *words, "doctor"], stdin=its, stdout=its, stderr=its,
                               env={**inherited, "TERM": "xterm", **environment})
    os.close(its)
    said = b""
    try:
        while part := os.read(ours, 65536):
            said += part
    except OSError:         # the other side was closed
        pass
    process.wait(60)
    os.close(ours)
    return said


class Color(unittest.TestCase):
    def check(self, has_color, *words, **environment):
        said = on_terminal(*words, **environment)
        self.assertIn(b"systemd unit", said)
        self.assertEqual(b"\033[" in said, has_color, said)

    def test_a_terminal_has_colors(self):
        self.check(True)

    def test_no_color(self):
        self.check(False, NO_COLOR="1")
        self.check(False, NO_COLOR="0")

    def test_an_empty_no_color_is_none(self):
        self.check(True, NO_COLOR="")

    def test_a_dumb_terminal(self):
        self.check(False, TERM="dumb")

    def test_the_option_decides(self):
        self.check(True, "--color", "always", NO_COLOR="1", TERM="dumb")
        self.check(False, "--color", "never")

    def test_a_pipe_has_none(self):
        for words, has_color in (((), False), (("--color", "always"), True)):
            done = subprocess.run([TRACECTL, "--connect", "unix:/nowhere", *words, "doctor"], capture_output=True, timeout=60,
                                  env={**os.environ, "TERM": "xterm"})
            self.assertEqual(b"\033[" in done.stdout, has_color)


if not os.access(TRACECTL, os.X_OK):
    sys.exit(f"there is no {TRACECTL}")
if __name__ == "__main__":
    unittest.main()
