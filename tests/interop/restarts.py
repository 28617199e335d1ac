#!/usr/bin/env python3
"""Each real server is ended in the middle and started again: by kill -9 with a request in its hands
that it never answers, and by SIGTERM while events come. With durability=written behind a queue that
holds next to nothing, nothing is lost; what came twice is counted as resent.

A kill -9 is made when the server has on disk what it said yes to: what it loses of that is its own.
"""
import real  # noqa: F401
import ringtail
from lib import exporting
from lib.process import wait_until
from real import exports

CALLS = 1500


class Calls:
    """Events with numbers that go on."""

    def __init__(self):
        self.made = 0

    def make(self, n=CALLS):
        exporting.fail_often(n, self.made)
        self.made += n


def settle(daemon, servers, calls):
    for server in servers:
        exporting.await_events(daemon, server, calls.made)
        exports.await_numbers(server, range(calls.made))
        exports.await_on_disk(server)


def await_sent(daemon, server, before):
    """A request has gone out since: it is in the server's hands."""
    wait_until(lambda: exporting.stat(daemon, server)["requests"] > before[server],
               f"{exports.name_of(server)}: a request is under way", 30 * ringtail.SLOW)


def await_away(daemon, server):
    wait_until(lambda: exporting.stat(daemon, server)["state"] == "retrying",
               f"{exports.name_of(server)}: it is tried again", 30 * ringtail.SLOW)


def kill_with_request(case, daemon, servers, calls):
    for server in servers:
        server.freeze()
    before = {server: exporting.stat(daemon, server)["requests"] for server in servers}
    calls.make()
    for server in servers:
        await_sent(daemon, server, before)
        server.kill()
        await_away(daemon, server)
    case.say("ok: killed with a request in their hands")


def end_while_events_come(case, daemon, servers, calls):
    for server in servers:
        calls.make()
        server.end()
        calls.make(CALLS // 5)
        await_away(daemon, server)
    case.say("ok: ended while events came")


def main(case):
    servers = exports.start_all(case)
    calls = Calls()
    daemon = case.daemon(*(exports.option(server) for server in servers), *exporting.options(),
                         "--durability=written", "--export-queue-size=64KiB")
    exporting.await_begun(daemon)
    calls.make()
    settle(daemon, servers, calls)
    for interrupt in (kill_with_request, end_while_events_come):
        interrupt(case, daemon, servers, calls)
        calls.make()
        for server in servers:
            server.start()
        settle(daemon, servers, calls)
    resent = daemon.stat()["counters"]["export_items_resent"]
    twice = 0
    for server in servers:
        name, export = exports.name_of(server), exporting.stat(daemon, server)
        case.check_equal((export["accepted"], export["lost"], export["residual"]),
                         (calls.made, {}, 0), f"{name}: {calls.made} accepted, nothing lost")
        stored = server.numbers()
        case.check_equal(sorted(set(stored)), list(range(calls.made)),
                         f"{name}: each of {calls.made} is stored")
        twice += len(stored) - calls.made
        case.say(f"{name}: {len(stored) - calls.made} are stored twice")
    case.check(twice <= resent and resent > 0,
               f"{twice} are stored twice; {resent} were sent again unanswered, and counted")
    case.check_balanced(daemon)


ringtail.run(main)
