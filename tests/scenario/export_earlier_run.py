"""A slow call is one trace, whenever its back end gets it: the exemplar of the run that saw it, what was
sent at once, and what a later run of the daemon sent out of the spool, have the same id and the same
time, and it comes once. Earlier runs' rings were numbered as this one's are: what is sent of them is not
taken for its own."""
import os
import threading
import time

import ringtail
from lib import exporting, http
from lib.backend import Backend

CALL_S = 0.3
ROUNDING_NS = 100_000_000       # between two readings of two clocks, on a host that is busy


def slow_call():
    """A splice() that waits until there is something; when it was, on the wall clock."""
    (source, feeder), (sink, target) = os.pipe(), os.pipe()
    timer = threading.Timer(CALL_S, os.write, (feeder, b"x"))
    timer.start()
    began = time.time_ns()
    os.splice(source, target, 1)
    ended = time.time_ns()
    timer.join()
    for fd in (source, feeder, sink, target):
        os.close(fd)
    return began, ended


def start(case, traces, logs):
    daemon = case.daemon(traces.url("otlp-traces"), logs.url("otlp-logs"), "--http=127.0.0.1:0",
                         "--slow-call=100ms", "--export-rate=0", "--durability=written", ringtail.ROOM,
                         f"--export-filter=pid == {os.getpid()} && function == \"splice\"",
                         f"--state-dir={case.path('state')}")
    exporting.await_begun(daemon)
    http.await_metering(daemon)
    return daemon


def call(daemon, traces, logs):
    """Makes a slow call; its trace as the exemplar has it, and when it was. It is on disk then."""
    before = [exporting.stat(daemon, backend)["events"] for backend in (traces, logs)]
    began, ended = slow_call()

    def exemplar():
        return {labels["trace_id"] for _, of, labels, _ in
                http.metrics(daemon, openmetrics=True).exemplars if of.get("syscall") == "splice"}
    trace, = ringtail.wait_until(exemplar, "it is an exemplar")

    def stored():
        events = [exporting.stat(daemon, backend)["events"] for backend in (traces, logs)]
        return all(now > was for now, was in zip(events, before)) and \
            not any(spool["in_flight"] for spool in daemon.stat()["spool"])
    ringtail.wait_until(stored, "it is exported, and on disk")
    return trace, began, ended


def behind(daemon):
    """What /metrics has for each consumer; what `tracectl stat` has is the same while nothing moves."""
    def look():
        before = {one["name"]: one["behind_bytes"] for one in daemon.stat()["consumer"]}
        shown = {labels["consumer"]: value for labels, value in
                 http.metrics(daemon).all("ringtail_collector_consumer_behind_bytes")}
        return before == shown and shown
    return ringtail.wait_until(look, "metrics and stat say the same of consumers")


def await_settled(case, daemon):
    """Until all that was accepted is acknowledged, and that is on disk: a kill undoes none of it."""
    def look():
        stat = daemon.stat()
        with open(case.path("state/consumers")) as file:
            kept = file.read()
        settled = [one for export in stat["export"] for one in stat["consumer"]
                   if one["name"].startswith(f"export-{export['name'].split(':')[0]}-")
                   and one["acked_realtime_ns"] >= export["accepted_realtime_ns"] > 0
                   and f"acked {one['acked_realtime_ns']}\n" in kept]
        return len(settled) == len(stat["export"])
    ringtail.wait_until(look, "what was accepted is settled on disk")


def check(case, trace, began, ended, traces, logs):
    spans = [span for span in traces.spans() if span["trace_id"].hex() == trace]
    case.check_equal(len(spans), 1, "its span is there, once")
    case.check(began - ROUNDING_NS <= spans[0]["start_time_unix_nano"] and
               spans[0]["end_time_unix_nano"] <= ended + ROUNDING_NS, "with its time",
               began, spans[0]["start_time_unix_nano"], spans[0]["end_time_unix_nano"], ended)
    records = [record for record in logs.records() if record.get("trace_id", b"").hex() == trace]
    case.check_equal([record["span_id"] for record in records], [spans[0]["span_id"]],
                     "its log leads there")
    case.check(abs(records[0]["time_unix_nano"] - spans[0]["end_time_unix_nano"]) < ROUNDING_NS,
               "and has the time of its end")


def main(case):
    case.await_alone()          # the meter is of all processes
    traces, logs = Backend(), Backend()
    daemon = start(case, traces, logs)
    calls = [call(daemon, traces, logs)]
    for backend in (traces, logs):
        exporting.await_events(daemon, backend, 1)
    check(case, *calls[0], traces, logs)
    await_settled(case, daemon)
    traces.stop()
    logs.stop()
    daemon.crash()
    for end in (lambda: daemon.crash(), lambda: daemon.stop()):
        daemon = start(case, traces, logs)
        calls.append(call(daemon, traces, logs))
        kept = behind(daemon)
        case.check(len(kept) == 2 and all(kept.values()), "something is kept for both", kept)
        case.check_balanced(daemon)
        end()
    traces.start()
    logs.start()

    def all_are_there():
        return len({span["trace_id"] for span in traces.spans()}) >= len(calls) and \
            len({record["trace_id"] for record in logs.records()}) >= len(calls)
    # This one has nothing of its own to send: what it sends of the others it sends once and for all.
    daemon = start(case, traces, logs)
    ringtail.wait_until(all_are_there, "each call is there")
    case.check_equal(daemon.stop(), 0, "it ends")
    daemon = start(case, traces, logs)
    calls.append(call(daemon, traces, logs))
    ringtail.wait_until(all_are_there, "the last call is there")
    case.check_equal(len({trace for trace, _, _ in calls}), len(calls), "each is a trace of its own")
    for made in calls:
        check(case, *made, traces, logs)
    case.check_equal({span["trace_id"].hex() for span in traces.spans()},
                     {trace for trace, _, _ in calls}, "there is no other trace")
    case.check_equal(traces.errors + logs.errors, [], "every body was understood")
    case.check_balanced(daemon)


ringtail.run(main)
