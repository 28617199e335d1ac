"""One identity's connections fill its own places, and viewers' theirs: operators and root come in all the same, and
whoever is refused is told why. And of connections that have not said who they are, those go of which most
come from one address."""
import socket

import ringtail
from lib import tls

CLIENTS_MAX, KEPT = 16, 2       # one in eight
OF_ONE = CLIENTS_MAX // 2       # clients-per-identity, by default
PENDING_MAX = 4


def main(case):
    server = tls.Server(case)
    vera, mara, ada = (server.client(name) for name in ("vera", "mara", "ada"))
    daemon = case.start_daemon("--source=bpf", *server.options(), "--viewer=cert:*a",
                               "--operator=cert:ada", f"--pending-max={PENDING_MAX}",
                               "--hello-timeout=60s",   # who has said hello and asks for nothing stays
                               config=f"clients-max = {CLIENTS_MAX}\n",
                               listen=[f"unix:{case.path('run')}/s.sock", "tcp:127.0.0.1:0"])
    daemon.await_ready()
    address = [line.split()[-1] for line in daemon.log.splitlines() if "listening on tcp:" in line][0]

    def come(who):
        connection = tls.Connection(address, who)
        connection.send(tls.wire.hello())
        frame = connection.frame()
        return connection, frame.name, frame.values

    def refused(who, code, *words):
        connection, name, error = come(who)
        case.check(name == "Error" and error["code"] == code and error["fatal"] and
                   all(word in error["what"] + error["hint"] for word in words),
                   f"one more is refused: {code}", name, error)
        connection.close()

    def let_in(who, what):
        connection, name, values = come(who)
        case.check_equal(name, "ServerHello", what, values)
        return connection

    load = case.load(1000)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", f"pid == {load.pids[0]}", "-o",
                         "none")
    hers = [let_in(vera, f"vera's connection {i + 1} of {OF_ONE}") for i in range(OF_ONE)]
    for _ in range(3):
        refused(vera, "too-many-of-identity", f"cert:vera has {OF_ONE} connections",
                "clients-per-identity")
    theirs = [let_in(mara, "another viewer comes in")
              for _ in range(CLIENTS_MAX - KEPT - OF_ONE)]
    refused(mara, "too-many-clients", f"serves {CLIENTS_MAX} clients", f"{KEPT} of these places",
            "clients-max")
    done = case.tracectl(daemon, "stat")
    case.check_equal(done.code, 0, "root is let in", done.err)
    operator = let_in(ada, "and so is an operator")
    counters = operator.stat()
    counters = {counter["name"]: counter["value"] for counter in counters["counter"]}
    case.check_equal((counters["sessions_of_one_refused"], counters["sessions_refused"]), (3, 4),
                     "stat shows who was refused")
    operator.close()
    hers.pop().close()

    def again():
        connection, name, _ = come(vera)
        hers.append(connection)
        return name == "ServerHello"
    ringtail.wait_until(again, "when one of hers has left, she comes in again")

    # Those that nobody knows yet: many from one address, and one from another.
    def knock(source):
        host, port = address.split(":")[1:]
        return socket.create_connection((host, int(port)), 10, (source, 0))

    def pending():
        return [client["peer"].split(":")[0] for client in daemon.stat()["client"]
                if client["identity"] == "nobody yet"]
    quiet = knock("127.0.0.3")
    ringtail.wait_until(lambda: "127.0.0.3" in pending(), "one has come")
    crowd = [knock("127.0.0.2") for _ in range(3 * PENDING_MAX)]
    ringtail.wait_until(lambda: daemon.stat()["counters"]["sessions_pending_evicted"] >=
                        2 * PENDING_MAX, "of a crowd from another address many have to go")
    case.check("127.0.0.3" in pending(), "but not the one", pending())
    for connection in [quiet, *crowd, *hers, *theirs]:
        connection.close()
    load.run()
    stream.await_all(1000)
    case.check_balanced(daemon)
    case.check_stream(stream.interrupt(), events=1000)


ringtail.run(main)
