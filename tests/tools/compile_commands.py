#!/usr/bin/env python3
"""compile_commands: prints the compilation database that clangd, clang-tidy and editors read.

	usage: make -Bn V=1 all tests | compile_commands.py >compile_commands.json

In: the commands that make would run; out: JSON, one entry for each C file that one of them compiles.
"""
import json
import os
import re
import shlex
import sys

entries = []
for line in sys.stdin:
    command = line.split("&&")[-1].strip()
    if command.startswith("-") or not re.search(r" -c \S+\.c -o ", command):
        continue
    words = shlex.split(command)
    entries.append({"directory": os.getcwd(), "arguments": words,
                    "file": words[words.index("-c") + 1]})
json.dump(entries, sys.stdout, indent=1)
