#!/usr/bin/env python3
"""Redis, from Debian's source, with ten probes of its own (redis.patch), under its own benchmark: with all of them on, and all
of its system calls, each event is there as often as Redis counts it, and program and kernel are in one order. A read from a
client lies between the call of read(2) and the probe that tells its bytes, and so does each write."""
import fcntl
import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request

from other import count, ringtail
from lib.probing import await_ended
from lib.process import SLOW, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(ringtail.ROOT, "tests", "tools"))
import cache  # noqa: E402

NAME = "redis-7.0.15"
URL = "http://deb.debian.org/debian/pool/main/r/redis/redis_7.0.15.orig.tar.gz"
SHA256 = "4b1dc4ee6d622a09fff9c6777191209750fb5e5a725ef78ea012d6eef4c22982"
PATCHED = ("networking.c", "server.c", "db.c")
BUILD_S = 1200 * SLOW
OPTIONS = ("MALLOC=libc", "BUILD_TLS=no", "USE_SYSTEMD=no", "OPTIMIZATION=-O1")
PROBES = ("client_ends", "client_made", "command_begins", "command_done", "cron", "key_added", "key_looked_up", "query_read",
          "reply_written", "sleeps")
REQUESTS, CLIENTS, KEYS = 3000, 8, 100          # of SET, and of GET


def archive():
    path = os.path.join(cache.directory("redis"), f"{NAME}.tar.gz")
    if not os.path.exists(path):
        try:
            urllib.request.urlretrieve(URL, f"{path}.part")
        except (urllib.error.URLError, OSError) as error:
            raise ringtail.Skip(f"Debian's mirror cannot be reached: {error}")
        os.rename(f"{path}.part", path)
    with open(path, "rb") as file:
        if hashlib.sha256(file.read()).hexdigest() != SHA256:
            raise ringtail.Failure(f"{path} is not what Debian has: remove it")
    return path


def refresh(path, text):
    """So that make sees what has changed, and no more."""
    if not os.path.exists(path) or open(path, "rb").read() != text:
        with open(path, "wb") as file:
            file.write(text)


def patched(tar):
    """The sources with the probes in them: name, text."""
    with open(os.path.join(HERE, "redis.patch")) as file:
        patch = file.read()
    for name in PATCHED:
        lines = tar.extractfile(f"{NAME}/src/{name}").read().decode().split("\n")
        part = patch.split(f"+++ b/src/{name}\n")[1].split("--- a/")[0]
        for place, added in reversed(re.findall(r"^@@ -(\d+),0 .*@@\n((?:\+.*\n)+)", part, re.M)):
            lines[int(place):int(place)] = [line[1:] for line in added.splitlines()]
        yield name, "\n".join(lines).encode()


def build(case):
    """Once; then what has changed."""
    directory = os.path.join(cache.directory("redis"), NAME)
    sources = os.path.join(directory, "src")
    with open(f"{directory}.lock", "w") as lock, tarfile.open(archive()) as tar:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(directory):
            shutil.rmtree(f"{directory}.part", ignore_errors=True)
            tar.extractall(f"{directory}.part")
            os.rename(os.path.join(f"{directory}.part", NAME), directory)
        with open(os.path.join(ringtail.ROOT, "proto", "ringtail-probe.h"), "rb") as file:
            refresh(os.path.join(sources, "ringtail-probe.h"), file.read())
        for name, text in patched(tar):
            refresh(os.path.join(sources, name), text)
        done = subprocess.run(["make", "-j2", "redis-server", "redis-benchmark", *OPTIONS], cwd=sources, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=BUILD_S)
        case.check_equal(done.returncode, 0, "Redis with ten probes is compiled" if not done.returncode else done.stdout[-2000:])
        for program in ("redis-server", "redis-benchmark"):
            shutil.copy(os.path.join(sources, program), case.path(program))


class Redis:
    """A server on a socket of its own, without a disk."""

    def __init__(self, case, programs):
        self.case, self.socket = case, case.path("redis.sock")
        self.process = case.start(case.path("redis-server"), "--port", "0", "--unixsocket", self.socket, "--save", "",
                                  "--appendonly", "no", "--daemonize", "no", env=dict(os.environ, RINGTAIL_PROGRAMS=programs))
        self.pid = self.process.pid
        wait_until(lambda: os.path.exists(self.socket) and self.ask("PING") == "+PONG", "Redis answers")

    def ask(self, *words):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            try:
                connection.connect(self.socket)
            except OSError:
                return ""
            connection.sendall((" ".join(words) + "\r\n").encode())
            answer = connection.recv(1 << 16).decode()
            if answer.startswith("$"):
                while len(answer) < int(answer[1:answer.index("\r")]):
                    answer += connection.recv(1 << 16).decode()
            return answer.strip()

    def counts(self):
        """What Redis itself says that it did."""
        text = self.ask("INFO", "all")
        counts = {f"calls {name}": int(calls) for name, calls in re.findall(r"^cmdstat_(\S+?):calls=(\d+)", text, re.M)}
        counts.update({name: int(value) for name, value in re.findall(r"^(\w+):(\d+)\r?$", text, re.M)})
        return counts

    def benchmark(self):
        """The requests in a second."""
        out = subprocess.run([self.case.path("redis-benchmark"), "-s", self.socket, "-t", "set,get", "-n", str(REQUESTS),
                              "-c", str(CLIENTS), "-r", str(KEYS), "--csv"], stdout=subprocess.PIPE, text=True, check=True,
                             timeout=120 * SLOW).stdout
        return {name: float(rate) for name, rate in re.findall(r'^"(SET|GET)","([\d.]+)"', out, re.M)}

    def rests(self):
        with open(f"/proc/{self.pid}/stat") as file:
            return file.read().rsplit(") ")[1].startswith("S")

    def end(self):
        """When it waits: the signal's handler makes calls of its own, which else could stand before the last probe."""
        wait_until(self.rests, "Redis waits")
        self.process.popen.terminate()
        return self.process.wait().code


