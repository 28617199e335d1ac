"""Each kind of export of events brings exactly the events that were asked for, each once, as they
were: a thousand calls that fail, to OTLP logs, OTLP traces and Loki at once."""
import errno
import os

import ringtail
from lib import exporting
from lib.backend import Backend

CALLS = 1000


def check_logs(case, backend):
    records = backend.records()
    case.check_equal(exporting.numbers(records), list(range(CALLS)), "each call is one record")
    for record in records:
        got = record["attributes"]
        right = (record["event_name"] == "ringtail.syscall.close" and
                 got["process.pid"] == got["thread.id"] == os.getpid() and
                 got["ringtail.syscall.ret"] == -errno.EBADF and
                 got["error.type"] == "EBADF" and
                 "= -1 EBADF" in record["body"]["string_value"])
        if not right:
            case.check(False, "the record is right", record)
    resource = backend.stored[0].resource
    case.check_equal((resource["service.name"], resource["host.name"], resource["os.type"]),
                     ("ringtail", os.uname().nodename, "linux"), "the resource is this host")


def check_traces(case, backend):
    spans = backend.spans()
    case.check_equal(len(spans), CALLS, f"{CALLS} spans")
    case.check_equal(len({span["trace_id"] for span in spans}), CALLS, "each its own trace")
    case.check(all(span["name"] == "close" and len(span["trace_id"]) == 16 and
                   span["start_time_unix_nano"] <= span["end_time_unix_nano"] and
                   span["status"]["message"] == "EBADF" for span in spans), "spans are right",
               spans[0])


def check_loki(case, backend):
    lines = backend.lines()
    case.check_equal(len(lines), CALLS, f"{CALLS} lines")
    host = os.uname().nodename
    case.check_equal({labels for labels, _ in lines},
                     {f'{{class="event", host="{host}", service="ringtail"}}'}, "one stream")
    for request in backend.stored:
        for stream in request.streams:
            times = [(entry["timestamp"]["seconds"], entry["timestamp"].get("nanos", 0))
                     for entry in stream["entries"]]
            case.check(times == sorted(times), "its lines are in the order of time")
            case.check(all(len(entry["structured_metadata"]) <= 15 for entry in
                           stream["entries"]), "no more metadata than Loki allows")


def main(case):
    logs, traces, loki = Backend(), Backend(), Backend()
    daemon = case.daemon(logs.url("otlp-logs"), traces.url("otlp-traces"), loki.url("loki"),
                         *exporting.options())
    exporting.await_begun(daemon)
    exporting.fail_often(CALLS)
    for backend in (logs, traces, loki):
        export = exporting.await_events(daemon, backend, CALLS)
        case.check_equal((export["accepted"], export["lost"], export["residual"]), (CALLS, {}, 0),
                         f"{export['name']}: {CALLS} accepted, none lost")
        case.check_equal(backend.errors, [], "every body was understood")
    check_logs(case, logs)
    check_traces(case, traces)
    check_loki(case, loki)
    case.check_balanced(daemon)


ringtail.run(main)
