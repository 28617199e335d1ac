"""A daemon is killed while a program writes. The program runs on, and a daemon that is started then has its events again:
the program finds it by itself, as its memory is full. After a stop in order, it finds the next
one by itself, too, and a client that comes back is told of the gap. What an operator enabled is recorded once the program is
there."""
import os
import re

import ringtail
from lib.probing import Traced, build, check_secure
from lib.process import wait_until

FIRST_PAGES_KIB = 4 + 2 * 4 * 3         # the first page, and what late threads may have written into two rings


def resident(program):
    """KiB of each segment that the program has mapped."""
    with open(f"/proc/{program.pid}/smaps") as file:
        return [int(kib) for kib in re.findall(r"^\S+ rw-s .*memfd:.*\n(?:\w+: .*\n)*?Rss: +(\d+) kB", file.read(), re.M)]


def after_a_stop(case, second, program, socket):
    stays = case.stream(second, "-p", "app:sixteenth", "-f", f"pid == {program.pid}", "-o", "json")
    stays.await_all(100)
    case.check_equal(second.stop(), 0, "the second daemon ends well")
    state = case.path("state")
    os.makedirs(state)
    with open(os.path.join(state, "probes"), "w") as file:
        file.write("enable\t1700000000000000000\tuser:root\tapp:*\n")
    third = case.daemon(f"--programs={socket}", "--ring-size=64KiB", f"--state-dir={state}", "--user=root",
                        listen=[second.address])
    case.check("app:*, which user:root enabled, is left out until a program brings it" in third.log,
               "the third one says what it waits for", third.log)
    wait_until(lambda: third.stat()["counters"]["programs_attached"], "the program has found the third daemon")
    stays.daemon = third
    stays.wait_for('(?s)"reason":"other-epoch".*"app:sixteenth:event"', "out")
    case.say("ok: a client that comes back is told that nobody knows how much is missing, and has events again")
    case.check_balanced(third)
    stays.interrupt()
    wait_until(lambda: f"enabled: traced {program.pid}" in case.tracectl(third, "list", "app:request_done").out,
               "what is always on is enabled, whoever asks")
    always = case.stream(third, "-f", f'pid == {program.pid} && function == "request_done"', "-o", "none")
    always.await_all(100)
    case.check_balanced(third)
    always.interrupt()


def main(case):
    socket = os.path.join(case.path("run"), "programs.sock")
    first = case.daemon(f"--programs={socket}", "--ring-size=64KiB")
    binary = build(case, "traced", "traced")
    check_secure(case, binary, socket, "threads", case.path("no-counts"))
    program = Traced(case, binary, socket)
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
    kept = resident(program)
    case.check(len(kept) == 2 and min(kept) <= FIRST_PAGES_KIB < max(kept), "the rings of the first take no memory any more", kept)
    after_a_stop(case, second, program, socket)
    program.process.popen.kill()
    program.process.wait()


ringtail.run(main)
