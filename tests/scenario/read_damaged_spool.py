"""A segment of a spool is damaged: `tracectl read DIR` says where, names what is missing, and reads the
rest; the next daemon sets it aside, and a durable consumer is told the same."""
import glob
import json
import os
import re

import ringtail

CALLS = 20_000                  # of each load, of which there are
LOADS_MAX = 30                  # until there are so many
SEGMENTS = 3                    # however well they can be compressed
EVENT = re.compile(r'"cpu":(\d+).*?"seq":(\d+)')


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x40]))


def look(done):
    """Its events, by what they are known by, and its gaps."""
    lines = done.out.splitlines()
    found = [EVENT.search(line) for line in lines if '"lost"' not in line]
    return ({(int(event[1]), int(event[2])) for event in found},
            [json.loads(line) for line in lines if '"lost"' in line])


def main(case):
    state = case.path("state")
    options = ("--ring-size=64MiB", "--durability=written", f"--state-dir={state}", "--user=root",
               "--spool-segment-size=64KiB", "--history-size=64KiB", "--queue-size=64KiB")
    words = ["-p", "syscall:getppid:call", "-f", f"comm == \"{case.own_comm}\"", "-o", "json",
             "--consumer", "keeper"]
    daemon = case.daemon(*options)
    case.check_stream(case.stream(daemon, *words).interrupt(), events=0)
    calls = 0

    def segments():
        return sorted(glob.glob(f"{state}/spool/*/*.seg"))
    while len(segments()) < SEGMENTS and calls < LOADS_MAX * CALLS:
        case.load(CALLS, 2, comm=case.own_comm).run()
        calls += CALLS
        ringtail.wait_until(lambda: not daemon.stat()["spool"][0]["in_flight"], "all is stored")
    ringtail.wait_until(lambda: daemon.recorded() == calls, "all are recorded")
    case.check_balanced(daemon)
    daemon.stop()

    directory, = glob.glob(f"{state}/spool/*")
    case.check(len(segments()) >= SEGMENTS, "one lies between others", segments())
    damaged = segments()[SEGMENTS // 2]
    whole = case.tracectl(None, "--summary", "json", "read", directory, "-o", "json")
    case.check_stream(whole, events=calls)
    all_events, _ = look(whole)
    flip(damaged, os.path.getsize(damaged) // 2)

    read = case.tracectl(None, "--summary", "json", "read", directory, "-o", "json")
    case.check_equal(read.code, 3, "a damaged directory is no clean read")
    case.check(f"{damaged} is damaged at byte" in read.err, "it says which, and where", read.err)
    events, gaps = look(read)
    case.check(events < all_events, f"{len(all_events - events)} events are missing")
    named = {(gap["cpu"], seq) for gap in gaps
             for seq in range(gap["first_seq"], gap["first_seq"] + gap["attempts"])}
    case.check(all_events - events <= named and not named & events,
               "the gaps name all that is missing, and no event that came", gaps)
    case.check_equal({(gap["stage"], gap["reason"]) for gap in gaps}, {("spool", "corrupt")},
                     "and why")
    case.check_equal(read.summary["ledger"], "balanced", "the ledger is balanced")

    daemon = case.daemon(*options)
    stream = case.stream(daemon, *words)
    stream.await_all(len(events))
    case.check_balanced(daemon)
    done = stream.interrupt()
    case.check_equal((done.code, done.summary["ledger"]), (3, "balanced"), "it is told of the loss")
    came, gaps = look(done)
    case.check(came < all_events and len(came) > len(all_events) // 2,
               f"{len(came)} events come, none twice")
    named = {(gap["cpu"], seq) for gap in gaps
             for seq in range(gap["first_seq"], gap["first_seq"] + gap["attempts"])}
    case.check(all_events - came <= named and not named & came, "the gaps name the others", gaps)
    case.check_equal(came, events, "the same as what could be read")
    case.check("[spool-damaged]" in daemon.log, "the segment is set aside", daemon.log)


ringtail.run(main)
