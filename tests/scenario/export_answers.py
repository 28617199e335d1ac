"""What a back end answers decides: busy, broken or away is tried again, as late as it asked for, however
often it says so; partly refused is counted; any kind of
yes is yes, also one that is cut short. Only where the answer itself was lost does the back end get
something twice, and that is counted too."""
import email.utils
import time

import ringtail
from lib import exporting
from lib.backend import Answer, Backend
from lib.protobuf import enum_value

CALLS = 300
YES = Answer()
REJECTED = enum_value("LossReason", "REASON_REJECTED")


def first(n, answer):
    """Says that to the first n requests, then yes."""
    left = [n]

    def say(_):
        left[0] -= 1
        return (answer() if callable(answer) else answer) if left[0] >= 0 else YES
    return say


def partial(rejected):
    """ExportLogsServiceResponse with so many rejected."""
    message = b"\x08" + bytes([rejected]) + b"\x12\x04some"
    return Answer(200, b"\x0a" + bytes([len(message)]) + message)


def partly(rejected):
    """Rejects so many of the first request that holds more: the very first may hold fewer."""
    left = [1]

    def say(request):
        if not left[0] or len(request.records) <= rejected:
            return YES
        left[0] = 0
        return partial(rejected)
    return say


def date_soon():
    return Answer(429, headers={"Retry-After": email.utils.formatdate(time.time() + 3, usegmt=True)})


BACKENDS = {
    "429, seconds": first(2, Answer(429, headers={"Retry-After": "2"})),
    "429, date": first(1, date_soon),
    "429, four times": first(4, Answer(429)),
    "503": first(3, Answer(503)),
    "500": first(2, Answer(500, b"empty ring")),
    "502": first(1, Answer(502)),
    "504": first(1, Answer(504)),
    "partial": partly(3),
    "not protobuf": lambda _: Answer(200, b"all is well"),
    "204": lambda _: Answer(204),
    "slow": lambda _: Answer(hang_s=1.5),
    "cut short": lambda _: Answer(200, b"\x0a\x04", cut=True),
    "500, cut short": first(1, Answer(500, b"emp", cut=True)),
    "lost answer": first(1, Answer(200, keep=True, drop=True)),
    "lost request": first(1, Answer(200, keep=False, drop=True)),
}
ASKED_S = {"429, seconds": 2.0, "429, date": 1.5}       # a date has no fractions


def check_sent_once(case, name, backend):
    bodies = [request.raw for request in backend.seen]
    case.check_equal(len(set(bodies)), len(bodies), f"{name}: nothing is sent twice")


def check(case, daemon, name, backend):
    export = exporting.await_events(daemon, backend, CALLS)
    rejected = 3 if name == "partial" else 0
    lost = {REJECTED: rejected} if rejected else {}
    case.check_equal((export["accepted"], export["lost"], export["residual"]),
                     (CALLS - rejected, lost, 0), f"{name}: the ledger")
    case.check_equal(backend.errors, [], f"{name}: every body was understood")
    got = exporting.numbers(backend.records())
    if name == "lost answer":
        case.check_equal(sorted(set(got)), list(range(CALLS)), f"{name}: everything is stored")
        twice = len(got) - CALLS
        resent = daemon.stat()["counters"]["export_items_resent"]
        case.check(0 < twice <= resent, f"{name}: what came twice is counted", twice, resent)
    else:
        case.check_equal(got, list(range(CALLS)), f"{name}: everything is stored, once")
    if name in ASKED_S:
        gap = backend.seen[1].at - backend.seen[0].at
        case.check(gap >= ASKED_S[name], f"{name}: it is waited for as long as it asked", gap)
    if name in ("partial", "not protobuf", "204", "slow", "cut short"):
        case.check_equal(export["retries"], 0, f"{name}: nothing is tried again")
        check_sent_once(case, name, backend)
    elif name != "lost answer":
        case.check(export["retries"] >= 1, f"{name}: it was tried again")


def main(case):
    backends = {name: Backend(answer) for name, answer in BACKENDS.items()}
    daemon = case.daemon(*(backend.url("otlp-logs") for backend in backends.values()),
                         *exporting.options())
    exporting.await_begun(daemon)
    exporting.fail_often(CALLS)
    for name, backend in backends.items():
        check(case, daemon, name, backend)
    case.check(daemon.log.count("[export-retrying]") >= 1, "the log says that it tries again")
    case.check_balanced(daemon)


ringtail.run(main)
