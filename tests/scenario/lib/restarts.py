"""restarts: the daemon ends in every way there is and is started again, with and without a service
manager that keeps its rings. Each kind of client has every event once, or a gap that stands between the
two runs and gives the true reason.

    before ──► during ──► the end │ between │ the next run ──► after

Four loads, told apart by their pids: one that clients have before the end, one in the middle of which the
end comes, one while no daemon runs, one in the next run. Every kind of client asks for all four. told()
is the table of docs/reliability.md; every cell is checked and printed.
"""
import os
import signal
import time

from .process import wait_until
from .service_manager import ServiceManager

CALLS = 300
DURING, RATE = 2000, 20_000
PHASES = {"before": (CALLS, 0), "during": (DURING, RATE), "between": (CALLS, 0), "after": (CALLS, 0)}
PROBE = "syscall:getppid:call"


# ---- Ends

def end_orderly(daemon):
    daemon.signal(signal.SIGTERM)


def kill_engine(daemon):
    daemon.signal(signal.SIGKILL)


def kill_loader(daemon):
    os.kill(daemon.loader, signal.SIGKILL)


def kill_both(daemon):
    daemon.signal(signal.SIGSTOP)       # it must not see that its loader has ended
    kill_loader(daemon)
    daemon.signal(signal.SIGKILL)


ENDS = {"SIGTERM": end_orderly, "SIGKILL of the engine": kill_engine,
        "SIGKILL of the loader": kill_loader, "SIGKILL of both": kill_both}
ORDERLY = {"SIGTERM", "SIGKILL of the loader"}      # the engine drains the rings and seals its spool


# ---- The table

class Told:
    """What a client is told: nothing, a gap of a known size, or a gap of no known size."""

    def __init__(self, reason=None, sized=False, sure=True, before=True):
        self.reason, self.sized, self.sure = reason, sized, sure    # not sure: or nothing was lost
        self.before = before            # it has what came first, too

    def __str__(self):
        if not self.reason:
            return "exact"
        size = "known size" if self.sized else "no known size"
        return f"{'' if self.sure else 'exact, or '}gap: {self.reason}, {size}"


def told(durability, store, end, kind):
    if durability == "memory":
        # Whoever comes later asks for what was in the memory of the run before.
        if kind == "since":
            return Told("restart" if store else "not-recorded", before=False)
        if not store:
            return Told("other-epoch")
        # What the run before had read is gone with its memory, for a client that was away.
        if end in ORDERLY and kind == "plain":
            return Told()
        return Told("restart", sized=True, sure=False)
    if not store:
        return Told("not-recorded" if end in ORDERLY else "restart")
    return Told() if end in ORDERLY else Told("restart", sized=True, sure=False)


# ---- The daemon

class Runs:
    """One run of the daemon after the other, with the same state and address."""

    def __init__(self, case, durability, store):
        self.case, self.durability, self.store = case, durability, store
        self.manager = ServiceManager(case) if store else None
        self.name = f"{durability}, {'store' if store else 'no store'}"
        place = f"{durability}-{'store' if store else 'alone'}"
        self.comm = f"{case.own_comm}-{'s' if store else 'a'}"
        self.address = f"unix:{case.path('run')}/{place}.sock"
        self.options = ["--ring-size=4MiB", f"--durability={durability}", "--user=root",
                        "--spool-sync-interval=20ms", f"--state-dir={case.path(place)}.state",
                        f"--probe={PROBE}", f"--filter=comm == \"{self.comm}\""]
        self.words = ["-p", PROBE, "-f", f'comm == "{self.comm}"', "-o", "json"]
        self.start()

    def start(self):
        self.daemon = (self.manager or self.case).daemon(*self.options, listen=[self.address])
        self.daemon.address = self.address

    def end(self, how):
        """Ends it, and waits until both of its processes are gone."""
        self.daemon.ended = True
        ENDS[how](self.daemon)
        self.daemon.wait()
        wait_until(lambda: not os.path.exists(f"/proc/{self.daemon.loader}"), "the loader is gone")

    def stream(self, *words):
        return self.case.stream(self.daemon, *self.words, *words)


