"""The service manager listens: who connects before the daemon runs is served when it does, on a unix
socket and on tcp; at the end the sockets are still the manager's."""
import os
import socket
import sys

import ringtail
from lib import wire

# Puts the descriptors where a started service finds them, and says so with its own pid.
STARTER = """
import os, sys
count = int(sys.argv[1])
for i, fd in enumerate(sorted(int(word) for word in sys.argv[2].split(","))):
    os.dup2(fd, 3 + i, inheritable=True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(count),
                  LISTEN_FDNAMES=":".join(["listen"] * count))
os.execv(sys.argv[3], sys.argv[3:])
"""


def listening(family, address):
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen(16)
    os.set_inheritable(listener.fileno(), True)
    return listener


def started(case, sockets, *options, start):
    numbers = [listener.fileno() for listener in sockets]
    before = [sys.executable, "-c", STARTER, str(len(sockets)), ",".join(map(str, numbers))]
    return start(*options, before=before, pass_fds=numbers)


def main(case):
    path = case.path("activated.sock")
    unix = listening(socket.AF_UNIX, path)
    os.chmod(path, 0o666)
    tcp = listening(socket.AF_INET, ("127.0.0.1", 0))
    addresses = [f"unix:{path}", f"tcp:127.0.0.1:{tcp.getsockname()[1]}"]

    early = [wire.Connection(address) for address in addresses]
    daemon = started(case, [unix, tcp], "--insecure", start=lambda *options, **more: case.daemon(
        *options, listen=addresses, **more))
    for connection, address in zip(early, addresses):
        with connection:
            connection.greet()
            case.check(connection.stat()["ring"], f"who came early to {address} is served")
    for address in addresses:
        case.check(f"listening on {address}" in daemon.log, f"{address} is one of its own")
        case.check_equal(case.tracectl(address, "list").code, 0, f"and serves others at {address}")
    case.check_balanced(daemon)
    case.check_equal(daemon.stop(), 0, "it stops")
    case.check(os.path.exists(path), "the unix socket stays")
    late = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    late.connect(path)
    late.close()
    case.say("ok: who connects now waits for the next daemon")

    # An address that the configuration knows nothing of is not served without anybody noticing.
    done = started(case, [unix, tcp], "--source=bpf", start=lambda *options, **more: case.refused(
        *options, listen=addresses[:1], **more))
    case.check_equal(done.code, 1, "a socket that `listen` does not name is refused")
    case.check("[listen-not-configured]" in done.err, "with a code", done.err)


ringtail.run(main)
