"""redact: a secret in paths, in what is executed, in addresses and in threads' names is in nothing that leaves the
daemon or touches a disk: the wire, the spool, back ends, the status page, a dump, stuck; neither by its text nor by
what a filter says of it. Without the rule it is in all of them. A bad rule refuses to start, and at a reload the old
ones stay; what was known of threads before is hidden too."""
import json
import os
import shutil
import sys

import ringtail
from lib import exporting, http
from lib.backend import Backend
from lib.wire import cut

SECRET = b"s3cr3t"
RULE = "redact = * * *s3cr3t*\n"
PROBES = ("syscall:openat", "syscall:openat:entry", "syscall:connect", "syscall:execve", "sched:sched_process_exec",
          "tracepoint:task:task_rename", "process:map:executable")
SHOWN = "/nonexistent/shown-beside"

# Fails to open and to connect to secret things, is called secretly, and executes a secret file that waits.
PROGRAM = """
import ctypes, os, socket, sys
sys.stdin.readline()
for path in ("/nonexistent/s3cr3t-file", "{shown}"):
    try:
        open(path)
    except OSError:
        pass
peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
try:
    peer.connect("/nonexistent/s3cr3t.sock")
except OSError:
    pass
ctypes.CDLL(None).prctl(15, b"s3cr3t-comm", 0, 0, 0)
os.open("/dev/null", os.O_RDONLY)
os.execv("{program}", ["{program}", "3000"])
"""


def frames_of(path):
    with open(path, "rb") as file:
        data = file.read()
    return b"".join(frame.raw for frame in cut(data))


def spool_of(state):
    """What the segments' frames hold: a file's last frame may be unfinished."""
    found = b""
    for folder, _, names in os.walk(os.path.join(state, "spool")):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read()
            found += data
            try:
                found += b"".join(frame.raw for frame in cut(data))
            except ValueError:
                pass
    return found


class Watched:
    """A daemon with everything that could let a secret out, and a process that has secrets."""

    def __init__(self, case, rules):
        self.case, self.rules, self.state = case, rules, case.path(f"state{len(rules)}")
        self.program = case.path("s3cr3t-sleep")
        shutil.copy(shutil.which("sleep"), self.program)
        self.logs, self.loki = Backend(), Backend()
        # Of a call that few make: else others' names and work could take the places of these.
        self.daemon = case.daemon("--http=127.0.0.1:0", "--metrics-comm", "--metrics-probe=syscall:getppid:call",
                                  "--ring-size=16MiB",
                                  "--durability=written", "--user=root",
                                  f"--state-dir={self.state}", self.logs.url("otlp-logs"), self.loki.url("loki"),
                                  "--export-rate=0", config=rules)
        exporting.await_begun(self.daemon)
        self.load = case.load(100_000_000, rate=50_000, comm="s3cr3t-load")
        self.child = case.start(sys.executable, "-c", PROGRAM.format(shown=SHOWN, program=self.program), stdin=-1)
        self.words = [word for probe in PROBES for word in ("-p", probe)] + [
            "--flags", "strings,context,ustack", "-f", f"pid == {self.child.pid}"]
        self.kept = case.stream(self.daemon, *self.words, "-o", "json", "--consumer", "keeper")
        self.wire = case.path(f"wire{len(rules)}.rt")
        self.recorder = case.stream(self.daemon, *self.words, "-w", self.wire, command="record")
        self.guesses = {guess: case.stream(self.daemon, "-p", "syscall:openat", "-f", guess, "--flags", "strings",
                                           "-o", "json")
                        for guess in ('filename == "/nonexistent/s3cr3t-file"', 'comm == "s3cr3t-comm"')}

    def run(self):
        """What each of the places has of it."""
        self.load.go()          # the page shows who was busy in the last second
        status = ringtail.wait_until(self.status, "the status page shows the load")
        self.load.kill()
        self.child.popen.stdin.write(b"\n")
        self.child.popen.stdin.flush()
        ringtail.wait_until(lambda: "sched_process_exec" in self.kept.read("out"), "it has executed the file")
        ringtail.wait_until(self.is_asleep, "it sleeps")
        ringtail.wait_until(lambda: all(any("exec" in text and str(self.child.pid) in text
                                            for text in map(repr, rows()))
                                        for rows in (self.loki.lines, self.logs.records)), "it is exported")
        # Files are opened all the time, so the rings are never empty; but what is exported came after all of it.
        if not self.rules:
            ringtail.wait_until(lambda: all(SECRET.decode() in stream.read("out") for stream in self.guesses.values()),
                                "it can be guessed")
        for stream in self.kept, self.recorder:
            stream.await_all()
        ringtail.wait_until(lambda: not any(spool["in_flight"] for spool in self.daemon.stat()["spool"]),
                            "it is spooled")
        found = {name: self.case.tracectl(self.daemon, *words).out.encode() for name, words in (
            ("stuck", ("stuck", "-o", "json")),
            ("dump", ("dump", "--last", "1h", *self.words, "-w", self.case.path("dump.rt"))))}
        found["dump"] = frames_of(self.case.path("dump.rt"))
        found["guesses"] = b"".join(stream.interrupt().out.encode() for stream in self.guesses.values())
        found["stream"] = self.kept.interrupt().out.encode()
        self.recorder.interrupt()
        found["wire"] = frames_of(self.wire)
        found["spool"] = spool_of(self.state)
        found["OTLP"] = b"".join(request.raw for request in self.logs.stored)
        found["Loki"] = b"".join(request.raw for request in self.loki.stored)
        found["metrics"] = http.get(self.daemon, "/metrics")[2].encode()
        found["status"] = status
        return found

    def status(self):
        """Without the clients, whose own words their filters are."""
        shown = json.loads(http.get(self.daemon, "/api/live")[2])
        body = json.dumps({name: value for name, value in shown.items() if name != "clients"}).encode()
        return body if SECRET in body or b"[redacted]" in body else None

    def is_asleep(self):
        return self.child.popen.poll() is None and self.own("comm") == b"s3cr3t-sleep\n" and \
            self.own("stat").rsplit(b")", 1)[1].split()[0] == b"S"

    def own(self, name):
        with open(f"/proc/{self.child.pid}/{name}", "rb") as file:
            return file.read()

    def end(self):
        self.child.kill()
        self.case.check_balanced(self.daemon)
        self.daemon.stop()
        for backend in (self.logs, self.loki):
            backend.stop()


