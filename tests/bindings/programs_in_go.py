#!/usr/bin/env python3
"""A Go program with probes (client/go) is listed and recorded as one in C is, without cgo; one whose format does not
fit its fields does not start."""
import os
import subprocess
import sys

import binding
from binding import ROOT, ringtail

sys.path.insert(1, os.path.join(ROOT, "tests", "tools"))
import cache  # noqa: E402

BUILD_S = 600           # the first time, with all of Go's library that it takes
PACKAGE = os.path.join(ROOT, "client", "go")
WRONG = """package main

import "ringtail/probe"

var wrong = probe.New[struct{ Text string }]("app", "wrong", "%d")

func main() {}
"""


def go(directory, *words):
    """As it is on this machine, and with nothing of the network's."""
    env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local",
           "GOCACHE": cache.directory("go-build")}
    return subprocess.run(["go", *words], cwd=directory, env=env, stderr=subprocess.PIPE, text=True, timeout=BUILD_S)


def main(case):
    wrong, program = case.path("wrong"), case.path("go-example")
    os.mkdir(wrong)
    with open(os.path.join(wrong, "main.go"), "w") as file:
        file.write(WRONG)
    with open(os.path.join(wrong, "go.mod"), "w") as file:
        file.write(f"module wrong\n\ngo 1.18\n\nrequire ringtail/probe v0.0.0\n\nreplace ringtail/probe => {PACKAGE}\n")
    done = go(wrong, "run", ".")
    case.check(done.returncode != 0 and "field Text, string, cannot be printed by %d" in done.stderr,
               "a format that does not fit its fields is told", done.stderr)
    done = go(PACKAGE, "vet", "./...")
    case.check_equal((done.returncode, done.stderr), (0, ""), "go vet has nothing to say")
    done = go(PACKAGE, "build", "-trimpath", "-o", program, "./example")
    case.check_equal((done.returncode, done.stderr), (0, ""), "the example is compiled")
    binding.check(case, program, "go_example")


ringtail.run(main)
