"""binding: what every language's example (client/go, client/rust) has to be: listed, recorded event by event, and
killed at any moment with nothing left that sticks."""
import os
import random
import signal
import socket as sockets
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scenario"))

import ringtail  # noqa: E402
from lib.probing import Program, await_ended, check_secure  # noqa: E402
from lib.process import wait_until  # noqa: E402

ROOT = ringtail.ROOT
WORKERS = 4
TURNS = 2000
KILLS = 20


def expected(worker, turn):
    return {"worker": worker, "turn": turn, "below_zero": -turn, "last": int(turn == TURNS - 1), "at": hex(turn << 12),
            "text": f"text of turn {turn}", "cpu": None}


def check_values(case, events):
    """Each worker's in their order; the CPU is any."""
    turns = [0] * WORKERS
    for event in events:
        args = {**event["args"], "cpu": None}
        worker = args["worker"]
        if args != expected(worker, turns[worker]):
            case.check(False, "an event has the values that the program passed", event, expected(worker, turns[worker]))
        turns[worker] += 1
    case.check_equal(turns, [TURNS] * WORKERS, "each event is right")


def be_recorded(case, daemon, binary, socket, provider):
    program = Program(case, binary, socket, TURNS)
    case.check(program.attached, "the program is attached", program.process.read("err"))
    listed = case.tracectl(daemon, "list", f"{provider}:*").out
    case.check(f"{provider}:turn_done:event(worker, turn, below_zero, last, at, text, cpu) at " in listed and
               f"{provider}:never:event(turn, cpu)" in listed, "its probes are listed", listed)
    stream = case.stream(daemon, "-p", f"{provider}:turn_done", "-o", "json")
    arrays = case.stream(daemon, "-p", f"{provider}:marked", "-o", "json")
    case.check_equal(program.go().process.wait().code, 0, "it ends well")
    case.say(f"figure: {program.out.splitlines()[-1]}, in {provider}")
    await_ended(daemon)
    stream.await_all(WORKERS * TURNS)
    arrays.await_all(WORKERS)
    case.check_balanced(daemon)
    marked = sorted((event["args"]["marks"], event["args"]["sizes"]) for event in arrays.interrupt().lines)
    case.check_equal(marked, [([worker, -1], list(range(32))) for worker in range(WORKERS)],
                     "arrays are what was passed, as far as there is room")
    done = stream.interrupt()
    case.check_stream(done, events=WORKERS * TURNS)
    case.check_equal({event["pid"] for event in done.lines}, {program.pid}, "they are the program's")
    check_values(case, done.lines)


def be_killed(case, daemon, binary, socket, provider):
    chance = random.Random(case.seed)
    stream = case.stream(daemon, "-p", f"{provider}:*", "-o", "none")
    for _ in range(KILLS):
        before = daemon.client(stream.pid)["delivered"]
        program = Program(case, binary, socket, -1).go()
        least = before + chance.randrange(1, 2000)
        wait_until(lambda least=least: daemon.client(stream.pid)["delivered"] >= least, "its events come")
        os.kill(program.pid, signal.SIGKILL)
        program.process.wait()
    await_ended(daemon)
    stream.await_all()
    case.check_balanced(daemon)
    case.check_equal(stream.interrupt().summary["ledger"], "balanced", f"{KILLS} programs were killed amid events")
    counters = daemon.stat()["counters"]
    stuck = {name: counters[name] for name in ("programs_corrupt", "program_records_bad", "programs_cut")}
    case.check_equal(set(stuck.values()), {0}, "no ring is stuck, and no record is half", stuck)


def be_kept_waiting(case, binary):
    """By a daemon that is stopped: nobody accepts, and those who may wait are there already."""
    path = case.path("full.sock")
    with sockets.socket(sockets.AF_UNIX) as listener, sockets.socket(sockets.AF_UNIX) as waits:
        listener.bind(path)
        listener.listen(0)
        waits.connect(path)
        program = Program(case, binary, path, 10)
        case.check(not program.attached and program.go().process.wait().code == 0, "a daemon that is stopped keeps nobody")


def check(case, binary, provider):
    socket = os.path.join(case.path("run"), "programs.sock")
    alone = Program(case, binary, socket, 10)
    case.check(not alone.attached and alone.go().process.wait().code == 0, "without a daemon it runs as ever")
    be_kept_waiting(case, binary)
    daemon = case.daemon(f"--programs={socket}", "--queue-size=64MiB")
    check_secure(case, binary, socket, 10)
    be_recorded(case, daemon, binary, socket, provider)
    be_killed(case, daemon, binary, socket, provider)
    be_recorded(case, daemon, binary, socket, provider)
