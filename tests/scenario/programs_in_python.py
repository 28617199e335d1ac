"""A Python program with probes (client/python) is listed and recorded as one in C is: each event in its order, of a child as
well; without a daemon it runs as ever. pip installs the package, without looking for anything on the network."""
import importlib.util
import os
import subprocess
import sys

import ringtail
from lib.probing import Program, await_ended, check_secure
from lib.process import PATIENCE_S

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "client", "python")
TURNS = 2000
FORKS = """
import os, sys
import ringtail_probe
passed = ringtail_probe.probe("python_example", "passed", "%d %s", is_child=bool, text=str)
print("attached" if ringtail_probe.attach() else "alone", flush=True)
sys.stdin.readline()
child = os.fork()
for i in range(50):
    passed(not child, "t" * i * 6 + chr(228))
if not child:
    os._exit(0)
os.waitpid(child, 0)
"""


def have_pip(case):
    """Builds and installs it; the directory that has it then."""
    missing = [name for name in ("pip", "setuptools", "wheel") if importlib.util.find_spec(name) is None]
    if missing:
        case.say(f"its package is not built here: {', '.join(missing)} not there")
        return HERE
    source, target = case.path("source"), case.path("installed")
    subprocess.run(["cp", "-r", HERE, source], check=True, timeout=PATIENCE_S)
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation",
                    "--target", target, source], check=True, timeout=PATIENCE_S, stdout=subprocess.DEVNULL)
    return target


def main(case):
    package, socket = have_pip(case), os.path.join(case.path("run"), "programs.sock")
    example = os.path.join(HERE, "example.py")
    alone = Program(case, sys.executable, socket, example, TURNS, PYTHONPATH=package)
    case.check(not alone.attached and alone.go().process.wait().code == 0, "without a daemon it runs as ever")
    daemon = case.daemon(f"--programs={socket}")
    check_secure(case, sys.executable, socket, example, TURNS, PYTHONPATH=package)
    program = Program(case, sys.executable, socket, example, TURNS, PYTHONPATH=package)
    case.check(program.attached, "it is attached", program.process.read("err"))
    listed = case.tracectl(daemon, "list", "python_example:*").out
    case.check("turn_done:event(turn, turns, text, cpu)" in listed and "example.py:6" in listed, "and listed", listed)
    stream = case.stream(daemon, "-p", "python_example:turn_done", "-o", "json")
    case.check_equal(program.go().process.wait().code, 0, "it ends well")
    await_ended(daemon)
    stream.await_all(TURNS)
    case.check_balanced(daemon)
    done = stream.interrupt()
    case.check_stream(done, events=TURNS)
    case.check(all(event["args"]["turn"] == i and event["args"]["turns"] == TURNS and event["pid"] == program.pid and
                   event["args"]["text"] == f"text of turn {i}" for i, event in enumerate(done.lines)), "each is right")
    program = Program(case, sys.executable, socket, "-c", FORKS, PYTHONPATH=package)
    stream = case.stream(daemon, "-p", "python_example:passed", "-o", "json")
    case.check_equal(program.go().process.wait().code, 0, "one that forks ends well")
    await_ended(daemon)
    stream.await_all(100)
    events = stream.interrupt().lines
    case.check_equal(sorted({(event["args"]["is_child"], event["pid"] == program.pid) for event in events}),
                     [(0, True), (1, False)], "and its child is a process of its own")
    texts = [event["args"]["text"] for event in events if event["pid"] == program.pid]
    case.check_equal(texts, [("t" * i * 6 + chr(228)) if i * 6 + 2 <= 128 else "t" * min(i * 6, 128) for i in range(50)],
                     "texts are cut at whole characters")
    counters = daemon.stat()["counters"]
    case.check_equal((counters["program_records_bad"], counters["programs_corrupt"]), (0, 0), "nothing is broken")
    case.check_balanced(daemon)


ringtail.run(main)