# ---- Clients

def is_gap(line):
    return "lost" in line


class Client:
    """One of a kind, which asks for everything from `before` on. It may come twice, with words for each."""

    def __init__(self, turn, kind, first, again):
        self.turn, self.kind, self.again, self.done = turn, kind, again, []
        self.stream = None if first is None else turn.runs.stream(*first)

    def has(self, phase):
        """Whether all of that load is on its output."""
        return self.stream.read("out").count(f'"pid":{self.turn.pid(phase)},') >= CALLS

    def leave(self):
        self.done.append(self.stream.interrupt() if self.stream.running else self.stream.wait())
        self.stream = None

    def come(self):
        if self.stream:
            self.stream.daemon = self.turn.runs.daemon
            self.stream.await_subscribed()
        else:
            self.stream = self.turn.runs.stream(*self.again)

    @property
    def lines(self):
        return [line for done in self.done for line in done.lines]

    def came(self, phase):
        """How many of that load; an acknowledgement that a kill has overtaken lets some come again."""
        pid = self.turn.pid(phase)
        return len({(line["cpu"], line["seq"]) for line in self.lines if line.get("pid") == pid})


class Turn:
    """One end of the daemon, and the next run: what each kind of client gets."""

    def __init__(self, runs, end):
        self.runs, self.case, self.end = runs, runs.case, end
        self.loads = {phase: self.case.load(calls, rate=rate, comm=runs.comm)
                      for phase, (calls, rate) in PHASES.items()}
        self.clients = self._clients()

    def pid(self, phase):
        return self.loads[phase].pids[0]

    def _clients(self):
        place = f"{self.runs.durability}-{len(self.case.processes)}"
        cursor = ["--cursor", self.case.path(f"{place}.cursor")]
        kinds = {"plain": ([], None), "cursor": (cursor, cursor),
                 "since": (None, ["--since", f"@{time.time():.6f}"])}
        if self.runs.durability != "memory":
            for kind in "consumer", "half", "late":
                words = ["--consumer", f"{kind}-{place}"]
                kinds[kind] = (words + (["-n", str(CALLS // 2)] if kind == "half" else []), words)
        return {kind: Client(self, kind, *words) for kind, words in kinds.items()}

    def run(self):
        self._before()
        self.loads["during"].go()
        time.sleep(self.case.random.uniform(0, DURING / RATE))
        self.runs.end(self.end)
        self.loads["during"].result()
        self.loads["between"].run()
        self.runs.start()
        for client in self.clients.values():
            client.come()
        self.loads["after"].run()
        for client in self.clients.values():
            wait_until(lambda client=client: client.has("after"),
                       f"{client.kind} has what comes last")
            client.leave()
        for client in self.clients.values():
            self._check(client)
        self.case.check_balanced(self.runs.daemon)

    def _before(self):
        """The plain client is there all the time; a consumer that is late has only been registered."""
        if "late" in self.clients:
            self.clients["late"].leave()
        self.loads["before"].run()
        for client in self.clients.values():
            if not client.stream:
                continue
            if client.kind == "half":
                wait_until(lambda client=client: not client.stream.running, "it has half of it")
            else:
                wait_until(lambda client=client: client.has("before"),
                           f"{client.kind} has what comes first")
            if client.kind != "plain":
                client.leave()

    def _check(self, client):
        case, lines = self.case, client.lines
        told_it = told(self.runs.durability, self.runs.store, self.end, client.kind)
        cell = f"{self.runs.name}, {self.end}, {client.kind}: {told_it}"
        gaps = [line for line in lines if is_gap(line)]
        missing = sum(calls - client.came(phase) for phase, (calls, _) in PHASES.items())
        facts = gaps, {phase: client.came(phase) for phase in PHASES}
        case.check_equal([client.came(phase) for phase in ("before", "after")],
                         [CALLS if told_it.before else 0, CALLS], f"{cell}: all of each run", facts)
        case.check_equal({gap["reason"] for gap in gaps} or {None},
                         {told_it.reason} if gaps or told_it.sure else {None}, f"{cell}: the reason",
                         facts)
        unknown = [gap for gap in gaps if not gap["attempts"]]
        if told_it.sized or not told_it.reason:
            case.check(not unknown and missing <= sum(gap["attempts"] for gap in gaps),
                       f"{cell}: {missing} missing are within the gaps' sizes", facts)
        else:
            case.check_equal(len(unknown), len({gap["cpu"] for gap in gaps}),
                             f"{cell}: told once", facts)
            case.check(client.came("between") == (CALLS if self.runs.store else 0) and
                       unknown == gaps, f"{cell}: nobody knows the size", facts)
        self._check_place(client, cell, lines)
        last = client.done[-1]
        case.check_equal((last.code, last.summary["ledger"]), (3 if gaps else 0, "balanced"),
                         f"{cell}: the exit status says whether anything is missing", facts)

    def _check_place(self, client, cell, lines):
        """Events of the first run, the gaps, events of the next run."""
        def places(wanted):
            return [i for i, line in enumerate(lines) if wanted(line)]
        gaps = places(is_gap)
        if not gaps:
            return
        first = places(lambda line: line.get("pid") == self.pid("before"))
        last = places(lambda line: line.get("pid") == self.pid("after"))
        self.case.check((not first or first[-1] < gaps[0]) and gaps[-1] < last[0],
                        f"{cell}: the gap stands between the two runs")


# ---- All of it

class Idle:
    """A consumer that is registered and comes back only after the last of the restarts."""

    def __init__(self, runs):
        self.runs, self.case = runs, runs.case
        self.words = ["--consumer", f"idle-{runs.durability}"]
        self.case.check_stream(runs.stream(*self.words).interrupt(), events=0)

    def check(self, turns):
        stream = self.runs.stream(*self.words)
        pid = turns[-1].pid("after")
        wait_until(lambda: stream.read("out").count(f'"pid":{pid},') >= CALLS, "it has caught up")
        done = stream.interrupt()
        gaps = [line["reason"] for line in done.lines if is_gap(line)]
        wanted = [told(self.runs.durability, self.runs.store, turn.end, "consumer") for turn in turns]
        cell = f"{self.runs.name}, after {len(turns)} restarts, idle consumer"
        if self.runs.store:
            self.case.check(set(gaps) <= {"restart"}, f"{cell}: exact, or gaps of known size",
                            gaps)
        else:
            self.case.check_equal(gaps, [one.reason for one in wanted], f"{cell}: a gap for each")
        pids = {turn.pid(phase): turn for turn in turns for phase in ("before", "after")}
        came = [(line["pid"], line["cpu"], line["seq"]) for line in done.lines
                if line.get("pid") in pids]
        self.case.check_equal((len(came), len(set(came))), (2 * CALLS * len(turns),) * 2,
                              f"{cell}: all of each run, once")
        self.case.check_equal((done.code, done.summary["ledger"]), (3 if gaps else 0, "balanced"),
                              f"{cell}: the exit status")
        again = self.runs.stream(*self.words)
        again.await_all()
        self.case.check_stream(again.interrupt(), events=0)


def matrix(case, durability):
    for store in (False, True):
        runs = Runs(case, durability, store)
        idle = Idle(runs) if durability != "memory" else None
        turns = []
        for end in case.random.sample(sorted(ENDS), len(ENDS)):
            turns.append(Turn(runs, end))
            turns[-1].run()
        if idle:
            idle.check(turns)
        case.check_equal(runs.daemon.stop(), 0, f"{runs.name}: the last run ends well")
