"""Whoever asks /healthz has not said who it is: it takes no place of those who were let in, however many ask and
stay connected."""
import http.client
import ssl

import ringtail
from lib import http as ours
from lib import tls
from lib.process import PATIENCE_S

PLACES = 32                     # HTTP_CONNECTIONS_MAX, daemon/base/limits.def


def main(case):
    server = tls.Server(case)
    path, _ = tls.tokens(case, "alice")         # so that a certificate is not asked of everybody
    daemon = case.daemon(*server.options(), f"--tokens={path}", "--viewer=cert:vera",
                         "--viewer=token:alice", "--http=0.0.0.0:0")
    port = ours.address_of(daemon)[1]
    certificate = server.client_ca.issue("vera")

    def connect(let_in):
        context = ssl.create_default_context(cafile=server.server_ca.cert)
        if let_in:
            context.load_cert_chain(*certificate)
        return http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=PATIENCE_S)

    def ask(connection, path):
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status

    vera = connect(True)
    case.check_equal(ask(vera, "/metrics"), 200, "one who is let in is answered")
    first = vera.sock.getsockname()
    others = [connect(False) for _ in range(PLACES + 8)]
    for other in others:
        ask(other, "/healthz")
    case.say(f"ok: so are {len(others)} who only ask /healthz, and stay")
    case.check_equal(ask(vera, "/metrics"), 200, "she is answered again")
    case.check_equal(vera.sock.getsockname(), first, "on the connection that she has had")
    others.append(connect(False))
    case.check_equal(ask(others[-1], "/healthz"), 200, "and so is whoever comes now")
    for connection in [vera, *others]:
        connection.close()
    case.check_balanced(daemon)


ringtail.run(main)
