#!/usr/bin/env python3
"""Metrics pushed by remote write and by OTLP to real servers, through a proxy that answers badly now
and then, and while the servers are killed and started again: every sample of every push that was
accepted is stored, with its time and value; of those that were refused, none; and what was pushed is
what /metrics shows."""
import time

import real  # noqa: F401
import ringtail
from lib import exporting, http
from lib.process import wait_until
from lib.protobuf import enum_value
from real import exports, pushes, samples
from real.collector import Collector
from real.metrics import Prometheus, Prometheus3, VictoriaMetrics
from real.proxy import Proxy, Rule, Script

SERVERS = [lambda case: VictoriaMetrics(case, "remote-write"), Prometheus, Prometheus3,
           lambda case: VictoriaMetrics(case, "otlp-metrics"),
           lambda case: Collector(case, "otlp-metrics")]
RULES = [Rule("429", 429, retry_after="1"), Rule("503", 503), Rule("400", 400),
         Rule("too slow", delay_s=11, lost="answer"), Rule("lost request", lost="request"),
         Rule("lost answer", lost="answer")]
REFUSED = "400"                  # of those, what is refused for what is in it
REJECTED = enum_value("LossReason", "REASON_REJECTED")
CALLS = 5000


def times_of(request):
    return {at for values in samples.of_request(request).values() for at in values}


class RefusingScript(Script):
    """What was refused for what is in it is refused again, whole or in part."""

    def __init__(self, rules):
        super().__init__(rules)
        self.refusal = next(rule for rule in rules if rule.name == REFUSED)
        self.refused = set()

    def __call__(self, request):
        times = times_of(request)
        rule = self.refusal if times & self.refused else super().__call__(request)
        if rule is self.refusal:
            self.refused |= times
        return rule


def check_stored(case, proxy):
    """Every sample, and no other."""
    name = exports.name_of(proxy.behind)
    got = pushes.check_stored(case, proxy)
    times = {at for record in proxy.of_rule(REFUSED) if not record.stored for at in times_of(record.request)}
    case.check(times and not any(at in values for values in got.values() for at in times),
               f"{name}: nothing of what was refused is")


def check_ledger(case, daemon, proxy):
    name = exports.name_of(proxy.behind)
    # A request that the proxy had taken as its server went found nobody: that is no body.
    case.check_equal([error for error in proxy.errors if "ConnectionRefusedError" not in error], [],
                     f"{name}: every body was understood")

    def look():
        export = exporting.stat(daemon, proxy)
        with proxy.lock:
            taken = {record.request.raw: record.request.items for record in proxy.records_of
                     if record.stored}
        rejected = max(record.request.items for record in proxy.of_rule(REFUSED))    # the whole push
        right = (sum(taken.values()), {REJECTED: rejected}, 0)
        return (export["accepted"], export["lost"], export["residual"]) == right and right
    accepted, lost, _ = wait_until(look, f"{name}: the ledger says what the proxy saw", 30)
    case.say(f"ok: {name}: {accepted} points accepted, {lost[REJECTED]} refused, residual 0")


def check_values(case, daemon, proxies):
    """What was pushed lies between what /metrics says before and after."""
    began = time.time() * 1000
    before = http.metrics(daemon)

    def newest(proxy):
        with proxy.lock:
            records = [record for record in proxy.records_of if record.stored]
        found = samples.of_request(records[-1].request)
        return found if min(min(values) for values in found.values()) > began else None
    for proxy in proxies:
        values = wait_until(lambda: newest(proxy), "another push", 60)
        after = http.metrics(daemon)
        compared = wrong = 0
        for (name, labels), value in values.items():
            if not name.endswith(("_total", "_count", "_bucket")):
                continue
            labels = frozenset((key, text) for key, text in labels
                               if key not in ("job", "instance"))
            low, high = (self_value(metrics, name, labels) for metrics in (before, after))
            compared += 1
            wrong += not low <= next(iter(value.values())) <= high
        case.check(compared > 300 and not wrong,
                   f"{exports.name_of(proxy.behind)}: {compared} counters as /metrics has them",
                   compared, wrong)


def self_value(metrics, name, labels):
    """Of a series of /metrics, bounds as samples writes them; 0: not there yet."""
    cache = metrics.__dict__.setdefault("by_labels", {})
    if name not in cache:
        cache[name] = {samples._series(name, dict(key))[1]: value
                       for key, value in metrics.samples.get(name, {}).items()}
    return cache[name].get(labels, 0)


def restart(case, daemon, proxies, kill):
    """Away, then back, with a push between."""
    for proxy in proxies:
        proxy.stop()
    for proxy in proxies:
        if kill:
            exports.await_on_disk(proxy.behind)
            proxy.behind.kill()
        else:
            proxy.behind.end()
        wait_until(lambda: exporting.stat(daemon, proxy)["state"] == "retrying",
                   f"{exports.name_of(proxy.behind)}: it is tried again", 60)
        proxy.behind.start()
        proxy.start()
    for proxy in proxies:
        wait_until(lambda: exporting.stat(daemon, proxy)["state"] == "ok",
                   f"{exports.name_of(proxy.behind)}: it is back", 60)


def main(case):
    proxies = [Proxy(server, RefusingScript(RULES)) for server in exports.start_all(case, SERVERS)]
    daemon = case.daemon(*(exports.option(proxy.behind, proxy.port) for proxy in proxies),
                         "--http=127.0.0.1:0", "--metrics-series-max=30", "--export-interval=1s", "--export-timeout=10s",
                         "--ring-size=16MiB", "--export-queue-size=64MiB")
    http.await_metering(daemon)
    load = case.load(CALLS)
    load.run()
    wait_until(lambda: not any(proxy.rules.left for proxy in proxies), "every rule was met", 150)
    for kill in (True, False):
        restart(case, daemon, proxies, kill)
    check_values(case, daemon, proxies)
    for proxy in proxies:
        check_stored(case, proxy)
        check_ledger(case, daemon, proxy)
    case.check_balanced(daemon)


ringtail.run(main)
