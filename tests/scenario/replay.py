"""A recording replayed, at its own pace or fast, gives the same events, also where the engine is held up before it
reads them; damaged, it is refused."""
import os
import signal
import time

import ringtail
from lib.held import Held

CALLS = 8000
PAUSE_S = 1.0
HELD_S = 0.5        # far longer than it takes to play the file fast


def record(case):
    """A load, a pause and another load; and what a stream shows of it."""
    daemon = case.daemon("--ring-size=16MiB")
    file = case.path("trace.rt")
    loads = [case.load(CALLS // 2, 2) for _ in range(2)]
    words = ["-p", "syscall:getppid:*", "-p", "syscall:exit_group:call", "-f",
             f"pid in ({', '.join(str(pid) for load in loads for pid in load.pids)})"]
    stream = case.stream(daemon, "-w", file, *words, command="record")
    loads[0].run()
    time.sleep(PAUSE_S)
    loads[1].run()
    stream.await_all(3 * CALLS + 4)
    case.check_balanced(daemon)
    done = stream.interrupt()
    case.check_stream(done, events=3 * CALLS + 4)
    case.check_equal(daemon.stop(), 0, "a recording is made")
    return file, case.tracectl(None, "read", file, "-o", "json").lines


def plain(events):
    """What a replay keeps of events: all but the ring's numbers and the time of day."""
    return [{name: value for name, value in event.items() if name not in ("seq", "wall", "time")}
            for event in events]


def shifts(replayed, recorded):
    """By how much each event's time was moved: by as much, or more where the player was held up."""
    return [after["time"] - before["time"] for after, before in zip(replayed, recorded)]


def replay(case, file, pace):
    """What a client shows of a replay that waits for it: the subscription comes first."""
    daemon = case.daemon(f"--replay-pace={pace}", source=f"replay:{file}")
    began = time.monotonic()
    stream = case.start_stream(daemon, "-p", "*:*:*", "-o", "json")
    done = stream.wait()
    seconds = time.monotonic() - began
    case.check_balanced(daemon)
    return done, seconds


def held_up(case, file):
    """What a client shows whose engine learns late that the loader has what it asked for."""
    daemon = case.daemon("--replay-pace=fast", source=f"replay:{file}")
    os.kill(daemon.loader, signal.SIGSTOP)
    try:
        stream = case.start_stream(daemon, "-p", "*:*:*", "-o", "json")
        ringtail.wait_until(lambda: daemon.stat()["counters"]["configures"], "the loader is asked")
        held = Held(daemon.pid)         # the thread that makes the subscription; those that drain go on
    finally:
        os.kill(daemon.loader, signal.SIGCONT)
    ringtail.wait_until(lambda: "ringtail-replay" in ringtail.threads(daemon.loader).values(), "the player is there")
    time.sleep(HELD_S)
    held.let_go()
    done = stream.wait()
    case.check_balanced(daemon)
    return done


def main(case):
    file, events = record(case)
    for pace in ("fast", "recorded"):
        done, seconds = replay(case, file, pace)
        case.check_stream(done, events=len(events))
        same = plain(done.lines)
        case.check(same == plain(events), f"replayed {pace}: the same {len(events)} events",
                   next(((a, b) for a, b in zip(same, plain(events)) if a != b), None))
        moved = shifts(done.lines, events)
        case.check(moved == sorted(moved),
                   "their times are those of the recording, moved on; held up "
                   f"{(moved[-1] - moved[0]) / 1e6:.1f} ms")
        if pace == "recorded":
            case.check(seconds >= PAUSE_S, f"at its own pace: it takes {seconds:.1f} s")
        else:
            case.say(f"it takes {seconds:.1f} s")
    done = held_up(case, file)
    case.check_stream(done, events=len(events))
    case.check(plain(done.lines) == plain(events), "nothing plays before the engine reads it")

    with open(file, "rb") as recorded:
        good = recorded.read()
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 0x10
    for text, data in (("damaged", bytes(flipped)), ("cut", good[:-7]),
                       ("foreign", b"text\n" * 100),
                       ("empty", b"")):
        bad = case.write("bad.rt", data)
        done = case.refused(f"--source=replay:{bad}")
        case.check(done.code == 1 and "bad.rt" in done.err and "error: [recording" in done.err,
                   f"a {text} one is refused: {done.err.splitlines()[0][:120]}", done.code,
                   done.err)
    done = case.refused(f"--source=replay:{case.path('none')}")
    case.check(done.code == 1 and "No such file" in done.err, "and one that is not there", done.err)


ringtail.run(main)
