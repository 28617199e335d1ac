"""overflow = disconnect: a client that lags too far is told why and let go; the others never notice."""
import ringtail
from lib import tls

CALLS = 100_000_000             # more than are made until they are found out


def main(case):
    server = tls.Server(case)
    daemon = case.daemon(*server.options(), "--viewer=cert:vera", "--ring-size=64MiB",
                         "--queue-size=64KiB", "--history-size=32MiB", "--overflow=disconnect",
                         "--hello-timeout=60s",     # for who is let go, to hear why
                         listen=[f"unix:{case.path('run')}/o.sock", "tcp:127.0.0.1:0"])
    address = [line.split()[-1] for line in daemon.log.splitlines()
               if "listening on tcp:" in line][0]
    load = case.load(CALLS)
    slow = [daemon.connect(receive_bytes=4096),
            tls.Connection(address, server.client("vera"), receive_bytes=4096)]
    for connection in slow:
        connection.greet()
        connection.subscribe(["syscall:getppid:call"], load.filter)
    load.go()
    ringtail.wait_until(lambda: daemon.stat()["counters"]["sessions_too_slow"] == 2,
                        "both are found too slow")
    load.kill()
    for connection in slow:
        frames = list(connection.frames())
        case.check(frames[-1].name == "Error" and frames[-1].values["code"] == "too-slow" and
                   frames[-1].values["fatal"], "the last frame says why",
                   [frame.name for frame in frames][-3:])
        case.check(not any(frame.name == "Gap" for frame in frames),
                   "and there is no gap before it")
        connection.close()
    ringtail.wait_until(lambda: len(daemon.stat()["client"]) == 1, "they are gone")

    after = case.load(1000)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", after.filter, "-o", "none")
    after.run()
    stream.await_all(1000)
    case.check_balanced(daemon)
    case.check_stream(stream.interrupt(), events=1000)


ringtail.run(main)
