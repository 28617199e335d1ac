#!/usr/bin/env python3
"""arm: may an Arm processor show this? Litmus tests of the ring's pairs (docs/ring-abi.md), each with its answer.

	usage: tests/model/arm.py [FILE.litmus...]	default: all of tests/model/arm

A file is a litmus test in the format of herd7, with the words "never:" or "sometimes:" at the start of its
comment: whether some execution may end as `exists` says. Each pair of the ring has a test that says never,
and the same with a barrier, an order or a look taken away, which must say sometimes: so no barrier is idle,
and the model bites.

All executions of a test are made up: what each load reads, in which order the stores to a place come. Those
that the model of the Arm architecture (ARM DDI 0487, B2.3; aarch64.cat of herd7) forbids are left out:

	internal	po-loc | from-reads | coherence | reads-from has no cycle
	atomic		no store of another comes between the load and the store of an atomic
	external	observed-by | local-write- | dependency- | atomic- | barrier-ordered-before has no cycle

The instructions are those that the ring's accesses become: LDR LDAR STR STLR, CAS SWP LDADD STADD with their
suffixes, DMB ISH ISHLD ISHST, MOV ADD EOR CBZ CBNZ. Loops are not: each test is straight but for jumps ahead.
If herd7 is there, it is asked the same, and has to agree.
"""
import glob
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections import namedtuple

HERE = os.path.dirname(os.path.abspath(__file__))
EXECUTIONS_MAX = 2_000_000      # of one test: more is a mistake in it
INIT = -1                       # the thread that has written what is there at the start

Test = namedtuple("Test", "name says threads registers memory condition")
Event = namedtuple("Event", "thread index kind place value acquire release noreturn amo address data control")


class Mistake(Exception):
    """In a litmus test."""


# ---- Reading a test ------------------------------------------------------------------------------

def parse_init(text):
    """{(thread, register): value or place}, {place: value}"""
    registers, memory = {}, {}
    for word in filter(None, (part.strip() for part in text.split(";"))):
        left, right = (side.strip() for side in word.split("="))
        value = int(right) if re.fullmatch(r"-?\d+", right) else right
        if ":" in left:
            thread, register = left.split(":")
            registers[int(thread), register[1:]] = value
            if isinstance(value, str):
                memory.setdefault(value, 0)
        else:
            memory[left] = value
    return registers, memory


def parse_condition(text):
    """[(thread or None, register or place, value)], all of which must hold."""
    terms = []
    for word in text.strip().strip("()").split("/\\"):
        term = re.fullmatch(r"\s*(?:(\d+):[XW](\d+)|\[?(\w+)\]?)\s*=\s*(-?\d+)\s*", word)
        if not term:
            raise Mistake(f"a condition that is not understood: {word}")
        terms.append((int(term[1]) if term[1] else None, term[2] or term[3], int(term[4])))
    return terms


def parse(path):
    with open(path) as file:
        text = file.read()
    form = re.fullmatch(r'AArch64 (\S+)\n"(never|sometimes):[^"]*"\s*\{([^}]*)\}\n(.*;)\s*\nexists\s+(.*)\n', text, re.S)
    if not form:
        raise Mistake(f"{path} is no litmus test that says never or sometimes")
    if form[1] != os.path.basename(path)[:-len(".litmus")]:
        raise Mistake(f"{path} is of a test called {form[1]}")
    rows = [[cell.strip() for cell in row.split("|")] for row in form[4].replace(";", "").splitlines()[1:]]
    threads = [[line for line in column if line] for column in zip(*rows)]
    registers, memory = parse_init(form[3])
    return Test(form[1], form[2], threads, registers, memory, parse_condition(form[5]))


# ---- Running one thread --------------------------------------------------------------------------

class NeedsValue(Exception):
    """Of a load at that place, whose value is not chosen yet."""


