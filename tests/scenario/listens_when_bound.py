"""A daemon that is starting listens as soon as its socket is there: a client that comes then waits, is told that the
daemon is starting, and is served when it has started."""
import os
import signal
import socket

import ringtail

TRIES = 10              # to stop it before it is ready: on a busy machine, it may be the faster


def stopped_while_starting(case, path):
    """A daemon that listens there, and that was stopped then."""
    daemon = case.start_daemon("--source=bpf", listen=[f"unix:{path}"])

    def connects():
        if not daemon.running:
            daemon.await_ready()        # says why, or that this cannot be tried here
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
            return True
        except (FileNotFoundError, ConnectionRefusedError):
            return False                # not bound yet, or in the moment between bind and listen
    ringtail.wait_until(connects, "it listens")
    daemon.signal(signal.SIGSTOP)
    return daemon


def main(case):
    path = case.path("run/s.sock")
    for _ in range(TRIES):
        daemon = stopped_while_starting(case, path)
        if "[ready]" not in daemon.log:
            break
        daemon.signal(signal.SIGCONT)
        daemon.stop()
    case.check("[ready]" not in daemon.log, "it is not ready yet, and whoever connects is not refused")
    asks = case.start(os.path.join(ringtail.BUILD, "tracectl"), "--connect", f"unix:{path}", "stat")
    ringtail.wait_until(lambda: "the daemon is starting" in asks.read("err") or not asks.running,
                        "tracectl says that it waits")
    case.check(asks.running, "and waits", asks.read("err"))
    daemon.signal(signal.SIGCONT)
    done = asks.wait()
    case.check_equal(done.code, 0, "when the daemon has started, it is answered", done.err)
    daemon.await_ready()
    case.check_balanced(daemon)


ringtail.run(main)
