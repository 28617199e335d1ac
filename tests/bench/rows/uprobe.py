"""What a function or a mark of a program costs the thread that comes to it, from trap to trap, while it is streamed;
beside ftrace's own uprobe with two arguments on the same function, in turns, and what is added by a mark that nobody
records. The program measures its own CPU time, for so many calls that no clock matters."""
import os
import subprocess

from peers import ftrace, host, ringtail
from report import Budget, Row

CALLS = 100_000
LOOKS = 100_000_000


class Marked:
    """The program, which takes turns."""

    def __init__(self, bench):
        self.path = bench.program("bench/marked")
        self.child = host.Child([self.path], bench.work / "marked.log", stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE)

    def __enter__(self):
        self.child.__enter__()
        self.pid = int(self.child.process.stdout.readline())
        return self

    def __exit__(self, *_):
        self.child.__exit__(None)

    def turn(self, what, count):
        """ns for one."""
        self.child.process.stdin.write(f"{what} {count}\n".encode())
        self.child.process.stdin.flush()
        answer = self.child.process.stdout.readline()
        if not answer:
            raise host.Unavailable("the program has ended")
        return float(answer)


class FtraceProbe:
    """ftrace's own uprobe on work(), recorded by an instance of its own."""

    def __init__(self, path):
        at = host.run(["sh", "-c", f"nm {path} | awk '$3 == \"work\" {{ print $1 }}'"]).strip()
        headers = host.run(["readelf", "-lW", path]).splitlines()
        words = next(word for word in map(str.split, headers) if word[:1] == ["LOAD"] and
                     int(word[2], 16) <= int(at, 16) < int(word[2], 16) + int(word[4], 16))
        self.place = int(at, 16) - int(words[2], 16) + int(words[1], 16)
        self.path, self.instance = path, ftrace.Instance("uprobe")

    def append(self, line):
        fd = os.open(ftrace.TRACEFS / "uprobe_events", os.O_WRONLY | os.O_APPEND)
        try:
            os.write(fd, f"{line}\n".encode())
        finally:
            os.close(fd)

    def __enter__(self):
        self.append(f"p:ringtail_bench/work {self.path}:{self.place:#x} a=%di b=%si")
        self.instance.__enter__()
        self.instance.write("events/ringtail_bench/work/enable", "1")
        return self

    def __exit__(self, *_):
        self.instance.write("events/ringtail_bench/work/enable", "0")
        self.instance.__exit__(None)
        self.append("-:ringtail_bench/work")


def streamed(bench, marked, what, spec):
    with ringtail.Daemon(bench, "--ring-size=16MiB") as daemon:
        with ringtail.stream(daemon, "-p", spec) as client:
            marked.turn(what, CALLS // 10)
            cost = marked.turn(what, CALLS)
            summary = client.finish()
    if summary["events"] + summary["lost"] != CALLS + CALLS // 10:
        raise host.Unavailable(f"{summary['events']} events and {summary['lost']} lost of {CALLS + CALLS // 10}")
    return cost


def recorded(marked):
    with FtraceProbe(marked.path):
        marked.turn("function", CALLS // 10)
        return marked.turn("function", CALLS)


def measure(bench):
    function = Row("uprobe.function", "ns", peer="ftrace's uprobe", budget=Budget(0.85, ratio=True))
    mark = Row("uprobe.usdt_4_arguments", "ns", budget=Budget(650))
    disabled = Row("uprobe.usdt_disabled", "ns", budget=Budget(2))
    with Marked(bench) as marked:
        for _ in range(bench.rounds(5)):
            bare = {what: marked.turn(what, 100 * CALLS) for what in ("function", "mark")}
            for row, what, spec in ((function, "function", f"uprobe:{marked.path}:work"),
                                    (mark, "mark", f"usdt:{marked.path}:bench:reached")):
                cost = bench.attempt(row, lambda: streamed(bench, marked, what, spec))
                if cost:
                    row.samples.append(cost - bare[what])
            cost = bench.attempt(function, lambda: recorded(marked))
            if cost:
                function.peer_samples.append(cost - bare["function"])
            disabled.samples.append(marked.turn("guard", LOOKS))
    disabled.note = "with the loop around it"
    yield from (function, mark, disabled)
