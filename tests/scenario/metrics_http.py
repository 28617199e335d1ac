#!/usr/bin/env python3
"""What comes to the HTTP port that is no request for what is there: garbage, other methods, bodies,
endless heads, other hosts' names, half a request, too many connections. Each is answered as HTTP says
or closed, and the next request is answered well. Off loopback it does not start without TLS."""
import re
import socket
import time

import ringtail
from lib import http
from lib.process import PATIENCE_S, wait_until

STRANGERS_MAX = 32              # HTTP_STRANGERS_MAX
HEAD_BYTES_MAX = 8 << 10        # HTTP_HEAD_BYTES_MAX

HOST = b"Host: localhost\r\n"
WRONG = [
    (b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhello", 413, "a body"),
    (b"GET / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 413, "chunks"),
    (b"POST / HTTP/1.1\r\n" + HOST + b"\r\n", 405, "another method"),
    (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 405, "a question about the server"),
    (b"GET / HTTP/3.0\r\n" + HOST + b"\r\n", 505, "another version"),
    (b"GET /\r\n\r\n", 400, "no version"),
    (b"GET  / HTTP/1.1\r\n" + HOST + b"\r\n", 400, "two spaces"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(60), 400, "TLS where it is plain"),
    (b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", 400, "a space before the colon"),
    (b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400, "two hosts"),
    (b"GET / HTTP/1.1\r\n\r\n", 400, "no host"),
    (b"GET http://localhost/ HTTP/1.1\r\n\r\n", 400, "no Host, though the target has one"),
    (b"GET http://example.com/ HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n", 421,
     "a target on another host"),
    (b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400,
     "a length and chunks"),
    (b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n", 400,
     "two lengths"),
    (b"GET / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip\r\n\r\n", 501, "another coding"),
    (b"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", 400, "a folded field"),
    (b"GET /" + b"a" * 300 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 431, "a long path"),
    (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * HEAD_BYTES_MAX, 431, "an endless field"),
    (b"GET / HTTP/1.1\r\nAccept: " + b"a" * 2000 + b"\r\n\r\n", 431, "a long field"),
    (b"GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n", 421, "another host"),
    (b"GET / HTTP/1.1\r\nHost: localhost.example.com\r\nConnection: close\r\n\r\n", 421,
     "a host that begins like ours"),
    (b"GET / HTTP/1.1\r\nHost: 127.evil.example\r\nConnection: close\r\n\r\n", 421,
     "a name that begins like an address of loopback"),
    (b"GET /secret HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n", 404, "another path"),
    (b"GET /../etc/passwd HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n", 404, "a way out"),
]


def check_good(case, daemon, text):
    status, headers, body = http.get(daemon, "/healthz")
    case.check_equal((status, body), (200, "ok\n"), text)
    return headers


def check_wrong(case, daemon):
    for data, status, what in WRONG:
        answer = http.send(daemon, data)
        found = re.match(rb"HTTP/1\.1 (\d+) ", answer)
        case.check(found and int(found.group(1)) == status, f"{what} gets {status}", answer)
    for _ in range(30):
        http.send(daemon, case.random.randbytes(case.random.randrange(1, 4000)) + b"\r\n\r\n")
    check_good(case, daemon, "the next request is answered well")


def check_right(case, daemon):
    answer = http.send(daemon, b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"
                               b"HEAD /metrics HTTP/1.1\r\n" + HOST + b"\r\n"
                               b"GET /healthz HTTP/1.0\r\n\r\n")
    case.check(answer.count(b"HTTP/1.1 200 OK") == 3 and answer.count(b"ok\n") == 2,
               "three requests at once get three answers, HEAD without a body", answer)
    status, headers, page = http.get(daemon, "/")
    policy = headers["Content-Security-Policy"]
    case.check(status == 200 and "default-src 'none'" in policy and "unsafe" not in policy and
               headers["X-Content-Type-Options"] == "nosniff", "the page lets nothing else in",
               headers)
    case.check(not re.search(r"(src|href)=\"(?!/|#|data:)", page) and "http://" not in page,
               "and names nothing outside")
    status, _, text = http.get(daemon, "/nothing")
    case.check(status == 404 and "/metrics" in text, "404 says what there is", text)


def check_many(case, daemon, first):
    """Those that send no whole request keep out neither those that do nor those that did."""
    refused = daemon.stat()["counters"]["http_refused"]
    known = http.connect(daemon)
    known.request("GET", "/")
    case.check(known.getresponse().read(), "one is answered, and stays")
    peers = []
    for _ in range(2 * STRANGERS_MAX):
        peers.append(socket.create_connection(http.address_of(daemon), timeout=PATIENCE_S))
        peers[-1].sendall(first)
    check_good(case, daemon, f"{len(peers)} connections that send {first} keep nobody out")
    known.request("GET", "/")
    case.check_equal(known.getresponse().status, 200, "nor the one that was answered before")
    known.close()
    refused = daemon.stat()["counters"]["http_refused"] - refused
    case.check(refused >= STRANGERS_MAX, "those over the bound were closed, and counted", refused)
    for peer in peers:
        peer.setblocking(False)

    def is_closed(peer):
        try:
            return peer.recv(1) == b""
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True
    wait_until(lambda: sum(map(is_closed, peers)) >= STRANGERS_MAX, "they see it")
    for peer in peers:
        peer.close()


def check_trickle(case, daemon):
    """Half a request is not waited for longer than it may take, byte by byte or not."""
    began = time.monotonic()
    with socket.create_connection(http.address_of(daemon), timeout=1) as peer:
        def ended():
            try:
                peer.send(b"a")
                return peer.recv(1) == b""
            except TimeoutError:
                return False
            except (ConnectionResetError, BrokenPipeError):
                return True
        peer.send(b"GET / HTTP/1.1\r\nX: ")
        wait_until(ended, "half a request ends")
    case.say(f"half a request was waited for {time.monotonic() - began:.1f} s")
    check_good(case, daemon, "and the next one is answered well")


def check_denied(case, daemon):
    """What is refused is counted, and in the log."""
    def denied():
        return daemon.stat()["counters"]["http_denied"]
    before = denied()
    status, _, body = http.get(daemon, "/metrics",
                               headers={"Authorization": "Bearer rt_" + "A" * 43})
    case.check(status == 403 and "plain HTTP" in body and "ringtail_" not in body,
               "a token in clear is refused, so that it is noticed", status, body)
    status, _, body = http.get(daemon, "/metrics", headers={"Host": "example.com"})
    case.check(status == 421 and "ringtail_" not in body, "and so is another host's name", status)
    case.check_equal(denied() - before, 2, "both are counted")
    case.check("[http-denied]" in daemon.log, "and in the log", daemon.log)


def check_refused(case):
    for address, code in [("0.0.0.0:0", "http-needs-tls"), ("[::]:0", "http-needs-tls"),
                          ("example.com:80", None), ("127.0.0.1", "address-no-port")]:
        done = case.refused(f"--http={address}")
        case.check("tcp:" not in done.err, "in the words of its own option", done.err)
        case.check(done.code == 2 and (not code or f"[{code}]" in done.err),
                   f"--http={address} is refused", done.code, done.err)
    done = case.refused("--source=bpf", "--http=127.0.0.1:0", "--metrics-probe=syscall:opanat:call")
    case.check(done.code == 1 and "openat" in done.err, "an unknown probe is refused by name",
               done.code, done.err)


def main(case):
    daemon = case.daemon("--http=127.0.0.1:0")
    check_good(case, daemon, "a good request is answered well")
    check_right(case, daemon)
    check_wrong(case, daemon)
    check_many(case, daemon, b"")
    check_many(case, daemon, b"G")
    check_trickle(case, daemon)
    check_denied(case, daemon)
    check_refused(case)
    case.check_balanced(daemon)


ringtail.run(main)
