"""SIGHUP with new certificates: who is connected streams on, who comes next meets the new ones."""
import shutil

import ringtail
from lib import tls

CALLS = 3000


def subject(daemon, trust):
    with tls.Connection(daemon.address, trust) as connection:
        serial = connection.socket.getpeercert()["serialNumber"]
        connection.greet()
        return serial


def main(case):
    server = tls.Server(case)
    daemon = case.daemon(*server.options(), "--viewer=cert:vera", "--operator=cert:oscar",
                         listen=["tcp:127.0.0.1:0", f"unix:{case.path('run')}/r.sock"])
    vera = server.client("vera")
    first = subject(daemon, vera)
    load, after = case.load(CALLS), case.load(CALLS)
    text = f"pid in ({load.pids[0]}, {after.pids[0]})"
    with tls.Connection(daemon.address, vera) as stream:
        stream.greet()
        stream.subscribe(["syscall:getppid:call"], text)
        load.run()
        events = 0
        while events < CALLS:
            frame = stream.frame()
            events += frame.values["events"] if frame.name == "Batch" else 0

        cert, key = server.server_ca.issue("renewed", names="IP:127.0.0.1")
        shutil.copyfile(cert, server.cert)
        shutil.copyfile(key, server.key)
        daemon.reload(r"\[reloaded\]")
        case.check(subject(daemon, vera) != first, "the next client meets the new certificate")
        with open(server.key, "w") as file:
            file.write("no key\n")
        daemon.reload(r"\[reload-refused\]")
        case.check("[tls-key]" in daemon.log and subject(daemon, vera) != first,
                   "a broken key is refused, and all stays as it was")
        shutil.copyfile(key, server.key)

        # Clients of another authority from now on; the stream was let in before, and stays.
        other = tls.Authority(case, "other-ca")
        shutil.copyfile(other.cert, server.client_ca.cert)
        daemon.reload(r"\[reloaded\]")
        case.check(subject(daemon, [*vera[:2], "--cert", *other.issue("vera-too", "/CN=vera")[:1],
                                    "--key", case.path("vera-too.key")]),
                   "clients of the new authority come in")
        done = case.start(f"{ringtail.BUILD}/tracectl", "--connect", daemon.address, *vera,
                          "probes").wait()
        case.check("[certificate-refused]" in done.err, "those of the old one do not", done.err)
        after.run()
        while events < 2 * CALLS:
            frame = stream.frame()
            events += frame.values["events"] if frame.name == "Batch" else 0
        case.check_equal(events, 2 * CALLS, "the stream lost nothing")
    daemon.address = f"unix:{case.path('run')}/r.sock"
    case.check_balanced(daemon)


ringtail.run(main)
