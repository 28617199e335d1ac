"""A daemon is killed while a program writes. The program runs on, and a daemon that is started then has its events again:
the program finds it by itself, as its memory is full."""
import os
import subprocess

import ringtail
from lib.process import PATIENCE_S, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))


def build(case):
    program = case.path("traced")
    subprocess.run(["gcc", "-std=gnu11", "-O2", "-pthread", f"-I{HERE}/../../proto", "-o", program,
                    f"{HERE}/lib/traced.c"], check=True, timeout=PATIENCE_S)
    return program


def main(case):
    socket = os.path.join(case.path("run"), "programs.sock")
    first = case.daemon(f"--programs={socket}", "--ring-size=64KiB")
    program = case.start(build(case), "threads", case.path("counts"), stdin=subprocess.PIPE,
                         env=dict(os.environ, RINGTAIL_PROGRAMS=socket))
    wait_until(lambda: program.read("out"), "the program is there")
    stream = case.stream(first, "-p", "app:request_done", "-o", "none")
    program.popen.stdin.write(b"\n")
    program.popen.stdin.flush()
    stream.await_all(1000)
    stream.interrupt()
    enabled = case.start_stream(first, "-p", "app:request_done", "-o", "none").await_subscribed()
    enabled.await_all(1000)
    first.crash()
    case.check(program.running, "the program runs on without its daemon")
    second = case.daemon(f"--programs={socket}", "--ring-size=64KiB")
    wait_until(lambda: second.stat()["counters"]["programs_attached"] == 1, "it has found the other daemon")
    stream = case.stream(second, "-p", "app:request_done", "-f", f"pid == {program.pid}", "-o", "none")
    stream.await_all(1000)
    case.check(stream.interrupt().summary["ledger"] == "balanced", "which has its events")
    case.check_balanced(second)
    program.popen.kill()
    program.wait()


ringtail.run(main)