def nothing_is_hidden(case):
    watched = Watched(case, "")
    found = watched.run()
    for place, data in found.items():
        case.check(SECRET in data, f"without a rule, the secret is in what the place has: {place}", len(data))
    watched.end()


def all_is_hidden(case):
    watched = Watched(case, RULE)
    found = watched.run()
    for place, data in found.items():
        case.check(data or place == "guesses", f"{place} has something")
        case.check(SECRET not in data, f"the secret is not in what the place has: {place}",
                   data[max(data.find(SECRET) - 200, 0):data.find(SECRET) + 100])
    case.check(SHOWN.encode() in found["stream"], "other paths are shown")
    case.check(b"[redacted]" in found["stream"], "and that something is hidden is told")
    stat = watched.daemon.stat()
    counters = {counter["name"]: counter["value"] for counter in stat["counter"]}
    case.check(stat["redact_rules"] == 1 and counters["texts_redacted"] >= 5, "stat tells of it", counters)
    case.check("1 rules hide" in case.tracectl(watched.daemon, "stat").out, "so does its text")
    watched.end()


def reloaded(case):
    """A thread that is known already, and is renamed no more."""
    load = case.load(100, comm="s3cr3t-load")
    daemon = case.daemon(config="")
    words = ("-p", "syscall:getppid", "-f", load.filter, "-o", "json")
    stream = case.stream(daemon, *words)
    case.check("pid ==" in load.filter or "comm" not in load.filter, "the load is not chosen by its name", load.filter)
    case.write(f"{daemon.name}.conf", "redact = openat filename\n")
    daemon.reload(r"\[reload-refused\]")
    case.check("[redact-rule]" in daemon.log, "a bad rule is refused, with the reason", daemon.log)
    case.write(f"{daemon.name}.conf", RULE)
    daemon.reload(r"\[reloaded\]")
    case.write(f"{daemon.name}.conf", RULE + "redact = syscall:nosuch filename *\n")
    daemon.reload(r"\[reload-refused\]")
    case.check_equal(daemon.stat()["redact_rules"], 1, "the old rules stay")
    load.run()
    stream.await_all(100)
    out = stream.interrupt().out
    case.check("s3cr3t" not in out and '"[redacted]"' in out, "the thread's name is hidden", out[-300:])
    case.check_balanced(daemon)


def bad_rules(case):
    for rule, code in (("openat filename", "redact-rule"), ("openat flags *", "redact-nothing")):
        done = case.refused("--source=bpf", config=f"redact = {rule}\n")
        case.check(done.code == 1 and f"[{code}]" in done.err, f"`{rule}` refuses to start: {code}", done.err)
    done = case.refused("--check-config", config="redact = openat filename\n")
    case.check(done.code == 2 and "[redact-rule]" in done.err, "--check-config finds it", done.code, done.err)


def main(case):
    nothing_is_hidden(case)
    all_is_hidden(case)
    reloaded(case)
    bad_rules(case)


ringtail.run(main)
