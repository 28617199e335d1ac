#!/usr/bin/env python3
"""What .ci/arrows.py lets pass: includes downhill, through doors, in quotes; and the module's objects likewise."""
import contextlib
import importlib.util
import io
import os
import subprocess
import sys
import tempfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
os.chdir(ROOT)
spec = importlib.util.spec_from_file_location("arrows", ".ci/arrows.py")
arrows = importlib.util.module_from_spec(spec)
spec.loader.exec_module(arrows)


def wrong_in(path, line):
    """What is wrong with a line of that file."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        count = arrows.check_line(path, 1, line, set())
    assert bool(count) == bool(said.getvalue())
    return said.getvalue()


def objects(**sources):
    """What is said of objects of these names and sources."""
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(io.StringIO()) as said:
        for name, source in sources.items():
            subprocess.run(["gcc", "-x", "c", "-c", "-o", f"{directory}/{name}.o", "-"], input=source, text=True, check=True)
        count = arrows.check_module_objects(directory)
    return count, said.getvalue()


UP = objects(main="int what(void) { return 1; }", control="int what(void); int user(void) { return what(); }")
DOWN = objects(control="int what(void) { return 1; }", main="int what(void); int user(void) { return what(); }")
BELOW = objects(device="int what(void) { return 1; }", control="int what(void); int user(void) { return what(); }")
with contextlib.redirect_stdout(io.StringIO()):
    UNUSED = arrows.check_unused({(room, name) for room, names in arrows.DOORS.items() for name in names.split()} -
                                 {("query", "glob")})
    SAME = arrows.check_page()
    arrows.DAEMON.reverse()
    OTHER = arrows.check_page()
    arrows.DAEMON.reverse()
CASES = [
    ("a door downhill", not wrong_in("daemon/serve/session.c", '#include "daemon/stream/fanout.h"')),
    ("what is a room's own, downhill", "no door" in wrong_in("daemon/serve/session.c", '#include "daemon/stream/past.h"')),
    ("which its own room may include", not wrong_in("daemon/stream/stream.c", '#include "daemon/stream/past.h"')),
    ("and its tests", not wrong_in("tests/unit/daemon/test_past.c", '#include "daemon/stream/past.h"')),
    ("and the wiring may not", "no door" in wrong_in("daemon/engine.c", '#include "daemon/stream/past.h"')),
    ("what is the library's own", "no door" in wrong_in("client/cli/pump.c", '#include "client/lib/merge.h"')),
    ("a door uphill", "uphill" in wrong_in("daemon/base/log.c", '#include "daemon/net/origin.h"')),
    ("a file of the tests", "not this one's" in wrong_in("daemon/base/log.c", '#include "tests/lib/failing_memory.h"')),
    ("a file of the dashboards", "not this one's" in wrong_in("daemon/base/log.c", '#include "grafana/x.inc"')),
    ("a file of the project as if it were the system's", "quotes" in wrong_in("daemon/base/log.c", "#include <daemon/base/log.h>")),
    ("the system's", not wrong_in("daemon/base/log.c", "#include <errno.h>")),
    ("a door that nobody uses", UNUSED == 1),
    ("the page's table is the list", SAME == 0 and OTHER == 1),
    ("an object of the module that calls uphill", UP[0] == 1 and "control.o: uses what of main.o" in UP[1]),
    ("one that calls downhill", DOWN[0] == 0),
    ("one that calls what lies below, by its header", BELOW[0] == 0),
    ("a directory without objects is no module", objects()[0]),
]
for name, good in CASES:
    print(f"{'ok' if good else 'not ok'} {name}")
sys.exit(0 if all(good for _, good in CASES) else 1)
