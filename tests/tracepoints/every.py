#!/usr/bin/env python3
"""every: all tracepoints of the running kernel, each enabled, and counted beside ftrace where a load fires it.

	usage: RINGTAIL_BUILD=build tests/tracepoints/every.py [--systems GLOB] [--alone]

In turns of at most TURN events: one client asks for them, an ftrace instance records the same, and a process makes
a load of many kinds. Of each event we have as many as ftrace, but for those that the ledger says were lost. What cannot be
attached is named with the daemon's reason. Then the same under overload: small rings, every process, an
engine that is stopped meanwhile. Every ledger closes, and the kernel's log stays clean. --alone: turns of one event.
"""
import argparse
import collections
import fnmatch
import json
import os
import pathlib
import re
import signal
import sys

sys.dont_write_bytecode = True
os.environ.setdefault("RINGTAIL_LONG", "1")
sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scenario"))

import ringtail  # noqa: E402
from lib.ftrace import Ftrace  # noqa: E402
from lib.many_kinds import run, start  # noqa: E402

TURN = 64               # events at once
OVERLOADED = 48         # of those that fired most, at once
# What a program of ours does itself when it wakes the daemon, on the thread that it traces: its own guard keeps us
# from seeing that, and ftrace sees it.
OUR_OWN = {"ipi_send_cpu", "write_msr"}
# The kernel's words for what a tracer must not do to it, in its letters: a file system's own "warning" is no such.
CROSS = re.compile(r"\b(WARNING:|BUG:|(?i:Oops|Call Trace|general protection|stalls?|soft lockup|hung task|recursion|"
                   r"blocked for more|BPF.*(error|fail)|possible (recursive|circular))\b)")
LINE = re.compile(r"\[\d+\] \S+ +[\d.]+: (\w+)(: |\(| -> )", re.M)


class KernelLog:
    """What the kernel writes from now on."""

    def __init__(self):
        self.file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.file, 0, os.SEEK_END)

    def cross(self):
        """Lines that say that something is wrong."""
        lines = []
        while True:
            try:
                record = os.read(self.file, 8192).decode(errors="replace")
            except BlockingIOError:
                return [line for line in lines if CROSS.search(line)]
            except BrokenPipeError:     # it was overwritten before we read it
                lines.append("WARNING: the kernel wrote more than its log holds")
                continue
            lines.append(record.split(";", 1)[-1].splitlines()[0])


def name_of(word, mark):
    """ftrace prints a call's entry as `sys_read(fd: 3)`, its end as `sys_read -> 0x0`, others by their names."""
    if mark == ": ":
        return word
    return re.sub("^sys_", "sys_enter_" if mark == "(" else "sys_exit_", word)


def theirs_of(ftrace):
    counts = collections.Counter()
    for path in sorted(ftrace.path.glob("per_cpu/cpu*/trace")):
        with path.open(errors="replace") as file:
            for line in file:
                found = LINE.search(line)
                if found:
                    counts[name_of(found[1], found[2])] += 1
    return counts


class Turns:
    def __init__(self, case, daemon):
        self.case, self.daemon = case, daemon
        self.counts = collections.Counter()     # ours, by event
        self.not_attached = {}
        self.more, self.less, self.theirs = [], [], 0

    def ask(self, events, *words):
        """A client that counts them; those that cannot be had are left out. (client or None, events)"""
        probes = [word for event in events for word in ("-p", f"tracepoint:{event}")]
        stream = self.case.start_stream(self.daemon, *probes, *words, "-o", "json", command="count")
        try:
            return stream.await_subscribed(), events
        except ringtail.Failure:
            reason = stream.read("err").strip()
        if len(events) == 1:
            self.not_attached[events[0]] = reason
            return None, []
        kept = []
        for event in events:
            alone, _ = self.ask([event], *words)
            if alone:
                alone.interrupt()
                kept.append(event)
        return self.ask(kept, *words) if kept else (None, [])

    def ours_of(self, stream):
        """By event; and how many are lost, by the client's ledger."""
        counts = collections.Counter()
        done = stream.interrupt()
        for line in done.lines:
            if "key" in line:
                counts[line["key"]["probe"].split(":", 1)[1]] += line["count"]
        return counts, json.loads(done.err.splitlines()[-1])["lost"]

    def turn(self, events):
        load = start()
        stream, events = self.ask(events, "-f", f"tid == {load.pid}")
        if not stream:
            load.kill()
            load.wait()
            return
        ftrace = Ftrace(events, kilobytes=8192)
        try:
            ftrace.begin(load.pid)
            run(self.case, load)
            for event in ftrace.events:
                (ftrace.directory(event) / "enable").write_text("0")
            self.case.await_rings_empty(self.daemon)
            ours, lost = self.ours_of(stream)
            theirs = theirs_of(ftrace)
            self.compare(events, ours, theirs, lost, ftrace.overrun())
        finally:
            ftrace.close()

    def compare(self, events, ours, theirs, lost, overrun):
        mine = collections.Counter()
        for event, count in ours.items():
            mine[event.split(":")[1]] += count
        missing = {name: count - mine[name] for name, count in theirs.items()
                   if count > mine[name] and name not in OUR_OWN}
        # ftrace leaves out what fires inside its own work, and what its own ring has no room for; we do not.
        extra = {name: count - theirs[name] for name, count in mine.items() if count > theirs[name]}
        self.counts.update(ours)
        self.theirs += sum(theirs.values())
        self.case.say(f"{events[0]} to {events[-1]}: {sum(mine.values())} of {len(mine)} events, ftrace has "
                      f"{sum(theirs.values())}, {lost} lost")
        if sum(missing.values()) > lost:
            self.less.append((missing, lost))
        if sum(extra.values()) > 50 + sum(mine.values()) // 20 + overrun:
            self.more.append(extra)


