"""A daemon is killed while a program writes. The program runs on, and a daemon that is started then has its events again:
the program finds it by itself, as its memory is full."""
import os

import ringtail
from lib.probing import Traced, build
from lib.process import wait_until


def main(case):
    socket = os.path.join(case.path("run"), "programs.sock")
    first = case.daemon(f"--programs={socket}", "--ring-size=64KiB")
    program = Traced(case, build(case, "traced", "traced"), socket)
    stream = case.stream(first, "-p", "app:request_done", "-o", "none")
    program.go()
    stream.await_all(1000)
    stream.interrupt()
    enabled = case.start_stream(first, "-p", "app:request_done", "-o", "none").await_subscribed()
    enabled.await_all(1000)
    first.crash()
    case.check(program.process.running, "the program runs on without its daemon")
    second = case.daemon(f"--programs={socket}", "--ring-size=64KiB")
    wait_until(lambda: second.stat()["counters"]["programs_attached"], "it has found the other daemon")
    stream = case.stream(second, "-p", "app:request_done", "-f", f"pid == {program.pid}", "-o", "none")
    stream.await_all(1000)
    case.check(stream.interrupt().summary["ledger"] == "balanced", "which has its events")
    case.check_balanced(second)
    program.process.popen.kill()
    program.process.wait()


ringtail.run(main)
