"""Who comes in TLS and finds no room is told by which limit, as in plain: beyond clients-max, beyond
pending-max in the middle of its handshake, and before it was heard at all, where an alert has to do."""
import os
import shutil
import socket
import struct
import threading

import ringtail
from lib import tls

CALLS = 5000
CLIENTS_MAX = 3
PENDING_MAX = 4
REFUSED_MAX = 16                # daemon/base/limits.def
DESCRIPTORS = 160


class Held:
    """A road to a daemon on which a client's first `records` of TLS go through, and the rest waits until it
    is let. What the daemon says goes through at once."""

    def __init__(self, address, records):
        host, port = address.split(":")[1:]
        self.listener = socket.create_server((host, 0))
        self.address = f"tcp:{host}:{self.listener.getsockname()[1]}"
        self.to, self.records = (host, int(port)), records
        self.peer = None        # how the daemon knows it, once it is connected
        self.answered, self.let = threading.Event(), threading.Event()
        threading.Thread(target=self._forth, daemon=True).start()

    def _forth(self):
        client, _ = self.listener.accept()
        daemon = socket.create_connection(self.to, 30)
        self.peer = "{}:{}".format(*daemon.getsockname())
        threading.Thread(target=self._back, args=(client, daemon), daemon=True).start()
        reader = client.makefile("rb")
        for _ in range(self.records):
            head = reader.read(5)
            daemon.sendall(head + reader.read(struct.unpack(">H", head[3:])[0]))
        self.let.wait()
        try:
            while data := reader.read1(65536):
                daemon.sendall(data)
        except OSError:
            pass                # it was turned away meanwhile

    def _back(self, client, daemon):
        try:
            while data := daemon.recv(65536):
                client.sendall(data)
                self.answered.set()
            client.shutdown(socket.SHUT_WR)
        except OSError:
            pass                # tracectl has read enough


def plain(address):
    host, port = address.split(":")[1:]
    return socket.create_connection((host, int(port)), 10)


def tcp_of(daemon):
    return [line.split()[-1] for line in daemon.log.splitlines() if "listening on tcp:" in line][0]


def main(case):
    if not shutil.which("prlimit"):
        raise ringtail.Skip("this takes prlimit")
    server = tls.Server(case)
    vera = server.client("vera")

    def start(name, *options, **more):
        return case.daemon(*server.options(), "--viewer=cert:vera", "--ring-size=16MiB", *options,
                           listen=[f"unix:{case.path('run')}/{name}.sock", "tcp:127.0.0.1:0"], **more)

    def ask(address):
        return case.start(os.path.join(ringtail.BUILD, "tracectl"), "--connect", address, *vera,
                          "probes")

    def told(done, code, *words):
        case.check(done.code == 1 and f"[{code}]" in done.err and
                   all(word in done.err for word in words), f"{code}: {done.err.strip()}", done.err)

    daemon = start("m", f"--clients-max={CLIENTS_MAX}", f"--pending-max={PENDING_MAX}",
                   "--tls-timeout=30s", "--hello-timeout=30s")
    address = tcp_of(daemon)
    load, after = case.load(CALLS), case.load(CALLS)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f",
                         f"pid in ({load.pids[0]}, {after.pids[0]})", "-o", "none")
    load.run()

    # Beyond pending-max, in the middle: a frame says so.
    middle = Held(address, records=1)
    asked = ask(middle.address)
    case.check(middle.answered.wait(30 * ringtail.SLOW), "its handshake has begun")
    crowd = [plain(address) for _ in range(PENDING_MAX)]
    ringtail.wait_until(lambda: daemon.stat()["counters"]["sessions_pending_evicted"] >= 1,
                        "the oldest is to go")
    middle.let.set()
    told(asked.wait(), "too-many-pending", f"{PENDING_MAX} connections", "raise pending-max")

    # And before anything was heard: an alert, of which tracectl knows what it may mean.
    mute = Held(address, records=0)
    asked = ask(mute.address)
    ringtail.wait_until(lambda: mute.peer in [client["peer"] for client in daemon.stat()["client"]],
                        "it is there")
    crowd += [plain(address) for _ in range(PENDING_MAX)]
    told(asked.wait(), "no-room", "internal error", "LimitNOFILE", "pending-max", "log")
    for connection in crowd:
        connection.close()

    # Without a word, where too many are in the middle: tracectl says what it may have been.
    silent = socket.create_server(("127.0.0.1", 0))
    asked = ask(f"tcp:127.0.0.1:{silent.getsockname()[1]}")
    silent.accept()[0].close()
    told(asked.wait(), "no-tls", "beyond pending-max", "log")

    # Beyond clients-max, even while plain ones are refused in such numbers that some find the door shut.
    guests = [tls.Connection(address, vera) for _ in range(CLIENTS_MAX - 1)]
    for guest in guests:
        guest.greet()
        guest.stat()
    refused = [daemon.connect() for _ in range(REFUSED_MAX + 4)]
    for _ in range(3):
        told(ask(address).wait(), "too-many-clients", f"serves {CLIENTS_MAX} clients",
             "raise clients-max")
    for connection in guests + refused:
        connection.close()

    def served():
        return ask(address).wait().code == 0
    ringtail.wait_until(served, "when others have left, there is room")
    after.run()
    stream.await_all(2 * CALLS)
    case.check_balanced(daemon)
    case.check_stream(stream.interrupt(), events=2 * CALLS)

    # Out of descriptors.
    daemon = start("d", "--clients-max=1000", "--pending-max=1000",
                   before=["prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}"])
    crowd = []
    while "[descriptors-exhausted]" not in daemon.log and len(crowd) < DESCRIPTORS:
        crowd.append(plain(tcp_of(daemon)))
        crowd[-1].settimeout(0.05)
        try:
            crowd[-1].recv(1)
        except TimeoutError:
            pass                # it is let in, and waited for
    told(ask(tcp_of(daemon)).wait(), "no-room", "LimitNOFILE")
    for connection in crowd:
        connection.close()
    done = ringtail.wait_until(lambda: (done := ask(tcp_of(daemon)).wait()).code == 0 and done,
                               "when they have left, there are descriptors")
    case.check_equal(done.err, "", "nothing is wrong then")
    counters = daemon.stat()["counters"]
    case.check(counters["sessions_refused"] >= 2, "who was refused is counted", counters)
    case.check_balanced(daemon)


ringtail.run(main)
