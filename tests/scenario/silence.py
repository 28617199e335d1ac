"""Silence: a client that takes nothing of what waits for it goes; one that has taken all may be silent."""
import threading
import time

import ringtail
from lib import wire

CALLS = 1_000_000
SILENCE_S = int(3 * ringtail.SLOW)      # longer than a busy machine keeps a thread from its turn


class Asker(threading.Thread):
    """A client that asks for something several times within silence-timeout, whatever else goes on."""

    def __init__(self, connection):
        super().__init__(daemon=True)
        self.connection, self.answers, self.failed, self.over = connection, 0, None, False

    def run(self):
        try:
            while not self.over:
                self.connection.stat()
                self.answers += 1
                time.sleep(SILENCE_S / 20)
        except Exception as failure:      # it was sent away
            self.failed = failure


def main(case):
    daemon = case.daemon(f"--silence-timeout={SILENCE_S}s", "--hello-timeout=2s", "--ring-size=64MiB",
                         "--queue-size=64MiB", "--history-size=64MiB")
    load, after = case.load(CALLS), case.load(1000)
    caught_up = case.stream(daemon, "-p", "syscall:getppid:call", "-f", after.filter, "-o", "none")
    stuck = daemon.connect(receive_bytes=4096)
    stuck.greet()
    stuck.subscribe(["syscall:getppid:call"], load.filter)
    connections = []
    for _ in range(3):
        connections.append(daemon.connect())
        connections[-1].greet()
        connections[-1].stat()
    idle, watching, asking = connections
    asker = Asker(asking)
    asker.start()
    watching.send(wire.message("StatRequest", interval_ms=60000))
    load.run()

    def silent():
        return daemon.stat()["counters"]["sessions_silent"]
    ringtail.wait_until(lambda: silent() >= 2, "two are too silent")
    error = idle.await_frame("Error").values
    case.check(error["code"] == "silence-timeout" and "idle without a stream" in error["what"],
               "one that asks for nothing is told so", error)

    ringtail.wait_until(lambda: not any(client["in_flight"] for client in daemon.stat()["client"]),
                        "the one that takes nothing is gone")
    case.say("ok: the one that takes nothing of its stream is gone")
    time.sleep(1.5 * SILENCE_S)     # for longer than any may be silent
    case.check_equal(silent(), 2, "no other is")
    asker.over = True
    asker.join()
    case.check(asker.answers > 2 and not asker.failed, "one that asks is answered", asker.failed)
    watching.send(wire.message("ListRequest", glob="syscall:getppid:call"))
    case.check_equal(watching.await_frame("Catalog").name, "Catalog",
                     "one that is sent statistics may be silent")
    after.run()
    caught_up.await_all(1000)
    case.check_balanced(daemon)
    case.check_stream(caught_up.interrupt(), events=1000)
    for connection in (stuck, idle, watching, asking):
        connection.close()


ringtail.run(main)
