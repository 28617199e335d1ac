"""/metrics is compressed for who asks for that, in either format, and only then: the text is the same, and
a fraction of its size; a real Prometheus reads it."""
import gzip

import ringtail
from lib import http
from lib.prometheus import Prometheus

ASKS = {None: False, "": False, "identity": False, "gzip;q=0": False, "gzip; q=0.0": False,
        "br": False, "gzip": True, "deflate, gzip;q=0.5": True, "GZIP": True}


def get(daemon, accept, encoding):
    connection = http.connect(daemon)
    try:
        connection.putrequest("GET", "/metrics", skip_accept_encoding=True)
        connection.putheader("Accept", accept)
        if encoding is not None:
            connection.putheader("Accept-Encoding", encoding)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def names(text):
    return {line.split()[2] for line in text.decode().splitlines() if line.startswith("# TYPE ")}


def main(case):
    daemon = case.daemon("--http=127.0.0.1:0")
    http.await_metering(daemon)
    for accept in ("text/plain", "application/openmetrics-text"):
        plain = get(daemon, accept, None)[2]
        for encoding, wanted in ASKS.items():
            status, headers, body = get(daemon, accept, encoding)
            case.check_equal((status, headers.get("Content-Encoding"), "Accept-Encoding" in
                              headers["Vary"], headers["Content-Type"].split(";")[0]),
                             (200, "gzip" if wanted else None, True, accept),
                             f"{accept}, Accept-Encoding {encoding}")
            text = gzip.decompress(body) if wanted else body
            case.check_equal(names(text), names(plain), "the same families")
            if wanted:
                case.check(len(body) * 4 < len(text), "a fraction of its size", len(body),
                           len(text))
    prometheus = Prometheus(case, ["{}:{}".format(*http.address_of(daemon))])
    ringtail.wait_until(lambda: prometheus.value("ringtail_collector_build_info") == 1,
                        "Prometheus, which asks for gzip, has it")
    case.check_balanced(daemon)


ringtail.run(main)
