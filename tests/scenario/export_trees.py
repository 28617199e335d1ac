"""A process tree that was asked for is one trace: each process a span under the one that forked it,
also across exec, with its slow calls inside; and a slow call is a trace of its own, that its log and
its exemplar lead to, with a link to where it was in the tree."""
import os

import ringtail
from lib import exporting
from lib.backend import Backend


def exit_code(span):
    return span["attributes"].get("process.exit.code")


def main(case):
    name = f"tree-{os.getpid()}"        # of this test's alone
    os.symlink("/bin/sh", case.path(name))
    lock = exporting.HeldLock(case.path("lock"))
    script = "flock lock true; sh -c 'sh -c \"exit 3\"; true'"
    backend, logs = Backend(), Backend()
    daemon = case.daemon(backend.url("otlp-traces"), logs.url("otlp-logs"),
                         f"--export-trace={name[:-1]}*", "--slow-call=100ms", "--export-rate=0")
    exporting.await_begun(daemon)
    process = case.start(case.path(name), "-c", script, cwd=case.dir)
    lock.let_go()
    process.wait()

    def is_slow(span):
        return span["name"] == "flock" and "ringtail.syscall.name" in span["attributes"]

    def whole():
        """The spans of the tree, the root first, once all have come: what another CPU recorded may come after it."""
        stored = backend.spans()
        root = [span for span in stored if span["name"] == name and not span.get("parent_span_id")]
        spans = root + [span for span in stored if root and span is not root[0] and
                        span["trace_id"] == root[0]["trace_id"]]
        slow = {span["span_id"] for span in spans if is_slow(span)}
        ids = {span["span_id"] for span in spans}
        return spans if (slow and {span.get("parent_span_id") for span in spans[1:]} <= ids and
                         any(exit_code(span) == 3 for span in spans) and
                         any(span["span_id"] in slow and span not in spans for span in stored)) else None

    spans = ringtail.wait_until(whole, "the tree's spans are stored")
    root = spans[0]
    case.check_equal(root["attributes"]["process.pid"], process.pid, "the root is the command")
    by_id = {span["span_id"]: span for span in spans}
    case.check_equal(len(by_id), len(spans), "each span has an id of its own")
    case.check(all(span is root or span["parent_span_id"] in by_id for span in spans),
               "each span but the root is under another")
    case.check(all(span["start_time_unix_nano"] <= span["end_time_unix_nano"] and
                   span["start_time_unix_nano"] >= root["start_time_unix_nano"]
                   for span in spans), "and none begins before the root")
    failed = [span for span in spans if exit_code(span) == 3]
    case.check_equal([span["name"] for span in failed], ["sh"], "the one that failed is there")
    parent = by_id[failed[0]["parent_span_id"]]
    case.check_equal((parent["name"], by_id[parent["parent_span_id"]]["span_id"]),
                     ("sh", root["span_id"]), "its parent is, and that one's is the root")
    slow = next(filter(is_slow, spans))
    case.check_equal(by_id[slow["parent_span_id"]]["attributes"]["process.pid"],
                     slow["attributes"]["process.pid"], "a slow call is in its process")
    own = next(span for span in backend.spans() if span["span_id"] == slow["span_id"] and
               span["trace_id"] != root["trace_id"])
    case.check_equal([(link["trace_id"], link["span_id"]) for link in own["links"]],
                     [(root["trace_id"], slow["span_id"])], "its own trace has a link to there")
    ringtail.wait_until(lambda: own["trace_id"] in {record.get("trace_id")
                                                    for record in logs.records()},
                        "its log leads to its own trace")
    case.check_balanced(daemon)


ringtail.run(main)
