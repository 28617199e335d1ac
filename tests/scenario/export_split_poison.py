"""A back end that refuses a request for one event that is in it (400), or for its size (413), is asked about
the halves, until that event is alone: it alone is lost, counted and named in the log; every other is
stored, once, whatever the kind."""
import ringtail
from lib import exporting
from lib.backend import Answer, Backend
from lib.protobuf import enum_value

CALLS = 700             # more than a request holds
POISON = {3, 511, 600}
ROOM = 50               # of a back end that takes few at a time
REJECTED = enum_value("LossReason", "REASON_REJECTED")


def numbers_of(request):
    lines = [entry["line"] for stream in request.streams for entry in stream["entries"]]
    return exporting.numbers(request.records) + \
        [int(line.split("fd=")[1].split(")")[0].split(",")[0]) - exporting.FIRST_FD
         for line in lines]


def refuse_poison(request):
    return Answer(400, b"out of bounds") if POISON & set(numbers_of(request)) else Answer()


def refuse_much(request):
    return Answer(413, b"too large") if len(numbers_of(request)) > ROOM else Answer()


def check(case, daemon, name, backend, lost):
    export = exporting.await_events(daemon, backend, CALLS)
    case.check_equal((export["accepted"], export["lost"], export["residual"]),
                     (CALLS - len(lost), {REJECTED: len(lost)} if lost else {}, 0),
                     f"{name}: only what is wrong is lost")
    stored = sorted(number for request in backend.stored for number in numbers_of(request))
    case.check_equal(stored, sorted(set(range(CALLS)) - lost), f"{name}: all else is stored, once")
    case.check_equal(backend.errors, [], f"{name}: every body was understood")
    case.check(export["retries"] <= len(lost), f"{name}: only what is wrong is asked about twice", export["retries"])


def main(case):
    logs, loki, small = Backend(refuse_poison), Backend(refuse_poison), Backend(refuse_much)
    daemon = case.daemon(logs.url("otlp-logs"), loki.url("loki"), small.url("loki"),
                         *exporting.options())
    exporting.await_begun(daemon)
    exporting.fail_often(CALLS)
    check(case, daemon, "otlp-logs", logs, POISON)
    check(case, daemon, "loki", loki, POISON)
    check(case, daemon, "413", small, set())
    for number in POISON:
        said = [line for line in daemon.log.splitlines()
                if "[export-rejected]" in line and f"fd={exporting.FIRST_FD + number}" in line]
        case.check(len(said) == 2, f"the log names event {number}, for either", daemon.log)
    case.check_balanced(daemon)


ringtail.run(main)
