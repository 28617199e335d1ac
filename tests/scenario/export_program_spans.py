"""Spans of a program leave as OTLP spans: with the trace that another program began, each under its parent, with its
arguments and its failure; the system calls of a scope's thread are inside it. One whose process is killed, or whose
thread ends in it, is sent as what did not end. The daemon was asked for them before there was such a program."""
import os
import signal

import ringtail
from lib import exporting
from lib.backend import Backend
from lib.probing import Program, build

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
FIRST_FD = exporting.FIRST_FD
REPLAY = f"--source=replay:{os.path.join(ringtail.ROOT, 'tests', 'data', 'capture.rt')}"


def number(span):
    """Which call it is; None: it is none."""
    fd = span["attributes"].get("ringtail.syscall.arg.fd")
    return None if fd is None else fd - FIRST_FD


def named(spans, name):
    return next((span for span in spans if span["name"] == name), None)


def check_request(case, daemon, backend, binary, socket):
    program = Program(case, binary, socket, "request", TRACEPARENT=f"00-{TRACE}-{PARENT}-01")
    program.go().process.wait()

    def whole():
        spans = [span for span in backend.spans() if span["trace_id"].hex() == TRACE]
        return spans if len(spans) == 9 else None

    spans = ringtail.wait_until(whole, "the trace is stored")
    by_id = {span["span_id"]: span for span in spans}
    parents = {number(span) or span["name"]: by_id.get(span["parent_span_id"], {}).get("name") or span["parent_span_id"].hex()
               for span in spans}
    case.check_equal(parents, {"request": PARENT, "query": "request", "job": "request", "step": "job", 1: "request",
                               2: "query", 3: "request", 4: "step", 5: "request"},
                     "each span and each call is in the span that it was in")
    case.check(6 not in parents and any(number(span) == 6 for span in backend.spans()), "what was in none is in none")
    request, job = named(spans, "request"), named(spans, "job")
    case.check_equal([request["attributes"].get(f"ringtail.event.{name}") for name in ("id", "arg1")], [7, '"/index"'],
                     "arguments are attributes")
    case.check_equal((request["attributes"]["process.pid"], request["attributes"]["ringtail.program.provider"]),
                     (program.pid, "app"), "and so are process and provider")
    case.check_equal((job["attributes"].get("ringtail.program.status"), job["status"]["code"], request.get("status")),
                     (-5, 2, None), "a failure is one")
    case.check(all(span["start_time_unix_nano"] < span["end_time_unix_nano"] for span in spans if not number(span)),
               "each lasts")
    query = named(spans, "query")
    case.check(request["start_time_unix_nano"] <= query["start_time_unix_nano"] and
               query["end_time_unix_nano"] <= request["end_time_unix_nano"], "and the inner one is within the outer one")


def check_unended(case, backend, binary, socket, mode, name, call, end, why):
    program = Program(case, binary, socket, mode)
    program.go()
    ringtail.wait_until(lambda: "inside" in program.out, "it is in its span")
    if end:
        os.kill(program.pid, end)
        program.process.wait()
    span = ringtail.wait_until(lambda: named(backend.spans(), name), f"`{name}` is sent")
    case.check_equal((span["status"]["code"], span["status"]["message"]), (2, why), "as one that did not end")
    ringtail.wait_until(lambda: any(number(stored) == call and stored.get("parent_span_id") == span["span_id"]
                                    for stored in backend.spans()), "and its call is inside it")
    if not end:
        os.kill(program.pid, signal.SIGKILL)
        program.process.wait()


def check_refused(case, socket):
    for options, words in (([], "set `programs`"),
                           ([f"--programs={socket}", "--durability=written"], "durability = memory"),
                           ([f"--programs={socket}", "--export-span=a:b:c"], "names no spans")):
        done = case.refused(REPLAY, "--export=otlp-traces:http://127.0.0.1:1", "--export-span=app", *options)
        case.check(done.code != 0 and words in done.err, f"it is refused without: {words}", done.err)


def main(case):
    socket = os.path.join(case.path("run"), "programs.sock")
    check_refused(case, socket)
    binary = build(case, "spanned", "spanned")
    backend, logs = Backend(), Backend()
    daemon = case.daemon(f"--programs={socket}", backend.url("otlp-traces"), logs.url("otlp-logs"), "--export-span=app",
                         "--export-probe=syscall:close:call", "--export-probe=tracepoint:sched:sched_process_exit",
                         f'--export-filter=fd >= {FIRST_FD} || name == "sched_process_exit"', "--export-rate=0")
    exporting.await_begun(daemon)
    check_request(case, daemon, backend, binary, socket)
    check_unended(case, backend, binary, socket, "killed", "killed", 7, signal.SIGKILL, "its process ended in it")
    check_unended(case, backend, binary, socket, "thread", "left", 8, None, "its thread ended in it")
    exporting.await_events(daemon, backend, 0)
    case.check(not any(record["event_name"].startswith(("ringtail.begin", "ringtail.end")) for record in logs.records()),
               "logs were not asked to have them")
    case.check_equal(exporting.stat(daemon, backend)["lost"], {}, "nothing is lost")
    case.check_balanced(daemon)


ringtail.run(main)
