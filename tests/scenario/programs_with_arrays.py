"""Arrays in a program's probes: each element comes as it was passed, as text, as JSON and out of a recording, of an array
that is too long the first 128 bytes; a filter on one is refused."""
import os
import subprocess
import sys

import ringtail
from lib.probing import Program, await_ended, build
from lib.process import PATIENCE_S

TURNS = 4


def sizes(turn):
    return [turn + i for i in range(32 if turn % 2 else 2)]


def listed(numbers, more=""):
    return "{" + ",".join(map(str, numbers)) + more + "}"


def check_values(case, lines, text):
    sent = [line["args"] for line in lines if line["probe"] == "app:sent:event"]
    small = [line["args"] for line in lines if line["probe"] == "app:small:event"]
    case.check_equal([(args["port"], args["delta"], args["size"]) for args in sent],
                     [([1, 80, 65535], [-1, 1 << 40], sizes(turn)) for turn in range(TURNS)], text)
    case.check_equal([(args["byte"], args["small"], args["flag"], args["arg5"]) for args in small],
                     [([0, 255], [-128, 127], [1, 0], [])] * TURNS, f"{text}, of each size, and none")


def check_python(case, daemon, socket):
    package = os.path.join(ringtail.ROOT, "client", "python")
    program = Program(case, sys.executable, socket, os.path.join(os.path.dirname(__file__), "lib", "arrays.py"), PYTHONPATH=package)
    case.check(program.attached, "it is attached", program.process.read("err"))
    stream = case.stream(daemon, "-p", "arrays:*", "-o", "json")
    case.check_equal(program.go().process.wait().code, 0, "it ends well")
    await_ended(daemon)
    stream.await_all(5)
    got = [(line["args"]["deltas"], line["args"]["raw"]) for line in stream.interrupt().lines]
    case.check_equal(got, [([-1, 1 << 40, 1], [0, 255]), (list(range(16)), [0] * 128), ([], []), ([], []), ([0], [97])],
                     "a Python program's arrays come, too")


def build_in_cxx(case):
    """The same source, by g++, in an inline function."""
    here, program = os.path.dirname(os.path.abspath(__file__)), case.path("arrays-cxx")
    subprocess.run(["g++", "-x", "c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-O2", "-pthread",
                    f"-I{os.path.join(ringtail.ROOT, 'proto')}", "-o", program, os.path.join(here, "lib", "arrays.c")],
                   check=True, timeout=PATIENCE_S)
    return program


def check_cxx(case, daemon, socket):
    program = Program(case, build_in_cxx(case), socket, TURNS)
    case.check(program.attached, "one in C++ is attached", program.out)
    stream = case.stream(daemon, "-p", "app:*", "-o", "json")
    case.check_equal(program.go().process.wait().code, 0, "it ends well")
    await_ended(daemon)
    stream.await_all(2 * TURNS)
    check_values(case, stream.interrupt().lines, "C++ has what was passed")


def main(case):
    socket = os.path.join(case.path("run"), "programs.sock")
    daemon = case.daemon(f"--programs={socket}")
    program = Program(case, build(case, "arrays", "arrays"), socket, TURNS)
    case.check(program.attached, "it is attached", program.out)
    done = case.tracectl(daemon, "list", "app:*").out
    case.check('"%u: ports %s deltas %s sizes %s%%", REC->turn, __print_list(port), __print_list(delta), __print_list(size)' in done
               and "REC->turn, __print_list(byte), __print_list(small)" in done, "they are listed by their names", done)
    for text in ("delta == 80", "delta > 1", 'delta == "x"', "arg.delta & 1"):
        done = case.tracectl(daemon, "stream", "-p", "app:sent", "-f", text, "-d", "1ms")
        case.check(done.code == 1 and "`delta` is an array" in done.err, f"{text} is refused", done.err)
    streams = [case.stream(daemon, "-p", "app:*", "-o", output) for output in ("text", "json")]
    record = case.stream(daemon, "-p", "app:*", "-w", case.path("arrays.rt"), command="record")
    case.check_equal(program.go().process.wait().code, 0, "the program ends well")
    await_ended(daemon)
    for stream in (*streams, record):
        stream.await_all(2 * TURNS)
    case.check_balanced(daemon)
    text, json = (stream.interrupt() for stream in streams)
    case.check_stream(text, events=2 * TURNS)
    case.check_stream(json, events=2 * TURNS)
    case.check_stream(record.interrupt(), events=2 * TURNS)
    check_values(case, json.lines, "JSON has what was passed")
    for turn in range(TURNS):
        case.check(f"{turn}: ports {{1,80,65535}} deltas {{-1,{1 << 40}}} sizes {listed(sizes(turn), '...' if turn % 2 else '')}%\n"
                   in text.out, "text has it", text.out)
        case.check(f" {turn:3} {{0,255}} {{-128,127}} {{1,0}} {{}} text\n" in text.out, "and the small ones", text.out)
    check_values(case, case.tracectl(None, "read", case.path("arrays.rt"), "-o", "json").lines, "a recording has it")
    check_cxx(case, daemon, socket)
    check_python(case, daemon, socket)
    case.check_balanced(daemon)


ringtail.run(main)
