#!/usr/bin/env python3
"""What constants.py makes of headers: of those that are absent or cannot be compiled, nothing, and the others' names
all the same; no name of what is no constant; and it asks the compiler twice where nothing is wrong."""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
HEADERS = {
    "good.h": "#define GO_ONE 1\n#define GO_TWO (1 << 1)\n#define GO_MODE 3\n#define GO_CALL(x) x\n"
              "enum turn { GO_LEFT = 8 };\n",
    "odd.h": "#define ODD_SEVEN 7\n#define ODD_TYPE int *\n",
    "broken.h": "#define GO_WRONG 5\n#error not alone\n",
    "mistaken.h": "#define GO_MISTAKEN 6\nunknown_type value;\n",
}


def made(definitions, directory):
    """Exit status, the tables, and how often the compiler was asked."""
    calls = os.path.join(directory, "calls")
    for name, text in {**HEADERS, "constants.def": definitions, "calls": "",
                       "cc": f'#!/bin/sh\necho >>{calls}\nexec gcc -I{directory} "$@"\n'}.items():
        with open(os.path.join(directory, name), "w") as file:
            file.write(text)
    os.chmod(os.path.join(directory, "cc"), 0o755)
    words = [sys.executable, f"{ROOT}/query/constants.py", f"{directory}/cc", f"{directory}/constants.def"]
    done = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    with open(calls) as file:
        return done.returncode, done.stdout, len(file.readlines())


def rows(definitions):
    """The rows of the first table, and the calls."""
    with tempfile.TemporaryDirectory() as directory:
        status, text, calls = made(definitions, directory)
    table = text.partition("_constant[] = {\n")[2].partition("\t{ NULL")[0]
    if status:
        return text, calls
    return [row.strip("\t{ },u").replace('"', "") for row in table.splitlines()], calls


GOOD = ["GO_ONE, 0x1", "GO_TWO, 0x2", "GO_MODE, 0x3"]
said, calls = rows("set go enum good.h GO_\\w+\n")
two, calls_of_two = rows("set go enum good.h GO_\\w+ except=GO_MODE\nset left enum good.h GO_LEFT enum=turn\n"
                         "arg go open.flags\nwhen left open.mode flags=GO_TWO good.h\n")
more = [*GOOD[:2], "GO_LEFT, 0x8"]
CASES = [
    ("macros and enumerators have names", said == [*GOOD, "GO_LEFT, 0x8"], said),
    ("which takes two calls", calls == 2, calls),
    ("and no more for two sets and a rule", two == more and calls_of_two == 2, two, calls_of_two),
    ("what is no constant has none", rows("set odd enum odd.h ODD_\\w+\n")[0] == ["ODD_SEVEN, 0x7"]),
    ("an absent header takes nothing from others", rows("set go enum absent.h,good.h GO_\\w+\n")[0] == said),
    ("nor one that the preprocessor refuses", rows("set go enum good.h,broken.h GO_\\w+\n")[0] == said),
    ("nor one that the compiler does", rows("set go enum mistaken.h,good.h GO_\\w+\n")[0] == said),
    ("a name for 0 is given", rows("set go flags good.h GO_(ONE|LEFT) zero=GO_ZERO\n")[0] ==
     ["GO_ONE, 0x1", "GO_LEFT, 0x8", "GO_ZERO, 0x0"]),
]
for name, good, *facts in CASES:
    print(f"{'ok' if good else 'not ok'} {name}", *([] if good else facts))
sys.exit(0 if all(case[1] for case in CASES) else 1)
