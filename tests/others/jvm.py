#!/usr/bin/env python3
"""The JVM's USDT marks, in a shared object: each class that it loads is there, as its own log has them."""
import glob
import os
import re
import subprocess

from other import count, ringtail, usdt, wanted
from lib.process import SLOW

MARKS = ("vm__init__begin", "vm__init__end", "class__loaded", "thread__start", "vm__shutdown")


def runtimes():
    """Each java with marks in its libjvm.so."""
    for library in sorted(glob.glob("/usr/lib/jvm/*/lib/server/libjvm.so")):
        java = os.path.join(os.path.dirname(library), "..", "..", "bin", "java")
        with open(library, "rb") as file:
            if os.access(java, os.X_OK) and b"class__loaded\0" in file.read():
                yield os.path.realpath(java), os.path.realpath(library)


def main(case):
    java, library = next(runtimes(), (None, None))
    if not java:
        raise ringtail.Skip("no JVM with marks is installed")
    daemon = case.daemon("--ring-size=16MiB")
    specs = dict(zip(MARKS, usdt(library, "hotspot", *MARKS)))
    listed = case.tracectl(daemon, "list", f"usdt:{library}:hotspot:*").out
    case.check(all(f":{name}(" in listed for name in MARKS), "its marks are listed", listed)
    stream = case.stream(daemon, *wanted(specs.values()), "-o", "json")
    program = subprocess.Popen([java, "-Xint", "-Xshare:off", "-XX:+UseSerialGC", "-XX:+ExtendedDTraceProbes",
                                "-Xlog:class+load:stdout", "-version"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    out = program.communicate(timeout=120 * SLOW)[0]
    case.check_equal(program.returncode, 0, "it ends well")
    case.await_rings_empty(daemon)
    stream.await_all()
    case.check_balanced(daemon)
    done = stream.interrupt()
    case.check_stream(done)
    kinds = count(event for event in done.lines if event["pid"] == program.pid)
    loaded = len(re.findall(r"source: ", out))
    case.check(loaded > 100, "its log has the classes", out[:500])
    case.check_equal(kinds.get(specs["class__loaded"]), loaded, "each class is there, as the JVM's log has it")
    case.check_equal([kinds.get(specs[name]) for name in ("vm__init__begin", "vm__init__end", "vm__shutdown")], [1, 1, 1],
                     "and its begin and its end")


ringtail.run(main)
