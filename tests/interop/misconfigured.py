#!/usr/bin/env python3
"""Each real server is started again with settings that refuse what is sent, while events come: another path,
no writes, credentials, limits smaller than a request or a line, then as it was. With durability=written
nothing is lost: what it refuses is held, and each event is stored once in the end. Then it is frozen for
longer than export-timeout: what it took and did not answer may be there twice, and is counted as resent."""
import os
import signal
import subprocess

import real  # noqa: F401
import ringtail
from lib import exporting
from lib.process import wait_until
from real import exports
from real.logs import Loki, VictoriaLogs
from real.traces import Jaeger

CALLS = 700                     # more than a request holds
TIMEOUT_S = 3
LIMITS = "limits_config: {"


class BadLogs(VictoriaLogs):
    """What is wrong of it, in words of its own."""
    MISTAKES = {"another path": ["-http.pathPrefix=/elsewhere"],
                "no writes": ["-insert.disable"],
                "credentials": ["-httpAuth.username=a", "-httpAuth.password=b"],
                "a full disk": ["-storage.minFreeDiskSpaceBytes=1000TB"],
                "small requests": ["-opentelemetry.maxRequestSize=100", "-loki.maxRequestSize=100"]}
    mistake = None

    def words(self):
        return super().words() + self.MISTAKES.get(self.mistake, [])

    def answers(self):
        return True if self.mistake else super().answers()


class BadLoki(Loki):
    MISTAKES = {"credentials": ("auth_enabled: false", "auth_enabled: true"),
                "small bursts": ("ingestion_rate_mb: 100, ingestion_burst_size_mb: 200",
                                 "ingestion_rate_mb: 0.01, ingestion_burst_size_mb: 0.02"),
                "short lines": (LIMITS, LIMITS + "max_line_size: 20, "),
                "no old lines": (LIMITS, LIMITS + "reject_old_samples: true,"
                                 " reject_old_samples_max_age: 1ms, ")}
    mistake = None

    def words(self):
        words = super().words()
        if self.mistake in self.MISTAKES:
            with open(f"{self.dir}/loki.yaml") as file:
                config = file.read()
            assert self.MISTAKES[self.mistake][0] in config
            with open(f"{self.dir}/loki.yaml", "w") as file:
                file.write(config.replace(*self.MISTAKES[self.mistake]))
        return words


class BadJaeger(Jaeger):
    """It takes TLS alone where it took none; or speaks gRPC there."""
    MISTAKES = {"TLS": None, "another protocol": None}
    mistake = None

    def words(self):
        words = super().words()
        if self.mistake == "TLS":
            if not os.path.exists(f"{self.dir}/cert.pem"):
                subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                                "-keyout", f"{self.dir}/key.pem", "-out", f"{self.dir}/cert.pem"], check=True,
                               stderr=subprocess.DEVNULL)
            words += ["--collector.otlp.http.tls.enabled=true", f"--collector.otlp.http.tls.cert={self.dir}/cert.pem",
                      f"--collector.otlp.http.tls.key={self.dir}/key.pem"]
        elif self.mistake:
            http, grpc = f":{self.port}", f":{self.other_ports[0]}"
            words = [word.replace(http, grpc) if word.startswith("--collector.otlp.http.host-port") else
                     word.replace(grpc, http) if word.startswith("--collector.otlp.grpc.host-port") else word
                     for word in words]
        return words


MAKERS = [lambda case: BadLogs(case, "otlp-logs"), lambda case: BadLogs(case, "loki"), BadLoki,
          BadJaeger]
# These are busy, or let some through, a few at a time.
NOT_HELD = {"small bursts", "a full disk", "another protocol"}


def start_again(server, mistake):
    server.mistake = mistake
    server.end()
    server.start()


def await_refused(daemon, server, mistake):
    states = {"retrying"} if mistake in NOT_HELD else {"held"}
    def look():
        export = exporting.stat(daemon, server)
        return export if export["state"] in states else None
    return wait_until(look, f"{exports.name_of(server)}: {mistake}: it is {states}",
                      60 * ringtail.SLOW)


class Calls:
    made = 0

    def make(self, n=CALLS):
        exporting.fail_often(n, self.made)
        self.made += n


def check_all(case, daemon, servers, calls, what):
    for server in servers:
        name = f"{exports.name_of(server)}: {what}"
        export = exporting.await_events(daemon, server, calls.made)
        case.check_equal((export["accepted"], export["lost"], export["residual"]),
                         (calls.made, {}, 0), f"{name}: all is accepted, nothing lost")
        exports.await_numbers(server, range(calls.made), 60)


def misconfigure(case, daemon, servers, calls):
    """All of them at the same time, each with the next of its mistakes."""
    for i in range(max(len(server.MISTAKES) for server in servers)):
        bad = {server: list(server.MISTAKES)[i] for server in servers if i < len(server.MISTAKES)}
        for server, mistake in bad.items():
            calls.make(50)
            start_again(server, mistake)
        calls.make()
        for server, mistake in bad.items():
            export = await_refused(daemon, server, mistake)
            case.say(f"ok: {exports.name_of(server)}: {mistake}: {export['state']}:"
                     f" {export['last_error'][:90]}")
        calls.make()
        for server, mistake in bad.items():
            start_again(server, None)
        check_all(case, daemon, servers, calls, ", ".join(sorted(set(bad.values()))))
        for server in servers:
            stored = server.numbers()
            case.check_equal(stored, sorted(set(stored)), f"{exports.name_of(server)}: each once")


def freeze(case, daemon, servers, calls):
    for server in servers:
        server.freeze()
    calls.make()
    for server in servers:
        wait_until(lambda: exporting.stat(daemon, server)["retries"] >
                   server.retries, f"{exports.name_of(server)}: it is tried again", 60)
        server.process.signal(signal.SIGCONT)
    check_all(case, daemon, servers, calls, "frozen")
    resent = daemon.stat()["counters"]["export_items_resent"]
    twice = sum(len(server.numbers()) - calls.made for server in servers)
    case.check(0 <= twice <= resent, f"{twice} are there twice, of {resent} that were sent again")


def main(case):
    servers = exports.start_all(case, MAKERS)
    daemon = case.daemon(*(exports.option(server) for server in servers),
                         *exporting.options(TIMEOUT_S), "--durability=written",
                         "--export-queue-size=64KiB")
    exporting.await_begun(daemon)
    calls = Calls()
    calls.make()
    check_all(case, daemon, servers, calls, "at first")
    misconfigure(case, daemon, servers, calls)
    for server in servers:
        server.retries = exporting.stat(daemon, server)["retries"]
    freeze(case, daemon, servers, calls)
    case.check_balanced(daemon)


ringtail.run(main)
