"""TLS 1.3 with client certificates: who is signed and named comes in, with the role of that name."""
import os
import socket
import ssl

import ringtail
from lib import tls, wire

CALLS = 5000


def main(case):
    server = tls.Server(case)
    daemon = case.daemon(*server.options(), "--viewer=cert:vera", "--operator=cert:oscar",
                         listen=["tcp:127.0.0.1:0"])
    daemon.trust = oscar = server.client("oscar")
    vera = server.client("vera")
    case.check_balanced(daemon)

    def refused(trust, code, *words):
        done = case.start(os.path.join(ringtail.BUILD, "tracectl"), "--connect", daemon.address, *trust,
                          "probes").wait()
        case.check(done.code == 1 and f"[{code}]" in done.err and
                   all(word in done.err for word in words), f"{code}: {done.err.strip()}", done.err)

    stranger = tls.Authority(case, "stranger-ca")
    cert, key = stranger.issue("oscar-too", subject="/CN=oscar")
    ca = ["--ca", server.server_ca.cert]
    refused([*ca, "--cert", cert, "--key", key], "certificate-refused", "--cert")
    refused(ca, "certificate-refused", "wants a certificate")
    refused(server.client("old", subject="/CN=vera", days=-1), "certificate-refused", "expired")
    refused(server.client("mallory"), "not-allowed", "cert:mallory", "viewer")
    refused(server.client("two", subject="/CN=vera/CN=oscar"), "certificate-name", "more than one")
    refused(server.client("none", subject="/O=nobody"), "certificate-name", "CN")
    refused([*vera[2:], "--ca", stranger.cert], "server-untrusted", "--ca")
    refused(vera[2:], "server-untrusted", "--ca")
    refused([*vera, "--server-name", "elsewhere.example"], "server-untrusted", "elsewhere.example",
            "--server-name")
    refused([*ca, "--cert", cert], "half-certificate", "--key")
    refused(["--insecure"], "connection-lost", "leave --insecure out")

    done = case.start(os.path.join(ringtail.BUILD, "tracectl"), "--connect", daemon.address, *vera,
                      "enable", "syscall:getppid:call").wait()
    case.check(done.code == 1 and "[not-allowed]" in done.err and "cert:vera" in done.err and
               "operator = cert:vera" in done.err, "a viewer may not change anything", done.err)
    load = case.load(CALLS)
    words = ["stream", "-p", "syscall:getppid:call", "-f", load.filter, "-o", "none", "-n",
             str(CALLS)]
    stream = case.start(os.path.join(ringtail.BUILD, "tracectl"), "--connect", daemon.address,
                        "--summary", "json", *vera, *words)

    def streams():
        with tls.Connection(daemon.address, oscar) as connection:
            connection.greet()
            return any(client["probe"] for client in connection.stat()["client"])
    ringtail.wait_until(streams, "the viewer streams")
    load.run()
    case.check_stream(stream.wait(), events=CALLS)
    with tls.Connection(daemon.address, vera) as connection:
        case.check_equal(connection.socket.version(), "TLSv1.3", "it is TLS 1.3")
        case.check_equal(connection.greet()["role"], "viewer", "the hello says who one is")

    context = ssl.create_default_context(cafile=server.server_ca.cert)
    context.load_cert_chain(vera[3], vera[5])
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    host, port = daemon.address.split(":")[1:]
    try:
        context.wrap_socket(socket.create_connection((host, int(port)), 10),
                            server_hostname="127.0.0.1").close()
        case.check(False, "TLS 1.2 is refused")
    except (ssl.SSLError, ConnectionResetError) as error:
        case.say(f"ok: TLS 1.2 is refused: {error}")
    with wire.Connection(daemon.address) as connection:
        connection.send(wire.hello())
        left = connection.socket.recv(4096)
        case.check(b"ServerHello" not in left and not left.startswith(b"tR"),
                   "plain frames are answered by TLS alone", left)
    done = case.tracectl(daemon, "stat", "-o", "json")
    counters = {counter["name"]: counter["value"] for counter in done.lines[0]["counters"]} \
        if isinstance(done.lines[0]["counters"], list) else done.lines[0]["counters"]
    case.check(counters["tls_failed"] >= 4 and counters["sessions_denied"] >= 1,
               "what did not get through TLS is counted", counters)
    case.check_balanced(daemon)


ringtail.run(main)
