#!/usr/bin/env python3
"""Prometheus scrapes /metrics: it has each series with a value between what the page said before and
after. The exemplar of a slow call's bucket leads to its trace in Jaeger, and that leads to the run of
the process tree it was part of: one span for each process, under its parent's, across fork and exec.
"""
import os
import subprocess
import time

import real  # noqa: F401
import ringtail
from lib import exporting, http
from lib.process import wait_until
from lib.prometheus import Prometheus
from real import exports
from real.traces import Jaeger, tags

BUCKET = "ringtail_syscall_duration_seconds_bucket"
SCRIPT = ("(flock 9; sleep 0.6) 9>lock & sleep 0.2; flock lock true; "
          "sh -c 'sh -c \"exit 3\"; true'; wait")
TRIES = 5                       # others' slow calls take the bucket's one exemplar too


def key(labels):
    return frozenset((name, value) for name, value in labels.items()
                     if name not in ("__name__", "job", "instance"))


def check_series(case, daemon, prometheus):
    """Counters only grow: a scrape between two looks at the page lies between them."""
    before, began = http.metrics(daemon), time.time()
    wait_until(lambda: prometheus.value('timestamp(up{job="ringtail"})') > began, "a scrape", 60)
    stored = prometheus.query('{job="ringtail"}')
    after = http.metrics(daemon)
    compared, wrong = 0, []
    for series in stored:
        name, labels = series["metric"]["__name__"], key(series["metric"])
        if not name.endswith(("_total", "_count", "_bucket")):
            continue
        compared += 1
        low, high = (page.samples.get(name, {}).get(labels, 0) for page in (before, after))
        if not low <= float(series["value"][1]) <= high:
            wrong.append((name, labels, low, series["value"][1], high))
    case.check(compared > 300 and not wrong, f"{compared} counters are as on the page", wrong[:5])
    names = {(series["metric"]["__name__"], key(series["metric"])) for series in stored}
    missing = [(name, labels) for name, of_name in before.samples.items() for labels in of_name
               if (name, labels) not in names and not name.startswith("ringtail_collector")]
    case.check(not missing, f"it has all of the page's series of the kernel: {len(names)} series",
               missing[:5])


def run_tree(case):
    process = subprocess.Popen([case.path("treeroot"), "-c", SCRIPT], cwd=case.dir)
    process.wait(60)
    return process.pid


def parent_of(span):
    """(trace, span, as what) that it refers to."""
    return [(to["traceID"], to["spanID"], to["refType"]) for to in span["references"]]


def find_exemplar(prometheus, jaeger, root):
    """The trace of a slow flock in that tree which an exemplar leads to."""
    for series in prometheus.exemplars(f'{BUCKET}{{syscall="flock"}}'):
        for exemplar in series["exemplars"]:
            trace = exemplar["labels"]["trace_id"]
            for span in jaeger.trace(trace):
                for tree, _, kind in parent_of(span):
                    if kind == "FOLLOWS_FROM" and tags(span)["ringtail.syscall.name"] == "flock" \
                            and any(tags(other)["process.pid"] == root
                                    for other in jaeger.trace(tree)):
                        return exemplar, span, jaeger.trace(tree)
    return None


def check_tree(case, root, slow, spans):
    by_id = {span["spanID"]: span for span in spans}
    tops = [span for span in spans if not span["references"]]
    case.check([tags(span)["process.pid"] for span in tops] == [root], "the tree's root is the "
               "command", tops)
    case.check(all(parent_of(span) == [(tops[0]["traceID"], parent_of(span)[0][1], "CHILD_OF")] and
                   parent_of(span)[0][1] in by_id for span in spans if span not in tops),
               f"each of the {len(spans) - 1} others is under one that is there")
    failed = [span for span in spans if tags(span).get("process.exit.code") == 3]
    chain, span = [], failed[0]
    while span["references"]:
        chain.append(tags(span)["process.pid"])
        span = by_id[parent_of(span)[0][1]]
    parents = [tags(other)["process.parent_pid"] for other in spans
               if tags(other)["process.pid"] in chain and "process.exit.code" in tags(other)]
    case.check(len(failed) == 1 and len(chain) == 2 and set(parents) == {chain[1], root},
               "a shell in a shell in the command: as the kernel's parents have it", chain, parents)
    inside = by_id[slow["references"][0]["spanID"]]
    under = by_id[parent_of(inside)[0][1]]
    case.check(tags(under)["process.pid"] == tags(slow)["process.pid"],
               "the slow call is in the span of its process")


def main(case):
    os.symlink("/bin/sh", case.path("treeroot"))
    jaeger = Jaeger(case)
    daemon = case.daemon("--http=127.0.0.1:0", exports.option(jaeger), "--export-trace=treero*",
                         "--slow-call=100ms", "--export-rate=0", "--ring-size=16MiB")
    exporting.await_begun(daemon)
    http.await_metering(daemon)
    host, port = http.address_of(daemon)
    prometheus = Prometheus(case, [f"{host}:{port}"])
    wait_until(lambda: prometheus.value('up{job="ringtail"}') == 1, "a first scrape", 60)
    check_series(case, daemon, prometheus)
    for _ in range(TRIES):
        root = run_tree(case)
        try:
            exemplar, slow, spans = wait_until(lambda: find_exemplar(prometheus, jaeger, root),
                                               "an exemplar leads to Jaeger", 15 * ringtail.SLOW)
            break
        except ringtail.Failure as failure:
            case.say(f"once more: {failure}")
    else:
        raise ringtail.Failure("no exemplar leads to Jaeger")
    case.say(f"ok: exemplar {exemplar['labels']['trace_id']} is found in Jaeger")
    seconds = slow["duration"] / 1e6
    case.check(abs(float(exemplar["value"]) - seconds) < 1e-5, f"it took {seconds} s in both",
               exemplar, slow)
    check_tree(case, root, slow, spans)
    case.check_balanced(daemon)


ringtail.run(main)
