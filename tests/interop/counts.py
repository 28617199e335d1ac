#!/usr/bin/env python3
"""Each kind of export of events, straight to each real server that takes it, all at once: each has
exactly the events that were made, each once, as they were."""
import errno
import os

import real  # noqa: F401
import ringtail
from lib import exporting
from real import exports, traces
from real.collector import attributes

CALLS = 2000
EBADF = -errno.EBADF


def check_victoria_logs(case, server):
    event = server.events()[0]
    if server.kind == "loki":
        right = {"service": "ringtail", "host": os.uname().nodename, "class": "event",
                 "pid": str(os.getpid()), "event": "close", "errno": "EBADF", "ret": str(EBADF)}
    else:
        right = {"service.name": "ringtail", "host.name": os.uname().nodename,
                 "process.pid": str(os.getpid()), "ringtail.syscall.name": "close",
                 "error.type": "EBADF", "ringtail.syscall.ret": str(EBADF),
                 "event_name": "ringtail.syscall.close"}
    wrong = {key: event.get(key) for key, value in right.items() if event.get(key) != value}
    case.check(not wrong and "= -1 EBADF" in event["_msg"], "fields are right", wrong, event)


def check_jaeger(case, server):
    case.check_equal(server.services(), ["ringtail"], "its service is ringtail")
    span = server.events()[0]
    got = traces.tags(span)
    case.check(span["operationName"] == "close" and got["process.pid"] == os.getpid() and
               got["ringtail.syscall.ret"] == EBADF and got["error"] is True and
               got["otel.status_description"] == "EBADF", "tags are right", span)


def check_collector(case, server):
    event = server.events()[0]
    got = attributes(event["attributes"])
    case.check(got["process.pid"] == os.getpid() and got["ringtail.syscall.ret"] == EBADF and
               got["error.type"] == "EBADF" and server.resource["service.name"] == "ringtail",
               "attributes are right", event)


def check_loki(case, server):
    fields, line = server.events()[0]
    right = {"service": "ringtail", "host": os.uname().nodename, "class": "event",
             "pid": str(os.getpid()), "event": "close", "errno": "EBADF", "ret": str(EBADF),
             "level": "info", "detected_level": "info"}
    wrong = {key: fields.get(key) for key, value in right.items() if fields.get(key) != value}
    case.check(not wrong and "= -1 EBADF" in line, "fields are right", wrong, fields, line)


CHECKS = {"victoria-logs": check_victoria_logs, "loki": check_loki, "jaeger": check_jaeger,
          "otelcol": check_collector}


def main(case):
    servers = exports.start_all(case)
    daemon = case.daemon(*(exports.option(server) for server in servers), *exporting.options())
    exporting.await_begun(daemon)
    exporting.fail_often(CALLS)
    for server in servers:
        name = exports.name_of(server)
        export = exporting.await_events(daemon, server, CALLS)
        case.check_equal((export["accepted"], export["lost"], export["residual"]),
                         (CALLS, {}, 0), f"{name}: {CALLS} accepted")
        if server.program != "loki":        # which answers 500 for a while
            case.check_equal(export["retries"], 0, f"{name}: at the first try")
        case.check_equal(exports.await_numbers(server, range(CALLS)), list(range(CALLS)),
                         f"{name}: each of {CALLS} is stored, once")
        case.check_equal(server.count(), CALLS, f"{name}: it counts as many")
        CHECKS[server.program](case, server)
    case.check_balanced(daemon)


ringtail.run(main)
