"""TLS in single bytes, TLS that never comes to its end, and a crowd of it: nobody else notices."""
import socket
import ssl
import time

import ringtail
from lib import tls, wire
from lib.process import PATIENCE_S

CALLS = 10_000
PENDING_MAX = 20


class Trickle:
    """TLS of our own making: what it says goes out one byte at a time."""

    def __init__(self, address, server, trust):
        context = ssl.create_default_context(cafile=server.server_ca.cert)
        context.load_cert_chain(trust[3], trust[5])
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="127.0.0.1")
        host, port = address.split(":")[1:]
        self.socket = socket.create_connection((host, int(port)), 10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _flush(self):
        for byte in self.outgoing.read():
            self.socket.sendall(bytes([byte]))
            time.sleep(0.0002)

    def _do(self, call):
        while True:
            try:
                result = call()
                self._flush()
                return result
            except ssl.SSLWantReadError:
                self._flush()
                self.incoming.write(self.socket.recv(65536))

    def shake(self):
        self._do(self.tls.do_handshake)

    def send(self, data):
        self._do(lambda: self.tls.write(data))

    def frame(self):
        data = b""
        while len(data) < wire.HEADER_BYTES or \
                len(data) < wire.HEADER_BYTES + wire.HEADER.unpack_from(data)[3]:
            data += self._do(lambda: self.tls.read(65536))
        return wire.Frame(data)


def plain(address):
    host, port = address.split(":")[1:]
    return socket.create_connection((host, int(port)), 10)


def await_end(connection):
    """Until the daemon closes it."""
    connection.settimeout(PATIENCE_S)
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass


def main(case):
    server = tls.Server(case)
    daemon = case.daemon(*server.options(), "--viewer=cert:vera", "--ring-size=16MiB",
                         f"--pending-max={PENDING_MAX}", config="tls-timeout = 60s\nhello-timeout = 60s\n",
                         listen=[f"unix:{case.path('run')}/h.sock", "tcp:127.0.0.1:0"])
    address = [line.split()[-1] for line in daemon.log.splitlines()
               if "listening on tcp:" in line][0]
    vera = server.client("vera")
    load, after = case.load(CALLS), case.load(CALLS)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f",
                         f"pid in ({load.pids[0]}, {after.pids[0]})", "-o", "none")
    load.run()

    slow = Trickle(address, server, vera)
    slow.shake()
    slow.send(wire.hello())
    hello = slow.frame()
    case.check(hello.name == "ServerHello" and hello.values["role"] == "viewer",
               "a client whose bytes come one at a time is served")
    slow.send(wire.message("ListRequest", glob="syscall:openat:*") + wire.message("StatRequest"))
    case.check_equal([slow.frame().name], ["Catalog"], "and gets its answer")
    slow.socket.close()

    crowd = [plain(address) for _ in range(3 * PENDING_MAX)]
    with tls.Connection(address, vera) as connection:
        case.check_equal(connection.greet()["role"], "viewer",
                         f"behind {len(crowd)} that say nothing, one that speaks is served")
    stat = daemon.stat()
    case.check(stat["counters"]["sessions_pending_evicted"] >= 2 * PENDING_MAX and
               len(stat["client"]) <= PENDING_MAX + 3, "the oldest of them had to go",
               stat["counters"])
    for connection in crowd:
        connection.close()
    ringtail.wait_until(lambda: len(daemon.stat()["client"]) == 2, "they are gone")

    case.write(f"{daemon.name}.conf", "tls-timeout = 1s\n")
    daemon.reload(r"\[reloaded\]")
    before = daemon.stat()["counters"]
    silent = [plain(address) for _ in range(5)]
    for connection in silent:
        connection.sendall(b"\x16\x03\x01\x00\xf0")         # a record begins, and that is all
    for connection in silent:
        await_end(connection)
    with plain(address) as connection:
        connection.sendall(bytes(case.random.randrange(256) for _ in range(4000)))
        await_end(connection)
    failed = daemon.stat()["counters"]["tls_failed"] - before["tls_failed"]
    case.check_equal(failed, 6, "who never ends its handshake in time, or has none, is sent away")
    after.run()
    stream.await_all(2 * CALLS)
    case.check_balanced(daemon)
    case.check_stream(stream.interrupt(), events=2 * CALLS)


ringtail.run(main)
