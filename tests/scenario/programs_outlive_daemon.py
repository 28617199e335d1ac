"""A program that starts while the daemon does, which has its socket and does not listen yet, finds it by itself; another
daemon with the same socket, or the same state directory, does not come up. The daemon is killed while a program writes. The program runs on, and a daemon that is started then has its events again:
the program finds it by itself, as its memory is full. After a stop in order, it finds the next
one by itself, too, and a client that comes back is told of the gap. What an operator enabled is recorded once the program is
there."""
import os
import re
import shutil
import socket as sockets

import ringtail
from lib.probing import Traced, build, check_secure
from lib.process import wait_until

FIRST_PAGES_KIB = 4 + 2 * 4 * 3         # the first page, and what late threads may have written into two rings


def resident(program):
    """KiB of each segment that the program has mapped."""
    with open(f"/proc/{program.pid}/smaps") as file:
        return [int(kib) for kib in re.findall(r"^\S+ rw-s .*memfd:.*\n(?:\w+: .*\n)*?Rss: +(\d+) kB", file.read(), re.M)]


def starts_before(case, binary, socket):
    """The socket is bound, and nobody listens: so it is while a daemon starts."""
    os.makedirs(os.path.dirname(socket), exist_ok=True)
    if os.geteuid() == 0:
        shutil.chown(os.path.dirname(socket), ringtail.ENGINE_USER)
    with sockets.socket(sockets.AF_UNIX) as starting:
        starting.bind(socket)
        os.chmod(socket, 0o666)
        program = Traced(case, binary, socket)
    case.check(not program.attached, "the program has started before the daemon listens", program.out)
    return program


def check_alone(case, first, option, code):
    done = case.refused("--source=bpf", option)
    case.check(done.code == 1 and f"[{code}]" in done.err and first.running, f"another daemon with {option} is refused", done.err)


def after_a_stop(case, second, program, socket):
    stays = case.stream(second, "-p", "app:sixteenth", "-f", f"pid == {program.pid}", "-o", "json")
    stays.await_all(100)
    case.check_equal(second.stop(), 0, "the second daemon ends well")
    case.check(not os.path.exists(socket) and not os.path.exists(f"{socket}.lock"), "and leaves no socket and no lock")
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
    binary = build(case, "traced", "traced")
    program = starts_before(case, binary, socket)
    first = case.start_daemon("--source=bpf", f"--programs={socket}", "--ring-size=64KiB", f"--state-dir={case.path('first')}")
    wait_until(lambda: os.path.exists(f"{socket}.lock"), "the first daemon has its socket")
    check_alone(case, first, f"--programs={socket}", "listen-in-use")
    first.await_ready()
    check_alone(case, first, f"--state-dir={case.path('first')}", "state-dir-in-use")
    check_secure(case, binary, socket, "threads", case.path("no-counts"))
    program.go()
    wait_until(lambda: first.stat()["counters"]["programs_attached"], "it has found the first daemon")
    stream = case.stream(first, "-p", "app:request_done", "-o", "none")
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
