"""Whatever a daemon says of itself and of others, and whatever processes and files are called: what tracectl
and ringtaild write to a terminal, a log or a program has no byte that acts on it. As text and as JSON,
on stdout and stderr, of every command: no ESC and no other C0 but newline and tab, no DEL, no C1 as
character or as byte, nothing that turns the direction of text, and only UTF-8."""
import json
import os
import re
import subprocess
import sys

import ringtail
from lib import fake_daemon, http, wire
from lib.fake_daemon import FakeDaemon
from lib.process import PATIENCE_S

BAD = (b"\x1b[31m\x1b]0;t\x07", b"\r\b\x7f", b"\xc2\x9b2J\xc2\x85", b"\x9b2J\x80\xff", b"\xe2\x80\xae\xe2\x81\xa6",
       b"\xe2\x80\x8f\xd8\x9c\xe2\x80\x8e", b"\xe2\x80\xa8", b"a\nforged line\n", b"\xed\xa0\x80\xc0\xaf")
ALL = b"".join(BAD)
VALID = b"".join(bad for bad in BAD if bad.decode("utf-8", "ignore").encode() == bad)
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
PLACES = "acts on a terminal"


def look(case, done_or_text, what, lines=None):
    """Every byte that came out. lines: how many there may be of them."""
    for end, data in done_or_text.items():
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            case.check(False, f"{what}: {end} is UTF-8", error, data[:400])
        found = ACTS.search(text)
        case.check(not found, f"{what}: {end} has nothing that {PLACES}", found and
                   text[max(0, found.start() - 80):found.start() + 40].encode())
        case.check("\nforged line" not in text, f"{what}: {end} has no line of somebody else's",
                   text[:400])


def run(case, *words, code=None, json_lines=False, **options):
    done = subprocess.run([os.path.join(ringtail.BUILD, "tracectl"), *words], timeout=PATIENCE_S,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False, **options)
    # A name of the caller's own has odd bytes in it: they are not to fill the test's log.
    shown = " ".join(ascii(word)[:40] for word in words)
    if code is not None:
        case.check_equal(done.returncode, code, f"{shown}: its exit code", done.stderr)
    look(case, {"stdout": done.stdout, "stderr": done.stderr}, shown)
    if json_lines:
        case.check(done.stdout.strip(), f"{shown}: it says something")
        for line in done.stdout.splitlines():
            json.loads(line)
    return done


def stat(name):
    """A Stat whose every string is that."""
    lost = [{"stage": 0, "reason": 1, "count": 1}]
    return wire.message(
        "Stat", source=name, durability=name, ring=[{"cpu": 0, "produced": 1, "lost": lost}],
        client=[{"id": 1, "peer": name, "software": name, "probe": [name], "filter": name}],
        counter=[{"name": name, "value": 1, "help": name}],
        spool=[{"name": name, "probe": [name], "filter": name, "state": name}],
        consumer=[{"name": name}], export=[{"name": name, "state": name, "last_error": name}])


def hostile_hello(case):
    names = {key: ALL for key in ("software", "hostname", "kernel", "machine", "source", "role")}
    for name in (ALL, VALID):
        daemon = FakeDaemon(case, {
            "ClientHello": fake_daemon.hello(**names), "StatRequest": stat(name) * 3,
            "ProbesRequest": wire.message("Probes", probe=[{"spec": name, "by": name}], filter=name),
            "ListRequest": fake_daemon.catalog(),
            "Subscribe": fake_daemon.stream(b"", bye=name)})
        at = ["--connect", daemon.address]
        run(case, *at, "doctor")
        for command in ("stat", "probes"):
            run(case, *at, command, code=0)
            # Of what is no UTF-8 there is no JSON; of everything else there is.
            run(case, *at, command, "-o", "json", code=0 if name == VALID else 1,
                json_lines=name == VALID)
        run(case, *at, "list", code=0)
        for output in ("text", "json"):
            run(case, *at, "stream", "-o", output, code=0)
        daemon.stop()
    # A NUL in text is refused: what is behind it is not left out in silence.
    nul = FakeDaemon(case, {"ListRequest": wire.message("Error", code="a\0b", what="c"),
                            "StatRequest": wire.message("Stat", source="a\0b"),
                            "Subscribe": fake_daemon.stream(b"", bye="a\0b")})
    for words in (["list"], ["stat"], ["stream"]):
        done = run(case, "--connect", nul.address, *words, code=1)
        case.check(done.stderr, "which is told")
    nul.stop()
    version = FakeDaemon(case, {"ClientHello": fake_daemon.hello(version=9, **names)})
    run(case, "--connect", version.address, "stat", code=1)
    version.stop()


def hostile_errors(case):
    refusal = wire.message("Error", code=ALL, what=ALL, hint=ALL, column=3, fatal=True)
    greeted = FakeDaemon(case, {name: refusal for name in (
        "Subscribe", "StatRequest", "ListRequest", "ProbesRequest", "Change", "Forget")})
    turned_away = FakeDaemon(case, {"ClientHello": refusal})
    for daemon in (greeted, turned_away):
        for words in (["stat"], ["list", ALL[:-9]], ["probes"], ["enable", b"x" + ALL], ["disable", ALL],
                      ["forget", ALL], ["doctor"],
                      ["stream", "-p", ALL, "-f", ALL, "--consumer", ALL],
                      ["record", "-w", case.path("refused.rt"), "-p", "x"]):
            run(case, "--connect", daemon.address, *words)
        daemon.stop()