class Thread:
    """One thread's events, if its loads read `choices`."""

    def __init__(self, number, lines, registers, choices):
        self.number, self.lines, self.choices = number, lines, list(choices)
        self.value = {register: value for (thread, register), value in registers.items() if thread == number}
        self.origin = {}        # of a register: the loads it depends on
        self.control, self.events, self.reads = frozenset(), [], 0

    def run(self):
        at = 0
        while at < len(self.lines):
            label, _, rest = self.lines[at].rpartition(":")
            words = (rest.strip() or "NOP").split(None, 1)
            at = self.step(words[0], [word.strip() for word in re.split(r",(?![^\[]*\])", words[1])]
                           if len(words) > 1 else [], at)
        return self

    def get(self, operand):
        """Value and origin of a register, or of a number."""
        if operand.startswith("#"):
            return int(operand[1:]), frozenset()
        if operand in ("WZR", "XZR"):
            return 0, frozenset()
        return self.value.get(operand[1:], 0), self.origin.get(operand[1:], frozenset())

    def put(self, register, value, origin):
        if register not in ("WZR", "XZR"):
            self.value[register[1:]], self.origin[register[1:]] = value, frozenset(origin)

    def address(self, operand):
        """[X1], or [X1,W2,SXTW], which depends on W2 as well; it is 0."""
        base, *index = (word.strip() for word in operand.strip("[]").split(","))
        place, origin = self.get(base)
        if index and self.get(index[0])[0]:
            raise Mistake(f"an index that is not 0: {operand}")
        return place, origin | (self.get(index[0])[1] if index else frozenset())

    def event(self, kind, operand=None, value=None, acquire=False, release=False, noreturn=False, amo=None,
              data=frozenset()):
        place, address = self.address(operand) if operand else (None, frozenset())
        index = len(self.events)
        if kind == "R":
            if self.reads == len(self.choices):
                raise NeedsValue(place)
            value = self.choices[self.reads]
            self.reads += 1
        self.events.append(Event(self.number, index, kind, place, value, acquire, release, noreturn, amo,
                                 address, frozenset(data), self.control))
        return value, index

    def step(self, name, operand, at):
        if name == "MOV":
            self.put(operand[0], *self.get(operand[1]))
        elif name in ("ADD", "EOR"):
            (a, of_a), (b, of_b) = self.get(operand[1]), self.get(operand[2])
            self.put(operand[0], a + b if name == "ADD" else a ^ b, of_a | of_b)
        elif name in ("LDR", "LDAR"):
            value, index = self.event("R", operand[1], acquire=name == "LDAR")
            self.put(operand[0], value, {index})
        elif name in ("STR", "STLR"):
            value, origin = self.get(operand[0])
            self.event("W", operand[1], value, release=name == "STLR", data=origin)
        elif name == "DMB":
            self.event("F" + operand[0])
        elif name in ("CBZ", "CBNZ"):
            return self.jump(name, operand, at)
        elif name != "NOP":
            self.atomic(name, operand)
        return at + 1

    def jump(self, name, operand, at):
        value, origin = self.get(operand[0])
        self.control |= origin
        if (value == 0) != (name == "CBZ"):
            return at + 1
        [there] = [i for i, line in enumerate(self.lines) if line.startswith(operand[1] + ":")]
        if there <= at:
            raise Mistake("a jump back")
        return there

    def atomic(self, name, operand):
        form = re.fullmatch(r"(CAS|SWP|LDADD|STADD)(A?)(L?)", name)
        if not form:
            raise Mistake(f"an instruction that is not understood: {name}")
        kind, acquire, release = form[1], bool(form[2]), bool(form[3])
        noreturn = kind == "STADD" or (kind != "CAS" and operand[1] in ("WZR", "XZR"))
        operand = operand[:1] + ["WZR"] + operand[1:] if kind == "STADD" else operand
        amo = len(self.events)
        old, read = self.event("R", operand[2], acquire=acquire and not noreturn, noreturn=noreturn, amo=amo)
        given, of_given = self.get(operand[0])
        if kind == "CAS":
            new, of_new = self.get(operand[1])
            if old == given:
                self.event("W", operand[2], new, release=release, amo=amo, data=of_new)
            self.put(operand[0], old, {read})
            return
        new, data = (given, of_given) if kind == "SWP" else (old + given, of_given | {read})
        self.event("W", operand[2], new, release=release, amo=amo, data=data)
        self.put(operand[1], old, {read})


