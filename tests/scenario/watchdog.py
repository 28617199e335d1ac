"""The service manager hears that the daemon is alive only while its loop and each drain worker move:
one that is stuck is said so, and then there is silence."""
import os
import socket
import threading
import time

import ringtail
from lib.held import Held

PATIENCE_S = 2      # of the manager


class Manager(threading.Thread):
    """The end of $NOTIFY_SOCKET that systemd would hold; it reads whatever it is told, at once."""

    def __init__(self, case):
        super().__init__(daemon=True)
        self.path, self.pings = case.path("notify"), 0
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        os.chmod(self.path, 0o777)

    def run(self):
        while True:
            said, files, _, _ = socket.recv_fds(self.socket, 4096, 16)
            for fd in files:
                os.close(fd)        # it keeps none
            self.pings += said.decode().split("\n").count("WATCHDOG=1")

    def is_left_alone(self):
        """Whether it hears nothing for as long as it would be patient."""
        before = self.pings
        time.sleep(PATIENCE_S)
        return self.pings == before

    def await_pings(self, more, what):
        begin = self.pings
        ringtail.wait_until(lambda: self.pings >= begin + more, what)


def main(case):
    manager = Manager(case)
    manager.start()
    daemon = case.daemon(env={**os.environ, "NOTIFY_SOCKET": manager.path,
                              "WATCHDOG_USEC": str(PATIENCE_S * 1000000)})
    manager.await_pings(3, "the manager hears that the daemon is alive")

    held = Held(daemon.worker())
    ringtail.wait_until(lambda: "[worker-stuck]" in daemon.log, "the daemon notices it")
    ringtail.wait_until(manager.is_left_alone, "while a worker is stuck, the manager hears nothing")
    held.let_go()
    manager.await_pings(2, "when it moves on, the manager hears so")
    case.check("[worker-moves]" in daemon.log, "and the log says so")
    case.check_balanced(daemon)


ringtail.run(main)
