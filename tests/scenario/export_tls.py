"""Back ends behind TLS are believed only if an authority vouches for them that is believed, and get the
headers that they alone are to get; a secret that others can read stops the daemon from starting."""
import os
import ssl
import subprocess

import ringtail
from lib import exporting
from lib.backend import Backend

CALLS = 50


def make_certificate(case):
    """A self-signed one for 127.0.0.1, which is its own authority."""
    key, certificate = case.path("key.pem"), case.path("certificate.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-keyout", key,
                    "-out", certificate, "-subj", "/CN=127.0.0.1", "-addext",
                    "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context


def main(case):
    certificate, context = make_certificate(case)
    secret = case.write("secret", "Bearer open sesame\n")
    header = f"--export-header=otlp-logs Authorization: @{secret}"
    os.chmod(secret, 0o644)
    done = case.refused(header, "--export=otlp-logs:http://127.0.0.1:1")
    case.check(done.code == 1 and secret in done.err, "a secret that others can read is refused",
               done.err)
    os.chmod(secret, 0o600)

    logs, loki = Backend(tls=context), Backend(tls=context)
    daemon = case.daemon(logs.url("otlp-logs"), loki.url("loki"), header,
                         f"--export-ca={certificate}", *exporting.options())
    exporting.await_begun(daemon)
    exporting.fail_often(CALLS)
    for backend in (logs, loki):
        export = exporting.await_events(daemon, backend, CALLS)
        case.check_equal((export["accepted"], export["lost"]), (CALLS, {}),
                         f"{export['name']}: all is accepted")
    case.check_equal({request.headers["Authorization"] for request in logs.stored},
                     {"Bearer open sesame"}, "the one gets the secret")
    case.check_equal({request.headers["Authorization"] for request in loki.stored}, {None},
                     "the other does not")
    case.check("sesame" not in daemon.log, "and the log does not have it")
    case.check_balanced(daemon)
    daemon.stop()

    stranger = Backend(tls=context)
    daemon = case.daemon(stranger.url("otlp-logs"), *exporting.options())
    exporting.await_begun(daemon)
    exporting.fail_often(CALLS)
    ringtail.wait_until(lambda: exporting.stat(daemon, stranger)["state"] == "held",
                        "who is not vouched for is not believed")
    error = exporting.stat(daemon, stranger)["last_error"]
    case.check("certificate" in error, "and the reason is told", error)
    case.check_equal(stranger.seen, [], "it was told nothing")
    ringtail.wait_until(lambda: exporting.stat(daemon, stranger)["in_flight"] == CALLS, "all is kept")
    case.check_equal(exporting.stat(daemon, stranger)["lost"], {}, "and nothing is lost")
    case.check_balanced(daemon)


ringtail.run(main)
