"""Frames of types that do not exist, of another version, or that only the daemon sends."""
import ringtail
from lib import hostile, wire


def main(case):
    healthy = hostile.Healthy(case)
    for data, code, words in (
            (wire.seal(0, b""), "bad-type", "type"),
            (wire.seal(200, b"abc"), "bad-type", "type"),
            (wire.seal("ListRequest", b"", version=2), "bad-version", "version"),
            (wire.message("Stat", uptime_ns=1), "unexpected-frame", "does not send this"),
            (wire.message("ServerHello", version=1), "unexpected-frame", "does not send this"),
            (wire.hello(), "unexpected-frame", "does not send this"),
            (wire.seal("Subscribe", b"\xff\xff\xff"), "bad-message", "Subscribe is no message")):
        with healthy.daemon.connect() as connection:
            connection.greet()
            connection.send(data)
            hostile.check_refused(case, connection, code, words)
    with healthy.daemon.connect() as connection:
        connection.send(wire.hello(version_min=2, version_max=3))
        hostile.check_refused(case, connection, "version-unsupported", "the client 2 to 3")
    healthy.check()


ringtail.run(main)