def check_counts(case, before, after, size, events):
    """INFO before and after are commands, too, and come over a connection each."""
    grown = {name: value - before.get(name, 0) for name, value in after.items()}
    commands = {name[6:]: value for name, value in grown.items() if name.startswith("calls ") and value}
    done = count((event for event in events if event["probe"] == "redis:command_done:event"),
                 lambda event: event["args"].get("fullname") or event["args"]["arg1"])
    begun = count((event for event in events if event["probe"] == "redis:command_begins:event"),
                  lambda event: event["args"].get("fullname") or event["args"]["arg1"])
    case.check_equal({name: done.get(name) for name in ("set", "get")}, {name: commands[name] for name in ("set", "get")},
                     "each command is there as often as Redis counts it")
    case.check_equal(begun, done, "each that begins is done")
    kinds = count(events)
    case.check_equal(kinds["redis:client_made:event"], grown["total_connections_received"], "and so is each client")
    case.check_equal(set(PROBES), {kind.split(":")[1] for kind in kinds if kind.startswith("redis:")},
                     "all ten probes have passed")
    looked = [event["args"] for event in events if event["probe"] == "redis:key_looked_up:event"]
    case.check(len(looked) >= grown["keyspace_hits"] + grown["keyspace_misses"], "no look for a key is missing",
               (len(looked), grown["keyspace_hits"], grown["keyspace_misses"]))
    added = [event["args"] for event in events if event["probe"] == "redis:key_added:event"]
    case.check_equal(len(added), size, "each key is added once")


def check_order(case, events, tid):
    """What the thread did: the last system call before a probe that tells its bytes is the one that moved them."""
    case.check(all(before["time"] <= after["time"] for before, after in zip(events, events[1:])), "all are in one order of time")
    last, wrong, told = None, [], {"read": 0, "write": 0}
    for event in (event for event in events if event["tid"] == tid):
        provider, name, half = event["probe"].split(":")
        if provider == "syscall":
            last = (name, half, event.get("ret"))
        elif name in ("query_read", "reply_written"):
            call = "read" if name == "query_read" else "write"
            moved = event["args"]["nread" if call == "read" else "nwritten"]
            told[call] += 1
            if last is None or last[0] != call or last[1] != "return" or last[2] != moved:
                wrong.append((last, event))
    case.check(not wrong and min(told.values()) >= 2 * REQUESTS, "a probe behind a system call is behind that, and before the next",
               told, wrong[:2])


def main(case):
    build(case)
    programs = os.path.join(case.path("run"), "programs.sock")
    daemon = case.daemon(f"--programs={programs}", "--ring-size=64MiB", "--queue-size=256MiB")
    redis = Redis(case, programs)
    listed = case.tracectl(daemon, "list", "redis:*").out
    case.check(all(f"redis:{name}:event(" in listed for name in PROBES), "its probes are listed", listed)
    alone = redis.benchmark()
    redis.ask("FLUSHALL")
    before = redis.counts()
    stream = case.stream(daemon, "-p", "redis:*", "-p", "syscall:*:entry", "-p", "syscall:*:return",
                         "-f", f"pid == {redis.pid}", "-o", "json")
    traced = redis.benchmark()
    size = int(redis.ask("DBSIZE")[1:])
    after = redis.counts()
    case.check_equal(redis.end(), 0, "Redis ends well")
    await_ended(daemon)
    stream.await_all()
    case.check_balanced(daemon)
    done = stream.interrupt()
    case.check_stream(done)
    for command in sorted(alone):
        case.say(f"figure: {command}: {traced[command]:.0f} requests a second with all on, {alone[command]:.0f} without: "
                 f"{alone[command] / traced[command]:.2f}")
    case.say(f"figure: {len(done.lines)} events, of these {sum(event['probe'].startswith('redis:') for event in done.lines)} "
             "of the program")
    check_counts(case, before, after, size, done.lines)
    check_order(case, done.lines, redis.pid)
    counters = daemon.stat()["counters"]
    case.check_equal((counters["program_records_bad"], counters["programs_corrupt"]), (0, 0), "no record was bad")
    case.check_balanced(daemon)


ringtail.run(main)
