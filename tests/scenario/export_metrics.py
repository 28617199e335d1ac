"""Metrics are pushed as /metrics would show them: by OTLP with cumulative sums and explicit bounds, by
remote write with sorted labels and cumulated buckets; and a known number of calls is in both."""
import ringtail
from lib import exporting
from lib.backend import Backend, attributes

CALLS = 5000
NAME = "ringtail_syscall_duration_seconds"


def otlp_calls(backend):
    """The newest histogram of getppid."""
    for request in reversed(list(backend.stored)):
        for metric in request.metrics:
            if metric["name"] == NAME:
                for point in metric["histogram"]["data_points"]:
                    if attributes(point["attributes"])["syscall"] == "getppid":
                        return metric, point
    return None


def written(backend):
    """The newest value of each series of getppid, in the order of the request."""
    for request in reversed(list(backend.stored)):
        series = [({label["name"]: label["value"] for label in one["labels"]}, one)
                  for one in request.series]
        mine = [(labels, one) for labels, one in series if labels.get("syscall") == "getppid" and
                labels["__name__"].startswith(NAME)]
        if mine:
            return mine
    return []


def count_of(series):
    return next((one["samples"][0].get("value", 0) for labels, one in series
                 if labels["__name__"] == f"{NAME}_count"), 0)


def main(case):
    otlp, write = Backend(), Backend()
    daemon = case.daemon(ringtail.ROOM, otlp.url("otlp-metrics"),
                         write.url("remote-write"), "--export-interval=1s",
                         f"--export-timeout={exporting.TIMEOUT_S}s", "--export-queue-size=256MiB")
    ringtail.wait_until(lambda: otlp.stored and write.stored, "metrics come")
    load = case.load(CALLS)
    load.run()
    ringtail.wait_until(lambda: otlp_calls(otlp) and otlp_calls(otlp)[1]["count"] >= CALLS,
                        "OTLP has every call")
    metric, point = otlp_calls(otlp)
    case.check_equal(metric["histogram"]["aggregation_temporality"], 2, "it is cumulative")
    case.check_equal((sum(point["bucket_counts"]), len(point["bucket_counts"])),
                     (point["count"], len(point["explicit_bounds"]) + 1), "the buckets add up")
    case.check(point["explicit_bounds"] == sorted(set(point["explicit_bounds"])), "bounds grow")
    case.check(0 < point["start_time_unix_nano"] < point["time_unix_nano"], "it has a start")
    ringtail.wait_until(lambda: count_of(written(write)) >= CALLS, "remote write has them")
    series = written(write)
    buckets = [(labels["le"], one["samples"][0].get("value", 0)) for labels, one in series
               if labels["__name__"] == f"{NAME}_bucket"]
    values = [value for _, value in buckets]
    case.check_equal((buckets[-1], values), (("+Inf", count_of(series)), sorted(values)),
                     "buckets are cumulated")
    for backend in (otlp, write):
        export = exporting.stat(daemon, backend)
        case.check_equal((export["lost"], export["residual"]), ({}, 0),
                         f"{export['name']}: nothing lost")
    case.check_balanced(daemon)
    daemon.stop()               # no more comes while all that did is looked at
    for request in write.stored:
        for one in request.series:
            names = [label["name"] for label in one["labels"]]
            if names != sorted(set(names)) or names[0] != "__name__":
                case.check(False, "labels are sorted", names)
    case.check_equal({request.headers["X-Prometheus-Remote-Write-Version"]
                      for request in write.stored}, {"0.1.0"}, "it says its version")
    case.check_equal(otlp.errors + write.errors, [], "every body was understood")


ringtail.run(main)
