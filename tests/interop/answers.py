#!/usr/bin/env python3
"""Before each real server stands a proxy that answers 429 (with Retry-After in both forms, and four times),
500 to 504, 400, 413, 401, 301, partial success, late, or not at all, before or after the server has taken the request. In
the end the server holds what the ledger says it accepted, to the event: what was refused alone is lost with
that reason and never sent again, what may have come twice is counted as resent, and it came twice
exactly where the answer alone was lost."""
import real  # noqa: F401
import ringtail
from lib import exporting
from lib.protobuf import enum_value
from real import exports
from real.proxy import Proxy, Rule, Script

ROUND_EVENTS = 700              # more than a request holds
REJECTED = enum_value("LossReason", "REASON_REJECTED")
CUT = 7

RULES = [Rule("429, seconds", 429, retry_after="1"), Rule("429, date", 429, retry_after="date"),
         Rule("429, four times", 429, times=4),
         Rule("500", 500), Rule("501", 501), Rule("503", 503), Rule("502", 502), Rule("504", 504),
         Rule("400", 400), Rule("413", 413), Rule("401", 401), Rule("301", 301),
         Rule("slow", delay_s=0.7), Rule("too slow", delay_s=6, lost="answer"),
         Rule("lost request", lost="request"), Rule("lost answer", lost="answer")]
PARTIAL = Rule("partial", cut=CUT)
KEPT = {429, 500, 501, 502, 503, 504, 401, 301}
SPLIT = {400, 413}


def rules_for(server):
    """Loki's push has no partial success."""
    return RULES + ([PARTIAL] if server.kind.startswith("otlp") else [])


def check_server(case, server, proxy, export, events):
    name = exports.name_of(server)
    case.check_equal(proxy.errors, [], f"{name}: every body was understood")
    rejected = sum(record.refused for record in proxy.records_of
                   if record.rule.status not in KEPT and
                   (record.rule.status not in SPLIT or record.request.items == 1))
    case.check_equal((export["events"] - export["filtered"], export["accepted"], export["lost"],
                      export["residual"]),
                     (events, events - rejected, {REJECTED: rejected} if rejected else {}, 0),
                     f"{name}: of {events} events {rejected} were refused, and the ledger closes")
    case.check(all(record.status is None or record.status // 100 == 2
                                for record in proxy.records_of),
               f"{name}: by the proxy, never by the server",
               [record.status for record in proxy.records_of])
    twice = proxy.total("stored") - export["accepted"]
    wanted = sum(record.stored for record in proxy.records_of if record.unsaid)
    case.check_equal(twice, wanted, f"{name}: {twice} came twice, where the answer was lost")
    ringtail.wait_until(lambda: server.count() >= export["accepted"] and
                        len(set(server.numbers())) == export["accepted"],
                        f"{name}: all that it accepted is found", 30 * ringtail.SLOW)
    stored = len(server.numbers())
    wanted = export["accepted"] + (0 if server.program in exports.ONCE else twice)
    case.check_equal(stored, wanted, f"{name}: it holds {stored} records")


def main(case):
    servers = exports.start_all(case)
    proxies = [Proxy(server, Script(rules_for(server))) for server in servers]
    daemon = case.daemon(*(exports.option(server, proxy.port)
                           for server, proxy in zip(servers, proxies)),
                         *exporting.options(timeout_s=5))
    exporting.await_begun(daemon)
    events = 0
    while any(proxy.rules.left for proxy in proxies):
        exporting.fail_often(ROUND_EVENTS, events)
        events += ROUND_EVENTS
        for proxy in proxies:
            exporting.await_events(daemon, proxy, events)
            assert not proxy.errors, proxy.errors
    for server, proxy in zip(servers, proxies):
        check_server(case, server, proxy, exporting.stat(daemon, proxy), events)
    counted = daemon.stat()["counters"]["export_items_resent"]
    unsaid = sum(proxy.total("unsaid") for proxy in proxies)
    case.check_equal(counted, unsaid, f"export_items_resent counts {counted}, as the proxies do")
    for proxy in proxies:
        for rule in rules_for(proxy.behind):
            met = proxy.of_rule(rule.name)
            case.check(met, f"{exports.name_of(proxy.behind)}: met {rule.name}: "
                            f"{sum(record.request.items for record in met)} events")
    case.check_balanced(daemon)


ringtail.run(main)