def hostile_events(case):
    """comm has 16 bytes, a string has 128; and a probe's name is refused."""
    events = [(bad[:16], bad) for bad in BAD] + [(ALL[at:at + 16], ALL[at:at + 128])
                                                 for at in range(len(ALL))]
    frames = fake_daemon.compressed("Batch", fake_daemon.batch(0, 0, 1000, events))
    daemon = FakeDaemon(case, {"Subscribe": fake_daemon.stream(frames)})
    path = case.path("events.rt")
    for output in ("text", "json"):
        done = run(case, "--connect", daemon.address, "stream", "-o", output, code=0,
                   json_lines=output == "json")
        case.check_equal(len(done.stdout.splitlines()), len(events), "a line for each event")
    run(case, "--connect", daemon.address, "record", "-w", path, code=0)
    for output in ("text", "json"):
        run(case, "read", path, "-o", output, code=0)
    daemon.stop()
    probe = FakeDaemon(case, {"ListRequest": wire.message("Catalog", probe=[
        {"id": 1, "provider": "a", "function": VALID, "name": "b"}])})
    run(case, "--connect", probe.address, "list", code=1)
    probe.stop()


def hostile_arguments(case):
    """Names of files, and of everything else that is on the command line."""
    name = case.path("").encode() + ALL.replace(b"/", b"")
    with open(name, "wb") as file:
        file.write(ALL)
    directory = name + b".d"
    os.mkdir(directory)
    open(os.path.join(directory, b"0000000000000001.seg"), "wb").write(ALL)
    for words in ([b"read", name], [b"read", directory], [b"read", name + b".none"], [ALL],
                  [b"stat", b"--" + ALL], [b"stat", ALL], [b"stream", b"--cursor", name],
                  [b"stream", b"--since", ALL], [b"stream", b"-f", ALL], [b"token", ALL],
                  [b"record", b"-w", name + b"/x"], [b"--connect", ALL, b"stat"],
                  [b"--connect", b"unix:" + name, b"stat"], [b"--token-file", name, b"--connect",
                                                             b"tcp:127.0.0.1:1", b"stat"],
                  [b"--key", name, b"--cert", name, b"--ca", name, b"--connect", b"tcp:127.0.0.1:1",
                   b"doctor"]):
        done = run(case, *words)
        case.check(done.returncode, "which is refused")


def hostile_processes(case):
    """A real daemon, which traces processes and files with such names, and logs and audits them."""
    daemon = case.daemon("--http=127.0.0.1:0", "--metrics-comm", "--ring-size=16MiB",
                         f"--state-dir={case.path('state')}")
    names = [bad[:15] for bad in BAD]
    script = f"""
import os
for name in {names!r}:
    if not os.fork():
        with open("/proc/self/comm", "wb") as comm:
            comm.write(name)
        if os.fork():
            os.wait()
        else:
            for bad in {BAD!r}:
                try:
                    os.open(b"/nowhere/" + bad, 0)
                except OSError:
                    pass
        os._exit(0)
    os.wait()
"""
    path = case.path("processes.rt")
    recording = case.stream(daemon, "-w", path, "-p", "syscall:openat:call", "--flags", "strings",
                            command="record")
    subprocess.run([sys.executable, "-c", script], check=True, timeout=PATIENCE_S)
    read = [os.path.join(ringtail.BUILD, "tracectl"), "read", path]
    ringtail.wait_until(lambda: subprocess.run(read, capture_output=True, check=False).stdout.count(
        b"/nowhere/") >= len(BAD) ** 2, "all of them are seen")
    recording.interrupt()
    for output in ("text", "json"):
        done = run(case, "read", path, "-o", output, code=0, json_lines=output == "json")
        case.check(done.stdout.count(b"/nowhere/") >= len(BAD) ** 2, "all of them were seen")
    run(case, "--connect", daemon.address, "enable", VALID.replace(b"\0", b""))
    run(case, "--connect", daemon.address, "forget", VALID)
    run(case, "--connect", daemon.address, "stream", "-p", b"syscall:" + VALID)
    run(case, "--connect", daemon.address, "stat", code=0)
    with daemon.connect() as connection:
        connection.send(wire.hello(software=VALID))
        connection.send(wire.message("Subscribe", probe=["syscall:getppid:call"], consumer=VALID))
        run(case, "--connect", daemon.address, "stat", code=0)
        run(case, "--connect", daemon.address, "stat", "-o", "json", code=0, json_lines=True)
        for page in ("/metrics", "/api/live", "/api/history"):
            look(case, {page: http.get(daemon, page)[2].encode()}, "ringtaild")
    case.check_balanced(daemon)
    daemon.stop()
    with open(daemon.path["err"], "rb") as log:
        look(case, {"its log": log.read()}, "ringtaild")
    for name in os.listdir(case.path("state")):
        if name.endswith(".log"):
            with open(os.path.join(case.path("state"), name), "rb") as log:
                look(case, {name: log.read()}, "ringtaild")


def main(case):
    hostile_hello(case)
    hostile_errors(case)
    hostile_events(case)
    hostile_arguments(case)
    hostile_processes(case)


ringtail.run(main)
