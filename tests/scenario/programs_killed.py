"""Programs that are killed at any instruction, one after another, leave no ring that sticks, and what each wrote last is
read. One that is stopped amid its events holds up nobody, and goes on. `make torture` kills ten thousand."""
import os
import signal
import struct
import time

import ringtail
from lib.probing import Program, Traced, await_ended, build
from lib.process import wait_until

KILLS = 10_000 if ringtail.LONG else 300
CALLS = 2000
STOPPED_S = 120                 # of the long form


def be_killed(case, daemon, binary, socket):
    witness = case.path("witness")
    program = Program(case, binary, socket, "killed", witness, KILLS, case.seed)
    case.check(program.attached, "the program is attached")
    stream = case.stream(daemon, "-p", "lives:turn", "-o", "none")
    case.check_equal(program.go().process.wait(timeout=600).code, 0, f"{KILLS} processes are killed")
    with open(witness, "rb") as file:
        passed, = struct.unpack("Q", file.read(8))
    await_ended(daemon)
    stream.await_all()
    case.check_balanced(daemon)
    summary = stream.interrupt().summary
    seen = summary["events"] + summary["lost"]
    case.check(summary["ledger"] == "balanced" and passed <= seen <= passed + KILLS,
               "what each wrote before its end is delivered, or told as lost", passed, summary)
    case.figure("processes killed", KILLS, "")
    case.figure("events of them", summary["events"], f"and {summary['lost']} lost")
    counters = daemon.stat()["counters"]
    stuck = counters["programs_corrupt"] + counters["program_records_bad"] + counters["programs_cut"]
    case.figure("rings stuck", stuck, "")
    case.check_equal(stuck, 0, "no ring is stuck, and no record is half", counters)


def be_stopped(case, daemon, binary, socket):
    program = Traced(case, binary, socket)
    stream = case.stream(daemon, "-p", "app:request_done", "-f", f"pid == {program.pid}", "-o", "none")
    program.go()
    wait_until(lambda: program.witness() > 1000, "it writes")
    os.kill(program.pid, signal.SIGSTOP)
    if ringtail.LONG:
        time.sleep(STOPPED_S)
    load = case.load(CALLS, comm=case.own_comm)
    calls = case.stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter, "-o", "none")
    load.run()
    calls.await_all(CALLS)
    case.check_stream(calls.interrupt(), events=CALLS)
    stopped = program.witness()
    os.kill(program.pid, signal.SIGCONT)
    wait_until(lambda: program.witness() > stopped + 1000, "it goes on where it stood")
    os.kill(program.pid, signal.SIGSTOP)
    os.kill(program.pid, signal.SIGKILL)
    program.process.wait()
    passed = program.witness()
    await_ended(daemon)
    stream.await_all()
    case.check_balanced(daemon)
    summary = stream.interrupt().summary
    seen = summary["events"] + summary["lost"]
    case.check(summary["ledger"] == "balanced" and passed <= seen <= passed + 4,
               "nothing of it is missing", passed, summary)


def main(case):
    socket = os.path.join(case.path("run"), "programs.sock")
    daemon = case.daemon(f"--programs={socket}")
    be_killed(case, daemon, build(case, "lives", "lives"), socket)
    be_stopped(case, daemon, build(case, "traced", "traced"), socket)


ringtail.run(main)
