#!/usr/bin/env python3
"""Off loopback the status page is for viewers alone: by certificate or by token, over TLS; others learn
no more than that the daemon lives."""
import http.client
import ssl

import ringtail
from lib import http as ours
from lib import tls
from lib.process import PATIENCE_S


def main(case):
    server = tls.Server(case)
    path, (alice, eve) = tls.tokens(case, "alice", "eve")
    daemon = case.daemon(*server.options(), f"--tokens={path}", "--viewer=token:alice",
                         "--viewer=cert:carol", "--viewer=user:root", "--http=0.0.0.0:0")
    port = ours.address_of(daemon)[1]
    case.check("https://0.0.0.0:" in daemon.log, "it says https")

    def ask(path, token=None, name=None, minimum=ssl.TLSVersion.TLSv1_3, head=None):
        context = ssl.create_default_context(cafile=server.server_ca.cert)
        context.maximum_version = minimum
        if name:
            context.load_cert_chain(*server.client_ca.issue(name))
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=context,
                                                 timeout=PATIENCE_S)
        try:
            headers = {"Authorization": head or f"Bearer {token}"} if token or head else {}
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def secret(file):
        with open(file) as text:
            return text.read().strip()

    status, body = ask("/healthz")
    case.check_equal((status, body), (200, "ok\n"), "whether it lives anybody may know")
    for path in ("/", "/metrics", "/api/live", "/nothing"):
        status, body = ask(path)
        case.check(status == 401 and "ringtail_" not in body and "tracectl" not in body and
                   "Authorization: Bearer" in body, f"nobody sees {path}, and learns how to",
                   status, body)
    status, body = ask("/metrics", token=secret(alice))
    case.check(status == 200 and "ringtail_collector_uptime_seconds" in body, "a viewer's token")
    status, body = ask("/metrics", name="carol")
    case.check(status == 200 and "ringtail_collector_uptime_seconds" in body,
               "a viewer's certificate")
    status, body = ask("/", name="carol")
    case.check(status == 200 and "<title>ringtail</title>" in body, "who sees the page too")
    status, body = ask("/metrics", token=secret(eve))
    case.check(status == 403 and "token:eve" in body, "a token of somebody who is no viewer", body)
    status, body = ask("/metrics", name="mallory")
    case.check(status == 403 and "cert:mallory" in body, "a certificate of somebody who is none",
               status, body)
    status, body = ask("/metrics", token="rt_" + "A" * 43)
    case.check(status == 403 and "ringtail_" not in body, "a token that is none", status, body)
    status, body = ask("/metrics", head="Basic " + "A" * 43)
    case.check(status in (401, 403), "another way to authenticate", status, body)
    try:
        ask("/healthz", minimum=ssl.TLSVersion.TLSv1_2)
        case.check(False, "TLS 1.2 is refused")
    except (ssl.SSLError, ConnectionError):
        case.say("ok: TLS 1.2 is refused")
    status, body = ask("/healthz")
    case.check_equal(status, 200, "and it lives on")
    case.check_balanced(daemon)


ringtail.run(main)
