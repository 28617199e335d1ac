#!/usr/bin/env python3
"""PostgreSQL's USDT marks: each query and each transaction of one session is there as often as the session made it, each begin
before its end, as the server's own statistics have it."""
import glob
import os
import pwd
import subprocess

from other import count, ringtail, usdt, wanted
from lib.process import SLOW, wait_until

QUERIES, FAILED = 200, 20
MARKS = ("query__start", "query__done", "query__parse__start", "query__execute__start", "transaction__start",
         "transaction__commit", "transaction__abort")
STATISTICS = "SELECT xact_commit, xact_rollback FROM pg_stat_database WHERE datname = current_database()"


def programs():
    """Of the newest that is installed."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]))
    if not found:
        raise ringtail.Skip("PostgreSQL is not installed")
    return found[-1]


class Server:
    """On a socket in its own directory, as the user that the package made."""

    def __init__(self, case, binaries):
        self.user, self.binaries, self.directory = pwd.getpwnam("postgres"), binaries, case.path("postgres")
        os.mkdir(self.directory)
        os.chown(self.directory, self.user.pw_uid, self.user.pw_gid)
        os.chmod(os.path.dirname(self.directory), 0o711)
        data = os.path.join(self.directory, "data")
        self.run("initdb", "-D", data, "--no-sync", "--auth=trust")
        self.process = case.start(os.path.join(binaries, "postgres"), "-D", data, "-k", self.directory, "-c",
                                  "listen_addresses=", "-c", "fsync=off", "-c", "autovacuum=off", user=self.user.pw_uid,
                                  group=self.user.pw_gid, extra_groups=[], cwd=self.directory)
        wait_until(lambda: os.path.exists(os.path.join(data, "postmaster.pid")) and
                   "ready" in open(os.path.join(data, "postmaster.pid")).read(), "PostgreSQL is ready")

    def run(self, program, *words, **options):
        return subprocess.run([os.path.join(self.binaries, program), *words], user=self.user.pw_uid,
                              group=self.user.pw_gid, extra_groups=[], cwd=self.directory, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60 * SLOW, **options)

    def session(self, text):
        return self.run("psql", "-X", "-A", "-t", "-h", self.directory, "-U", "postgres", "-f", "-", "postgres",
                        input=text).stdout

    def end(self):
        self.process.popen.terminate()
        return self.process.wait().code


def main(case):
    binaries = programs()
    binary = os.path.realpath(os.path.join(binaries, "postgres"))
    daemon = case.daemon("--ring-size=16MiB")
    server = Server(case, binaries)
    listed = "".join(case.tracectl(daemon, "list", f"usdt:{binary}:postgresql:{of}__*").out for of in ("query", "transaction"))
    case.check(all(f":{name}(" in listed for name in MARKS), "its marks are listed", listed)
    specs = dict(zip(MARKS, usdt(binary, "postgresql", *MARKS)))
    stream = case.stream(daemon, *wanted(specs.values()), "-o", "json")
    queries = "".join(f"SELECT {i} AS mark;\n" for i in range(QUERIES)) + "SELECT 1 / 0;\n" * FAILED
    out = server.session("SELECT pg_backend_pid();\n" + queries)
    pid = int(out.split()[0])
    case.check_equal(out.count("division by zero"), FAILED, "the session ran")
    case.check_equal(server.end(), 0, "the server ends well")
    case.await_rings_empty(daemon)
    stream.await_all()
    case.check_balanced(daemon)
    done = stream.interrupt()
    case.check_stream(done)
    events = [event for event in done.lines if event["pid"] == pid]
    kinds = count(events)
    every = QUERIES + FAILED + 1
    # The session's begin looks up its user and its database, by two transactions.
    case.check_equal({name: kinds[specs[name]] for name in ("query__start", "query__parse__start")},
                     {"query__start": every, "query__parse__start": every}, "each query begins and is parsed once")
    case.check_equal(kinds[specs["query__done"]], every - FAILED, "each is done that did not fail")
    case.check_equal(kinds[specs["transaction__abort"]], FAILED, "each that failed is rolled back")
    case.check_equal(kinds[specs["transaction__start"]],
                     kinds[specs["transaction__commit"]] + kinds[specs["transaction__abort"]], "each transaction ends")
    short = {spec: name for name, spec in specs.items()}
    order = [short[event["probe"]] for event in events if event["probe"] in (specs["query__start"], specs["query__done"])]
    case.check_equal(order, ["query__start", "query__done"] * (QUERIES + 1) + ["query__start"] * FAILED, "in their order")


ringtail.run(main)
