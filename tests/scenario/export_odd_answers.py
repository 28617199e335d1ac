"""Back ends that answer as HTTP allows and few do, or as it forbids: in chunks, as HTTP/1.0, after a 100,
without end, before the body was sent, with a Retry-After that says nothing, with a reset in the middle of
the body or right after the status. What was answered with yes is accepted and sent once; the rest is sent
again; an endless answer is not waited for."""
import socket
import struct
import threading

import ringtail
from lib import exporting
from lib.backend import Request, reserve_port

CALLS = 300
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def say(text):
    return lambda peer: peer.sendall(text)


def reset(peer):
    """The next close is a reset."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def say_and_reset(peer):
    peer.sendall(OK)
    peer.recv(1)            # it has read that, and hung up
    reset(peer)


def never_end(peer):
    peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    try:
        while True:
            peer.sendall(b"yes " * 4096)
    except OSError:
        pass


def retry_after(text):
    return say(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nRetry-After: " + text + b"\r\n\r\n")


# What the first request is answered with, and whether that means that it is stored. All others: 200.
YES = {
    "chunks": say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n\x0a\x00\r\n0\r\n\r\n"),
    "HTTP/1.0": say(b"HTTP/1.0 200 OK\r\n\r\n"),
    "100 first": say(b"HTTP/1.1 100 Continue\r\n\r\n" + OK),
    "twice": say(OK + OK),
    "without end": never_end,
    "large": say(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1_000_000),
    "reset behind it": say_and_reset,
}
NO = {
    "garbage": say(b"hello\r\n"),
    "nothing": lambda peer: None,
    "reset": reset,
    "100 alone": say(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "Retry-After: -5": retry_after(b"-5"),
    "Retry-After: soon": retry_after(b"soon"),
    "Retry-After: 1015": retry_after(b"Wed, 21 Oct 1015 07:28:00 GMT"),
}
EARLY = {
    "reset in the body": reset,
    "answer before the body": say(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
}


class Odd:
    """Listens, and answers the first request as it is told to."""

    def __init__(self, first, stored=False, early=False):
        self.first, self.keep_first, self.early = first, stored, early
        self.stored, self.seen, self.lock = [], 0, threading.Lock()
        self.reserved = reserve_port()
        self.port = self.reserved.getsockname()[1]
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            peer, _ = self.listener.accept()
            with peer:
                try:
                    self.take(peer)
                except OSError:         # a large answer is not read to its end
                    pass

    def take(self, peer):
        file = peer.makefile("rb")
        line, headers = file.readline(), {}
        while (field := file.readline().decode().rstrip("\r\n")):
            name, value = field.split(": ", 1)
            headers[name] = value
        first, self.seen = self.seen == 0, self.seen + 1
        if first and self.early:
            self.first(peer)
            return
        body = file.read(int(headers["Content-Length"]))
        if not first or self.keep_first:
            with self.lock:
                self.stored.append(Request(line.split()[1].decode(), headers, body))
        (self.first if first else say(OK))(peer)

    def numbers(self):
        with self.lock:
            return exporting.numbers([record for request in self.stored
                                      for record in request.records])

    @property
    def option(self):
        return f"--export=otlp-logs:http://127.0.0.1:{self.port}"


def main(case):
    backends = {name: Odd(first, stored=True) for name, first in YES.items()}
    backends.update((name, Odd(first)) for name, first in NO.items())
    for name, first in EARLY.items():
        backends[name] = Odd(first, early=True)
    daemon = case.daemon(*(backend.option for backend in backends.values()), *exporting.options())
    exporting.await_begun(daemon)
    exporting.fail_often(CALLS)
    for name, backend in backends.items():
        export = exporting.await_events(daemon, backend, CALLS)
        case.check_equal((export["accepted"], export["lost"], export["residual"]), (CALLS, {}, 0),
                         f"{name}: all is accepted")
        case.check_equal(backend.numbers(), list(range(CALLS)), f"{name}: and stored, once")
        case.check_equal(export["retries"], 0 if name in YES else 1,
                         f"{name}: {'at once' if name in YES else 'at the second try'}")
    # Whoever says nothing that means no is asked again; only a no that time does not mend is told as one.
    case.check("[export-retrying]" in daemon.log and "[export-held]" not in daemon.log, "none of them is a refusal",
               daemon.log[-1500:])
    case.check_balanced(daemon)


ringtail.run(main)
