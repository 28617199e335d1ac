"""Back ends that are not there, or take connections and say nothing, under load: their own queues
lose the oldest, counted, and nobody else notices: the live client gets every event."""
import socket

import ringtail
from lib import exporting
from lib.protobuf import enum_value

CALLS = 200_000
EXPIRED = enum_value("LossReason", "REASON_EXPIRED")


class Somewhere:
    """A port where nobody answers."""

    def __init__(self, listens):
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        if listens:
            self.socket.listen(16)
        self.port = self.socket.getsockname()[1]

    def url(self, kind):
        return f"--export={kind}:http://127.0.0.1:{self.port}"


def main(case):
    closed, hole = Somewhere(False), Somewhere(True)
    load = case.load(CALLS)
    daemon = case.daemon("--ring-size=64MiB", "--queue-size=256MiB", closed.url("otlp-logs"),
                         hole.url("loki"), "--export-probe=syscall:getppid:call",
                         "--export-rate=0", f"--export-filter=pid == {load.pids[0]}",
                         "--export-queue-size=1MiB", "--export-timeout=1s")
    exporting.await_begun(daemon)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-f", f"pid == {load.pids[0]}",
                         "-o", "none")
    load.run()
    stream.await_all(CALLS)
    for somewhere in (closed, hole):
        def look():
            export = exporting.stat(daemon, somewhere)
            seen = export["events"] == CALLS and export["requests"]
            return export if seen and export["in_flight"] < CALLS // 4 else None
        export = ringtail.wait_until(look, "it has seen every event and given up most")
        case.check_equal(export["accepted"], 0, f"{export['name']}: nothing is accepted")
        case.check_equal(export["lost"].get(EXPIRED, 0) + export["in_flight"], CALLS,
                         "all is given up or waits")
        ringtail.wait_until(lambda: exporting.stat(daemon, somewhere)["state"] == "retrying",
                            "it says so")
        case.check(exporting.stat(daemon, somewhere)["last_error"], "and why")
    case.check_balanced(daemon)
    case.check_stream(stream.interrupt(), events=CALLS)


ringtail.run(main)