def traces(test):
    """Of each thread, all that it may do: whatever any store may have left, its loads may read. Of values that
    are added to there is no end; but one comes of as many stores as there are, at most."""
    values = {place: {value} for place, value in test.memory.items()}
    for turn in range(1 + sum(map(len, test.threads))):
        found = [list(runs_of(test, number, values)) for number in range(len(test.threads))]
        grown = {place: set(known) for place, known in values.items()}
        written = 0
        for run in itertools.chain(*found):
            stores = [event for event in run.events if event.kind == "W"]
            written = max(written, len(stores))
            for event in stores:
                grown.setdefault(event.place, set()).add(event.value)
        if grown == values or turn >= written * len(test.threads):
            break
        values = grown
    return found


def runs_of(test, number, values, choices=()):
    try:
        yield Thread(number, test.threads[number], test.registers, choices).run()
    except NeedsValue as place:
        for value in sorted(values[place.args[0]]):
            yield from runs_of(test, number, values, (*choices, value))


# ---- What an execution is ordered by -------------------------------------------------------------

def product(ones, others):
    return {(a, b) for a in ones for b in others}


def follow(first, second):
    """first; second"""
    after = {}
    for a, b in second:
        after.setdefault(a, set()).add(b)
    return {(a, c) for a, b in first for c in after.get(b, ())}


def has_cycle(edges):
    after, color = {}, {}
    for a, b in edges:
        after.setdefault(a, set()).add(b)

    def visit(node):
        color[node] = 1
        for then in after.get(node, ()):
            if color.get(then) == 1 or (then not in color and visit(then)):
                return True
        color[node] = 2
        return False

    return any(node not in color and visit(node) for node in list(after))


class Program:
    """What holds for all executions that have these events: program order, and what hangs on it alone."""

    def __init__(self, events):
        self.events = events
        self.number = {(event.thread, event.index): i for i, event in enumerate(events)}
        every = range(len(events))
        self.reads = {i for i in every if events[i].kind == "R"}
        self.writes = {i for i in every if events[i].kind == "W"}
        self.po = {(i, j) for i in every for j in every if events[i].thread == events[j].thread != INIT
                   and events[i].index < events[j].index}
        self.same_place = {(i, j) for i, j in self.po if events[i].place and events[i].place == events[j].place}
        self.amo = {(i, j) for i, j in self.po if events[i].amo is not None and events[i].amo == events[j].amo}
        rewrites = {(i, j) for i, j in self.same_place if j in self.writes}
        self.local = self.barriers() | self.dependencies() | self.amo | rewrites

    def only(self, what):
        return {i for i, event in enumerate(self.events) if what(event)}

    def edges(self, kind):
        return {(self.number[event.thread, origin], i) for i, event in enumerate(self.events)
                for origin in getattr(event, kind)}

    def barriers(self):
        """Barrier-ordered-before."""
        po, reads, writes = self.po, self.reads, self.writes
        acquire, release = self.only(lambda e: e.acquire), self.only(lambda e: e.release)
        full, loads, stores = (self.only(lambda e, kind=kind: e.kind == kind) for kind in ("FISH", "FISHLD", "FISHST"))
        returning = reads - self.only(lambda e: e.noreturn)
        both = {b for a, b in self.amo if a in acquire and b in release}
        return (between(po, None, full, None) | between(po, returning, loads, None) | between(po, writes, stores, writes) |
                {(a, b) for a, b in po if a in both} |
                {(a, b) for a, b in po if a in acquire or b in release or (a in release and b in acquire)})

    def dependencies(self):
        """Dependency-ordered-before, but for what comes of who reads from whom."""
        address, data, control = (self.edges(kind) for kind in ("address", "data", "control"))
        to_write = {(a, b) for a, b in control | follow(address, self.po) if b in self.writes}
        return address | data | to_write

    def through_reads(self, rfi):
        """What hangs on a store of the same thread that was read."""
        from_here = self.edges("address") | self.edges("data")
        acquire = self.only(lambda e: e.acquire)
        return follow(from_here, rfi) | {(a, c) for a, c in follow(self.amo, rfi) if c in acquire}


