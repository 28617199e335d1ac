#!/usr/bin/env python3
"""No server is there at all when the daemon starts, nor for all the time of a load; the live client
has every event all the same, and the ledgers close. Then the daemon is killed and started again, then
the servers come, for the first time: with durability=written they get every event, those of the
daemon that was killed too."""
import real  # noqa: F401
import ringtail
from lib import exporting
from lib.process import wait_until
from real import exports

CALLS = 3000
LOAD = 200_000


def start_daemon(case, servers):
    daemon = case.daemon(*(exports.option(server) for server in servers), *exporting.options(),
                         "--ring-size=64MiB", "--queue-size=256MiB", "--durability=written",
                         "--export-queue-size=64KiB", f"--state-dir={case.path('state')}")
    exporting.await_begun(daemon)
    return daemon


def await_stored(daemon, events):
    """What is exported, in the spool."""
    def look():
        spools = daemon.stat()["spool"]
        return sum(spool["stored"] for spool in spools) >= events and \
            not any(spool["in_flight"] for spool in spools)
    wait_until(look, f"{events} events are in the spool", 60 * ringtail.SLOW)


def main(case):
    servers = exports.start_all(case)
    for server in servers:
        server.end()
    daemon = start_daemon(case, servers)
    load = case.load(LOAD)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", load.filter, "-o", "none")
    exporting.fail_often(CALLS)
    load.run()
    stream.await_all(LOAD)
    for server in servers:
        export = wait_until(lambda: exporting.stat(daemon, server)["state"] == "retrying" and
                            exporting.stat(daemon, server), "it is tried again", 60)
        case.check_equal((export["accepted"], export["lost"], export["residual"]), (0, {}, 0),
                         f"{exports.name_of(server)}: nothing accepted, nothing lost yet")
    case.check_balanced(daemon)
    case.check_stream(stream.interrupt(), events=LOAD)
    await_stored(daemon, CALLS)
    daemon.crash()

    daemon = start_daemon(case, servers)
    exporting.fail_often(CALLS, CALLS)
    for server in servers:
        server.start()
    for server in servers:
        name = exports.name_of(server)
        export = exporting.await_events(daemon, server, 2 * CALLS)
        case.check_equal((export["accepted"], export["lost"], export["residual"]),
                         (2 * CALLS, {}, 0), f"{name}: {2 * CALLS} accepted")
        case.check_equal(exports.await_numbers(server, range(2 * CALLS)), list(range(2 * CALLS)),
                         f"{name}: each of {2 * CALLS} is stored, once")
    case.check_balanced(daemon)


ringtail.run(main)