def in_turns(events, most):
    """Of one system if there are enough: names are of one event then."""
    systems = collections.defaultdict(list)
    for event in events:
        systems[event.split(":")[0]].append(event)
    turn, names = [], set()
    for system in sorted(systems):
        for event in sorted(systems[system]):
            name = event.split(":")[1]
            if len(turn) == most or name in names:
                yield turn
                turn, names = [], set()
            turn.append(event)
            names.add(name)
    if turn:
        yield turn


def listed(case, daemon, glob):
    done = case.tracectl(daemon, "list", "tracepoint:*", "-o", "json")
    names = [json.loads(line)["probe"].split(":", 1)[1] for line in done.out.splitlines()]
    return [name for name in names if fnmatch.fnmatch(name.split(":")[0], glob)]


def overload(case, events):
    """Small rings, all processes, and an engine that does not read for a while."""
    daemon = case.daemon("--ring-size=64KiB", "--trace-self")
    turns = Turns(case, daemon)
    stream, events = turns.ask(events)
    load = start()
    daemon.signal(signal.SIGSTOP)
    run(case, load)
    daemon.signal(signal.SIGCONT)
    case.await_rings_empty(daemon)
    ours, lost = turns.ours_of(stream)
    case.say(f"overload: {sum(ours.values())} events of {len(events)} tracepoints, {lost} lost")
    case.check(sum(ours.values()) > 0 and lost > 0, "the rings were full, and the client was told")
    case.check_balanced(daemon)


def main(case):
    log = KernelLog()
    daemon = case.daemon("--ring-size=16MiB", "--trace-self")
    turns = Turns(case, daemon)
    events = listed(case, daemon, OPTIONS.systems)
    for turn in in_turns(events, 1 if OPTIONS.alone else TURN):
        turns.turn(turn)
    case.check_balanced(daemon)
    for event, reason in turns.not_attached.items():
        case.say(f"cannot be attached: {event}: {reason}")
    fired = [event for event, _ in turns.counts.most_common()]
    case.say(f"{len(events)} tracepoints, {len(turns.not_attached)} cannot be attached, {len(fired)} fired: "
             f"{sum(turns.counts.values())} events, ftrace has {turns.theirs}")
    case.check(len(events) > 0, "there are tracepoints", len(events))
    case.check_equal(turns.less, [], "none is missing but those that the ledger has as lost, or the kernel's own count")
    case.check_equal(turns.more, [], "and none is there that ftrace has not, but for its own work")
    case.check(len(turns.not_attached) <= len(events) // 100, "all but a few can be attached")
    case.check(daemon.stop() == 0, "the daemon ends")
    if fired:
        overload(case, fired[:OVERLOADED])
    case.check_equal(log.cross(), [], "the kernel's log is clean")


PARSER = argparse.ArgumentParser()
PARSER.add_argument("--systems", default="*")
PARSER.add_argument("--alone", action="store_true")
OPTIONS = PARSER.parse_args()
sys.argv[1:] = []
if not pathlib.Path("/dev/kmsg").exists():
    sys.exit("no /dev/kmsg")
ringtail.run(main)
