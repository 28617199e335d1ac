#!/usr/bin/env python3
"""A Prometheus was away for three hours, while other hosts still write to it: what was pushed meanwhile it
refuses, with 400 "out of bounds", or, if it takes samples out of order, 500 "too old sample". Each such push is
asked about once, whole, and is lost for that reason; what is of now is stored at once, behind all of them."""
import os
import struct
import subprocess
import time

import real  # noqa: F401
import ringtail
from lib import exporting
from lib.process import wait_until
from lib.protobuf import enum_value
from real import exports, pushes
from real.metrics import Prometheus, Prometheus3
from real.proxy import Proxy

AWAY_S = 3 * 3600
PUSHES = 6
REJECTED = enum_value("LossReason", "REASON_REJECTED")
OTHER = "other_host_is_here"


class OutOfOrderPrometheus(Prometheus):
    config = "global: {}\nstorage: {tsdb: {out_of_order_time_window: 30m}}\n"


class Clock:
    """The wall clock of what is started with `environment`."""

    def __init__(self, case):
        library = case.path("clock_shift.so")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "real", "clock_shift.c")
        subprocess.run(["gcc", "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
        self.path = case.write("clock", struct.pack("=q", 0))
        self.environment = {**os.environ, "LD_PRELOAD": library, "CLOCK_SHIFT": self.path}

    def shift(self, seconds):
        with open(self.path, "r+b") as file:
            file.write(struct.pack("=q", seconds))


def is_old(record):
    sample = record.request.series[0]["samples"][0]
    return sample["timestamp"] < (time.time() - AWAY_S / 2) * 1000


def push_while_away(case, daemon, proxies, clock):
    clock.shift(-AWAY_S)

    def whole_pushes():
        found = [exporting.stat(daemon, proxy) for proxy in proxies]
        return found if all(export["in_flight"] >= PUSHES * 300 for export in found) else None
    for export in wait_until(whole_pushes, "it has pushed in vain", 60 * ringtail.SLOW):
        case.check_equal((export["accepted"], export["lost"], export["residual"]), (0, {}, 0), "all of it waits")
    clock.shift(0)


def check_refused(case, proxy):
    """Of the pushes of three hours ago."""
    name = exports.name_of(proxy.behind)
    with proxy.lock:
        old = [record for record in proxy.records_of if is_old(record)]
    refused = [record.request.raw for record in old if record.status]
    case.check(len(old) >= 3 and not any(record.stored for record in old) and len(set(refused)) == len(refused),
               f"{name}: of {len(refused)} pushes of then none is stored, and each was asked about once",
               [(record.status, record.request.items) for record in old])
    case.say(f"ok: {name}: its status was {sorted({record.status for record in old if record.status})}")


def main(case):
    servers = exports.start_all(case, [Prometheus, OutOfOrderPrometheus, Prometheus3])
    proxies = [Proxy(server) for server in servers]
    for proxy in proxies:
        proxy.stop()
    clock = Clock(case)
    clock.shift(-AWAY_S)
    daemon = case.daemon(*(exports.option(proxy.behind, proxy.port) for proxy in proxies),
                         "--export-interval=2s", "--metrics-series-max=30", "--export-timeout=10s", env=clock.environment)
    push_while_away(case, daemon, proxies, clock)
    for server in servers:
        server.push(OTHER, int(time.time() * 1000))
    for proxy in proxies:
        proxy.start()
    for proxy in proxies:
        name = exports.name_of(proxy.behind)
        wait_until(lambda: exporting.stat(daemon, proxy)["state"] == "ok", f"{name}: it is back", 60 * ringtail.SLOW)
        export = pushes.await_ledger(daemon, proxy, lambda records: {
            REJECTED: sum(record.request.items for record in records if record.status and not record.stored)})
        case.say(f"ok: {name}: {export['accepted']} points accepted, {export['lost'][REJECTED]} too old, residual 0")
        check_refused(case, proxy)
        pushes.check_stored(case, proxy, others={OTHER})
    case.check_balanced(daemon)


ringtail.run(main)
