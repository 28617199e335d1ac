"""Fifty tracepoints of twenty systems, chosen at random, beside ftrace in the same run: as many, and the same text."""
import collections
import re

import ringtail
from lib.ftrace import UNPAIRED_MAX, Ftrace, unpaired
from lib.many_kinds import run, start

EVENTS, SYSTEMS = 50, 20
BY_FIELDS_MAX = EVENTS // 5      # in whose text is something that only the kernel knows
# tracefs has names in their formats where other formats have numbers; these are always among the fifty.
NAMED = ["timer:hrtimer_start", "writeback:writeback_mark_inode_dirty", "writeback:writeback_dirty_inode"]
# So is what a thread and interrupts on it do at once, thousands of times.
FREQUENT = ["kmem:kmem_cache_free"]
# So are those that are recorded of what the kernel passes to them.
with open("daemon/source/tracepoint_args.def") as rows:
    BY_ARGS = [":".join(row) for row in re.findall(r'^TRACEPOINT_ARGS\("(\w+)", "(\w+)"', rows.read(), re.M)]
# Of our own programs, and of what ringtail and ftrace do themselves; those that have an own text here.
NOT_CHOSEN = re.compile(r"bpf_trace|bpf_test_run|ftrace|sched:sched_(switch|wakeup|process_(fork|exec|exit))$|"
                        r"^(ftrace|initcall|preemptirq|syscalls|raw_syscalls)|"
                        # The kernel leaves parts of their records as they were.
                        r"fib:fib_table_lookup|"
                        # Of our own bell, in the middle of a program: docs/coverage.md says which nobody counts.
                        r"ipi:ipi_send_cpu|msr:write_msr")


def names_of(path):
    return [f"{event.parent.name}:{event.name}" for event in path.glob("events/*/*") if event.is_dir()]


def fired(case):
    """What this load fires at all, by system."""
    load, systems = start(), collections.defaultdict(list)
    ftrace = Ftrace([], kilobytes=16384)
    try:
        ftrace.events = [name for name in names_of(ftrace.path) if not NOT_CHOSEN.search(name)]
        ftrace.begin(load.pid)
        run(case, load)
        for name in set(re.findall(rf"-{load.pid}\s+\[\d+\].*?[\d.]+: (\w+): ",
                                   (ftrace.path / "trace").read_text(errors="replace"))):
            for event in ftrace.events:
                if event.endswith(f":{name}"):
                    systems[event.split(":")[0]].append(event)
    finally:
        ftrace.close()
    return systems


def choose(case, systems):
    systems = {system: set(events) for system, events in systems.items()}
    all_of_them = {event for events in systems.values() for event in events}
    chosen = [event for event in dict.fromkeys(NAMED + FREQUENT + BY_ARGS) if event in all_of_them]
    chosen += [case.random.choice(sorted(events)) for system, events in sorted(systems.items())
               if system not in {event.split(":")[0] for event in chosen}]
    left = sorted(all_of_them - set(chosen))
    case.random.shuffle(left)
    return (chosen + left)[:EVENTS]


def pattern_of(ours):
    """Names of functions, and addresses that the kernel hashes, are known to the kernel only. Names of other programs, which
    this one wakes, may hold anything: we show what is no text as `?`, and the kernel lets it end the line."""
    plain, other, _ = ours.partition("?")
    return re.sub(r"0x[0-9a-f]{16}", r"\\S+( \\[\\w+\\])?", re.escape(plain)) + (".*" if other else "")


class Comparison:
    """Our lines beside the kernel's."""

    def __init__(self, case):
        self.case, self.same, self.named = case, 0, 0
        self.missing = 0            # those that ftrace has and we have not
        self.by_fields = []         # events that do not read as the kernel prints them, and say so
        self.unlike = []            # those that read otherwise

    def texts_of(self, event, ours):
        """Those in the kernel's words. What we know of a device beside its number is ours."""
        name = event.split(":")[1]
        texts = [re.sub(r" \[\w*dev=[^]]+\]$", "", line.split(f" {name}: ", 1)[1])
                 for line in ours if f" {name}: " in line]
        if len(texts) < len(ours):
            odd = next(line for line in ours if f" {name}: " not in line)
            self.case.say(f"{event}: {len(ours) - len(texts)} of {len(ours)} by their fields: {odd[60:160]}")
            self.by_fields.append(event)
        return texts

    def add(self, event, ours, theirs):
        # ftrace leaves out what fires inside its own work; we do not.
        self.missing += max(0, len(theirs) - len(ours))
        texts, allowed = self.texts_of(event, ours), 0
        if len(ours) != len(theirs):
            # A line that one of both has alone meets no like: those of the first lines are to be the fewer.
            texts = texts[:2 * UNPAIRED_MAX - 1]
            allowed = max(2, len(texts) // 2)
        odd = unpaired(texts, [text for _, text in theirs],
                       lambda one, other: re.fullmatch(pattern_of(one.rstrip()), other.rstrip()))
        same = min(len(texts), len(theirs)) - len(odd)
        if len(ours) != len(theirs):
            self.case.say(f"{event}: we have {len(ours)}, ftrace has {len(theirs)}; of {len(texts)}, {same} are alike")
        if len(odd) > allowed:
            self.case.say(f"{event} does not read as the kernel prints it, {len(odd)} of {len(texts)}: {odd[0]}")
            self.unlike.append(event)
        self.same += same
        self.named += same if event in NAMED else 0


def main(case):
    systems = fired(case)
    events = choose(case, systems)
    chosen = {event.split(":")[0] for event in events}
    case.say(f"{len(events)} events of {len(chosen)} systems: {' '.join(events)}")
    load = start()
    ftrace = Ftrace(events, kilobytes=16384)
    (ftrace.path / "options/hash-ptr").write_text("0")
    daemon = case.daemon("--ring-size=16MiB", "--trace-self")
    words = [word for event in events for word in ("-p", f"tracepoint:{event}")]
    stream = case.stream(daemon, *words, "-f", f"tid == {load.pid}", "-o", "text")
    try:
        ftrace.begin(load.pid)
        run(case, load)
        case.await_rings_empty(daemon)
        stream.await_all()
        done = stream.interrupt()
        stat = daemon.stat()
        refused = sum(one["count"] for ring in stat["ring"] for one in ring["lost"])
        lines = collections.defaultdict(list)
        for line in done.out.splitlines():
            found = re.match(r"\S+ \[\d+\] .{17}\S+\s+(\w+)[:(]", line)
            lines[found[1] if found else ""].append(line)
        both = Comparison(case)
        for event in ftrace.events:
            both.add(event, lines[event.split(":")[1]], ftrace.lines(event, load.pid))
    finally:
        ftrace.close()
    case.say(f"{both.same} lines are the same, {both.missing} are missing, {refused} were refused")
    case.check(len(events) >= min(EVENTS, sum(map(len, systems.values()))) and
               len(chosen) >= min(SYSTEMS, len(systems)), "there are as many as can be")
    case.check_equal(both.unlike, [], "all read as the kernel prints them")
    case.check(len(both.by_fields) <= BY_FIELDS_MAX, "few have to be printed by their fields", both.by_fields)
    case.check(both.same > 100, "many read the same", both.same)
    case.check(both.named > 0, "also those with names that have no number in their format", both.named)
    case.check(both.missing <= refused, "none is missing but those", both.missing, refused)
    case.check_balanced(daemon)


ringtail.run(main)
