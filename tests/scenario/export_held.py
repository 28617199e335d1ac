"""A back end that refuses whoever sends, whatever is sent (credentials, URL, a redirection, TLS on one side
alone; also one that says 400 to each event, as VictoriaLogs does of a wrong path), takes nothing, and nothing is lost to it: what is exported waits, also over an end of the daemon,
the state says so and why, and all of it goes out once that is mended."""
import re
import ssl
import subprocess
import time

import ringtail
from lib import exporting, http
from lib.backend import Answer, Backend

CALLS = 600         # more than a request holds
REFUSALS = {
    "401": Answer(401, b"no org id"),
    "403": Answer(403, b"not you"),
    "404": Answer(404, b"404 page not found"),
    "301": Answer(301, headers={"Location": "http://127.0.0.1:1/elsewhere"}),
    "308": Answer(308, headers={"Location": "http://127.0.0.1:1/elsewhere"}),
    "400, of a path": Answer(400, b'unsupported path requested: "/v1/logs"'),
    "400, of TLS": Answer(400, b"Client sent an HTTP request to an HTTPS server.\n"),
}


class Gate:
    """Refuses until it is mended."""

    def __init__(self, refusal):
        self.refusal, self.mended = refusal, False

    def __call__(self, _):
        return Answer() if self.mended else self.refusal


def make_context(case):
    key, certificate = case.path("key.pem"), case.path("certificate.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-keyout", key,
                    "-out", certificate, "-subj", "/CN=127.0.0.1", "-addext",
                    "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def start(case, urls):
    daemon = case.daemon(*urls, *exporting.options(), "--durability=written",
                         "--spool-sync-interval=100ms", "--http=127.0.0.1:0", f"--state-dir={case.path('state')}",
                         "--export-queue-size=64KiB", ringtail.ROOM)
    exporting.await_begun(daemon)
    return daemon


def check_held(case, daemon, name, backend):
    def look():
        export = exporting.stat(daemon, backend)
        return export if export["state"] == "held" else None
    export = ringtail.wait_until(look, f"{name}: it is held")
    case.check_equal((export["accepted"], export["lost"], export["residual"]), (0, {}, 0),
                     f"{name}: nothing is accepted, and nothing given up")
    wanted = f"HTTP {name[:3]}" if name[0].isdigit() else "certificate"
    case.check(wanted in export["last_error"], f"{name}: and why", export["last_error"])
    case.check(time.time() - 600 < export["error_realtime_ns"] / 1e9 <= time.time() and
               export["accepted_realtime_ns"] == 0, f"{name}: and when", export)
    return export


def check_metrics(case, daemon, backends):
    """Each destination's state and times are in /metrics as in stat."""
    metrics = http.metrics(daemon)
    prefix = "ringtail_collector_export_"
    for name, backend in backends.items():
        export = exporting.stat(daemon, backend)
        states = {labels["state"]: value for labels, value in metrics.all(prefix + "state")
                  if labels["destination"] == export["name"]}
        case.check_equal((states.pop("held"), set(states.values())), (1, {0}),
                         f"{name}: /metrics has its state")
        accepted, error, disk = (metrics.get(prefix + what, destination=export["name"])
                                 for what in ("last_accepted_timestamp_seconds",
                                              "last_error_timestamp_seconds", "spool_bytes"))
        case.check(accepted == 0 and time.time() - 600 < error <= time.time() and disk > 0,
                   f"{name}: and its times", accepted, error, disk)


def await_stored(daemon, calls):
    ringtail.wait_until(lambda: all(not spool["in_flight"] and spool["stored"] >= calls
                                    for spool in daemon.stat()["spool"]), "it is on disk")


def main(case):
    backends = {name: Backend(Gate(refusal)) for name, refusal in REFUSALS.items()}
    # Last: a certificate that nobody vouches for, until the back end does without.
    tls = backends["TLS"] = Backend(tls=make_context(case))
    urls = [backend.url("otlp-logs") for backend in backends.values()]
    daemon = start(case, urls)
    exporting.fail_often(CALLS)
    for name, backend in backends.items():
        check_held(case, daemon, name, backend)
    case.check(daemon.log.count("[export-held]") >= len(backends), "the log says so of each")
    case.check("export-header" in daemon.log, "and what to look at")
    await_stored(daemon, CALLS)
    check_metrics(case, daemon, backends)
    for name, backend in backends.items():
        case.check(exporting.stat(daemon, backend)["spool_bytes"] > 0,
                   f"{name}: stat says what waits on disk")
    text = case.tracectl(daemon, "stat").out
    case.check(len(re.findall(r"held .* never +20\d\d-\d\d-\d\d \d\d:\d\d:\d\d: \S", text)) ==
               len(backends), "stat says so to people, with the time of the error", text)
    case.check_balanced(daemon)
    daemon.crash()
    daemon = start(case, urls)
    exporting.fail_often(CALLS, CALLS)
    for name, backend in backends.items():
        check_held(case, daemon, name, backend)
    del backends["TLS"]
    tls.stop()
    for backend in backends.values():
        backend.answer.mended = True

    def look():
        return all(len(set(exporting.numbers(backend.records()))) == 2 * CALLS
                   for backend in backends.values())
    ringtail.wait_until(look, "all of both runs is stored once it is mended")
    for name, backend in backends.items():
        case.check_equal(exporting.numbers(backend.records()), list(range(2 * CALLS)),
                         f"{name}: each once")
        export = exporting.stat(daemon, backend)
        case.check_equal((export["lost"], export["residual"]), ({}, 0), f"{name}: nothing is lost")
    case.check_balanced(daemon)


ringtail.run(main)