def between(po, before, middle, after):
    first = {(a, b) for a, b in po if b in middle and (before is None or a in before)}
    return follow(first, {(a, b) for a, b in po if a in middle and (after is None or b in after)})


def is_allowed(program, rf, co):
    events = program.events
    fr = {(read, later) for write, read in rf for earlier, later in co if earlier == write}
    inner = {(a, b) for a, b in rf | co | fr if events[a].thread == events[b].thread}
    if has_cycle(program.same_place | rf | co | fr):
        return False
    outer = (rf | co | fr) - inner
    overtaken = follow(outer & fr, outer & co)
    if program.amo & overtaken:
        return False
    return not has_cycle(outer | program.local | program.through_reads(inner & rf))


def executions(test, runs):
    """(memory at the end) of each that is allowed."""
    events = [Event(INIT, i, "W", place, value, *[False] * 3, None, *[frozenset()] * 3)
              for i, (place, value) in enumerate(sorted(test.memory.items()))]
    for run in runs:
        events += run.events
    program = Program(events)
    sources = [[(write, read) for write in program.writes if events[write].place == events[read].place and
                events[write].value == events[read].value] for read in sorted(program.reads)]
    orders = []
    for place in sorted(test.memory):
        later = [i for i in program.writes if events[i].place == place and events[i].thread != INIT]
        first = [i for i in program.writes if events[i].place == place and events[i].thread == INIT]
        orders.append([first + list(order) for order in itertools.permutations(later)])
    for order in itertools.product(*orders):
        co = {(a, b) for one in order for a, b in itertools.combinations(one, 2)}
        memory = {place: events[one[-1]].value for place, one in zip(sorted(test.memory), order)}
        for rf in itertools.product(*sources):
            yield is_allowed(program, set(rf), co), memory


def answer(test):
    """never or sometimes, and how many executions were looked at."""
    looked, found = 0, False
    for runs in itertools.product(*traces(test)):
        if not all(runs[thread].value.get(register, 0) == value
                   for thread, register, value in test.condition if thread is not None):
            continue
        for allowed, memory in executions(test, runs):
            looked += 1
            if looked > EXECUTIONS_MAX:
                raise Mistake("too many executions")
            found |= allowed and all(memory[place] == value for thread, place, value in test.condition if thread is None)
    return ("sometimes" if found else "never"), looked


# ---- All of them ---------------------------------------------------------------------------------

def ask_herd(path):
    """What herd7 says; None: it is not there."""
    herd = shutil.which("herd7")
    if not herd:
        return None
    done = subprocess.run([herd, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    said = re.search(r"^Observation \S+ (Never|Sometimes|Always)", done.stdout, re.M)
    if not said:
        raise Mistake(f"herd7 has no answer to {path}: {done.stdout[-300:]}")
    return "never" if said[1] == "Never" else "sometimes"


def check(path):
    test = parse(path)
    said, looked = answer(test)
    herd = ask_herd(path)
    if said != test.says or herd not in (None, said):
        print(f"not ok {test.name}: {said}, and not {test.says}" + (f"; herd7: {herd}" if herd else ""))
        return False
    print(f"ok {test.name}: {said}, of {looked} executions" + (", as herd7" if herd else ""))
    return True


def pairs_are_whole(paths):
    """A pair is a test that says never, and at least one NAME-WITHOUT that says sometimes."""
    names = {os.path.basename(path)[:-len(".litmus")] for path in paths}
    alone = [name for name in names if "-" not in name and
             not any(other.startswith(name + "-") for other in names)]
    orphans = [name for name in names if "-" in name and name.partition("-")[0] not in names]
    for name in sorted(alone + orphans):
        print(f"not ok {name}: it stands alone: nothing shows what its barriers are for")
    return not alone and not orphans


def main():
    paths = sys.argv[1:] or sorted(glob.glob(f"{HERE}/arm/*.litmus"))
    good = [check(path) for path in paths]
    whole = bool(sys.argv[1:]) or pairs_are_whole(paths)
    print(f"{sum(good)} passed, {len(good) - sum(good) + (not whole)} failed")
    sys.exit(0 if good and all(good) and whole else 1)


if __name__ == "__main__":
    main()
